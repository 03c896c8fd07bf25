//! What a training run ends with.

use std::io::{self, Write};

use serde::Serialize;

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
    /// Per rank, the peak of live tensor bytes.
    pub(crate) peak_tensor_bytes: Vec<usize>,
    /// The largest resident set of the process, where the system tells.
    pub(crate) peak_rss_bytes: Option<u64>,
    /// V.
    pub(crate) virtual_nodes: usize,
    /// Per rank, the first and the last virtual node.
    pub(crate) placement: Vec<[usize; 2]>,
    /// Per rank, the device; for people.
    #[serde(skip)]
    pub(crate) devices: Vec<String>,
    /// The backend.
    pub(crate) backend: String,
    /// The bit probe.
    pub(crate) probe: String,
}

impl TrainReport {
    /// One JSON object on one line.
    pub(crate) fn print_json(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", serde_json::to_string(self)?)
    }

    /// A table for people.
    pub(crate) fn print_text(&self, out: &mut impl Write) -> io::Result<()> {
        let shares = self.placement.iter().zip(&self.devices);
        let placement =
            shares.map(|([first, last], device)| format!("{device} runs {first}..={last}"));
        let mib = |bytes: f64| format!("{:.1} MiB", bytes / f64::from(1 << 20));
        let peaks = self
            .peak_tensor_bytes
            .iter()
            .map(|&bytes| mib(bytes as f64));
        let rows = [
            ("steps", format!("{} ({} epochs)", self.steps, self.epochs)),
            ("loss", format!("{:.6}", self.loss)),
            (
                "held-out accuracy",
                format!("{:.2} %", 100.0 * self.accuracy),
            ),
            ("throughput", format!("{:.0} samples/s", self.samples_per_s)),
            ("peak tensor bytes", join(peaks)),
            (
                "peak RSS",
                self.peak_rss_bytes
                    .map_or("unknown".to_owned(), |rss| mib(rss as f64)),
            ),
            ("virtual nodes", self.virtual_nodes.to_string()),
            ("placement", join(placement)),
            (
                "backend",
                format!("{} (bit probe {})", self.backend, self.probe),
            ),
            ("weights SHA-256", self.weights_sha256.clone()),
        ];
        rows.iter()
            .try_for_each(|(name, value)| writeln!(out, "{name:<18} {value}"))
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
