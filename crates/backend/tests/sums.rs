//! Full sums and means: the same bits whatever the threads and the memory layout.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::FloatTensor;
use burn_backend::{FloatDType, Shape, Slice, TensorData, TensorMetadata};
use burn_flex::Flex;
use burn_virtual_backend::VirtualBackend;

use common::{floats, fraction, on_threads, read_float, values};

type V = VirtualBackend<Flex>;
type Op = fn(FloatTensor<V>) -> FloatTensor<V>;

const THREADS: [usize; 3] = [1, 2, 8];

fn bits(tensor: FloatTensor<V>) -> u32 {
    let data = read_float::<V>(tensor);
    assert_eq!(data.num_elements(), 1);
    data.iter::<f32>().next().unwrap().to_bits()
}

/// A matrix, and a view of equal values whose buffer lies the other way round.
fn both_layouts(rows: usize, columns: usize) -> [FloatTensor<V>; 2] {
    let values = values(rows * columns);
    let swapped: Vec<f32> = (0..columns * rows)
        .map(|index| values[index % rows * columns + index / rows])
        .collect();
    let device = Default::default();
    let straight = TensorData::new(values, Shape::from([rows, columns]));
    let swapped = TensorData::new(swapped, Shape::from([columns, rows]));
    [
        V::float_from_data(straight, &device),
        V::float_transpose(V::float_from_data(swapped, &device)),
    ]
}

fn same_bits_everywhere(rows: usize, columns: usize) {
    let count = rows * columns;
    let exact: f64 = values(count).into_iter().map(f64::from).sum();
    let layouts = both_layouts(rows, columns);
    let cases: [(Op, f64, f64); 2] = [
        (V::float_sum, exact, 0.5),
        (V::float_mean, exact / count as f64, 1e-6),
    ];
    for (op, expected, tolerance) in cases {
        let mut seen: Vec<u32> = Vec::new();
        for threads in THREADS {
            for tensor in &layouts {
                // Twice: the inner backend's own order differs from call to call at 8 threads.
                for _ in 0..2 {
                    let tensor = tensor.clone();
                    seen.push(on_threads(threads, || bits(op(tensor))));
                }
            }
        }
        assert!(seen.iter().all(|bits| *bits == seen[0]), "{seen:x?}");
        let found = f64::from(f32::from_bits(seen[0]));
        assert!(
            (found - expected).abs() < tolerance,
            "{found}, expected {expected}"
        );
    }
}

#[test]
fn sum_and_mean_of_4_200_000_elements_have_the_same_bits_on_any_threads_in_any_layout() {
    same_bits_everywhere(2100, 2000);
}

#[test]
fn sum_and_mean_of_9_000_000_elements_have_the_same_bits_on_any_threads_in_any_layout() {
    same_bits_everywhere(3000, 3000);
}

#[test]
fn sums_of_small_transposed_views_equal_those_of_contiguous_copies() {
    for index in 0..50 {
        let (rows, columns) = (2 + index % 7 * 13, 3 + index % 11 * 17);
        let [straight, swapped] = both_layouts(rows, columns);
        let ops: [Op; 2] = [V::float_sum, V::float_mean];
        for op in ops {
            assert_eq!(
                bits(op(straight.clone())),
                bits(op(swapped.clone())),
                "{rows} x {columns}"
            );
        }
    }
}

#[test]
fn sums_of_slices_flips_and_broadcasts_equal_those_of_contiguous_copies() {
    let matrix = || floats::<V, 2>([200, 300]);
    let views: [FloatTensor<V>; 3] = [
        V::float_slice(matrix(), &[Slice::from(10..150), Slice::new(0, None, 3)]),
        V::float_flip(matrix(), &[0, 1]),
        V::float_expand(floats::<V, 2>([1, 300]), Shape::from([200, 300])),
    ];
    for view in views {
        let data = read_float::<V>(view.clone());
        let copy = V::float_from_data(data, &Default::default());
        assert_eq!(
            bits(V::float_sum(view.clone())),
            bits(V::float_sum(copy.clone()))
        );
        assert_eq!(bits(V::float_mean(view)), bits(V::float_mean(copy)));
    }
}

#[test]
fn sums_around_the_chunk_size_count_every_element_once() {
    const CHUNK: usize = 1 << 20;
    for count in [
        CHUNK - 1,
        CHUNK,
        CHUNK + 1,
        2 * CHUNK,
        2 * CHUNK + 1,
        3 * CHUNK - 1,
    ] {
        let ones = V::float_ones([count].into(), &Default::default(), FloatDType::F32);
        assert_eq!(
            read_float::<V>(V::float_sum(ones.clone())),
            TensorData::from([count as f32])
        );
        assert_eq!(
            read_float::<V>(V::float_mean(ones)),
            TensorData::from([1.0_f32])
        );
    }
}

#[test]
fn sum_of_no_elements_is_positive_zero_in_any_layout() {
    // The inner backend gives -0.0 for an empty slice.
    let empty = floats::<V, 2>([0, 4]);
    let slice = V::float_slice(floats::<V, 2>([3, 4]), &[Slice::from(1..1)]);
    for tensor in [empty, slice] {
        assert_eq!(bits(V::float_sum(tensor)), 0.0_f32.to_bits());
    }
}

#[test]
fn sum_keeps_dtype_and_shape_of_the_inner_backend() {
    for dtype in [
        FloatDType::F64,
        FloatDType::F32,
        FloatDType::F16,
        FloatDType::BF16,
    ] {
        for shape in [[3, 5], [1100, 1000]] {
            let device = Default::default();
            let inner = Flex::float_zeros(shape.into(), &device, dtype);
            let ours = V::float_zeros(shape.into(), &device, dtype);
            for (expected, found) in [
                (Flex::float_sum(inner.clone()), V::float_sum(ours.clone())),
                (Flex::float_mean(inner), V::float_mean(ours)),
            ] {
                assert_eq!(found.dtype(), expected.dtype());
                assert_eq!(found.shape(), expected.shape());
            }
        }
    }
}

#[test]
fn mean_of_5_000_000_half_precision_ones_is_one() {
    for dtype in [FloatDType::F16, FloatDType::BF16] {
        for threads in THREADS {
            let ones = V::float_ones([5_000_000].into(), &Default::default(), dtype);
            let mean = on_threads(threads, || V::float_mean(ones));
            assert_eq!(mean.dtype(), dtype.into());
            let found = read_float::<V>(mean).iter::<f32>().next().unwrap();
            assert_eq!(found, 1.0, "{dtype:?}");
        }
    }
}

#[test]
fn half_precision_means_have_the_same_bits_on_any_threads() {
    let values: Vec<f32> = (0..4_300_000).map(|index| fraction(index) as f32).collect();
    let tensor = V::float_cast(
        V::float_from_data(TensorData::new(values, [4_300_000]), &Default::default()),
        FloatDType::BF16,
    );
    let means = THREADS.map(|threads| {
        let tensor = tensor.clone();
        bits(on_threads(threads, || V::float_mean(tensor)))
    });
    assert!(means.iter().all(|mean| *mean == means[0]));
    assert!((f32::from_bits(means[0]) - 0.5).abs() < 0.01);
}

/// A GPU adds in pieces of its own: below, at and above the sizes where the way changes.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod gpu {
    use burn_backend::Backend;

    use super::*;

    common::on_gpus! {
        sum_and_mean_are_right_and_repeat_their_bits
        sum_and_mean_along_a_dimension_are_right_and_repeat_their_bits
        sums_of_transposed_views_equal_those_of_contiguous_copies
    }

    const COUNTS: [usize; 7] = [0, 1, 1000, 1024, 21_000, 1 << 18, (1 << 20) + 7];
    const TIMES: usize = 5;

    /// What a reduction comes to, equal each time.
    fn repeated<V: Backend>(reduce: impl Fn() -> FloatTensor<V>) -> Vec<f32> {
        let run = || -> Vec<f32> { read_float::<V>(reduce()).iter().collect() };
        let bits = |values: &[f32]| -> Vec<u32> { values.iter().map(|v| v.to_bits()).collect() };
        let first = run();
        for _ in 1..TIMES {
            assert_eq!(bits(&run()), bits(&first));
        }
        first
    }

    /// Whether each sum is that of its numbers, and each mean it divided by `count`.
    fn assert_reduced(sums: &[f32], means: &[f32], exact: &[f64], count: usize) {
        assert_eq!((sums.len(), means.len()), (exact.len(), exact.len()));
        let tolerance = 1e-6 + 1e-7 * count as f64;
        for ((&sum, &mean), exact) in sums.iter().zip(means).zip(exact) {
            assert!(
                (f64::from(sum) - exact).abs() < tolerance,
                "sum of {count}: {sum}, expected {exact}"
            );
            if count == 0 {
                assert_eq!(sum.to_bits(), 0.0_f32.to_bits());
                assert!(mean.is_nan(), "mean of nothing: {mean}");
            } else {
                let exact = exact / count as f64;
                assert!(
                    (f64::from(mean) - exact).abs() < tolerance / count as f64,
                    "mean of {count}: {mean}, expected {exact}"
                );
            }
        }
    }

    fn sum_and_mean_are_right_and_repeat_their_bits<V: Backend>() {
        for count in COUNTS {
            let exact = values(count).into_iter().map(f64::from).sum();
            let tensor = floats::<V, 1>([count]);
            let sum = repeated::<V>(|| V::float_sum(tensor.clone()));
            let mean = repeated::<V>(|| V::float_mean(tensor.clone()));
            assert_reduced(&sum, &mean, &[exact], count);
        }
    }

    fn sum_and_mean_along_a_dimension_are_right_and_repeat_their_bits<V: Backend>() {
        const OTHERS: usize = 3;
        for count in COUNTS {
            let values = values(OTHERS * count);
            let exact = |first: usize, stride: usize| -> f64 {
                let line = values.iter().skip(first).step_by(stride).take(count);
                line.copied().map(f64::from).sum()
            };
            let along_rows = [0, 1, 2].map(|row| exact(row * count, 1));
            let along_columns = [0, 1, 2].map(|column| exact(column, OTHERS));
            let cases = [
                ([count, OTHERS], 0, along_columns),
                ([OTHERS, count], 1, along_rows),
            ];
            for (shape, dim, exact) in cases {
                let tensor = floats::<V, 2>(shape);
                let sums = repeated::<V>(|| V::float_sum_dim(tensor.clone(), dim));
                let means = repeated::<V>(|| V::float_mean_dim(tensor.clone(), dim));
                assert_reduced(&sums, &means, &exact, count);
            }
        }
    }

    fn sums_of_transposed_views_equal_those_of_contiguous_copies<V: Backend>() {
        for (rows, columns) in [(3, 5), (70, 300), (1100, 1000)] {
            let straight = floats::<V, 2>([rows, columns]);
            let view = V::float_transpose(straight);
            let copy = V::float_from_data(read_float::<V>(view.clone()), &Default::default());
            for op in [V::float_sum, V::float_mean] {
                let of_view = repeated::<V>(|| op(view.clone()));
                assert_eq!(
                    of_view,
                    repeated::<V>(|| op(copy.clone())),
                    "{rows} x {columns}"
                );
            }
        }
    }
}
