//! Without `overlap`, gradients are taken when the backward pass returns.

use burn::module::{AutodiffModule, Param};
use burn::tensor::Tensor;

use crate::VirtualAutodiff;
use crate::pass::Gradients;

/// The gradients that the backward pass returned.
pub(crate) struct Taken<B: VirtualAutodiff>(B::Gradients);

/// Nothing to mark: the leaves keep their gradients.
pub(crate) fn marked<B: VirtualAutodiff, M: AutodiffModule<B>>(replica: M) -> M {
    replica
}

/// Runs the backward pass.
pub(crate) fn backward<B: VirtualAutodiff>(sum: Tensor<B, 1>) -> Taken<B> {
    Taken(sum.backward())
}

impl<B: VirtualAutodiff> Gradients<B> for Taken<B> {
    fn remove<const D: usize>(
        &mut self,
        param: &Param<Tensor<B, D>>,
    ) -> Option<Tensor<B::InnerBackend, D>> {
        param.grad_remove(&mut self.0)
    }
}
