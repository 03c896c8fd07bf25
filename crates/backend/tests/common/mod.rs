//! What the test files share: reading tensors, and values that are the same everywhere.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part; a panic is how a test fails"
)]

use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor, QuantizedTensor};
use burn_backend::{Backend, Shape, TensorData};
use burn_std::future::block_on;

/// The same test on every GPU backend of the build. Those of CUDA run where they are asked for:
/// `cargo test ... cuda -- --ignored`.
#[allow(unused_macros, reason = "each test file uses a part")]
macro_rules! on_gpus {
    ($($name:ident)*) => {
        #[cfg(feature = "wgpu")]
        mod wgpu {
            type Gpu = burn_virtual_backend::VirtualBackend<burn_virtual_backend::Wgpu>;

            $(#[test]
            fn $name() {
                super::$name::<Gpu>();
            })*
        }
        #[cfg(feature = "cuda")]
        mod cuda {
            type Gpu = burn_virtual_backend::VirtualBackend<burn_virtual_backend::Cuda>;

            $(#[test]
            #[ignore = "needs an NVIDIA GPU"]
            fn $name() {
                super::$name::<Gpu>();
            })*
        }
    };
}
#[allow(unused_imports, reason = "each test file uses a part")]
pub(crate) use on_gpus;

pub(crate) fn read_float<T: Backend>(tensor: FloatTensor<T>) -> TensorData {
    block_on(T::float_into_data(tensor)).unwrap()
}

pub(crate) fn read_int<T: Backend>(tensor: IntTensor<T>) -> TensorData {
    block_on(T::int_into_data(tensor)).unwrap()
}

pub(crate) fn read_bool<T: Backend>(tensor: BoolTensor<T>) -> TensorData {
    block_on(T::bool_into_data(tensor)).unwrap()
}

pub(crate) fn read_quantized<T: Backend>(tensor: QuantizedTensor<T>) -> TensorData {
    block_on(T::q_into_data(tensor)).unwrap()
}

/// A word that depends on every bit of `index` (the finaliser of SplitMix64).
pub(crate) fn mix(index: u64) -> u64 {
    let mut word = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// In `[0, 1)`, irregular.
pub(crate) fn fraction(index: u64) -> f64 {
    (mix(index) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Irregular values in `[-1, 1)`.
pub(crate) fn values(count: usize) -> Vec<f32> {
    (0..count as u64)
        .map(|index| (fraction(index) * 2.0 - 1.0) as f32)
        .collect()
}

pub(crate) fn floats<T: Backend, const D: usize>(shape: [usize; D]) -> FloatTensor<T> {
    let count = shape.iter().product();
    T::float_from_data(
        TensorData::new(values(count), Shape::from(shape)),
        &T::Device::default(),
    )
}

/// Runs `task` on a pool of `threads` rayon threads.
pub(crate) fn on_threads<R: Send>(threads: usize, task: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap()
        .install(task)
}
