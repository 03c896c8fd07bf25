//! Sizes at which other kernels and other orders of additions come in. Central differences would take
//! too long here: gradients are in closed form.

use burn_autodiff::Autodiff;
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_tensor::Tensor;
use burn_tensor::backend::{AutodiffBackend, Backend};
use burn_tensor::module::conv2d;
#[cfg(feature = "cuda")]
use burn_virtual_backend::Cuda;
use burn_virtual_backend::VirtualBackend;
#[cfg(feature = "wgpu")]
use burn_virtual_backend::Wgpu;

use crate::array::{Array, product, sum};
use crate::common::mix;
use crate::{
    ELEMENTWISE, Form, Output, PRODUCTS, Ranked, Reference, SUMS, Tolerance, check, conv,
    cotangent, draw, signed,
};

fn reference(
    name: &'static str,
    tolerance: Tolerance,
    inputs: Vec<Array>,
    output: Array,
    gradients: impl FnOnce(&[Array], &Array) -> Vec<Array>,
) -> Reference {
    let cotangent = cotangent(&output.shape);
    let gradients = gradients(&inputs, &cotangent);
    Reference {
        name,
        tolerance,
        inputs,
        output,
        cotangent,
        gradients,
    }
}

fn products<B: AutodiffBackend>() -> Vec<String> {
    let shapes = [
        ([70, 130], [130, 65]),
        ([64, 128], [128, 64]),
        ([5, 1030], [1030, 3]),
        ([257, 66], [66, 1]),
        ([1, 514], [514, 129]),
    ];
    let mut failures = Vec::new();
    for (left, right) in shapes {
        let inputs = draw(vec![signed(left), signed(right)]);
        let output = product(&inputs[0], &inputs[1]);
        let reference = reference("large matmul", PRODUCTS, inputs, output, |a, c| {
            vec![
                product(c, &a[1].permuted(&[1, 0])),
                product(&a[0].permuted(&[1, 0]), c),
            ]
        });
        failures.extend(check::<B>(&reference, |x| {
            x.f::<2>(0).matmul(x.f::<2>(1)).output()
        }));
    }
    failures
}

fn convolutions<B: AutodiffBackend>() -> Vec<String> {
    let inputs = draw(vec![
        signed([4, 8, 10, 9]),
        signed([16, 8, 3, 3]),
        signed([16]),
    ]);
    let options = conv::options(1, 1, 1, 1);
    let output = conv::naive(&inputs, &options);
    let reference = reference("large conv2d", PRODUCTS, inputs, output, |a, cotangent| {
        let mut gradients: Vec<_> = a.iter().map(|input| input.map(|_| 0.0)).collect();
        Array::each(&cotangent.shape, |i| {
            let c = cotangent.at(i);
            conv::terms(i, &a[0], &a[1], &options, |x, weight| {
                *gradients[0].at_mut(x) += c * a[1].at(weight);
                *gradients[1].at_mut(weight) += c * a[0].at(x);
            });
            *gradients[2].at_mut(&[i[1]]) += c;
            c
        });
        gradients
    });
    check::<B>(&reference, |x| {
        conv2d(x.f(0), x.f(1), Some(x.f(2)), conv::options(1, 1, 1, 1)).output()
    })
}

/// Irregular eighths below 2: every order of adding a million of them gives the same f32.
fn eighths(shape: &[usize]) -> Array {
    let mut drawn = 0..;
    Array::each(shape, |_| (mix(drawn.next().unwrap()) % 16) as f64 / 8.0)
}

fn totals<B: AutodiffBackend>() -> Vec<String> {
    let mut failures = Vec::new();
    for shape in [[1, 1_100_003], [1049, 1050]] {
        let input = eighths(&shape);
        let (total, count) = (sum(&input.values), input.values.len() as f64);
        let ways: [(&str, f64, f64, Form<B>); 4] = [
            ("sum of a million", total, 1.0, |x| {
                x.f::<2>(0).sum().output()
            }),
            ("mean of a million", total / count, 1.0 / count, |x| {
                x.f::<2>(0).mean().output()
            }),
            ("sum of a million, transposed", total, 1.0, |x| {
                x.f::<2>(0).transpose().sum().output()
            }),
            (
                "mean of a million, transposed",
                total / count,
                1.0 / count,
                |x| x.f::<2>(0).transpose().mean().output(),
            ),
        ];
        for (name, value, slope, form) in ways {
            let output = Array::new(&[1], vec![value]);
            let inputs = vec![input.clone()];
            let reference = reference(name, ELEMENTWISE, inputs, output, |a, c| {
                vec![a[0].map(|_| c.values[0] * slope)]
            });
            failures.extend(check::<B>(&reference, form));
        }
    }
    failures
}

macro_rules! large {
    ($($what:ident $on_flex:ident $on_ndarray:ident $on_wgpu:ident $on_cuda:ident)*) => {
        $(
            #[test]
            fn $on_flex() {
                none($what::<Autodiff<VirtualBackend<Flex>>>());
            }

            #[test]
            fn $on_ndarray() {
                none($what::<Autodiff<VirtualBackend<NdArray>>>());
            }

            #[cfg(feature = "wgpu")]
            #[test]
            fn $on_wgpu() {
                none($what::<Autodiff<VirtualBackend<Wgpu>>>());
            }

            #[cfg(feature = "cuda")]
            #[test]
            #[ignore = "needs an NVIDIA GPU"]
            fn $on_cuda() {
                none($what::<Autodiff<VirtualBackend<Cuda>>>());
            }
        )*
    };
}
large! {
    products large_products_on_flex_equal_f64 large_products_on_ndarray_equal_f64
        large_products_on_wgpu_equal_f64 large_products_on_cuda_equal_f64
    convolutions large_convolutions_on_flex_equal_f64 large_convolutions_on_ndarray_equal_f64
        large_convolutions_on_wgpu_equal_f64 large_convolutions_on_cuda_equal_f64
    totals totals_of_a_million_on_flex_equal_f64 totals_of_a_million_on_ndarray_equal_f64
        totals_of_a_million_on_wgpu_equal_f64 totals_of_a_million_on_cuda_equal_f64
    sums long_sums_on_flex_equal_f64 long_sums_on_ndarray_equal_f64
        long_sums_on_wgpu_equal_f64 long_sums_on_cuda_equal_f64
    extremes long_extremes_on_flex_equal_f64 long_extremes_on_ndarray_equal_f64
        long_extremes_on_wgpu_equal_f64 long_extremes_on_cuda_equal_f64
    running_sums long_running_sums_on_flex_equal_f64 long_running_sums_on_ndarray_equal_f64
        long_running_sums_on_wgpu_equal_f64 long_running_sums_on_cuda_equal_f64
}

fn none(failures: Vec<String>) {
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// An operation along one dimension of a matrix.
struct Along<B: AutodiffBackend> {
    name: &'static str,
    /// The value at a place of a line of some length.
    value: fn(usize, usize) -> f64,
    naive: fn(&[f64]) -> Vec<f64>,
    /// What the gradient of each value is, in units of the cotangent of its line; if it has one.
    slope: fn(f64) -> f64,
    rows: Form<B>,
    columns: Form<B>,
}

macro_rules! along {
    ($name:literal $value:ident $naive:expr, $slope:expr, |$x:ident, $dim:ident| $form:expr) => {
        Along {
            name: $name,
            value: $value,
            naive: $naive,
            slope: $slope,
            rows: |leaves| {
                let ($x, $dim) = (leaves.f::<2>(0), 1);
                $form
            },
            columns: |leaves| {
                let ($x, $dim) = (leaves.f::<2>(0), 0);
                $form
            },
        }
    };
}

/// Eighths of both signs: sums of half a million of them are exact.
fn irregular(place: usize, _size: usize) -> f64 {
    (mix(place as u64) % 32) as f64 / 8.0 - 2.0
}

/// The largest is the last but one.
fn rising(place: usize, size: usize) -> f64 {
    if place + 1 == size { 0.0 } else { place as f64 }
}

fn falling(place: usize, size: usize) -> f64 {
    -rising(place, size)
}

/// Ones, with a power of two now and then.
fn factors(place: usize, size: usize) -> f64 {
    match (size - place) % 10_000 {
        2 => 2.0,
        5_000 => 0.25,
        7_000 => 4.0,
        _ => 1.0,
    }
}

fn last_but_one(line: &[f64]) -> Vec<f64> {
    vec![line[line.len() - 2]]
}

fn place_of_last_but_one(line: &[f64]) -> Vec<f64> {
    vec![(line.len() - 2) as f64]
}

fn running(line: &[f64]) -> Vec<f64> {
    let mut total = 0.0;
    let add = |x: &f64| {
        total += x;
        total
    };
    line.iter().map(add).collect()
}

/// The kernel itself, which a model reaches without gradients: with them, Burn composes some operations
/// of others.
fn fixed<B: Backend, const D: usize>(x: Tensor<B, D>) -> Array {
    crate::download(&x.into_data())
}

fn sums<B: AutodiffBackend>() -> Vec<String> {
    let ops = [
        along!("sum_dim" irregular |l| vec![sum(l)], |_| 1.0, |x, dim| x.sum_dim(dim).output()),
        along!("mean_dim" irregular |l| vec![sum(l) / l.len() as f64], |n| 1.0 / n, |x, dim| {
            x.mean_dim(dim).output()
        }),
    ];
    lines::<B>(&ops, &LONGEST_SUMS)
}

fn extremes<B: AutodiffBackend>() -> Vec<String> {
    let ops = [
        along!("max_dim" rising last_but_one, |_| 0.0, |x, dim| {
            Output::Fixed(fixed(x.inner().max_dim(dim)))
        }),
        along!("max_dim with gradients" rising last_but_one, |_| 0.0, |x, dim| {
            Output::Fixed(fixed(x.max_dim(dim)))
        }),
        along!("min_dim" falling last_but_one, |_| 0.0, |x, dim| {
            Output::Fixed(fixed(x.inner().min_dim(dim)))
        }),
        along!("argmax" rising place_of_last_but_one, |_| 0.0, |x, dim| {
            x.argmax(dim).output()
        }),
        along!("argmin" falling place_of_last_but_one, |_| 0.0, |x, dim| {
            x.argmin(dim).output()
        }),
        along!("prod_dim" factors |l| vec![l.iter().product()], |_| 0.0, |x, dim| {
            Output::Fixed(fixed(x.inner().prod_dim(dim)))
        }),
    ];
    lines::<B>(&ops, &LONGEST_LOOPS)
}

fn running_sums<B: AutodiffBackend>() -> Vec<String> {
    let ops = [along!("cumsum" irregular running, |_| 0.0, |x, dim| {
        Output::Fixed(fixed(x.inner().cumsum(dim)))
    })];
    lines::<B>(&ops, &LONGEST_LOOPS)
}

/// What the backends of this crate add up whole, and what they have to split for a GPU.
const LONGEST_SUMS: [usize; 4] = [1 << 16, 1 << 17, 1 << 18, 1 << 19];

/// Mesa's software Vulkan ends the loops of a shader after 65,535 rounds, all of them together, and
/// nothing splits these.
const LONGEST_LOOPS: [usize; 1] = [1 << 15];

fn lines<B: AutodiffBackend>(ops: &[Along<B>], sizes: &[usize]) -> Vec<String> {
    let mut failures = Vec::new();
    // On a processor nothing changes with the size.
    let on_gpu = B::name(&B::Device::default()).contains("cubecl");
    let sizes = if on_gpu { sizes } else { &sizes[..1] };
    for op in ops {
        for &size in sizes {
            for (shape, dim, form) in [
                ([2, size], 1, op.rows),
                ([2, size + 1], 1, op.rows),
                ([size, 3], 0, op.columns),
            ] {
                let length = shape[dim];
                let input = Array::each(&shape, |i| (op.value)(i[dim], length));
                let output = input.lines(dim, op.naive);
                let reference = reference(op.name, SUMS, vec![input], output, |a, c| {
                    let slope = (op.slope)(length as f64);
                    match slope {
                        0.0 => Vec::new(),
                        _ => vec![a[0].zip(c, |_, c| c * slope)],
                    }
                });
                let found = check::<B>(&reference, form);
                failures.extend(found.iter().map(|found| format!("{shape:?}: {found}")));
            }
        }
    }
    failures
}
