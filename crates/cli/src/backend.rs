//! The backends of this build, by the names that `--devices` takes.

use std::fmt;
use std::str::FromStr;

use burn::backend::Autodiff;
use burn_virtual::backend::VirtualBackend;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
use burn_virtual::backend::{Gpu, autotunes};
use burn_virtual::nodes::{VirtualAutodiff, VirtualNodes};

/// How the name of a backend's fast form ends.
pub(crate) const FAST: &str = "-fast";

/// A backend to train on.
pub(crate) trait Hardware: VirtualAutodiff {
    /// Its name on the command line.
    const NAME: &'static str;

    /// Whether it gives the same bits from run to run; if not, choosing it accepts that.
    const REPEATS: bool;

    /// How far its gradients may be from another backend's: see `VerifySettings::tolerance`.
    const TOLERANCE: f64;

    /// The device of an index.
    fn device(index: usize) -> Self::Device;

    /// Why a device can't be used; none if it can.
    fn missing(device: &Self::Device) -> Option<String>;

    /// The settings of a job that is to run here.
    fn settle<D>(nodes: VirtualNodes<D>) -> VirtualNodes<D> {
        if Self::REPEATS {
            nodes
        } else {
            nodes.allow_drift()
        }
    }
}

/// Of backends that compute in f32.
const F32: f64 = 5e-5;

/// Of CUDA, where cubecl multiplies matrices in TF32, with 10 bits behind the point, on GPUs that have
/// it.
#[cfg(feature = "cuda")]
const TF32: f64 = 5e-3;

/// A table of backends: feature, variant, name, whether it repeats its bits, tolerance, inner
/// backend, device of an index, and why a device can't be used.
macro_rules! backends {
    ($($(#[$feature:meta])? $kind:ident $name:literal $repeats:literal $tolerance:ident: $inner:ty, $device:expr, $missing:expr;)*) => {
        /// Which backend.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($(#[$feature])? $kind,)*
        }

        impl Kind {
            /// All that this build has.
            pub(crate) const ALL: &[Self] = &[$($(#[$feature])? Self::$kind,)*];

            /// The name on the command line.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $($(#[$feature])? Self::$kind => $name,)*
                }
            }

            /// Runs something on the backend.
            pub(crate) fn run<R: OnBackend>(self, on: R) -> R::Output {
                match self {
                    $($(#[$feature])? Self::$kind => on.run::<Autodiff<VirtualBackend<$inner>>>(),)*
                }
            }
        }

        $($(#[$feature])? impl Hardware for Autodiff<VirtualBackend<$inner>> {
            const NAME: &'static str = $name;
            const REPEATS: bool = $repeats;
            const TOLERANCE: f64 = $tolerance;

            fn device(index: usize) -> Self::Device {
                let device: fn(usize) -> Self::Device = $device;
                device(index)
            }

            fn missing(device: &Self::Device) -> Option<String> {
                let missing: fn(&Self::Device) -> Option<String> = $missing;
                missing(device)
            }
        })*
    };
}

// GPU backends without kernel fusion and with it: it decides at run time which operations become one
// kernel, and with it their bits.
backends! {
    // One device, the CPU; its indices name ranks that share it.
    Flex "flex" true F32: burn_flex::Flex, |_| burn_flex::FlexDevice, |_| None;
    #[cfg(feature = "ndarray")]
    NdArray "ndarray" false F32: burn_ndarray::NdArray, |_| burn_ndarray::NdArrayDevice::Cpu, |_| None;
    #[cfg(feature = "wgpu")]
    Wgpu "wgpu" true F32: burn_virtual::backend::Wgpu, wgpu_device, unusable;
    #[cfg(all(feature = "wgpu", feature = "fast"))]
    FastWgpu "wgpu-fast" false F32: burn_virtual::backend::FusedWgpu, wgpu_device, Gpu::missing;
    #[cfg(feature = "cuda")]
    Cuda "cuda" true TF32: burn_virtual::backend::Cuda, cuda_device, unusable;
    #[cfg(all(feature = "cuda", feature = "fast"))]
    FastCuda "cuda-fast" false TF32: burn_virtual::backend::FusedCuda, cuda_device, Gpu::missing;
}

/// Why a GPU can't be used where bits are to repeat.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn unusable(device: &impl Gpu) -> Option<String> {
    device.missing().or_else(|| {
        autotunes().then(|| {
            format!("this build (feature autotune) chooses kernels by timing them, so bits don't repeat; its {FAST} form accepts that")
        })
    })
}

/// The best device that there is, then the discrete GPUs by index.
#[cfg(feature = "wgpu")]
fn wgpu_device(index: usize) -> burn_virtual::backend::WgpuDevice {
    use burn_virtual::backend::WgpuDevice;
    match index {
        0 => WgpuDevice::DefaultDevice,
        index => WgpuDevice::DiscreteGpu(index),
    }
}

#[cfg(feature = "cuda")]
fn cuda_device(index: usize) -> burn_virtual::backend::CudaDevice {
    burn_virtual::backend::CudaDevice { index }
}

/// Something that runs on any backend.
pub(crate) trait OnBackend {
    /// What it comes to.
    type Output;

    /// Runs it.
    fn run<B: Hardware>(self) -> Self::Output;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|kind| kind.name() == text);
        known.copied().ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!(
                "unknown backend '{text}': this build has {}",
                names.join(", ")
            )
        })
    }
}
