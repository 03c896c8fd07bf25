//! Every delegated method gives what the inner backend gives: the same bits on Flex, the same
//! values within a tolerance on NdArray, which is not bit-reproducible.
//!
//! Each family is a table of calls (one module each), run in several memory layouts on the inner
//! backend and on `VirtualBackend` of it. A failure names the method and the layout; a method
//! without a row fails [`coverage`] by name.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

#[path = "../common/mod.rs"]
mod common;

mod activation;
mod bool;
mod coverage;
mod device;
mod float;
mod inputs;
mod int;
mod module;
mod quantized;
mod read;
mod same;
mod skipped;
mod transaction;

use burn_backend::Backend;
use burn_flex::Flex;
use burn_ndarray::NdArray;
#[cfg(feature = "cuda")]
use burn_virtual_backend::Cuda;
use burn_virtual_backend::VirtualBackend;
#[cfg(feature = "wgpu")]
use burn_virtual_backend::Wgpu;

use inputs::{Inputs, Layout};
use read::Value;
use same::Same;
use skipped::{Skipped, Where};

/// One call of one method of `T`.
struct Case<T: Backend> {
    name: &'static str,
    run: fn(&Inputs<T>) -> Vec<Value>,
}

/// A table of calls: the kind of result (a function of [`read`]), then the call as it is written
/// on a backend. `$x` gives the inputs.
macro_rules! cases {
    ($backend:ident, $x:ident; $($kind:ident $name:ident($($arg:expr),* $(,)?);)*) => {
        pub(crate) fn cases<$backend: burn_backend::Backend>() -> Vec<crate::Case<$backend>> {
            vec![$(crate::Case {
                name: stringify!($name),
                run: |$x: &crate::inputs::Inputs<$backend>| {
                    $x.restart();
                    crate::read::$kind::<$backend>($backend::$name($($arg),*))
                },
            }),*]
        }
    };
}
pub(crate) use cases;

/// Says which case was running when a panic passes.
struct Running(&'static str, Layout);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while running `{}` ({:?})", self.0, self.1);
        }
    }
}

type Table<T> = Vec<Case<T>>;

/// Runs two tables in some layouts and names each method whose results differ.
fn compare<A: Backend, B: Backend>(
    expected: Table<A>,
    found: Table<B>,
    layouts: &[Layout],
    skipped: &[&Skipped],
    same: fn(&str) -> Same,
) {
    let mut differing = Vec::new();
    for (case, (expects, finds)) in expected.iter().zip(&found).enumerate() {
        let name = expects.name;
        assert_eq!(name, finds.name);
        let row = expected[..case]
            .iter()
            .filter(|earlier| earlier.name == name);
        let row = row.count();
        for &layout in layouts {
            if skipped
                .iter()
                .any(|list| is_left_out(list, name, row, layout))
            {
                continue;
            }
            let _running = Running(name, layout);
            let expected = (expects.run)(&Inputs::new(layout));
            let found = (finds.run)(&Inputs::new(layout));
            assert!(!expected.is_empty(), "{name}: nothing to compare");
            let equal = expected.len() == found.len()
                && expected
                    .iter()
                    .zip(&found)
                    .all(|(a, b)| same(name).holds(a, b));
            if !equal {
                differing.push(format!(
                    "{name}, row {row} ({layout:?})\n  expected {expected:?}\n  found    {found:?}",
                ));
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn is_left_out(skipped: &Skipped, name: &str, row: usize, layout: Layout) -> bool {
    skipped
        .iter()
        .filter(|(skipped, ..)| *skipped == name)
        .any(|(_, extent, _)| match extent {
            Where::Everywhere => true,
            Where::OnViews => !matches!(layout, Layout::Contiguous),
            Where::Row(skipped) => *skipped == row,
        })
}

/// Operations of NdArray that use the processor's approximate reciprocal (12 bits) for as many
/// elements as the alignment of the buffer happens to allow.
const APPROXIMATE_ON_NDARRAY: [&str; 4] = [
    "float_recip",
    "float_powi_scalar",
    "log_sigmoid_backward",
    "q_recip",
];

fn on_flex(_name: &str) -> Same {
    Same::Bits
}

fn on_ndarray(name: &str) -> Same {
    if APPROXIMATE_ON_NDARRAY.contains(&name) {
        Same::Within(1e-3)
    } else {
        Same::Within(1e-5)
    }
}

#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn on_gpu(name: &str) -> Same {
    // The gradient of the input is added up with atomics, in no fixed order.
    if name == "deform_conv2d_backward" {
        Same::Within(1e-5)
    } else {
        Same::Bits
    }
}

/// Operations that a graphics driver computes less exactly, or Burn by an approximation.
#[cfg(feature = "wgpu")]
const APPROXIMATE_ON_WGPU: [&str; 3] = ["float_acos", "float_asin", "gelu_backward"];

/// Values of wgpu against those of Flex.
#[cfg(feature = "wgpu")]
fn as_on_flex(name: &str) -> Same {
    if APPROXIMATE_ON_WGPU.contains(&name) {
        Same::Elsewhere(1e-3)
    } else {
        Same::Elsewhere(1e-5)
    }
}

macro_rules! families {
    ($($family:ident $on_flex:ident $on_ndarray:ident $on_wgpu:ident $on_cuda:ident $($as_on_flex:ident)?;)*) => {
        $(
            #[test]
            fn $on_flex() {
                compare::<Flex, VirtualBackend<Flex>>(
                    $family::cases(),
                    $family::cases(),
                    &Layout::ALL,
                    &[skipped::ON_FLEX],
                    on_flex,
                );
            }

            #[test]
            fn $on_ndarray() {
                compare::<NdArray, VirtualBackend<NdArray>>(
                    $family::cases(),
                    $family::cases(),
                    &Layout::ALL,
                    &[skipped::ON_NDARRAY],
                    on_ndarray,
                );
            }

            #[cfg(feature = "wgpu")]
            #[test]
            fn $on_wgpu() {
                compare::<Wgpu, VirtualBackend<Wgpu>>(
                    $family::cases(),
                    $family::cases(),
                    &Layout::ALL,
                    &[skipped::ON_GPU, skipped::ON_WGPU],
                    on_gpu,
                );
            }

            #[cfg(feature = "cuda")]
            #[test]
            #[ignore = "needs an NVIDIA GPU"]
            fn $on_cuda() {
                compare::<Cuda, VirtualBackend<Cuda>>(
                    $family::cases(),
                    $family::cases(),
                    &Layout::ALL,
                    &[skipped::ON_GPU],
                    on_gpu,
                );
            }

            $(
                #[cfg(feature = "wgpu")]
                #[test]
                fn $as_on_flex() {
                    compare::<VirtualBackend<Flex>, VirtualBackend<Wgpu>>(
                        $family::cases(),
                        $family::cases(),
                        &Layout::ALL,
                        &[
                            skipped::ON_FLEX,
                            skipped::ON_GPU,
                            skipped::ON_WGPU,
                            skipped::UNLIKE_FLEX,
                        ],
                        as_on_flex,
                    );
                }
            )?
        )*
    };
}
// Flex and wgpu quantize by other schemes, up to one step apart.
families! {
    activation activation_ops_on_flex_equal_the_inner_bits activation_ops_on_ndarray_equal_the_inner_values
        activation_ops_on_wgpu_equal_the_inner_bits activation_ops_on_cuda_equal_the_inner_bits
        activation_ops_on_wgpu_equal_those_on_flex;
    bool bool_ops_on_flex_equal_the_inner_bits bool_ops_on_ndarray_equal_the_inner_values
        bool_ops_on_wgpu_equal_the_inner_bits bool_ops_on_cuda_equal_the_inner_bits
        bool_ops_on_wgpu_equal_those_on_flex;
    float float_ops_on_flex_equal_the_inner_bits float_ops_on_ndarray_equal_the_inner_values
        float_ops_on_wgpu_equal_the_inner_bits float_ops_on_cuda_equal_the_inner_bits
        float_ops_on_wgpu_equal_those_on_flex;
    int int_ops_on_flex_equal_the_inner_bits int_ops_on_ndarray_equal_the_inner_values
        int_ops_on_wgpu_equal_the_inner_bits int_ops_on_cuda_equal_the_inner_bits
        int_ops_on_wgpu_equal_those_on_flex;
    module module_ops_on_flex_equal_the_inner_bits module_ops_on_ndarray_equal_the_inner_values
        module_ops_on_wgpu_equal_the_inner_bits module_ops_on_cuda_equal_the_inner_bits
        module_ops_on_wgpu_equal_those_on_flex;
    quantized quantized_ops_on_flex_equal_the_inner_bits quantized_ops_on_ndarray_equal_the_inner_values
        quantized_ops_on_wgpu_equal_the_inner_bits quantized_ops_on_cuda_equal_the_inner_bits;
    transaction transactions_on_flex_equal_the_inner_bits transactions_on_ndarray_equal_the_inner_values
        transactions_on_wgpu_equal_the_inner_bits transactions_on_cuda_equal_the_inner_bits
        transactions_on_wgpu_equal_those_on_flex;
}
