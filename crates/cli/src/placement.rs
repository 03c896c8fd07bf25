//! Where a job ran and what it took: the part that all results have.

use burn_virtual::backend::Probe;
use burn_virtual::plan::Placement;
use serde::Serialize;

use crate::args::PlacingArgs;
use crate::backend::Hardware;
use crate::output::Rows;
use crate::resources::peak_rss_bytes;

/// Where a job ran and what it took. The fields and their order are stable.
#[derive(Debug, Serialize)]
pub(crate) struct Placed {
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
    pub(crate) backend: &'static str,
    /// The bit probe.
    pub(crate) probe: String,
}

impl Placed {
    /// Of a job that is over, with the peak of each rank.
    pub(crate) fn new<B: Hardware>(
        placing: &PlacingArgs,
        placement: &Placement,
        probe: Probe,
        peak_tensor_bytes: Vec<usize>,
    ) -> Self {
        let shares = placement.shares();
        Self {
            peak_tensor_bytes,
            peak_rss_bytes: peak_rss_bytes(),
            virtual_nodes: placement.virtual_nodes(),
            placement: shares.map(|share| [share.start, share.end - 1]).collect(),
            devices: placing.names(),
            backend: B::NAME,
            probe: probe.to_string(),
        }
    }

    /// Lines of a table for people.
    pub(crate) fn rows(&self) -> Rows {
        let shares = self.placement.iter().zip(&self.devices);
        let placement =
            shares.map(|([first, last], device)| format!("{device} runs {first}..={last}"));
        let peaks = self.peak_tensor_bytes.iter();
        let peaks = peaks.map(|&bytes| mebibytes(bytes as f64));
        let rss = self.peak_rss_bytes;
        vec![
            ("peak tensor bytes", join(peaks)),
            (
                "peak RSS",
                rss.map_or("unknown".to_owned(), |rss| mebibytes(rss as f64)),
            ),
            ("virtual nodes", self.virtual_nodes.to_string()),
            ("placement", join(placement)),
            (
                "backend",
                format!("{} (bit probe {})", self.backend, self.probe),
            ),
        ]
    }
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
