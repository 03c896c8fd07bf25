//! Squared error.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::LossSum;
use crate::LossError;

/// Squared error summed over elements; the weight is the number of elements, so that the step's loss
/// is the mean squared error.
///
/// `predictions` and `targets` have the same shape.
///
/// # Errors
/// [`LossError::Shapes`] if they have not.
pub fn squared_error_sum<B: Backend, const D: usize>(
    predictions: Tensor<B, D>,
    targets: Tensor<B, D>,
) -> Result<LossSum<B>, LossError> {
    let (prediction, target) = (predictions.dims(), targets.dims());
    if prediction != target {
        return Err(LossError::Shapes {
            prediction: prediction.to_vec(),
            target: target.to_vec(),
        });
    }
    let weight = prediction.iter().product::<usize>() as f64;
    Ok(LossSum {
        sum: (predictions - targets).powi_scalar(2).sum(),
        weight,
    })
}
