//! GPU backends by name, in two forms.
//!
//! Burn's own names for them stand for whatever its features make of them. Two of those decide at run
//! time what is computed, and with it the bits: `fusion`, which makes one kernel of the operations that
//! happen to wait together, and `autotune`, which takes the kernel that was fastest in a trial. The
//! types here say which form is meant.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "wgpu")]
mod wgpu;

#[cfg(feature = "cuda")]
pub use cuda::*;
#[cfg(feature = "wgpu")]
pub use wgpu::*;

/// A GPU that may not be in this machine. Burn panics on one that isn't, on a thread of its own.
pub trait Gpu {
    /// Why the device can't be used; none if it is there.
    fn missing(&self) -> Option<String>;
}

/// The device of an index, of so many of a kind.
fn missing(kind: &str, index: usize, count: usize) -> Option<String> {
    (index >= count).then(|| format!("number of {kind} here: {count}, counted from 0; got {index}"))
}
