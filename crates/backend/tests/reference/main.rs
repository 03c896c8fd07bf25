//! Operations that models use, on every backend, against naive forms of them in f64.
//!
//! Each family is a table (one module each). A row has the inputs, the naive form, in plain loops that
//! share nothing with Burn, and the same computation written with Burn's tensors. Checked are the
//! result, and the gradient of every input: the derivative of `sum(cotangent * result)`, with a fixed
//! irregular cotangent, against central differences of the naive form.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

#[path = "../common/mod.rs"]
mod common;

mod activation;
mod array;
mod conv;
mod elementwise;
mod indexing;
mod large;
mod layers;
mod matmul;
mod pool;
mod reduction;
mod shapes;

use std::sync::LazyLock;

use burn_autodiff::Autodiff;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Shape, TensorData};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_tensor::backend::{AutodiffBackend, Backend};
use burn_tensor::{Bool, Int, Tensor, TensorPrimitive};
#[cfg(feature = "cuda")]
use burn_virtual_backend::Cuda;
use burn_virtual_backend::VirtualBackend;
#[cfg(feature = "wgpu")]
use burn_virtual_backend::Wgpu;

use array::{Array, index_of};
use common::{fraction, mix, read_float};

/// How far a value may be from the reference, in units of the largest value of the reference.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    on_cuda: f64,
    elsewhere: f64,
}

impl Tolerance {
    const fn everywhere(tolerance: f64) -> Self {
        Self {
            on_cuda: tolerance,
            elsewhere: tolerance,
        }
    }
}

pub(crate) const ELEMENTWISE: Tolerance = Tolerance::everywhere(2e-6);
/// Sums, and what is composed of them.
pub(crate) const SUMS: Tolerance = Tolerance::everywhere(1e-5);
/// Products of matrices, convolutions, and what is composed of them. On an NVIDIA GPU since Ampere,
/// cubecl multiplies matrices of f32 in TF32, which keeps 10 bits of each factor: about 1e-3.
pub(crate) const PRODUCTS: Tolerance = Tolerance {
    on_cuda: 5e-3,
    elsewhere: 1e-5,
};

/// Where a backend is less exact than f32 could be.
struct Looser {
    /// Part of the backend's name.
    backend: &'static str,
    rows: &'static [&'static str],
    /// What the name of the compared value starts with.
    part: &'static str,
    tolerance: f64,
}

const LOOSER: [Looser; 3] = [
    // By the processor's approximate reciprocal, of 12 to 14 bits.
    Looser {
        backend: "ndarray",
        rows: &["log_sigmoid"],
        part: "gradient",
        tolerance: 1e-3,
    },
    // Burn's default for the gradient is that of the approximation with tanh: 7e-4 off.
    Looser {
        backend: "ndarray",
        rows: &["gelu"],
        part: "gradient",
        tolerance: 1e-3,
    },
    Looser {
        backend: "cubecl",
        rows: &["gelu"],
        part: "gradient",
        tolerance: 1e-3,
    },
];

/// What Burn itself computes wrongly, on every backend: row and value.
const WRONG: [(&str, &str); 1] = [
    // burn-autodiff takes the gradient for the repetitions of each element in turn, and it is that of the
    // repetitions of the whole dimension. A dimension of size 1 is right.
    ("repeat_dim", "gradient of input 0"),
];

/// An input as a row describes it: values that are irregular, and the same everywhere.
pub(crate) struct Input {
    shape: Vec<usize>,
    low: f64,
    high: f64,
}

/// Values in `[-2, 2)`.
pub(crate) fn signed<const D: usize>(shape: [usize; D]) -> Input {
    within(-2.0, 2.0, shape)
}

pub(crate) fn within<const D: usize>(low: f64, high: f64, shape: [usize; D]) -> Input {
    let shape = shape.to_vec();
    Input { shape, low, high }
}

/// What a row comes to in f64.
pub(crate) struct Reference {
    pub(crate) name: &'static str,
    pub(crate) tolerance: Tolerance,
    pub(crate) inputs: Vec<Array>,
    pub(crate) output: Array,
    pub(crate) cotangent: Array,
    /// One for each input.
    pub(crate) gradients: Vec<Array>,
}

/// A step of the central differences that f64 adds without rounding to values that are f32.
const STEP: f64 = 1.0 / 65_536.0;

impl Reference {
    pub(crate) fn new(
        name: &'static str,
        tolerance: Tolerance,
        inputs: Vec<Input>,
        naive: impl Fn(&[Array]) -> Array,
    ) -> Self {
        let inputs = draw(inputs);
        let output = naive(&inputs);
        let cotangent = cotangent(&output.shape);
        let scalar = |inputs: &[Array]| -> f64 {
            let output = naive(inputs).values;
            output
                .iter()
                .zip(&cotangent.values)
                .map(|(x, c)| x * c)
                .sum()
        };
        let mut moved = inputs.clone();
        let mut gradients = inputs.clone();
        for (input, gradient) in gradients.iter_mut().enumerate() {
            for (index, slope) in gradient.values.iter_mut().enumerate() {
                let value = inputs[input].values[index];
                moved[input].values[index] = value + STEP;
                let above = scalar(&moved);
                moved[input].values[index] = value - STEP;
                let below = scalar(&moved);
                moved[input].values[index] = value;
                *slope = (above - below) / (2.0 * STEP);
            }
        }
        Self {
            name,
            tolerance,
            inputs,
            output,
            cotangent,
            gradients,
        }
    }
}

/// Irregular values, rounded to f32 so that f64 and f32 start from the same.
pub(crate) fn draw(inputs: Vec<Input>) -> Vec<Array> {
    let mut drawn = 0..;
    inputs
        .into_iter()
        .map(|Input { shape, low, high }| {
            Array::each(&shape, |_| {
                let fraction = fraction(drawn.next().unwrap());
                f64::from((low + fraction * (high - low)) as f32)
            })
        })
        .collect()
}

/// Irregular values in `[-1, 1)`.
pub(crate) fn cotangent(shape: &[usize]) -> Array {
    let mut drawn = 1_000_000..;
    Array::each(shape, |_| {
        f64::from((fraction(drawn.next().unwrap()) * 2.0 - 1.0) as f32)
    })
}

/// Irregular zeros and ones, as a mask.
pub(crate) fn mask(shape: &[usize]) -> Array {
    let mut drawn = 2_000_000..;
    Array::each(shape, |_| (mix(drawn.next().unwrap()) % 2) as f64)
}

/// The inputs of a row on a backend.
pub(crate) struct Leaves<B: Backend> {
    pub(crate) device: B::Device,
    floats: Vec<FloatTensor<B>>,
}

impl<B: AutodiffBackend> Leaves<B> {
    fn new(inputs: &[Array]) -> Self {
        let device = B::Device::default();
        let leaf = |input| B::float_set_require_grad(upload::<B>(input, &device), true);
        let floats = inputs.iter().map(leaf).collect();
        Self { device, floats }
    }

    /// An input.
    pub(crate) fn f<const D: usize>(&self, input: usize) -> Tensor<B, D> {
        Tensor::from_primitive(TensorPrimitive::Float(self.floats[input].clone()))
    }

    /// Floats that no gradient is wanted of.
    pub(crate) fn constant<const D: usize>(&self, values: &Array) -> Tensor<B, D> {
        Tensor::from_primitive(TensorPrimitive::Float(upload::<B>(values, &self.device)))
    }

    pub(crate) fn int<const D: usize>(
        &self,
        values: &[i64],
        shape: [usize; D],
    ) -> Tensor<B, D, Int> {
        Tensor::from_data(TensorData::new(values.to_vec(), shape), &self.device)
    }

    pub(crate) fn bool<const D: usize>(&self, mask: &Array) -> Tensor<B, D, Bool> {
        let values: Vec<bool> = mask.values.iter().map(|x| *x != 0.0).collect();
        let shape = Shape::from(mask.shape.clone());
        Tensor::from_data(TensorData::new(values, shape), &self.device)
    }
}

fn upload<B: Backend>(values: &Array, device: &B::Device) -> FloatTensor<B> {
    let data: Vec<f32> = values.values.iter().map(|x| *x as f32).collect();
    let shape = Shape::from(values.shape.clone());
    B::float_from_data(TensorData::new(data, shape), device)
}

/// A result, without its rank.
pub(crate) enum Output<B: Backend> {
    Float(Vec<usize>, Tensor<B, 1>),
    /// Nothing has a gradient through it.
    Fixed(Array),
}

/// What may come out of a row.
pub(crate) trait Ranked<B: Backend> {
    fn output(self) -> Output<B>;
}

impl<B: Backend, const D: usize> Ranked<B> for Tensor<B, D> {
    fn output(self) -> Output<B> {
        let shape = self.dims();
        let count: usize = shape.iter().product();
        Output::Float(shape.to_vec(), self.reshape([count]))
    }
}

impl<B: Backend, const D: usize> Ranked<B> for Tensor<B, D, Int> {
    fn output(self) -> Output<B> {
        Output::Fixed(download(&self.into_data()))
    }
}

impl<B: Backend, const D: usize> Ranked<B> for Tensor<B, D, Bool> {
    fn output(self) -> Output<B> {
        Output::Fixed(download(&self.into_data()))
    }
}

fn download(data: &TensorData) -> Array {
    Array::new(&data.shape.to_vec(), data.iter::<f64>().collect())
}

pub(crate) type Form<B> = fn(&Leaves<B>) -> Output<B>;

/// A table of rows: name, tolerance, inputs; then the naive form, on arrays; then Burn's, on tensors.
macro_rules! rows {
    ($backend:ident, $x:ident, $a:ident;
     $($name:literal $tolerance:ident [$($input:expr),*] $naive:expr => $form:expr;)*) => {
        #[allow(unused_variables, reason = "not every row has inputs")]
        pub(crate) static REFERENCES: std::sync::LazyLock<Vec<crate::Reference>> =
            std::sync::LazyLock::new(|| {
                vec![$(crate::Reference::new(
                    $name,
                    crate::$tolerance,
                    vec![$($input),*],
                    |$a: &[crate::array::Array]| $naive,
                )),*]
            });

        #[allow(unused_variables, reason = "not every row has inputs")]
        pub(crate) fn forms<$backend: burn_tensor::backend::AutodiffBackend>()
        -> Vec<crate::Form<$backend>> {
            vec![$(|$x: &crate::Leaves<$backend>| {
                crate::Ranked::<$backend>::output($form)
            }),*]
        }
    };
}
pub(crate) use rows;

/// Says which row was running when a panic passes.
struct Running<'a>(&'a str, &'a str);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while running `{}` on {}", self.0, self.1);
        }
    }
}

/// Compares the result and the gradients of one row.
pub(crate) fn check<B: AutodiffBackend>(reference: &Reference, form: Form<B>) -> Vec<String> {
    let backend = B::name(&B::Device::default());
    let _running = Running(reference.name, &backend);
    let mut failures = Vec::new();
    let mut compare = |what: &str, expected: &Array, got: &Array| {
        let name = reference.name;
        let found = difference(expected, got, tolerance(reference, &backend, what));
        match (found, WRONG.contains(&(name, what))) {
            (Some(difference), false) => {
                failures.push(format!("`{name}` on {backend}, {what}: {difference}"));
            }
            (None, true) => failures.push(format!("`{name}` on {backend}, {what}: is right now")),
            _ => {}
        }
    };

    let leaves = Leaves::<B>::new(&reference.inputs);
    let (shape, output) = match form(&leaves) {
        Output::Float(shape, output) => (shape, output),
        Output::Fixed(output) => {
            compare("output", &reference.output, &output);
            return failures;
        }
    };
    let values = download(&output.to_data()).reshaped(&shape);
    compare("output", &reference.output, &values);
    if !reference.inputs.is_empty() {
        let cotangent = Array::new(&[values.values.len()], reference.cotangent.values.clone());
        let grads = (output * leaves.constant(&cotangent)).sum().backward();
        for (input, expected) in reference.gradients.iter().enumerate() {
            let gradient =
                B::grad(&leaves.floats[input], &grads).map(read_float::<B::InnerBackend>);
            let what = format!("gradient of input {input}");
            match gradient {
                Some(gradient) => compare(&what, expected, &download(&gradient)),
                None => compare(&what, expected, &Array::new(&[0], Vec::new())),
            }
        }
    }
    failures
}

fn tolerance(reference: &Reference, backend: &str, what: &str) -> f64 {
    let Tolerance { on_cuda, elsewhere } = reference.tolerance;
    let usual = if backend.contains("cuda") {
        on_cuda
    } else {
        elsewhere
    };
    LOOSER
        .iter()
        .find(|looser| {
            backend.contains(looser.backend)
                && what.starts_with(looser.part)
                && looser.rows.contains(&reference.name)
        })
        .map_or(usual, |looser| looser.tolerance)
}

/// The place where two arrays differ most, if that is more than the tolerance allows.
fn difference(expected: &Array, got: &Array, tolerance: f64) -> Option<String> {
    if expected.shape != got.shape {
        return Some(format!(
            "expected shape {:?}, got {:?}",
            expected.shape, got.shape
        ));
    }
    let distance = |(a, b): (&f64, &f64)| {
        let distance = (a - b).abs();
        if distance.is_nan() {
            f64::INFINITY
        } else {
            distance
        }
    };
    let distances = expected.values.iter().zip(&got.values).map(distance);
    let (worst, distance) = distances
        .enumerate()
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let largest = expected.largest();
    (distance > tolerance * largest).then(|| {
        format!(
            "at {:?} expected {}, got {}: off by {:.1e} of {largest:.3}, allowed {tolerance:.1e}",
            index_of(worst, &expected.shape),
            expected.values[worst],
            got.values[worst],
            distance / largest,
        )
    })
}

fn check_all<B: AutodiffBackend>(references: &LazyLock<Vec<Reference>>, forms: Vec<Form<B>>) {
    assert_eq!(references.len(), forms.len());
    let failures: Vec<String> = references
        .iter()
        .zip(forms)
        .flat_map(|(reference, form)| check::<B>(reference, form))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

macro_rules! families {
    ($($family:ident $on_flex:ident $on_ndarray:ident $on_wgpu:ident $on_cuda:ident)*) => {
        $(
            #[test]
            fn $on_flex() {
                check_all::<Autodiff<VirtualBackend<Flex>>>(
                    &$family::REFERENCES,
                    $family::forms(),
                );
            }

            #[test]
            fn $on_ndarray() {
                check_all::<Autodiff<VirtualBackend<NdArray>>>(
                    &$family::REFERENCES,
                    $family::forms(),
                );
            }

            #[cfg(feature = "wgpu")]
            #[test]
            fn $on_wgpu() {
                check_all::<Autodiff<VirtualBackend<Wgpu>>>(
                    &$family::REFERENCES,
                    $family::forms(),
                );
            }

            #[cfg(feature = "cuda")]
            #[test]
            #[ignore = "needs an NVIDIA GPU"]
            fn $on_cuda() {
                check_all::<Autodiff<VirtualBackend<Cuda>>>(
                    &$family::REFERENCES,
                    $family::forms(),
                );
            }
        )*
    };
}
families! {
    activation activations_on_flex_equal_f64 activations_on_ndarray_equal_f64
        activations_on_wgpu_equal_f64 activations_on_cuda_equal_f64
    conv convolutions_on_flex_equal_f64 convolutions_on_ndarray_equal_f64
        convolutions_on_wgpu_equal_f64 convolutions_on_cuda_equal_f64
    elementwise elementwise_ops_on_flex_equal_f64 elementwise_ops_on_ndarray_equal_f64
        elementwise_ops_on_wgpu_equal_f64 elementwise_ops_on_cuda_equal_f64
    indexing indexing_on_flex_equals_f64 indexing_on_ndarray_equals_f64
        indexing_on_wgpu_equals_f64 indexing_on_cuda_equals_f64
    layers layers_on_flex_equal_f64 layers_on_ndarray_equal_f64
        layers_on_wgpu_equal_f64 layers_on_cuda_equal_f64
    matmul products_on_flex_equal_f64 products_on_ndarray_equal_f64
        products_on_wgpu_equal_f64 products_on_cuda_equal_f64
    pool pools_on_flex_equal_f64 pools_on_ndarray_equal_f64
        pools_on_wgpu_equal_f64 pools_on_cuda_equal_f64
    reduction reductions_on_flex_equal_f64 reductions_on_ndarray_equal_f64
        reductions_on_wgpu_equal_f64 reductions_on_cuda_equal_f64
    shapes reshaped_views_on_flex_equal_f64 reshaped_views_on_ndarray_equal_f64
        reshaped_views_on_wgpu_equal_f64 reshaped_views_on_cuda_equal_f64
}

#[test]
fn exceptions_have_a_row() {
    let names: Vec<&str> = [
        &activation::REFERENCES,
        &conv::REFERENCES,
        &elementwise::REFERENCES,
        &indexing::REFERENCES,
        &layers::REFERENCES,
        &matmul::REFERENCES,
        &pool::REFERENCES,
        &reduction::REFERENCES,
        &shapes::REFERENCES,
    ]
    .into_iter()
    .flat_map(|family| family.iter().map(|reference| reference.name))
    .collect();
    let looser = LOOSER.iter().flat_map(|looser| looser.rows);
    for name in looser.chain(WRONG.iter().map(|(name, _)| name)) {
        assert!(names.contains(name), "no row `{name}`");
    }
}

#[test]
fn values_that_differ_are_named_with_their_place() {
    let expected = Array::new(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]);
    assert!(difference(&expected, &expected, 0.0).is_none());
    let mut got = expected.clone();
    got.values[2] += 1e-5;
    assert!(difference(&expected, &got, SUMS.elsewhere).is_none());
    let text = difference(&expected, &got, ELEMENTWISE.elsewhere).unwrap();
    assert!(
        text.starts_with("at [1, 0] expected 3, got 3.00001"),
        "{text}"
    );
    got.values[1] = f64::NAN;
    let text = difference(&expected, &got, SUMS.elsewhere).unwrap();
    assert!(text.starts_with("at [0, 1] expected 2, got NaN"), "{text}");
    let shape = difference(&expected, &got.reshaped(&[4]), SUMS.elsewhere).unwrap();
    assert_eq!(shape, "expected shape [2, 2], got [4]");
}
