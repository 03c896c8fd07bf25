//! Full sums and means whose bits do not depend on threads or memory layout.
//!
//! Flex adds 4,194,304 or more elements in parallel, in an order that rayon's scheduling decides,
//! and adds a transposed view in buffer order. Here a tensor is first made contiguous, then summed
//! in chunks far below that size, and the chunk sums are added in order.

use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType, FloatDType, Shape, Slice, TensorMetadata};

/// Elements of one chunk; a tensor up to this size is one sum of the inner backend.
const CHUNK: usize = 1 << 20;

pub(crate) fn sum<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    reduce::<B>(tensor, B::float_sum, chunk_sums::<B>)
}

pub(crate) fn mean<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    reduce::<B>(tensor, B::float_mean, |flat| {
        let count = flat.shape().num_elements() as f64;
        B::float_div_scalar(chunk_sums::<B>(flat), count.into())
    })
}

/// Reduces a small tensor by the inner backend and a large one in chunks; half precision in f32,
/// since a total of that many halves would overflow or lose them.
fn reduce<B: Backend>(
    tensor: FloatTensor<B>,
    small: impl FnOnce(FloatTensor<B>) -> FloatTensor<B>,
    large: impl FnOnce(FloatTensor<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let flat = flatten::<B>(tensor);
    if flat.shape().num_elements() <= CHUNK {
        return small(flat);
    }
    let half = match flat.dtype() {
        DType::F16 => FloatDType::F16,
        DType::BF16 => FloatDType::BF16,
        _ => return large(flat),
    };
    B::float_cast(large(B::float_cast(flat, FloatDType::F32)), half)
}

/// One dimension, contiguous: reshaping a view copies it in logical order.
fn flatten<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let count = tensor.shape().num_elements();
    B::float_reshape(tensor, Shape::from([count]))
}

fn chunk_sums<B: Backend>(flat: FloatTensor<B>) -> FloatTensor<B> {
    let count = flat.shape().num_elements();
    let chunk = |start: usize| {
        let end = count.min(start + CHUNK);
        B::float_sum(B::float_slice(flat.clone(), &[Slice::from(start..end)]))
    };
    (CHUNK..count)
        .step_by(CHUNK)
        .fold(chunk(0), |total, start| B::float_add(total, chunk(start)))
}
