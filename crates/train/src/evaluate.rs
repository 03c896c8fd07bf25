//! Scoring a model on virtual nodes, without gradients.

use burn::data::dataloader::batcher::Batcher;
use burn::module::AutodiffModule;
use burn_virtual_collective::Reduce;
use burn_virtual_plan::{BatchSplit, Layout, Partial};

use crate::batch::Items;
use crate::inference::ForwardJob;
use crate::ranks::Round;
use crate::replica::on_device;
use crate::{Session, SplitBatch, TrainError, VirtualAutodiff};

impl<B: VirtualAutodiff> Session<B> {
    /// Sums scores over a batch of any size, split over the virtual nodes and their ranks: each
    /// scores its share of `items` at once.
    ///
    /// `score` gets the model without autodiff and one micro-batch, and returns `N` sums over its
    /// items (a loss, how many were right, how many there were); they are added along the tree, so
    /// the totals have the same bits for every placement. Of no items, they are 0.
    ///
    /// # Errors
    /// [`TrainError::Node`] where user code panicked.
    pub fn evaluate<M, I, O, T, F, const N: usize>(
        &mut self,
        model: &M,
        items: &[I],
        batcher: &T,
        score: F,
    ) -> Result<[f64; N], TrainError>
    where
        M: AutodiffModule<B>,
        M::InnerModule: Send,
        I: Clone + Sync,
        T: Batcher<B::InnerBackend, I, O>,
        F: Fn(&M::InnerModule, O) -> [f64; N] + Sync,
    {
        self.evaluate_batch(model, &Items::new(items, batcher), score)
    }

    /// [`evaluate`](Self::evaluate) on a batch that is ready.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate), and [`TrainError::UnequalBatch`].
    pub fn evaluate_batch<M, S, F, const N: usize>(
        &mut self,
        model: &M,
        batch: &S,
        score: F,
    ) -> Result<[f64; N], TrainError>
    where
        M: AutodiffModule<B>,
        M::InnerModule: Send,
        S: SplitBatch<B::InnerBackend>,
        F: Fn(&M::InnerModule, S::Micro) -> [f64; N] + Sync,
    {
        let scored = self.try_evaluate(model, batch, score);
        scored.inspect_err(|error| self.ranks.leave(error))
    }

    fn try_evaluate<M, S, F, const N: usize>(
        &mut self,
        model: &M,
        batch: &S,
        score: F,
    ) -> Result<[f64; N], TrainError>
    where
        M: AutodiffModule<B>,
        M::InnerModule: Send,
        S: SplitBatch<B::InnerBackend>,
        F: Fn(&M::InnerModule, S::Micro) -> [f64; N] + Sync,
    {
        let split = BatchSplit::new(batch.samples()?, self.settings.count)?;
        let job = ForwardJob {
            seed: self.settings.seed,
            step: self.applied,
            batch,
            allow_drift: self.settings.allow_drift,
        };
        let round = Round {
            step: self.applied,
            layout: &Layout::new([], N, 0),
            split: &split,
            reduce: Reduce::Ordered,
            allow_drift: job.allow_drift,
            begin: |(model, device): &mut (M::InnerModule, B::Device),
                    node,
                    samples,
                    mut leaf: Partial| {
                let run = |micro| score(model, micro);
                let sums = job.run::<B::InnerBackend, _>(node, samples, device, run)?;
                leaf.sums_mut().copy_from_slice(&sums);
                Ok(leaf)
            },
        };
        let devices = self.settings.devices.iter();
        let states = devices
            .map(|device| (on_device(model.valid(), device), device.clone()))
            .collect();
        let turns = self.ranks.run(&round, states)?;
        let root = turns.into_iter().next().and_then(|turn| turn.root);
        let mut totals = [0.0; N];
        if let Some(root) = root {
            totals.copy_from_slice(root.sums());
        }
        Ok(totals)
    }
}
