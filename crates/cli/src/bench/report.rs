//! What a measurement ends with.

use serde::Serialize;

use super::args::Transport;
use super::job::Job;
use crate::output::{Report, table};

/// The result of `burn-virtual bench allreduce`. The fields and their order are stable.
#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    /// Median over the iterations of the time of the slowest rank.
    median_ms: f64,
    /// Bytes that each rank brings by that time, in 10^9 bytes a second.
    algbw_gb_per_s: f64,
    /// The shortest of those times.
    min_ms: f64,
    bytes: usize,
    ranks: usize,
    virtual_nodes: usize,
    transport: String,
    algorithm: String,
    iterations: usize,
}

impl BenchReport {
    /// From the seconds of the slowest rank in each iteration.
    pub(super) fn new(job: &Job, transport: Transport, seconds: &[f64]) -> Self {
        let mut sorted = seconds.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = median(&sorted);
        let bytes = job.bytes();
        Self {
            median_ms: 1e3 * median,
            // A clock may be too coarse to see a call.
            algbw_gb_per_s: bytes as f64 / median.max(1e-9) / 1e9,
            min_ms: 1e3 * sorted.first().copied().unwrap_or_default(),
            bytes,
            ranks: job.placement.ranks(),
            virtual_nodes: job.placement.virtual_nodes(),
            transport: transport.to_string(),
            algorithm: job.reduce.to_string(),
            iterations: job.iterations,
        }
    }
}

/// Of numbers in order; between the middle two if there is no middle one.
fn median(sorted: &[f64]) -> f64 {
    let middle = [sorted.len().saturating_sub(1) / 2, sorted.len() / 2];
    let sum: f64 = middle.iter().filter_map(|&index| sorted.get(index)).sum();
    sum / 2.0
}

impl Report for BenchReport {
    fn text(&self) -> String {
        table(vec![
            ("median", format!("{:.3} ms", self.median_ms)),
            ("fastest", format!("{:.3} ms", self.min_ms)),
            ("bandwidth", format!("{:.3} GB/s", self.algbw_gb_per_s)),
            ("bytes", self.bytes.to_string()),
            ("ranks", format!("{} ({})", self.ranks, self.transport)),
            ("algorithm", self.algorithm.clone()),
            ("virtual nodes", self.virtual_nodes.to_string()),
            ("iterations", self.iterations.to_string()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle() {
        assert_eq!(median(&[1.0]), 1.0);
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(median(&[]), 0.0);
    }
}
