//! What a verification came to.

use std::fmt;

use super::run::Trained;
use crate::WeightsHash;

/// A verification: see [`Verify`](super::Verify). Prints as a table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The backends, the reference first.
    pub backends: Vec<BackendReport>,
}

/// One backend of a verification.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendReport {
    /// Its name.
    pub name: String,
    /// Whether its initial weights are those of the reference, bit by bit.
    pub same_initial_weights: bool,
    /// Whether a second run gave the same bits; none where the backend doesn't promise it.
    pub repeats: Option<bool>,
    /// The placements that were compared.
    pub placements: Vec<PlacementReport>,
    /// The largest relative difference of a loss of the curve from the reference's.
    pub loss_difference: f64,
    /// The gradients of the first step, in module order.
    pub layers: Vec<LayerReport>,
    /// How large a layer's difference may be.
    pub tolerance: f64,
    /// The mean score of the trained model, where there were items to score.
    pub score: Option<f64>,
    /// Seconds of the fastest step on one rank.
    pub step_seconds: f64,
}

/// One placement on one backend.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlacementReport {
    /// Per rank, the device, as its backend prints it.
    pub devices: Vec<String>,
    /// Per rank, how many virtual nodes it ran.
    pub shares: Vec<usize>,
    /// The weights after the last step.
    pub weights: WeightsHash,
    /// Whether losses and weights have the bits of the first placement.
    pub identical: bool,
}

/// One parameter of one backend.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LayerReport {
    /// The module path.
    pub path: String,
    /// The largest difference from the reference's gradient, in units of the largest element of that;
    /// none where that is rounding only, as of a bias before batch norm.
    pub difference: Option<f64>,
}

impl VerifyReport {
    /// Whether every promise holds; not of a report without backends.
    pub fn holds(&self) -> bool {
        !self.backends.is_empty() && self.backends.iter().all(BackendReport::holds)
    }

    /// [`holds`](Self::holds) in words.
    pub fn verdict(&self) -> &'static str {
        if self.holds() {
            "every promise holds"
        } else {
            "A PROMISE IS BROKEN"
        }
    }

    /// Whether weights are bit-identical for every placement and run of the backends that promise it.
    pub fn identical(&self) -> bool {
        self.backends.iter().all(BackendReport::identical)
    }
}

impl BackendReport {
    pub(super) fn add_placement(&mut self, trained: &Trained, first: &Trained) {
        self.placements.push(PlacementReport {
            devices: trained.devices.clone(),
            shares: trained.shares.clone(),
            weights: trained.weights,
            identical: trained.same_bits(first),
        });
    }

    /// Whether every promise holds on this backend.
    pub fn holds(&self) -> bool {
        self.same_initial_weights
            && self.identical()
            && self.loss_difference.is_finite()
            && self.first_differing_layer().is_none()
    }

    /// Whether placements and runs are bit-identical, where that is promised.
    pub fn identical(&self) -> bool {
        self.repeats != Some(false) && self.placements.iter().all(|placement| placement.identical)
    }

    /// The largest difference of a layer's gradient from the reference's.
    pub fn gradient_difference(&self) -> f64 {
        let differences = self.layers.iter().filter_map(|layer| layer.difference);
        differences.fold(0.0, f64::max)
    }

    /// The first layer out of tolerance, in the order of the backward pass: the last one of the
    /// model comes first, as its gradient depends on no other's.
    pub fn first_differing_layer(&self) -> Option<&str> {
        let differs = |layer: &&LayerReport| {
            layer
                .difference
                .is_some_and(|difference| difference > self.tolerance)
        };
        self.layers
            .iter()
            .rev()
            .find(differs)
            .map(|layer| layer.path.as_str())
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for backend in &self.backends {
            write!(f, "{backend}")?;
        }
        writeln!(f, "{}", self.verdict())
    }
}

impl fmt::Display for BackendReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        let verdict = |equal: bool| if equal { "equal" } else { "DIFFERENT" };
        writeln!(
            f,
            "  initial weights            {}",
            verdict(self.same_initial_weights)
        )?;
        match self.repeats {
            Some(repeats) => writeln!(f, "  bits from run to run       {}", verdict(repeats))?,
            None => writeln!(f, "  bits from run to run       not promised")?,
        }
        for placement in &self.placements {
            let shares = placement.shares.iter().map(usize::to_string);
            writeln!(
                f,
                "  bits on {:<18} {} ({:.16})",
                shares.collect::<Vec<_>>().join("+"),
                verdict(placement.identical),
                placement.weights.to_string(),
            )?;
        }
        writeln!(
            f,
            "  loss curve off by          {:.1e}",
            self.loss_difference
        )?;
        writeln!(
            f,
            "  gradients off by           {:.1e}",
            self.gradient_difference()
        )?;
        if let Some(layer) = self.first_differing_layer() {
            writeln!(f, "  out of tolerance ({:.0e})   `{layer}`", self.tolerance)?;
        }
        if let Some(score) = self.score {
            writeln!(f, "  held-out score             {:.2} %", 100.0 * score)?;
        }
        writeln!(
            f,
            "  step                       {:.1} ms",
            1e3 * self.step_seconds
        )
    }
}
