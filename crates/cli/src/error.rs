//! Why a command failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use burn_virtual::distributed::tcp::JoinError;
use burn_virtual::models::{DigitsError, ZeroBatchSize};
use burn_virtual::nodes::{Skipped, TrainError, WeightsError};
use burn_virtual::plan::{FitError, PlanError};

use crate::args::MOST_DEVICES;
use crate::backend::Kind;
use crate::bench::BenchError;
#[cfg(unix)]
use crate::launch::LaunchError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Data(#[from] DigitsError),
    #[error(transparent)]
    BatchSize(#[from] ZeroBatchSize),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(
        "the last {steps} steps up to step {last} were skipped: {reason}; a lower --lr may help"
    )]
    Skipping {
        steps: usize,
        last: usize,
        reason: Skipped,
    },
    #[error("--devices: expected 1 to {MOST_DEVICES} devices, got {0}")]
    Devices(usize),
    #[error(
        "--devices: expected 1 device, or one for each of the {expected} processes of this host, got {got}"
    )]
    Processes { expected: usize, got: usize },
    #[error("{command}: expected a process by itself, got one of {world} (WORLD_SIZE is set)")]
    Alone { command: &'static str, world: usize },
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error("--devices: expected devices of one backend, got {0} and {1}")]
    Mixed(Kind, Kind),
    #[error("device {device}: {reason}")]
    Missing { device: String, reason: String },
    #[error("--virtual-nodes auto: expected a --memory-limit to fit, got none")]
    Auto,
    #[error(
        "--memory-limit {limit}: {asked} virtual nodes do not fit; {fit} do, with micro-batches of up to {micro_batch} samples, which need {need} bytes"
    )]
    Memory {
        limit: usize,
        asked: usize,
        fit: usize,
        micro_batch: usize,
        need: usize,
    },
    #[error(
        "--memory-limit {limit}: no number of virtual nodes fits; a micro-batch of 1 sample needs {need} bytes"
    )]
    Never { limit: usize, need: usize },
    #[error(transparent)]
    Fit(#[from] FitError<TrainError>),
    #[error("--out {path}: {source}")]
    Out { path: PathBuf, source: io::Error },
    #[error("--weights {path}: expected weights of {expected}, got those of {got}")]
    Model {
        path: PathBuf,
        expected: String,
        got: String,
    },
    #[error("a promise is broken")]
    Broken,
    #[error("writing the result: {0}")]
    Output(#[from] io::Error),
    #[error("rank {rank}: expected its peak of tensor bytes in 8 bytes, got {got}")]
    Peak { rank: usize, got: usize },
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[cfg(unix)]
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

impl RunError {
    /// 2 where the command line contradicts itself, 1 otherwise.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Devices(_)
            | Self::Processes { .. }
            | Self::Alone { .. }
            | Self::Join(JoinError::Variable { .. } | JoinError::TokenShort { .. })
            | Self::Mixed(..)
            | Self::Auto
            | Self::Train(TrainError::Plan(PlanError::TooManyRanks { .. })) => 2,
            Self::Bench(error) => error.exit_code(),
            #[cfg(unix)]
            Self::Launch(error) => error.exit_code(),
            _ => 1,
        }
    }

    /// How long to wait for somebody who reads it; none if it doesn't say.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self {
            #[cfg(unix)]
            Self::Launch(error) => error.patience(),
            _ => None,
        }
    }

    /// Whether this process only heard of a failure elsewhere.
    pub(crate) fn is_consequence(&self) -> bool {
        match self {
            Self::Train(error) => error.is_consequence(),
            Self::Join(error) => matches!(error, JoinError::Left { .. }),
            _ => false,
        }
    }
}
