//! Binary cross entropy.

use burn::tensor::activation::log_sigmoid;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor};

use super::LossSum;
use crate::LossError;

/// Binary cross entropy of logits, summed over elements; the weight is the number of elements.
///
/// `logits` and `targets` have the same shape; a target is 0 or 1. Takes logits rather than
/// probabilities, because the sum of their logarithms is stable for any logit.
///
/// # Errors
/// [`LossError::Shapes`] if the shapes differ, [`LossError::Target`] for a target that is neither 0
/// nor 1 (its row counted over all elements).
pub fn binary_cross_entropy_sum<B: Backend, const D: usize>(
    logits: Tensor<B, D>,
    targets: Tensor<B, D, Int>,
) -> Result<LossSum<B>, LossError> {
    let (prediction, target) = (logits.dims(), targets.dims());
    if prediction != target {
        return Err(LossError::Shapes {
            prediction: prediction.to_vec(),
            target: target.to_vec(),
        });
    }
    let data = targets
        .clone()
        .try_into_data()
        .map_err(|error| LossError::Read(error.to_string()))?;
    if let Some((row, target)) = data
        .iter::<i64>()
        .enumerate()
        .find(|(_, t)| !(0..=1).contains(t))
    {
        return Err(LossError::Target {
            row,
            target,
            classes: 2,
        });
    }
    let weight = prediction.iter().product::<usize>() as f64;
    // -y log s(x) - (1 - y) log (1 - s(x)) with log (1 - s(x)) = log s(x) - x
    let sum = ((targets.float().neg() + 1.0) * logits.clone() - log_sigmoid(logits)).sum();
    Ok(LossSum { sum, weight })
}
