//! Where virtual nodes go: what a session and a predictor agree on before they start.

use burn_virtual_backend::{Probe, Virtual, probe};
use burn_virtual_collective::Options;
use burn_virtual_plan::{Placement, PlanError};

use crate::{TrainError, VirtualNodes};

/// The placement that the settings ask for.
pub(crate) fn placement(
    virtual_nodes: usize,
    ranks: usize,
    shares: Option<&[usize]>,
) -> Result<Placement, TrainError> {
    match shares {
        Some(shares) if shares.len() != ranks => Err(TrainError::Shares {
            expected: ranks,
            got: shares.len(),
        }),
        Some(shares) => Ok(Placement::explicit(virtual_nodes, shares)?),
        None => Ok(Placement::even(virtual_nodes, ranks)?),
    }
}

/// How long the ranks wait for each other.
pub(crate) fn options<D>(settings: &VirtualNodes<D>) -> Options {
    Options {
        timeout: settings.timeout,
        first_timeout: settings.first_timeout,
        ..Options::default()
    }
}

/// The probe that all devices have in common, and with the job so far. Equal devices are probed
/// once.
pub(crate) fn same_probe<B: Virtual>(
    devices: &[B::Device],
    before: Option<Probe>,
    allow_drift: bool,
) -> Result<Probe, TrainError> {
    let mut known: Vec<(&B::Device, Probe)> = Vec::new();
    for (rank, device) in devices.iter().enumerate() {
        if known.iter().any(|(other, _)| *other == device) {
            continue;
        }
        let got = probe::<B::Inner>(device).map_err(|error| TrainError::Device {
            device: format!("{device:?}"),
            reason: error.to_string(),
        })?;
        let expected = before
            .or(known.first().map(|(_, probe)| *probe))
            .unwrap_or(got);
        if got != expected && !allow_drift {
            return Err(TrainError::Drift {
                rank,
                expected,
                got,
            });
        }
        known.push((device, got));
    }
    let first = known.first().map(|(_, probe)| *probe);
    Ok(first.ok_or(PlanError::NoRanks)?)
}
