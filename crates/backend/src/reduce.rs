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
    let flat = flatten::<B>(tensor);
    if flat.shape().num_elements() <= CHUNK {
        return B::float_sum(flat);
    }
    chunk_sums::<B>(flat)
}

pub(crate) fn mean<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let flat = flatten::<B>(tensor);
    let count = flat.shape().num_elements();
    if count <= CHUNK {
        return B::float_mean(flat);
    }
    // A half-precision total of this many elements would overflow or lose them.
    let (sum, narrow) = match flat.dtype() {
        DType::F16 => (
            chunk_sums::<B>(B::float_cast(flat, FloatDType::F32)),
            Some(FloatDType::F16),
        ),
        DType::BF16 => (
            chunk_sums::<B>(B::float_cast(flat, FloatDType::F32)),
            Some(FloatDType::BF16),
        ),
        _ => (chunk_sums::<B>(flat), None),
    };
    let mean = B::float_div_scalar(sum, (count as f64).into());
    match narrow {
        Some(dtype) => B::float_cast(mean, dtype),
        None => mean,
    }
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
