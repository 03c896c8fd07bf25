//! What can go wrong in a job, and where.

use std::fmt;
use std::time::Duration;

use burn::module::ParamId;
use burn_virtual_backend::{Fault, Probe};
use burn_virtual_collective::{CollectiveError, TransportError};
use burn_virtual_plan::PlanError;

use crate::Skipped;

/// Why a job could not start, a step was not taken, or a batch could not be split.
///
/// Nothing of a step that failed is applied: the model and the session are as they were before it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The batch, the virtual nodes and the ranks do not fit together.
    #[error(transparent)]
    Plan(#[from] PlanError),

    /// A setting that makes no sense.
    #[error("{what}: expected {expected}, got {got}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        got: String,
    },

    /// No running statistics to freeze.
    #[error("no running statistics at or below `{path}`")]
    NoStatistics {
        /// The module path.
        path: String,
    },

    /// The optimizer panicked in an earlier step and took the model with it.
    #[error("the model is gone: the optimizer failed in an earlier step")]
    ModelLost,

    /// The number of shares is not the number of devices.
    #[error("{got} shares for {expected} devices: each device needs one")]
    Shares {
        /// The number of devices.
        expected: usize,
        /// The number of shares.
        got: usize,
    },

    /// Transports that are not for these devices, or not of one group.
    #[error("transports: expected {expected}, got {got}")]
    Transports {
        /// What they have to be.
        expected: String,
        /// What they are.
        got: String,
    },

    /// Not one part for each rank of this process.
    #[error("expected a part for each of {expected} ranks of this process, got {got}")]
    Parts {
        /// Ranks of this process.
        expected: usize,
        /// Parts given.
        got: usize,
    },

    /// Ranks that would not do the same.
    #[error("rank {rank} differs from rank 0 in its {what}: expected {expected}, got {got}")]
    Disagreement {
        /// The first rank that differs.
        rank: usize,
        /// What of it.
        what: String,
        /// That of rank 0.
        expected: String,
        /// That of this rank.
        got: String,
    },

    /// Something that a rank can't do alone.
    #[error("{what}: expected all ranks in this process, got {here} of {world}")]
    Spread {
        /// What was asked for.
        what: &'static str,
        /// Ranks in this process.
        here: usize,
        /// Ranks of the group.
        world: usize,
    },

    /// The same parameter stands at two places of the model.
    #[error(
        "parameter id {id} is used at two paths, `{first}` and `{second}`: a cloned parameter gets a wrong gradient; to tie weights, use one parameter twice"
    )]
    DuplicateParameter {
        /// The id.
        id: ParamId,
        /// The path that has it first, in module order.
        first: String,
        /// The other path.
        second: String,
    },

    /// Two tensors of the model have the same module path.
    #[error(
        "two parameters at path `{path}`: a module's `visit` and `map` have to name each of its fields"
    )]
    SharedPath {
        /// The module path.
        path: String,
    },

    /// A trained parameter that does not take another id.
    #[error(
        "parameter `{path}` keeps its own id: its module's `visit` and `map` do not name the same paths"
    )]
    Unnamed {
        /// The module path, as visited.
        path: String,
    },

    /// The model is not the one the session was started with.
    #[error(
        "the model changed since the session started: at `{path}`, expected {expected}, got {got}; after loading a record, call `adopt`"
    )]
    ModelChanged {
        /// The module path.
        path: String,
        /// What the session knows.
        expected: String,
        /// What the model has.
        got: String,
    },

    /// A step needs at least one sample.
    #[error("the batch is empty: expected at least 1 sample, got 0")]
    EmptyBatch,

    /// Tensors that are split together have different numbers of samples.
    #[error("tensors of one batch differ in their first dimension: expected {expected}, got {got}")]
    UnequalBatch {
        /// Samples in the first tensor.
        expected: usize,
        /// Samples in the other.
        got: usize,
    },

    /// Ranks that would not compute the same bits.
    #[error(
        "rank {rank} computes other bits than rank 0 (bit probe {got}, expected {expected}): results would depend on the placement; `allow_drift` accepts that"
    )]
    Drift {
        /// The rank.
        rank: usize,
        /// The probe of rank 0.
        expected: Probe,
        /// The probe of this rank.
        got: Probe,
    },

    /// A device that does not repeat its own bits.
    #[error(
        "device {device} of {backend} does not repeat its bits (bit probe {first}, then {again}): results would change from run to run; `allow_drift` accepts that"
    )]
    Unsteady {
        /// The device, as its backend prints it.
        device: String,
        /// The backend's name.
        backend: String,
        /// The first probe.
        first: Probe,
        /// The second one.
        again: Probe,
    },

    /// A backend that decides at run time which operations become one kernel.
    #[error(
        "backend {backend} fuses kernels: which bits a job gets would depend on what it computed before; name the backend without fusion, or accept that with `allow_drift`"
    )]
    Fusion {
        /// The backend's name.
        backend: String,
    },

    /// A backend that chooses its kernels by timing them.
    #[error(
        "this build chooses the kernels of {backend} by timing them (feature `autotune`): bits would change from run to run; build without it, or accept that with `allow_drift`"
    )]
    Autotune {
        /// The backend's name.
        backend: String,
    },

    /// A device failed outside any step.
    #[error("device {device}: {reason}")]
    Device {
        /// The device, as its backend prints it.
        device: String,
        /// What it reported.
        reason: String,
    },

    /// A virtual node failed.
    #[error("rank {rank}, step {step}, virtual node {node}: {source}")]
    Node {
        /// The rank that ran it.
        rank: usize,
        /// The applied step that was being computed.
        step: u64,
        /// The virtual node.
        node: usize,
        /// What happened.
        source: NodeError,
    },

    /// The results of the micro-batches don't fit together.
    #[error("step {step}: putting the results of the virtual nodes together: {source}")]
    Join {
        /// The applied step that was being computed; of a predictor, the batch, from 0.
        step: u64,
        /// What happened.
        source: NodeError,
    },

    /// A step that was to be looked at, and was skipped.
    #[error("{what}: the step was skipped: {reason}")]
    Skipped {
        /// What it was for.
        what: &'static str,
        /// Why it was.
        reason: Skipped,
    },

    /// The session is in the middle of a step that takes too long.
    #[error("the session is in a step, and was for {waited:?}")]
    Busy {
        /// How long this call waited.
        waited: Duration,
    },

    /// The ranks could not combine their parts.
    #[error(transparent)]
    Collective(#[from] CollectiveError),

    /// A rank stopped in the middle of a step.
    #[error("rank {rank}, step {step}: {reason}")]
    Rank {
        /// The rank.
        rank: usize,
        /// The applied step that was being computed.
        step: u64,
        /// What happened.
        reason: String,
    },
}

impl TrainError {
    /// Whether this rank only heard of a failure: the reason is with another rank.
    pub fn is_consequence(&self) -> bool {
        matches!(
            self,
            Self::Collective(
                CollectiveError::Closed { .. }
                    | CollectiveError::Transport {
                        source: TransportError::Closed { .. } | TransportError::Gone { .. },
                        ..
                    },
            )
        )
    }

    /// A failure of a device.
    pub(crate) fn device(device: &impl fmt::Debug, reason: impl Into<String>) -> Self {
        Self::Device {
            device: format!("{device:?}"),
            reason: reason.into(),
        }
    }
}

/// What went wrong inside one virtual node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The model, the loss or the batcher panicked.
    #[error("user code panicked: {0}")]
    Panicked(String),

    /// The loss refused its inputs.
    #[error(transparent)]
    Loss(#[from] LossError),

    /// A weight has to be a finite number of at least zero.
    #[error("the weight of a loss has to be finite and at least 0, got {0}")]
    Weight(f64),

    /// The session requires a gradient for every trained parameter.
    #[error(
        "parameter `{path}` got no gradient, and the session requires one for every trained parameter"
    )]
    NoGradient {
        /// The module path.
        path: String,
    },

    /// A result that is of another number of samples: others would get it.
    #[error("the results of {got} samples for a micro-batch of {expected}")]
    Results {
        /// Samples in the micro-batch.
        expected: usize,
        /// Rows or entries of the result.
        got: usize,
    },

    /// An operation broke the promise of equal bits: random numbers that would depend on the
    /// placement, or one that the backend doesn't repeat.
    #[error(transparent)]
    Fault(#[from] Fault),

    /// Values could not be read back from the device.
    #[error("reading {what} back: {reason}")]
    Read {
        /// The values.
        what: String,
        /// What the device or the conversion reported.
        reason: String,
    },

    /// A part of the tree does not fit.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// Why a loss refused its inputs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LossError {
    /// A target that names no class.
    #[error("target {target} of row {row} is out of range: expected 0..{classes}")]
    Target {
        /// The row, from 0.
        row: usize,
        /// The target.
        target: i64,
        /// How many classes the logits have.
        classes: usize,
    },

    /// Logits and targets of different length.
    #[error("logits have {rows} rows, but there are {targets} targets")]
    Rows {
        /// Rows of the logits.
        rows: usize,
        /// Number of targets.
        targets: usize,
    },

    /// Predictions and targets of different shapes.
    #[error("predictions of shape {prediction:?} do not fit targets of shape {target:?}")]
    Shapes {
        /// The shape of the predictions.
        prediction: Vec<usize>,
        /// The shape of the targets.
        target: Vec<usize>,
    },

    /// A setting of the loss that makes no sense.
    #[error("{what}: expected {expected}, got {got}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        got: String,
    },

    /// A reason of the user's own loss.
    #[error("{0}")]
    Other(String),

    /// The inputs could not be read.
    #[error("reading the targets: {0}")]
    Read(String),
}
