//! Outputs of burn-train's steps, put together from those of the virtual nodes.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn::train::{
    ClassificationOutput, MultiLabelClassificationOutput, RegressionOutput, SequenceOutput,
};

use crate::replica::guarded;
use crate::{JoinBatch, TrainError};

/// The output of a `TrainStep` or `InferenceStep` that can be put together from those of the virtual
/// nodes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be put together from the outputs of virtual nodes",
    note = "implement `JoinOutput` for the output of your `TrainStep` and `InferenceStep`"
)]
pub trait JoinOutput: Sized {
    /// Puts the outputs together, in order, each with the weight of its micro-batch.
    fn join(first: (f64, Self), rest: Vec<(f64, Self)>) -> Self;
}

/// Puts outputs together; that may be the user's code, or tensors that don't fit.
pub(super) fn joined<O: JoinOutput>(
    step: u64,
    parts: impl IntoIterator<Item = (f64, O)>,
) -> Result<O, TrainError> {
    let mut parts = parts.into_iter();
    let first = parts.next().ok_or(TrainError::EmptyBatch)?;
    guarded(|| Ok(O::join(first, parts.collect())))
        .map_err(|source| TrainError::Join { step, source })
}

/// The mean of per-node means `[1]`, by weight; theirs is a sum in the order of the nodes.
fn mean<B: Backend>(first: (f64, Tensor<B, 1>), rest: Vec<(f64, Tensor<B, 1>)>) -> Tensor<B, 1> {
    let (first_weight, first) = first;
    let device = first.device();
    let total = first_weight + rest.iter().map(|(weight, _)| weight).sum::<f64>();
    if total == 0.0 || rest.is_empty() {
        return first.detach();
    }
    let share = |weight: f64, loss: Tensor<B, 1>| {
        loss.detach().to_device(&device).mul_scalar(weight / total)
    };
    // A node of weight 0 may have a loss of 0/0.
    let counted = std::iter::once((first_weight, first))
        .chain(rest)
        .filter(|(weight, _)| *weight > 0.0);
    counted
        .map(|(weight, loss)| share(weight, loss))
        .reduce(|sum, share| sum + share)
        .unwrap_or_else(|| Tensor::zeros([1], &device))
}

/// A mean loss, and tensors with a row per sample. They are taken out of the autodiff graph: metrics
/// only read them.
macro_rules! output {
    ($($output:ident { $first:ident, $second:ident };)*) => {
        $(impl<B: Backend> JoinOutput for $output<B> {
            fn join(first: (f64, Self), rest: Vec<(f64, Self)>) -> Self {
                let split = |(weight, part): (f64, Self)| {
                    ((weight, part.loss), (part.$first.detach(), part.$second))
                };
                let (first_loss, first_rows) = split(first);
                let (losses, rows) = rest.into_iter().map(split).unzip();
                let ($first, $second) = JoinBatch::join(first_rows, rows);
                Self::new(mean(first_loss, losses), $first, $second)
            }
        })*
    };
}
output! {
    ClassificationOutput { output, targets };
    MultiLabelClassificationOutput { output, targets };
    RegressionOutput { output, targets };
}

impl<B: Backend> JoinOutput for SequenceOutput<B> {
    fn join(first: (f64, Self), rest: Vec<(f64, Self)>) -> Self {
        let split = |(weight, part): (f64, Self)| {
            let rows = (part.logits.detach(), part.targets, vec![part.predictions]);
            ((weight, part.loss), rows)
        };
        let (first_loss, first_rows) = split(first);
        let (losses, rows) = rest.into_iter().map(split).unzip();
        let (logits, targets, predictions) = JoinBatch::join(first_rows, rows);
        // All or none: some of them would stand beside the wrong rows.
        let predictions: Option<Vec<_>> = predictions.into_iter().collect();
        let predictions = predictions.and_then(|predictions| {
            let mut predictions = predictions.into_iter();
            let first = predictions.next()?;
            Some(JoinBatch::join(first, predictions.collect()))
        });
        Self::new(mean(first_loss, losses), logits, predictions, targets)
    }
}
