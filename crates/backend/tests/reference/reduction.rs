//! Sums, means, extremes and running sums.

use crate::array::{Array, mean, spread, sum};
use crate::{rows, signed, within};

fn one(line: impl Fn(&[f64]) -> f64) -> impl Fn(&[f64]) -> Vec<f64> {
    move |values| vec![line(values)]
}

/// One line of all values.
fn all(a: &Array) -> Array {
    a.reshaped(&[a.values.len()])
}

fn max(line: &[f64]) -> f64 {
    line.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b))
}

fn min(line: &[f64]) -> f64 {
    line.iter().fold(f64::INFINITY, |a, b| a.min(*b))
}

fn place(line: &[f64], value: f64) -> f64 {
    let place = line.iter().position(|x| *x == value);
    place.map_or(f64::NAN, |place| place as f64)
}

fn argmax(line: &[f64]) -> f64 {
    place(line, max(line))
}

fn argmin(line: &[f64]) -> f64 {
    place(line, min(line))
}

fn running(line: &[f64]) -> Vec<f64> {
    (1..=line.len()).map(|end| sum(&line[..end])).collect()
}

fn variance(line: &[f64]) -> f64 {
    spread(line) * line.len() as f64 / (line.len() - 1) as f64
}

rows! { B, x, a;
    "sum" SUMS [signed([9, 11])] all(&a[0]).lines(0, one(sum)) => x.f::<2>(0).sum();
    "sum of a transposed view" SUMS [signed([9, 11])] all(&a[0]).lines(0, one(sum)) => x.f::<2>(0).transpose().sum();
    "mean" SUMS [signed([9, 11])] all(&a[0]).lines(0, one(mean)) => x.f::<2>(0).mean();
    "sum_dim of the first dimension" SUMS [signed([9, 5])] a[0].lines(0, one(sum)) => x.f::<2>(0).sum_dim(0);
    "sum_dim of a middle dimension" SUMS [signed([2, 9, 5])] a[0].lines(1, one(sum)) => x.f::<3>(0).sum_dim(1);
    "sum_dim of the last dimension" SUMS [signed([5, 33])] a[0].lines(1, one(sum)) => x.f::<2>(0).sum_dim(1);
    "sum_dim of a transposed view" SUMS [signed([9, 5])] a[0].permuted(&[1, 0]).lines(1, one(sum)) => x.f::<2>(0).transpose().sum_dim(1);
    "sum_dim of a column" SUMS [signed([5, 1])] a[0].lines(1, one(sum)) => x.f::<2>(0).sum_dim(1);
    "mean_dim of the first dimension" SUMS [signed([9, 5])] a[0].lines(0, one(mean)) => x.f::<2>(0).mean_dim(0);
    "mean_dim of the last dimension" SUMS [signed([5, 33])] a[0].lines(1, one(mean)) => x.f::<2>(0).mean_dim(1);
    "var" SUMS [signed([5, 9])] a[0].lines(1, one(variance)) => x.f::<2>(0).var(1);
    "var_bias" SUMS [signed([5, 9])] a[0].lines(0, one(spread)) => x.f::<2>(0).var_bias(0);
    "prod_dim" SUMS [within(0.5, 1.5, [5, 9])] a[0].lines(1, one(|line| line.iter().product())) => x.f::<2>(0).prod_dim(1);
    "max" ELEMENTWISE [signed([5, 9])] all(&a[0]).lines(0, one(max)) => x.f::<2>(0).max();
    "min" ELEMENTWISE [signed([5, 9])] all(&a[0]).lines(0, one(min)) => x.f::<2>(0).min();
    "max_dim of the first dimension" ELEMENTWISE [signed([9, 5])] a[0].lines(0, one(max)) => x.f::<2>(0).max_dim(0);
    "max_dim of the last dimension" ELEMENTWISE [signed([5, 9])] a[0].lines(1, one(max)) => x.f::<2>(0).max_dim(1);
    "min_dim of a middle dimension" ELEMENTWISE [signed([2, 9, 5])] a[0].lines(1, one(min)) => x.f::<3>(0).min_dim(1);
    "max_dim_with_indices, values" ELEMENTWISE [signed([5, 9])] a[0].lines(1, one(max)) => x.f::<2>(0).max_dim_with_indices(1).0;
    "max_dim_with_indices, indices" ELEMENTWISE [signed([5, 9])] a[0].lines(1, one(argmax)) => x.f::<2>(0).max_dim_with_indices(1).1;
    "argmax of the first dimension" ELEMENTWISE [signed([9, 5])] a[0].lines(0, one(argmax)) => x.f::<2>(0).argmax(0);
    "argmax of the last dimension" ELEMENTWISE [signed([5, 33])] a[0].lines(1, one(argmax)) => x.f::<2>(0).argmax(1);
    "argmin" ELEMENTWISE [signed([5, 33])] a[0].lines(1, one(argmin)) => x.f::<2>(0).argmin(1);
    "cumsum of the first dimension" SUMS [signed([9, 5])] a[0].lines(0, running) => x.f::<2>(0).cumsum(0);
    "cumsum of the last dimension" SUMS [signed([5, 9])] a[0].lines(1, running) => x.f::<2>(0).cumsum(1);
    "sum of ints" ELEMENTWISE [] Array::new(&[1], vec![12.0]) => x.int(&[3, -4, 7, 6], [2, 2]).sum();
    "sum_dim of ints" ELEMENTWISE [] Array::new(&[2, 1], vec![-1.0, 13.0]) => x.int(&[3, -4, 7, 6], [2, 2]).sum_dim(1);
}
