//! Scoring a model on virtual nodes, without gradients.

use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module};
use burn_virtual_backend::{Scope, enter};
use burn_virtual_plan::{BatchSplit, Layout, Partial};

use crate::ranks::Round;
use crate::replica::guarded;
use crate::{Session, TrainError, VirtualAutodiff};

impl<B: VirtualAutodiff> Session<B> {
    /// Sums scores over a batch of any size, split over the virtual nodes and their ranks.
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
        let split = BatchSplit::new(items.len(), self.settings.count)?;
        let (seed, step) = (self.settings.seed, self.applied);
        let round = Round {
            step,
            layout: &Layout::new([], N, 0),
            leaf: |(model, device): &mut (M::InnerModule, B::Device), node, mut buffer: Partial| {
                let range = split.range(node);
                if range.is_empty() {
                    return Ok(None);
                }
                let _scope = enter(Scope::Evaluation {
                    seed,
                    step,
                    node: node as u64,
                });
                let sums =
                    guarded(|| Ok(score(model, batcher.batch(items[range].to_vec(), device))))?;
                buffer.sums_mut().copy_from_slice(&sums);
                Ok(Some(buffer))
            },
        };
        let devices = self.settings.devices.iter();
        let states = devices
            .map(|device| (model.valid().to_device(device), device.clone()))
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
