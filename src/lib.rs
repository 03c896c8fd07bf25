#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! This crate holds no code of its own: it is the one door to the crates behind it.

/// [`VirtualBackend`](backend::VirtualBackend): the decorator around any Burn backend, its random
/// streams, meter and bit probe.
pub mod backend {
    pub use burn_virtual_backend::*;
}

/// Training on virtual nodes: the session, its step, losses and running statistics.
pub mod nodes {
    pub use burn_virtual_train::*;
}

/// Groups of ranks: transports, collectives and their deadlines.
pub mod distributed {
    pub use burn_virtual_collective::*;
}

/// Virtual nodes, batch split, placements, the summation tree and its host kernel.
pub mod plan {
    pub use burn_virtual_plan::*;
}

/// Models and data sets.
pub mod models {
    pub use burn_virtual_models::*;
}
