//! A model without autodiff on the virtual nodes of a session.

use burn::module::{AutodiffModule, HasAutodiffModule, Module};

use crate::batch::split;
use crate::inference::{ForwardJob, ForwardRank, forward_round};
use crate::replica::on_device;
use crate::{Session, SplitBatch, TrainError, VirtualAutodiff};

impl<B: VirtualAutodiff> Session<B> {
    /// Runs a model without autodiff on every virtual node that has samples: the results, in order.
    pub(crate) fn forward<M, S, F, R>(
        &mut self,
        model: &M,
        batch: &S,
        forward: &F,
    ) -> Result<Vec<R>, TrainError>
    where
        M: Module<B::InnerBackend> + HasAutodiffModule<B>,
        S: SplitBatch<B::InnerBackend>,
        F: Fn(&M, S::Micro) -> R + Sync,
        R: Send,
    {
        let split = split(batch, self.settings.count)?;
        let job = ForwardJob {
            seed: self.settings.seed,
            step: self.applied,
            batch,
            allow_drift: self.settings.allow_drift,
        };
        let devices = &self.settings.devices;
        let copy = |device| on_device(own_copy::<B, _>(model), device);
        let mut models: Vec<_> = devices.iter().map(copy).collect();
        let states = models.iter_mut().zip(devices);
        let states = states
            .map(|(model, device)| ForwardRank::<B::InnerBackend, _, _>::new(model, device, None))
            .collect();
        let states = forward_round(&mut self.ranks, &job, &split, states, forward, |_, _| None)?;
        let results = states.into_iter().flat_map(|rank| rank.results);
        Ok(results.collect())
    }
}

/// A copy of a model without autodiff that has running statistics of its own: a clone shares them,
/// and moving it to another device would move the original's.
fn own_copy<A, M>(model: &M) -> M
where
    A: VirtualAutodiff,
    M: Module<A::InnerBackend> + HasAutodiffModule<A>,
{
    M::TrainModule::from_inner(model.clone()).valid()
}
