//! Where virtual nodes go: what a session and a predictor agree on before they start.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::backend::Backend;
use burn_virtual_backend::{Meter, Probe, Virtual, autotunes, probe};
use burn_virtual_collective::Options;
use burn_virtual_plan::{Placement, PlanError};

use crate::replica::message;
use crate::{TrainError, VirtualNodes};

/// How the name of a backend begins that fuses kernels.
const FUSION: &str = "fusion";

/// How the name of a backend begins whose kernels may be chosen by timing them.
const CUBECL: &str = "cubecl";

/// The name of the backend that is known not to repeat its bits.
const NDARRAY: &str = "ndarray";

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
        stall: settings.stall,
        ..Options::default()
    }
}

/// The probe that all devices have in common, and with the job so far. Equal devices are probed
/// once.
///
/// Where drift is not allowed, a device is refused that doesn't repeat its own bits: one that moves
/// between two probes, and one whose backend fuses kernels or chooses them by timing: both decide at
/// run time what is computed. (`NdArray` is known not to, and says so: see the README.)
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
        let got = if allow_drift {
            probed::<B>(device)?
        } else {
            steady_probe::<B>(device)?
        };
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

/// Probes a device twice, if its backend may repeat its bits at all.
fn steady_probe<B: Virtual>(device: &B::Device) -> Result<Probe, TrainError> {
    let backend = asked(device, || B::Inner::name(device))?;
    if backend.starts_with(FUSION) {
        return Err(TrainError::Fusion { backend });
    }
    if backend.starts_with(CUBECL) && autotunes() {
        return Err(TrainError::Autotune { backend });
    }
    let first = probed::<B>(device)?;
    if backend == NDARRAY {
        return Ok(first);
    }
    match probed::<B>(device)? {
        again if again == first => Ok(first),
        again => Err(TrainError::Unsteady {
            device: format!("{device:?}"),
            backend,
            first,
            again,
        }),
    }
}

/// Probes a device.
fn probed<B: Virtual>(device: &B::Device) -> Result<Probe, TrainError> {
    // What the probe computes is not the job's memory.
    let meter = Meter::new();
    let _listening = meter.listen();
    asked(device, || probe::<B::Inner>(device))?
        .map_err(|error| TrainError::device(device, error.to_string()))
}

/// Asks a device. A backend may panic where there is none, or no driver for it.
fn asked<T>(device: &impl fmt::Debug, ask: impl FnOnce() -> T) -> Result<T, TrainError> {
    catch_unwind(AssertUnwindSafe(ask))
        .map_err(|panic| TrainError::device(device, message(&*panic)))
}
