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
mod skipped;
mod transaction;

use burn_backend::{Backend, TensorData};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_virtual_backend::VirtualBackend;

use inputs::{Inputs, Layout};
use read::Value;
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

/// Runs both tables in all layouts and names each method whose results differ.
fn compare<B: Backend>(
    inner: Table<B>,
    ours: Table<VirtualBackend<B>>,
    skipped: &Skipped,
    same: fn(&str) -> read::Same,
) {
    let mut differing = Vec::new();
    for (inner, ours) in inner.iter().zip(&ours) {
        assert_eq!(inner.name, ours.name);
        let skipped = skipped
            .iter()
            .find(|(name, ..)| *name == inner.name)
            .map(|(_, extent, _)| *extent);
        for layout in Layout::ALL {
            let view = !matches!(layout, Layout::Contiguous);
            if skipped == Some(Where::Everywhere) || (skipped == Some(Where::OnViews) && view) {
                continue;
            }
            let _running = Running(inner.name, layout);
            let expected = (inner.run)(&Inputs::new(layout));
            let found = (ours.run)(&Inputs::new(layout));
            assert!(!expected.is_empty(), "{}: nothing to compare", inner.name);
            let equal = expected.len() == found.len()
                && expected
                    .iter()
                    .zip(&found)
                    .all(|(a, b)| a.same(b, same(inner.name)));
            if !equal {
                differing.push(format!(
                    "{} ({layout:?})\n  inner {expected:?}\n  ours  {found:?}",
                    inner.name
                ));
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn equal_bits(a: &TensorData, b: &TensorData) -> bool {
    a.dtype == b.dtype && a.shape == b.shape && a.as_bytes() == b.as_bytes()
}

/// Operations of NdArray that use the processor's approximate reciprocal (12 bits) for as many
/// elements as the alignment of the buffer happens to allow.
const APPROXIMATE_ON_NDARRAY: [&str; 4] = [
    "float_recip",
    "float_powi_scalar",
    "log_sigmoid_backward",
    "q_recip",
];

/// Equality for everything but floats; those within `1 / DIVISOR` of the tensor's largest value.
fn close<const DIVISOR: u32>(a: &TensorData, b: &TensorData) -> bool {
    if !a.dtype.is_float() {
        return equal_bits(a, b);
    }
    let largest = a
        .iter::<f64>()
        .filter(|value| value.is_finite())
        .fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let tolerance = largest / f64::from(DIVISOR);
    a.dtype == b.dtype
        && a.shape == b.shape
        && a.iter::<f64>()
            .zip(b.iter::<f64>())
            .all(|(a, b)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance)
}

fn on_flex(_name: &str) -> read::Same {
    equal_bits
}

fn on_ndarray(name: &str) -> read::Same {
    if APPROXIMATE_ON_NDARRAY.contains(&name) {
        close::<1_000>
    } else {
        close::<100_000>
    }
}

macro_rules! families {
    ($($family:ident $on_flex:ident $on_ndarray:ident)*) => {
        $(
            #[test]
            fn $on_flex() {
                compare::<Flex>(
                    $family::cases(),
                    $family::cases(),
                    skipped::ON_FLEX,
                    on_flex,
                );
            }

            #[test]
            fn $on_ndarray() {
                compare::<NdArray>(
                    $family::cases(),
                    $family::cases(),
                    skipped::ON_NDARRAY,
                    on_ndarray,
                );
            }
        )*
    };
}
families! {
    activation activation_ops_on_flex_equal_the_inner_bits activation_ops_on_ndarray_equal_the_inner_values
    bool bool_ops_on_flex_equal_the_inner_bits bool_ops_on_ndarray_equal_the_inner_values
    float float_ops_on_flex_equal_the_inner_bits float_ops_on_ndarray_equal_the_inner_values
    int int_ops_on_flex_equal_the_inner_bits int_ops_on_ndarray_equal_the_inner_values
    module module_ops_on_flex_equal_the_inner_bits module_ops_on_ndarray_equal_the_inner_values
    quantized quantized_ops_on_flex_equal_the_inner_bits quantized_ops_on_ndarray_equal_the_inner_values
    transaction transactions_on_flex_equal_the_inner_bits transactions_on_ndarray_equal_the_inner_values
}

#[test]
fn close_far_values_are_told_apart() {
    let near = TensorData::from([1.0_f32, 2.0]);
    assert!(close::<100_000>(
        &near,
        &TensorData::from([1.000_001_f32, 2.0])
    ));
    assert!(!close::<100_000>(
        &near,
        &TensorData::from([1.000_1_f32, 2.0])
    ));
    assert!(!close::<100_000>(&near, &TensorData::from([1_i32, 2])));
    assert!(!equal_bits(&near, &TensorData::from([1.000_001_f32, 2.0])));
}
