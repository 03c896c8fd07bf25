//! CUDA.

pub use burn_cuda::CudaDevice;
use cubecl::cuda::CudaRuntime;
use cudarc::driver::{CudaContext, sys};

use super::{Gpu, missing};

/// CUDA with one kernel an operation: repeats its bits.
pub type Cuda = burn_cubecl::CubeBackend<CudaRuntime, f32, i32, u8>;

/// CUDA with kernel fusion: faster, and no promise about its bits.
#[cfg(feature = "fusion")]
pub type FusedCuda = burn_cuda::Cuda<f32, i32>;

impl Gpu for CudaDevice {
    fn missing(&self) -> Option<String> {
        // Safety: it looks for the driver's library and loads it, as the first use of CUDA would.
        if !unsafe { sys::is_culib_present() } {
            return Some("no CUDA driver on this machine (libcuda was not found)".to_owned());
        }
        match CudaContext::device_count() {
            Ok(count) => missing(
                "CUDA devices",
                self.index,
                usize::try_from(count).unwrap_or(0),
            ),
            Err(error) => Some(format!("the CUDA driver doesn't start: {error}")),
        }
    }
}
