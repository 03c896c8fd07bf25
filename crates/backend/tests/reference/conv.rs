//! Convolutions. One dimension is two dimensions with a height of one.

use burn_tensor::module::{conv_transpose1d, conv_transpose2d, conv1d, conv2d};
use burn_tensor::ops::{ConvOptions, ConvTransposeOptions};

use crate::array::Array;
use crate::{rows, signed};

pub(crate) fn options<const N: usize>(
    stride: usize,
    padding: usize,
    dilation: usize,
    groups: usize,
) -> ConvOptions<N> {
    ConvOptions::new([stride; N], [padding; N], [dilation; N], groups)
}

/// Images are batch by channels by height by width, weights out by in by height by width.
pub(crate) fn naive(a: &[Array], options: &ConvOptions<2>) -> Array {
    let (x, weight) = (&a[0], &a[1]);
    Array::each(&output_shape(x, weight, options), |i| {
        let mut total = a.get(2).map_or(0.0, |bias| bias.at(&[i[1]]));
        terms(i, x, weight, options, |x_index, weight_index| {
            total += x.at(x_index) * weight.at(weight_index);
        });
        total
    })
}

fn output_shape(x: &Array, weight: &Array, options: &ConvOptions<2>) -> [usize; 4] {
    let size = |d: usize| {
        let reach = options.dilation[d] * (weight.shape[2 + d] - 1);
        (x.shape[2 + d] + 2 * options.padding[d] - reach - 1) / options.stride[d] + 1
    };
    [x.shape[0], weight.shape[0], size(0), size(1)]
}

/// Which input is multiplied by which weight for one output.
pub(crate) fn terms(
    output: &[usize],
    x: &Array,
    weight: &Array,
    options: &ConvOptions<2>,
    mut term: impl FnMut(&[usize], &[usize]),
) {
    let group = output[1] / (weight.shape[0] / options.groups);
    let place = |d: usize, k: usize| {
        let place = output[2 + d] * options.stride[d] + k * options.dilation[d];
        let place = place.checked_sub(options.padding[d])?;
        (place < x.shape[2 + d]).then_some(place)
    };
    for c in 0..weight.shape[1] {
        for row in 0..weight.shape[2] {
            for column in 0..weight.shape[3] {
                if let (Some(y), Some(z)) = (place(0, row), place(1, column)) {
                    let channel = group * weight.shape[1] + c;
                    term(&[output[0], channel, y, z], &[output[1], c, row, column]);
                }
            }
        }
    }
}

fn transposed<const N: usize>(
    stride: usize,
    padding: usize,
    padding_out: usize,
    dilation: usize,
    groups: usize,
) -> ConvTransposeOptions<N> {
    let (padding, padding_out) = ([padding; N], [padding_out; N]);
    ConvTransposeOptions::new([stride; N], padding, padding_out, [dilation; N], groups)
}

/// Weights are in by out by height by width.
fn naive_transposed(a: &[Array], options: &ConvTransposeOptions<2>) -> Array {
    let (x, weight) = (&a[0], &a[1]);
    let size = |d: usize| {
        let reach = options.dilation[d] * (weight.shape[2 + d] - 1);
        (x.shape[2 + d] - 1) * options.stride[d] + reach + options.padding_out[d] + 1
            - 2 * options.padding[d]
    };
    let (inputs, outputs) = (x.shape[1] / options.groups, weight.shape[1]);
    let shape = [x.shape[0], outputs * options.groups, size(0), size(1)];
    Array::each(&shape, |i| {
        let group = i[1] / outputs;
        let mut total = a.get(2).map_or(0.0, |bias| bias.at(&[i[1]]));
        for c in group * inputs..(group + 1) * inputs {
            for row in 0..weight.shape[2] {
                for column in 0..weight.shape[3] {
                    let place = |d: usize, k: usize| {
                        (i[2 + d] + options.padding[d])
                            .checked_sub(k * options.dilation[d])
                            .filter(|place| place.is_multiple_of(options.stride[d]))
                            .map(|place| place / options.stride[d])
                            .filter(|place| *place < x.shape[2 + d])
                    };
                    if let (Some(y), Some(z)) = (place(0, row), place(1, column)) {
                        total +=
                            x.at(&[i[0], c, y, z]) * weight.at(&[c, i[1] % outputs, row, column]);
                    }
                }
            }
        }
        total
    })
}

/// The first two, signals and weights, as images of height one.
fn flat(a: &[Array]) -> Vec<Array> {
    let mut images = a.to_vec();
    for image in &mut images[..2] {
        image.shape.insert(2, 1);
    }
    images
}

fn signals(mut images: Array) -> Array {
    images.shape.remove(2);
    images
}

fn naive1(a: &[Array], options: &ConvOptions<1>) -> Array {
    let ConvOptions {
        stride: [stride],
        padding: [padding],
        dilation: [dilation],
        groups,
    } = *options;
    let options = ConvOptions::new([1, stride], [0, padding], [1, dilation], groups);
    signals(naive(&flat(a), &options))
}

fn naive_transposed1(a: &[Array], options: &ConvTransposeOptions<1>) -> Array {
    let options = ConvTransposeOptions::new(
        [1, options.stride[0]],
        [0, options.padding[0]],
        [0, options.padding_out[0]],
        [1, options.dilation[0]],
        options.groups,
    );
    signals(naive_transposed(&flat(a), &options))
}

rows! { B, x, a;
    "conv1d" PRODUCTS [signed([2, 3, 9]), signed([4, 3, 3]), signed([4])] naive1(a, &options(1, 0, 1, 1)) => conv1d(x.f(0), x.f(1), Some(x.f(2)), options(1, 0, 1, 1));
    "conv1d with stride and padding" PRODUCTS [signed([2, 3, 9]), signed([4, 3, 3]), signed([4])] naive1(a, &options(2, 1, 1, 1)) => conv1d(x.f(0), x.f(1), Some(x.f(2)), options(2, 1, 1, 1));
    "conv1d with dilation and groups" PRODUCTS [signed([2, 4, 9]), signed([6, 2, 3]), signed([6])] naive1(a, &options(1, 2, 2, 2)) => conv1d(x.f(0), x.f(1), Some(x.f(2)), options(1, 2, 2, 2));
    "conv2d" PRODUCTS [signed([2, 2, 5, 4]), signed([3, 2, 3, 3]), signed([3])] naive(a, &options(1, 0, 1, 1)) => conv2d(x.f(0), x.f(1), Some(x.f(2)), options(1, 0, 1, 1));
    "conv2d of one channel with padding" PRODUCTS [signed([2, 1, 5, 5]), signed([3, 1, 3, 3]), signed([3])] naive(a, &options(1, 1, 1, 1)) => conv2d(x.f(0), x.f(1), Some(x.f(2)), options(1, 1, 1, 1));
    "conv2d with stride" PRODUCTS [signed([2, 3, 6, 5]), signed([2, 3, 3, 2]), signed([2])] naive(a, &options(2, 1, 1, 1)) => conv2d(x.f(0), x.f(1), Some(x.f(2)), options(2, 1, 1, 1));
    "conv2d with dilation" PRODUCTS [signed([1, 2, 6, 6]), signed([3, 2, 3, 3]), signed([3])] naive(a, &options(1, 2, 2, 1)) => conv2d(x.f(0), x.f(1), Some(x.f(2)), options(1, 2, 2, 1));
    "conv2d with groups" PRODUCTS [signed([2, 4, 4, 5]), signed([6, 2, 3, 3]), signed([6])] naive(a, &options(1, 1, 1, 2)) => conv2d(x.f(0), x.f(1), Some(x.f(2)), options(1, 1, 1, 2));
    "conv2d of each channel" PRODUCTS [signed([2, 3, 4, 4]), signed([3, 1, 3, 3]), signed([3])] naive(a, &options(1, 1, 1, 3)) => conv2d(x.f(0), x.f(1), Some(x.f(2)), options(1, 1, 1, 3));
    "conv2d of single pixels" PRODUCTS [signed([2, 5, 3, 3]), signed([4, 5, 1, 1])] naive(a, &options(1, 0, 1, 1)) => conv2d(x.f(0), x.f(1), None, options(1, 0, 1, 1));
    "conv2d of a transposed view" PRODUCTS [signed([2, 4, 5, 2]), signed([3, 2, 3, 3])] naive(&[a[0].permuted(&[0, 3, 1, 2]), a[1].clone()], &options(1, 1, 1, 1)) => conv2d(x.f::<4>(0).permute([0, 3, 1, 2]), x.f(1), None, options(1, 1, 1, 1));
    "conv_transpose1d" PRODUCTS [signed([2, 3, 5]), signed([3, 4, 3]), signed([4])] naive_transposed1(a, &transposed(2, 1, 1, 1, 1)) => conv_transpose1d(x.f(0), x.f(1), Some(x.f(2)), transposed(2, 1, 1, 1, 1));
    "conv_transpose2d" PRODUCTS [signed([2, 3, 3, 4]), signed([3, 2, 3, 3]), signed([2])] naive_transposed(a, &transposed(1, 0, 0, 1, 1)) => conv_transpose2d(x.f(0), x.f(1), Some(x.f(2)), transposed(1, 0, 0, 1, 1));
    "conv_transpose2d with stride and padding" PRODUCTS [signed([2, 3, 3, 4]), signed([3, 2, 3, 3]), signed([2])] naive_transposed(a, &transposed(2, 1, 1, 1, 1)) => conv_transpose2d(x.f(0), x.f(1), Some(x.f(2)), transposed(2, 1, 1, 1, 1));
    "conv_transpose2d with dilation and groups" PRODUCTS [signed([1, 4, 3, 3]), signed([4, 2, 2, 2]), signed([4])] naive_transposed(a, &transposed(1, 1, 0, 2, 2)) => conv_transpose2d(x.f(0), x.f(1), Some(x.f(2)), transposed(1, 1, 0, 2, 2));
}
