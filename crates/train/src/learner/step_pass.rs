//! The pass of a model that runs its own backward.

use burn::module::{AutodiffModule, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::{TrainOutput, TrainStep};

use crate::memory::NodeMemory;
use crate::pass::{Gradients, Pass, Passed, check_weight};
use crate::{NodeError, VirtualAutodiff};

/// Burn-train's `TrainStep` on a micro-batch and its weight.
pub(super) struct StepPass;

impl<B, M> Pass<B, M, (f64, M::Input)> for StepPass
where
    B: VirtualAutodiff,
    M: AutodiffModule<B> + TrainStep,
{
    type Gradients = GradientsParams;
    type Output = M::Output;

    /// The gradients are in what the step returns: the hook has nothing to do.
    fn prepare(&self, replica: M) -> M {
        replica
    }

    fn run(
        &self,
        replica: &M,
        (weight, micro): (f64, M::Input),
        _memory: &mut NodeMemory,
    ) -> Result<Passed<B, GradientsParams, M::Output>, NodeError> {
        let weight = check_weight(weight)?;
        let TrainOutput { grads, item } = replica.step(micro);
        Ok(Passed {
            // The loss is somewhere in the output, whose type is the user's.
            loss: None,
            weight,
            gradients: (weight > 0.0).then_some(grads),
            of_mean: true,
            output: item,
        })
    }
}

impl<B: VirtualAutodiff> Gradients<B> for GradientsParams {
    fn remove<const D: usize>(
        &mut self,
        param: &Param<Tensor<B, D>>,
    ) -> Option<Tensor<B::InnerBackend, D>> {
        GradientsParams::remove(self, param.id)
    }
}
