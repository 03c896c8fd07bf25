//! Losses as sums, divided once.

use burn::tensor::activation::log_softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor};

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

/// What the loss closure may return: a [`LossSum`], or a `Result` of one.
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

/// Cross entropy summed over rows; the weight is the number of rows.
///
/// `logits` has shape `[rows, classes]`, `targets` shape `[rows]` with values in `0..classes`. The
/// targets are read back to the host to check them.
///
/// # Errors
/// [`LossError::Rows`] if the two differ in rows, [`LossError::Target`] for a target that names no
/// class.
pub fn cross_entropy_sum<B: Backend>(
    logits: Tensor<B, 2>,
    targets: Tensor<B, 1, Int>,
) -> Result<LossSum<B>, LossError> {
    let ([rows, classes], [count]) = (logits.dims(), targets.dims());
    if rows != count {
        return Err(LossError::Rows {
            rows,
            targets: count,
        });
    }
    check_targets(&targets, classes)?;
    let picked = log_softmax(logits, 1).gather(1, targets.reshape([rows, 1]));
    Ok(LossSum {
        sum: picked.sum().neg(),
        weight: rows as f64,
    })
}

fn check_targets<B: Backend>(targets: &Tensor<B, 1, Int>, classes: usize) -> Result<(), LossError> {
    let data = targets
        .clone()
        .try_into_data()
        .map_err(|error| LossError::Read(error.to_string()))?;
    let in_range = |target: &i64| usize::try_from(*target).is_ok_and(|class| class < classes);
    match data
        .iter::<i64>()
        .enumerate()
        .find(|(_, target)| !in_range(target))
    {
        Some((row, target)) => Err(LossError::Target {
            row,
            target,
            classes,
        }),
        None => Ok(()),
    }
}
