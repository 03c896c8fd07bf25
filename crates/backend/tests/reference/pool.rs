//! Pools.

use burn_tensor::module::{
    adaptive_avg_pool1d, adaptive_avg_pool2d, avg_pool1d, avg_pool2d, max_pool1d, max_pool2d,
};

use crate::array::{Array, mean};
use crate::{rows, signed};

/// One value for each window of an image: of the values in it, and of how many places it has.
fn windows(
    x: &Array,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    value: impl Fn(&[f64], usize) -> f64,
) -> Array {
    let size = |d: usize| (x.shape[2 + d] + 2 * padding[d] - kernel[d]) / stride[d] + 1;
    Array::each(&[x.shape[0], x.shape[1], size(0), size(1)], |i| {
        let mut inside = Vec::new();
        for row in 0..kernel[0] {
            for column in 0..kernel[1] {
                let y = (i[2] * stride[0] + row).wrapping_sub(padding[0]);
                let z = (i[3] * stride[1] + column).wrapping_sub(padding[1]);
                if y < x.shape[2] && z < x.shape[3] {
                    inside.push(x.at(&[i[0], i[1], y, z]));
                }
            }
        }
        value(&inside, kernel[0] * kernel[1])
    })
}

fn largest(inside: &[f64], _places: usize) -> f64 {
    inside.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b))
}

fn mean_inside(inside: &[f64], _places: usize) -> f64 {
    mean(inside)
}

fn mean_of_places(inside: &[f64], places: usize) -> f64 {
    inside.iter().sum::<f64>() / places as f64
}

/// Windows of almost equal size that cover the image, with common rows where they must.
fn adaptive(x: &Array, size: [usize; 2]) -> Array {
    let range = |d: usize, i: usize| {
        let from = x.shape[2 + d];
        i * from / size[d]..((i + 1) * from).div_ceil(size[d])
    };
    Array::each(&[x.shape[0], x.shape[1], size[0], size[1]], |i| {
        let mut inside = Vec::new();
        for y in range(0, i[2]) {
            inside.extend(range(1, i[3]).map(|z| x.at(&[i[0], i[1], y, z])));
        }
        mean(&inside)
    })
}

/// A signal as an image of height one.
fn image(a: &Array) -> Array {
    a.reshaped(&[a.shape[0], a.shape[1], 1, a.shape[2]])
}

fn signal(a: &Array) -> Array {
    a.reshaped(&[a.shape[0], a.shape[1], a.shape[3]])
}

rows! { B, x, a;
    "max_pool1d" ELEMENTWISE [signed([2, 3, 9])] signal(&windows(&image(&a[0]), [1, 3], [1, 2], [0, 1], largest)) => max_pool1d(x.f(0), 3, 2, 1, 1, false);
    "max_pool2d" ELEMENTWISE [signed([2, 3, 6, 4])] windows(&a[0], [2, 2], [2, 2], [0, 0], largest) => max_pool2d(x.f(0), [2, 2], [2, 2], [0, 0], [1, 1], false);
    "max_pool2d of overlapping windows" ELEMENTWISE [signed([2, 3, 7, 5])] windows(&a[0], [3, 2], [2, 1], [1, 0], largest) => max_pool2d(x.f(0), [3, 2], [2, 1], [1, 0], [1, 1], false);
    "avg_pool1d" SUMS [signed([2, 3, 9])] signal(&windows(&image(&a[0]), [1, 3], [1, 2], [0, 1], mean_of_places)) => avg_pool1d(x.f(0), 3, 2, 1, true, false);
    "avg_pool2d" SUMS [signed([2, 3, 6, 4])] windows(&a[0], [2, 2], [2, 2], [0, 0], mean_inside) => avg_pool2d(x.f(0), [2, 2], [2, 2], [0, 0], true, false);
    "avg_pool2d that counts padding" SUMS [signed([2, 3, 7, 5])] windows(&a[0], [3, 2], [2, 1], [1, 0], mean_of_places) => avg_pool2d(x.f(0), [3, 2], [2, 1], [1, 0], true, false);
    "avg_pool2d that leaves padding out" SUMS [signed([2, 3, 7, 5])] windows(&a[0], [3, 2], [2, 1], [1, 0], mean_inside) => avg_pool2d(x.f(0), [3, 2], [2, 1], [1, 0], false, false);
    "adaptive_avg_pool1d" SUMS [signed([2, 3, 9])] signal(&adaptive(&image(&a[0]), [1, 4])) => adaptive_avg_pool1d(x.f(0), 4);
    "adaptive_avg_pool2d" SUMS [signed([2, 3, 7, 5])] adaptive(&a[0], [4, 3]) => adaptive_avg_pool2d(x.f(0), [4, 3]);
    "adaptive_avg_pool2d of whole images" SUMS [signed([2, 3, 5, 4])] adaptive(&a[0], [1, 1]) => adaptive_avg_pool2d(x.f(0), [1, 1]);
}
