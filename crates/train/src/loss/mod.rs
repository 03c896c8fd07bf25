//! Losses as sums, divided once.
//!
//! Every loss here is a sum over items, so that a batch may be split anywhere. A loss that couples
//! the samples of a batch (contrastive losses, batch-hard mining, a correlation over the batch) is
//! no such sum: on virtual nodes it would see one micro-batch at a time, and its value would depend
//! on V.

mod binary_cross_entropy;
mod cross_entropy;
mod squared_error;

pub use binary_cross_entropy::binary_cross_entropy_sum;
pub use cross_entropy::{CrossEntropy, cross_entropy_sum};
pub use squared_error::squared_error_sum;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::LossError;

/// What a virtual node hands back: a loss summed over its items, and what that sum weighs.
///
/// The step's loss is the sum over all virtual nodes of `sum`, divided once by the sum of `weight`;
/// so is its gradient. A mean of means would weigh the items of a short micro-batch too much.
#[derive(Clone, Debug)]
pub struct LossSum<B: Backend> {
    /// The sum over the items of the micro-batch, shape `[1]`.
    pub sum: Tensor<B, 1>,
    /// Items, tokens or the sum of class weights: finite and at least 0. A virtual node of weight 0
    /// adds nothing, whatever its `sum`.
    pub weight: f64,
}

impl<B: Backend> LossSum<B> {
    /// The sum behind a mean: `loss` (shape `[1]`) times `weight`.
    ///
    /// `weight` is the divisor that the loss used: the number of rows for a mean over rows, of
    /// elements for a mean over elements, the sum of class weights for a weighted mean. Another
    /// number gives other gradients. Beware of losses that leave padding in their divisor.
    pub fn from_mean(loss: Tensor<B, 1>, weight: f64) -> Self {
        Self {
            sum: loss.mul_scalar(weight),
            weight,
        }
    }
}

/// What the loss closure may return: a [`LossSum`], or a `Result` of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no loss that virtual nodes can divide once over all of them",
    note = "return a `LossSum`, of `cross_entropy_sum` say; a mean becomes one by `LossSum::from_mean(loss, divisor)`"
)]
pub trait IntoLossSum<B: Backend> {
    /// The loss, or why there is none.
    ///
    /// # Errors
    /// As the loss says.
    fn into_loss_sum(self) -> Result<LossSum<B>, LossError>;
}

impl<B: Backend> IntoLossSum<B> for LossSum<B> {
    fn into_loss_sum(self) -> Result<LossSum<B>, LossError> {
        Ok(self)
    }
}

impl<B: Backend> IntoLossSum<B> for Result<LossSum<B>, LossError> {
    fn into_loss_sum(self) -> Result<LossSum<B>, LossError> {
        self
    }
}
