#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! This crate holds no code of its own: it is the one door to the crates behind it.

/// [`VirtualBackend`](backend::VirtualBackend): the decorator around any Burn backend, its random
/// streams, meter and bit probe.
pub mod backend {
    pub use burn_virtual_backend::{
        Entered, Listening, Meter, Probe, Scope, StreamFault, Virtual, VirtualBackend,
        VirtualTensor, enter, probe,
    };
}

/// Training on virtual nodes: the session, its step, losses and running statistics.
pub mod nodes {
    pub use burn_virtual_train::{
        CrossEntropy, DefaultDevice, IntoLossSum, LossError, LossSum, NodeError, RankMemory,
        Session, Skipped, SplitBatch, StepOutput, StepReport, TrainError, Trainer, VirtualAutodiff,
        VirtualNodes, WeightsHash, binary_cross_entropy_sum, cross_entropy_sum, id_of_path,
        squared_error_sum,
    };
}

/// Groups of ranks: transports, collectives and their deadlines.
pub mod distributed {
    pub use burn_virtual_collective::{
        CollectiveError, Deadline, Group, Options, Tag, Transport, TransportError, memory,
    };
}

/// Virtual nodes, batch split, placements, the summation tree and its host kernel.
pub mod plan {
    pub use burn_virtual_plan::{
        BatchSplit, Bits, Layout, Node, Partial, Placement, PlanError, Stack, chunk, evaluate,
        kernel, tree,
    };
}

/// Models and data sets.
pub mod models {
    pub use burn_virtual_models::{
        Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, DigitsError,
        DigitsMlp, DigitsMlpConfig, Epoch, ZeroBatchSize, shuffle,
    };
}
