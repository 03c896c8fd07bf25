//! Sums and means whose bits do not depend on threads, memory layout or atomics.
//!
//! Flex adds 4,194,304 or more elements in parallel, in an order that rayon's scheduling decides,
//! and adds a transposed view in buffer order. GPU backends add the sums of their workgroups with
//! atomics, in the order in which they finish. And Mesa's software Vulkan ends every loop of a shader
//! after 65,535 rounds, all its loops together, without a word: a sum along a longer dimension lacks
//! the rest. Here a tensor is first made contiguous, then summed in pieces that each backend adds in
//! one order, and these sums are added in order.

use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType, FloatDType, Shape, Slice, TensorMetadata};

use crate::hardware::is_cpu;

/// Elements that a CPU backend adds as one sum.
const CHUNK: usize = 1 << 20;

/// Elements that a GPU backend adds as one row.
const ROW: usize = 1 << 10;

/// The longest dimension that is left to the reduction of a GPU backend: a round of a loop for each
/// element, and a few for the dimensions.
const LONGEST: usize = 1 << 15;

pub(crate) fn sum<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let flat = flatten::<B>(tensor);
    if adds_in_order::<B>(&flat) {
        return B::float_sum(flat);
    }
    in_full_precision::<B>(flat, total::<B>)
}

pub(crate) fn mean<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let flat = flatten::<B>(tensor);
    if adds_in_order::<B>(&flat) {
        return B::float_mean(flat);
    }
    in_full_precision::<B>(flat, |flat| {
        let count = flat.shape().num_elements() as f64;
        B::float_div_scalar(total::<B>(flat), count.into())
    })
}

pub(crate) fn sum_dim<B: Backend>(tensor: FloatTensor<B>, dim: usize) -> FloatTensor<B> {
    if is_short::<B>(&tensor, dim) {
        return B::float_sum_dim(tensor, dim);
    }
    in_full_precision::<B>(tensor, |tensor| sum_of_pieces::<B>(&tensor, dim))
}

pub(crate) fn mean_dim<B: Backend>(tensor: FloatTensor<B>, dim: usize) -> FloatTensor<B> {
    if is_short::<B>(&tensor, dim) {
        return B::float_mean_dim(tensor, dim);
    }
    let length = tensor.shape()[dim] as f64;
    in_full_precision::<B>(tensor, |tensor| {
        B::float_div_scalar(sum_of_pieces::<B>(&tensor, dim), length.into())
    })
}

/// Whether the backend's own reduction along a dimension will do.
fn is_short<B: Backend>(tensor: &FloatTensor<B>, dim: usize) -> bool {
    (1..=LONGEST).contains(&tensor.shape()[dim]) || is_cpu::<B>()
}

fn sum_of_pieces<B: Backend>(tensor: &FloatTensor<B>, dim: usize) -> FloatTensor<B> {
    let mut shape = tensor.shape();
    let length = shape[dim];
    let mut slices: Vec<_> = shape.iter().map(|&size| Slice::from(0..size)).collect();
    let pieces = (0..length).step_by(LONGEST).map(|start| {
        slices[dim] = Slice::from(start..length.min(start + LONGEST));
        B::float_sum_dim(B::float_slice(tensor.clone(), &slices), dim)
    });
    pieces.reduce(B::float_add).unwrap_or_else(|| {
        shape[dim] = 1;
        zeros::<B>(tensor, shape)
    })
}

/// Whether the backend's own sum of this tensor has one order.
fn adds_in_order<B: Backend>(flat: &FloatTensor<B>) -> bool {
    is_cpu::<B>() && flat.shape().num_elements() <= CHUNK
}

/// Half precision is summed in f32: a total of that many halves would overflow or lose them.
fn in_full_precision<B: Backend>(
    flat: FloatTensor<B>,
    reduce: impl FnOnce(FloatTensor<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let half = match flat.dtype() {
        DType::F16 => FloatDType::F16,
        DType::BF16 => FloatDType::BF16,
        _ => return reduce(flat),
    };
    B::float_cast(reduce(B::float_cast(flat, FloatDType::F32)), half)
}

/// One dimension, contiguous: reshaping a view copies it in logical order.
fn flatten<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let count = tensor.shape().num_elements();
    B::float_reshape(tensor, Shape::from([count]))
}

fn total<B: Backend>(flat: FloatTensor<B>) -> FloatTensor<B> {
    if is_cpu::<B>() {
        chunk_sums::<B>(flat)
    } else {
        row_sums::<B>(flat)
    }
}

fn chunk_sums<B: Backend>(flat: FloatTensor<B>) -> FloatTensor<B> {
    let count = flat.shape().num_elements();
    let chunk = |start: usize| B::float_sum(piece::<B>(&flat, start, count.min(start + CHUNK)));
    (CHUNK..count)
        .step_by(CHUNK)
        .fold(chunk(0), |total, start| B::float_add(total, chunk(start)))
}

/// Sums rows, then rows of their sums, until one is left. What doesn't fill a row is one of its own.
fn row_sums<B: Backend>(mut flat: FloatTensor<B>) -> FloatTensor<B> {
    loop {
        let count = flat.shape().num_elements();
        if count == 0 {
            return zeros::<B>(&flat, Shape::from([1]));
        }
        let (rows, rest) = (count / ROW, count % ROW);
        if rows == 0 || count == ROW {
            return B::float_sum_dim(flat, 0);
        }
        let whole = piece::<B>(&flat, 0, count - rest);
        let sums = B::float_sum_dim(B::float_reshape(whole, Shape::from([rows, ROW])), 1);
        let mut sums = vec![B::float_reshape(sums, Shape::from([rows]))];
        if rest > 0 {
            sums.push(B::float_sum_dim(piece::<B>(&flat, count - rest, count), 0));
        }
        flat = B::float_cat(sums, 0);
    }
}

/// A sum of nothing, which the reductions of GPU backends refuse.
fn zeros<B: Backend>(like: &FloatTensor<B>, shape: Shape) -> FloatTensor<B> {
    B::float_zeros(shape, &B::float_device(like), like.dtype().into())
}

fn piece<B: Backend>(flat: &FloatTensor<B>, start: usize, end: usize) -> FloatTensor<B> {
    B::float_slice(flat.clone(), &[Slice::from(start..end)])
}
