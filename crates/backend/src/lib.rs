//! `VirtualBackend<B>`: a decorator around any Burn backend.
//!
//! This crate is the boundary to Burn's backend traits. It may use Burn, and knows nothing of
//! ranks, virtual-node placements or sockets: those are built on top of it.

mod backend;
mod context;
mod convert;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod gpu;
mod hardware;
#[cfg(feature = "overlap")]
mod hook;
mod meter;
mod ops;
mod probe;
mod random;
mod reduce;
mod tensor;

pub use backend::{Virtual, VirtualBackend};
pub use context::{Entered, Fault, Scope, enter, take_fault};
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub use gpu::*;
pub use hardware::autotunes;
#[cfg(feature = "overlap")]
pub use hook::{GradientHook, Hooked, hook};
pub use meter::{Listening, Meter};
pub use probe::{Probe, probe};
pub use tensor::VirtualTensor;
