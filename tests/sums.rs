//! Sums, means and norms of large tensors: the same bits whatever the threads and the layout.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn::tensor::{Tensor, TensorData};
use burn_virtual::nodes::LossSum;
use burn_virtual::plan::kernel;

use common::{OnFlex, OneParam, fraction, start};

type B = OnFlex;

const THREADS: [usize; 3] = [1, 2, 8];

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap()
        .install(work)
}

/// A matrix, and a view of equal values whose buffer lies the other way round.
fn both_layouts(rows: usize, columns: usize) -> [Tensor<B, 2>; 2] {
    let values: Vec<f32> = (0..rows * columns)
        .map(|index| fraction(index as u64) - 0.5)
        .collect();
    let device = Default::default();
    let swapped: Vec<f32> = (0..rows * columns)
        .map(|index| values[index % rows * columns + index / rows])
        .collect();
    let swapped = TensorData::new(swapped, [columns, rows]);
    let straight = Tensor::from_data(TensorData::new(values, [rows, columns]), &device);
    [
        straight,
        Tensor::<B, 2>::from_data(swapped, &device).transpose(),
    ]
}

/// Sum, mean, the sum's gradient and the norm, all as bits.
fn reduce(matrix: &Tensor<B, 2>) -> [u64; 4] {
    let scalar = |tensor: Tensor<B, 1>| {
        let value: f32 = tensor.into_data().iter::<f32>().next().unwrap();
        u64::from(value.to_bits())
    };
    let leaf = matrix.clone().require_grad();
    let gradients = (leaf.clone() * leaf.clone()).mean().backward();
    let gradient = leaf.grad(&gradients).unwrap().sum().into_data();
    let data = matrix.clone().into_data();
    [
        scalar(matrix.clone().sum()),
        scalar(matrix.clone().mean()),
        u64::from(gradient.iter::<f32>().next().unwrap().to_bits()),
        kernel::norm(data.as_slice::<f32>().unwrap()).to_bits(),
    ]
}

fn assert_same_bits(rows: usize, columns: usize) {
    let layouts = both_layouts(rows, columns);
    let mut seen = Vec::new();
    for threads in THREADS {
        for matrix in &layouts {
            // Twice: without the fixed order, 8 threads differ from call to call.
            for _ in 0..2 {
                seen.push(on_threads(threads, || reduce(matrix)));
            }
        }
    }
    assert!(seen.iter().all(|bits| *bits == seen[0]), "{seen:?}");
    let norm = f64::from_bits(seen[0][3]);
    // Uniform in -0.5..0.5: the mean square is 1/12.
    let expected = ((rows * columns) as f64 / 12.0).sqrt();
    assert!(
        (norm / expected - 1.0).abs() < 1e-2,
        "{norm}, not about {expected}"
    );
}

#[test]
fn bits_are_equal_for_4_200_000_elements() {
    assert_same_bits(2_100, 2_000);
}

#[test]
fn bits_are_equal_for_9_000_000_elements() {
    assert_same_bits(3_000, 3_000);
}

/// The same through a session: the loss is a tensor sum, the norm is the host's.
#[test]
fn loss_and_norm_are_equal_when_a_parameter_has_4_200_000_elements() {
    let values: Vec<f32> = (0..4_200_000).map(|index| fraction(index) - 0.5).collect();
    let run = |shares: &[usize]| {
        let mut model = OneParam::<B>::new(&values);
        let mut session = start(shares, &mut model);
        let inputs = Tensor::<B, 1>::from_data([1.0, 0.5, 0.25], &Default::default());
        let loss = |model: &OneParam<B>, micro: Tensor<B, 1>| {
            let weight = micro.dims()[0] as f64;
            let squares = model.w.val() * model.w.val();
            LossSum {
                sum: squares.sum() * micro.sum(),
                weight,
            }
        };
        let out = session.backward_batch(&model, &inputs, loss).unwrap();
        (out.loss.to_bits(), out.norm.to_bits())
    };
    let expected = run(&[2]);
    for threads in THREADS {
        assert_eq!(
            on_threads(threads, || run(&[2])),
            expected,
            "{threads} threads"
        );
        assert_eq!(
            on_threads(threads, || run(&[1, 1])),
            expected,
            "{threads} threads, 2 ranks"
        );
    }
}
