//! What is run on a replica: the forward and the backward pass of one virtual node.

use burn::module::{AutodiffModule, Param};
use burn::tensor::Tensor;

use crate::gradients::{self, Taken};
use crate::memory::NodeMemory;
use crate::{IntoLossSum, LossSum, NodeError, VirtualAutodiff};

/// Runs one virtual node's forward and backward pass.
pub(crate) trait Pass<B: VirtualAutodiff, M, Micro>: Sync {
    /// Where the gradients are when the pass is over.
    type Gradients: Gradients<B>;
    /// What the pass hands back beside its gradients.
    type Output: Send;

    /// Makes a fresh replica ready for the pass.
    fn prepare(&self, replica: M) -> M;

    /// Runs it.
    fn run(
        &self,
        replica: &M,
        micro: Micro,
        memory: &mut NodeMemory,
    ) -> Result<Passed<B, Self::Gradients, Self::Output>, NodeError>;
}

/// A pass that is over.
pub(crate) struct Passed<B: VirtualAutodiff, G, O> {
    /// The sum of the loss over the items of the micro-batch: a single value, if the pass knows it.
    pub(crate) loss: Option<Tensor<B::InnerBackend, 1>>,
    pub(crate) weight: f64,
    /// None where the weight is 0.
    pub(crate) gradients: Option<G>,
    /// Whether they are those of the mean, the sum divided by the weight.
    pub(crate) of_mean: bool,
    pub(crate) output: O,
}

/// The gradients of a pass, by parameter of its replica.
pub(crate) trait Gradients<B: VirtualAutodiff> {
    /// Takes the gradient of a parameter, if it has one.
    fn remove<const D: usize>(
        &mut self,
        param: &Param<Tensor<B, D>>,
    ) -> Option<Tensor<B::InnerBackend, D>>;
}

/// The user's loss, then a backward pass from its sum.
pub(crate) struct LossPass<F>(pub(crate) F);

impl<B, M, Micro, F, L> Pass<B, M, Micro> for LossPass<F>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B>,
    F: Fn(&M, Micro) -> L + Sync,
    L: IntoLossSum<B>,
{
    type Gradients = Taken<B>;
    type Output = ();

    fn prepare(&self, replica: M) -> M {
        gradients::marked::<B, M>(replica)
    }

    fn run(
        &self,
        replica: &M,
        micro: Micro,
        memory: &mut NodeMemory,
    ) -> Result<Passed<B, Taken<B>, ()>, NodeError> {
        let LossSum { sum, weight } = (self.0)(replica, micro).into_loss_sum()?;
        memory.after_forward();
        let counts = check_weight(weight)? > 0.0;
        let loss = counts.then(|| single(&sum)).transpose()?;
        Ok(Passed {
            loss,
            weight,
            gradients: counts.then(|| gradients::backward(sum)),
            of_mean: false,
            output: (),
        })
    }
}

/// A weight that a loss may have.
pub(crate) fn check_weight(weight: f64) -> Result<f64, NodeError> {
    if weight.is_finite() && weight >= 0.0 {
        Ok(weight)
    } else {
        Err(NodeError::Weight(weight))
    }
}

/// The value of a loss, which must be one.
fn single<B: VirtualAutodiff>(sum: &Tensor<B, 1>) -> Result<Tensor<B::InnerBackend, 1>, NodeError> {
    match sum.dims() {
        [1] => Ok(sum.clone().inner()),
        [values] => Err(NodeError::Read {
            what: "the loss".to_owned(),
            reason: format!("expected 1 value, got {values}"),
        }),
    }
}
