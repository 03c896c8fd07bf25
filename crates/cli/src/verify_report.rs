//! What a verification ends with.

use burn_virtual::nodes::{BackendReport, PlacementReport, VerifyReport};
use serde::Serialize;

use crate::backend::FAST;
use crate::output::Report;

/// The result of `burn-virtual verify`. The fields and their order are stable.
#[derive(Debug, Serialize)]
pub(crate) struct VerifyOutput {
    /// Whether weights are bit-identical for every placement and run, where that is promised.
    identical: bool,
    /// The placements.
    placements: Vec<PlacementOutput>,
    /// The backends, the reference first.
    backends: Vec<BackendOutput>,
    /// For people.
    #[serde(skip)]
    table: String,
}

/// One placement on one backend.
#[derive(Debug, Serialize)]
struct PlacementOutput {
    /// Per rank, the device.
    devices: Vec<String>,
    /// Per rank, how many virtual nodes it ran.
    shares: Vec<usize>,
    weights_sha256: String,
    identical: bool,
}

/// One backend against the first.
#[derive(Debug, Serialize)]
struct BackendOutput {
    name: String,
    /// The largest difference of a layer's gradient at step 1, in units of its largest element.
    max_rel_diff: Option<f64>,
    /// The first layer out of tolerance.
    first_differing_layer: Option<String>,
    /// The largest relative difference of the loss curve.
    max_rel_loss_diff: Option<f64>,
    same_initial_weights: bool,
    /// Whether a second run gave the same bits; none where that isn't promised.
    repeats: Option<bool>,
    accuracy: Option<f64>,
    step_ms: f64,
    /// How many times as long a step takes as in the backend's fast form, where both ran.
    times_fast_step: Option<f64>,
}

impl VerifyOutput {
    pub(crate) fn new(report: &VerifyReport) -> Self {
        let backends = &report.backends;
        let placements = backends.iter().flat_map(|backend| {
            let placements = backend.placements.iter();
            placements.map(|placement| PlacementOutput::new(&backend.name, placement))
        });
        Self {
            identical: report.identical(),
            placements: placements.collect(),
            backends: backends
                .iter()
                .map(|backend| BackendOutput::new(backend, report))
                .collect(),
            table: table(report),
        }
    }
}

impl PlacementOutput {
    fn new(backend: &str, placement: &PlacementReport) -> Self {
        let ranks = placement.shares.iter();
        Self {
            devices: ranks.map(|_| format!("{backend}:0")).collect(),
            shares: placement.shares.clone(),
            weights_sha256: placement.weights.to_string(),
            identical: placement.identical,
        }
    }
}

impl BackendOutput {
    fn new(backend: &BackendReport, report: &VerifyReport) -> Self {
        // JSON has no infinity.
        let finite = |value: f64| value.is_finite().then_some(value);
        Self {
            name: backend.name.clone(),
            max_rel_diff: finite(backend.gradient_difference()),
            first_differing_layer: backend.first_differing_layer().map(str::to_owned),
            max_rel_loss_diff: finite(backend.loss_difference),
            same_initial_weights: backend.same_initial_weights,
            repeats: backend.repeats,
            accuracy: backend.score,
            step_ms: 1e3 * backend.step_seconds,
            times_fast_step: times_fast_step(backend, report),
        }
    }
}

/// How many times as long a step takes as in the backend's fast form, where both ran.
fn times_fast_step(backend: &BackendReport, report: &VerifyReport) -> Option<f64> {
    let fast = format!("{}{FAST}", backend.name);
    let fast = report.backends.iter().find(|other| other.name == fast)?;
    Some(backend.step_seconds / fast.step_seconds)
}

/// For people: each backend, what repeating bits costs, and the verdict.
fn table(report: &VerifyReport) -> String {
    let mut table = String::new();
    for backend in &report.backends {
        table += &backend.to_string();
        if let Some(times) = times_fast_step(backend, report) {
            table += &format!(
                "  repeating bits costs       {times:.2} times the step of {}{FAST}\n",
                backend.name
            );
        }
    }
    table + report.verdict() + "\n"
}

impl Report for VerifyOutput {
    fn text(&self) -> String {
        self.table.clone()
    }
}
