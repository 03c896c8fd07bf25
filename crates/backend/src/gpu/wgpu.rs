//! wgpu: Vulkan, Metal, DirectX 12 or WebGPU, whichever the system has.

pub use burn_wgpu::WgpuDevice;
use burn_wgpu::WgpuRuntime;
use burn_wgpu::graphics::{AutoGraphicsApi, GraphicsApi};
use cubecl::Runtime;

use super::{Gpu, missing};

/// wgpu with one kernel an operation: repeats its bits.
pub type Wgpu = burn_cubecl::CubeBackend<WgpuRuntime, f32, i32, u32>;

/// wgpu with kernel fusion: faster, and no promise about its bits.
#[cfg(feature = "fusion")]
pub type FusedWgpu = burn_wgpu::Wgpu<f32, i32, u32>;

/// The ids that cubecl gives to the kinds of adapters.
const DISCRETE: u16 = 0;
const INTEGRATED: u16 = 1;
const VIRTUAL: u16 = 2;
const CPU: u16 = 3;
const ANY: u16 = 4;

impl Gpu for WgpuDevice {
    fn missing(&self) -> Option<String> {
        let of = |kind, id, index| missing(kind, index, adapters(id));
        match self {
            Self::DiscreteGpu(index) => of("discrete GPUs", DISCRETE, *index),
            Self::IntegratedGpu(index) => of("integrated GPUs", INTEGRATED, *index),
            Self::VirtualGpu(index) => of("virtual GPUs", VIRTUAL, *index),
            Self::Cpu => of("software adapters", CPU, 0),
            // Set up by the caller: nothing to look for.
            Self::Existing(_) => None,
            _ => (adapters(ANY) == 0).then(|| {
                "no adapter that wgpu can use: on Linux, is a Vulkan driver installed?".to_owned()
            }),
        }
    }
}

/// How many adapters of a kind there are.
fn adapters(id: u16) -> usize {
    WgpuRuntime::enumerate_devices(id, &AutoGraphicsApi::backend()).len()
}
