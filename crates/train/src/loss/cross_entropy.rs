//! Cross entropy over classes.

use burn::tensor::activation::log_softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

use super::LossSum;
use crate::LossError;

/// Cross entropy summed over rows; the weight is the number of rows.
///
/// `logits` has shape `[rows, classes]`, `targets` shape `[rows]` with values in `0..classes`. The
/// targets are read back to the host to check them. [`CrossEntropy`] has padding, class weights and
/// label smoothing.
///
/// # Errors
/// [`LossError::Rows`] if the two differ in rows, [`LossError::Target`] for a target that names no
/// class.
pub fn cross_entropy_sum<B: Backend>(
    logits: Tensor<B, 2>,
    targets: Tensor<B, 1, Int>,
) -> Result<LossSum<B>, LossError> {
    CrossEntropy::new().sum(logits, targets)
}

/// Cross entropy with padding, class weights and label smoothing.
///
/// A row of target `y` and class log-probabilities `p` adds
/// `-(1 - smoothing) * w[y] * p[y] - smoothing / classes * sum over c of w[c] * p[c]` to the sum and
/// `w[y]` to the weight. A row whose target is padding adds nothing to either, and so does one whose
/// class has weight 0: like a virtual node of weight 0, whatever shares its micro-batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrossEntropy {
    padding: Vec<i64>,
    class_weights: Option<Vec<f32>>,
    smoothing: f64,
}

impl CrossEntropy {
    /// No padding, equal weights, no smoothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rows with one of these targets are left out.
    pub fn with_padding(self, targets: impl IntoIterator<Item = i64>) -> Self {
        Self {
            padding: targets.into_iter().collect(),
            ..self
        }
    }

    /// A weight per class, finite and at least 0.
    pub fn with_class_weights(self, weights: impl IntoIterator<Item = f32>) -> Self {
        Self {
            class_weights: Some(weights.into_iter().collect()),
            ..self
        }
    }

    /// Label smoothing, at least 0 and below 1.
    pub fn with_smoothing(self, smoothing: f64) -> Self {
        Self { smoothing, ..self }
    }

    /// The loss of logits `[batch, positions, classes]` and targets `[batch, positions]`.
    ///
    /// # Errors
    /// As [`sum`](Self::sum); rows are counted over the whole batch.
    pub fn sequence_sum<B: Backend>(
        &self,
        logits: Tensor<B, 3>,
        targets: Tensor<B, 2, Int>,
    ) -> Result<LossSum<B>, LossError> {
        let ([batch, positions, classes], [target_batch, target_positions]) =
            (logits.dims(), targets.dims());
        if [batch, positions] != [target_batch, target_positions] {
            return Err(LossError::Shapes {
                prediction: vec![batch, positions, classes],
                target: vec![target_batch, target_positions],
            });
        }
        let rows = batch * positions;
        self.sum(logits.reshape([rows, classes]), targets.reshape([rows]))
    }

    /// The loss of logits `[rows, classes]` and targets `[rows]`.
    ///
    /// # Errors
    /// [`LossError::Rows`] if the two differ in rows, [`LossError::Target`] for a target that is
    /// neither a class nor padding, [`LossError::Setting`] for weights or a smoothing that do not
    /// fit.
    pub fn sum<B: Backend>(
        &self,
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
        self.check(classes)?;
        let rows = self.read_rows(&targets, classes)?;
        let weight = rows.weights.iter().copied().map(f64::from).sum();
        let log_probabilities = log_softmax(logits, 1);
        let sum = if self.padding.is_empty() && self.class_weights.is_none() {
            self.plain(log_probabilities, targets)
        } else {
            self.weighted(log_probabilities, rows, classes)
        };
        Ok(LossSum { sum, weight })
    }

    fn check(&self, classes: usize) -> Result<(), LossError> {
        let refuse = |what, expected: String, got: String| {
            Err(LossError::Setting {
                what,
                expected,
                got,
            })
        };
        if !(0.0..1.0).contains(&self.smoothing) {
            let expected = "at least 0 and below 1".to_owned();
            return refuse("smoothing", expected, self.smoothing.to_string());
        }
        let weights = self.class_weights.as_deref().unwrap_or_default();
        if let Some(wrong) = weights
            .iter()
            .find(|weight| !(weight.is_finite() && **weight >= 0.0))
        {
            return refuse(
                "class weight",
                "finite and at least 0".to_owned(),
                wrong.to_string(),
            );
        }
        if self.class_weights.is_some() && weights.len() != classes {
            let expected = format!("{classes}, one per class");
            return refuse(
                "number of class weights",
                expected,
                weights.len().to_string(),
            );
        }
        Ok(())
    }

    fn read_rows<B: Backend>(
        &self,
        targets: &Tensor<B, 1, Int>,
        classes: usize,
    ) -> Result<Rows, LossError> {
        let data = targets
            .clone()
            .try_into_data()
            .map_err(|error| LossError::Read(error.to_string()))?;
        let mut rows = Rows::default();
        for (row, target) in data.iter::<i64>().enumerate() {
            let padded = self.padding.contains(&target);
            let (class, weight) = if padded {
                (0, 0.0)
            } else {
                let class = usize::try_from(target)
                    .ok()
                    .filter(|class| *class < classes);
                let class = class.ok_or(LossError::Target {
                    row,
                    target,
                    classes,
                })?;
                (
                    target,
                    self.class_weights
                        .as_ref()
                        .map_or(1.0, |weights| weights[class]),
                )
            };
            rows.classes.push(class);
            rows.weights.push(weight);
            rows.left_out.push(weight == 0.0);
        }
        Ok(rows)
    }

    fn plain<B: Backend>(
        &self,
        log_probabilities: Tensor<B, 2>,
        targets: Tensor<B, 1, Int>,
    ) -> Tensor<B, 1> {
        let [rows, classes] = log_probabilities.dims();
        let picked = log_probabilities
            .clone()
            .gather(1, targets.reshape([rows, 1]))
            .sum()
            .neg();
        if self.smoothing == 0.0 {
            return picked;
        }
        let spread = log_probabilities.sum().neg();
        picked.mul_scalar(1.0 - self.smoothing) + spread.mul_scalar(self.smoothing / classes as f64)
    }

    fn weighted<B: Backend>(
        &self,
        log_probabilities: Tensor<B, 2>,
        rows: Rows,
        classes: usize,
    ) -> Tensor<B, 1> {
        let (count, device) = (rows.classes.len(), log_probabilities.device());
        let column = |values: Vec<f32>| {
            Tensor::<B, 2>::from_data(TensorData::new(values, [count, 1]), &device)
        };
        let targets =
            Tensor::<B, 2, Int>::from_data(TensorData::new(rows.classes, [count, 1]), &device);
        // Filled, not multiplied: what stands in a row that does not count may be infinite.
        let mask = Tensor::<B, 2, burn::tensor::Bool>::from_data(
            TensorData::new(rows.left_out, [count, 1]),
            &device,
        );
        let kept = log_probabilities.mask_fill(mask.expand([count, classes]), 0.0);
        let picked = (kept.clone().gather(1, targets) * column(rows.weights))
            .sum()
            .neg();
        if self.smoothing == 0.0 {
            return picked;
        }
        let spread = match &self.class_weights {
            None => kept.sum().neg(),
            Some(weights) => {
                let weights = TensorData::new(weights.clone(), [1, classes]);
                (kept * Tensor::<B, 2>::from_data(weights, &device))
                    .sum()
                    .neg()
            }
        };
        picked.mul_scalar(1.0 - self.smoothing) + spread.mul_scalar(self.smoothing / classes as f64)
    }
}

/// The targets of a micro-batch, read on the host.
#[derive(Default)]
struct Rows {
    /// The class of each row; 0 for padding.
    classes: Vec<i64>,
    /// The weight of each row's class; 0 for padding.
    weights: Vec<f32>,
    /// Padding, and classes of weight 0: else the smoothing of such a row would count beside others,
    /// but not in a virtual node of its own, which weighs nothing.
    left_out: Vec<bool>,
}
