//! Why a measurement failed.

use burn_virtual::distributed::Reduce;
use burn_virtual::plan::PlanError;

use crate::args::MOST_DEVICES;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("--ranks: expected the {expected} processes of the launch, got {got}")]
    World { expected: usize, got: usize },
    #[error("expected at most {MOST_DEVICES} ranks, got {0} (WORLD_SIZE)")]
    Ranks(usize),
    #[error("--virtual-nodes: expected --algorithm ordered, got {0}, which has none")]
    VirtualNodes(Reduce),
    #[error("--algorithm: expected one that is measured here, got {0}")]
    Unknown(Reduce),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("--bytes: expected at most {free} bytes that are free here, got a need of {need}")]
    Memory { free: u64, need: u128 },
    #[error(
        "rank {rank}, iteration {iteration}, element {index}: the sum is wrong: expected {expected}, got {got}"
    )]
    Wrong {
        rank: usize,
        iteration: usize,
        index: usize,
        expected: f32,
        got: f32,
    },
    #[error("rank {rank}: expected a sum of {expected} elements, got {got}")]
    Missing {
        rank: usize,
        expected: usize,
        got: usize,
    },
    #[error("a tensor of f32: {0}")]
    Tensor(String),
    #[error("rank {rank}: times of an unknown form")]
    Times { rank: usize },
    #[error("a thread for a rank: {0}")]
    Thread(std::io::Error),
}

impl BenchError {
    /// 2 where the command line contradicts itself, 1 otherwise.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::World { .. }
            | Self::Ranks(_)
            | Self::VirtualNodes(_)
            | Self::Unknown(_)
            | Self::Plan(_) => 2,
            _ => 1,
        }
    }
}
