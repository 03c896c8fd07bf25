//! What a training run ends with.

use serde::Serialize;

use crate::output::{Report, table};
use crate::placement::Placed;

/// The result of `burn-virtual train`. The fields and their order are stable.
#[derive(Debug, Serialize)]
pub(crate) struct TrainReport {
    /// Steps taken, skipped ones included.
    pub(crate) steps: usize,
    /// Whole passes over the training data.
    pub(crate) epochs: usize,
    /// Mean loss over the samples of the last epoch, finished or not, so far as steps were applied.
    pub(crate) loss: f64,
    /// Share of the held-out samples that the model names right.
    pub(crate) accuracy: f64,
    /// SHA-256 over parameters and statistics in module-path order.
    pub(crate) weights_sha256: String,
    /// Training samples a second, without evaluation.
    pub(crate) samples_per_s: f64,
    /// Where it ran and what it took.
    #[serde(flatten)]
    pub(crate) placed: Placed,
}

impl Report for TrainReport {
    fn text(&self) -> String {
        let mut rows = vec![
            ("steps", format!("{} ({} epochs)", self.steps, self.epochs)),
            ("loss", format!("{:.6}", self.loss)),
            (
                "held-out accuracy",
                format!("{:.2} %", 100.0 * self.accuracy),
            ),
            ("throughput", format!("{:.0} samples/s", self.samples_per_s)),
        ];
        rows.extend(self.placed.rows());
        rows.push(("weights SHA-256", self.weights_sha256.clone()));
        table(rows)
    }
}
