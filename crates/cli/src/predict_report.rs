//! What a prediction run ends with.

use serde::Serialize;

use crate::output::{Report, table};
use crate::placement::Placed;

/// The result of `burn-virtual predict`. The fields and their order are stable.
#[derive(Debug, Serialize)]
pub(crate) struct PredictReport {
    /// The held-out samples.
    pub(crate) samples: usize,
    /// Share of them that the model names right.
    pub(crate) accuracy: f64,
    /// What it names each of them, in the order of the data.
    pub(crate) predictions: Vec<u8>,
    /// SHA-256 over the weights that were loaded, in module-path order.
    pub(crate) weights_sha256: String,
    /// Samples a second.
    pub(crate) samples_per_s: f64,
    /// Where it ran and what it took.
    #[serde(flatten)]
    pub(crate) placed: Placed,
}

impl Report for PredictReport {
    fn text(&self) -> String {
        let mut rows = vec![
            ("held-out samples", self.samples.to_string()),
            ("accuracy", format!("{:.2} %", 100.0 * self.accuracy)),
            ("throughput", format!("{:.0} samples/s", self.samples_per_s)),
        ];
        rows.extend(self.placed.rows());
        rows.push(("weights SHA-256", self.weights_sha256.clone()));
        table(rows)
    }
}
