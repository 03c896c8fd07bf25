//! The bit probe: do two ranks compute with the same bits?
//!
//! Bits depend on the backend build, the CPU's instruction set or the GPU and its driver. Rather
//! than asking for names and versions, the probe computes: a fixed set of products, a convolution,
//! sums, functions and one training step, all hashed.

use burn_autodiff::Autodiff;
use burn_backend::{Backend, ExecutionError};
use burn_tensor::ops::ConvOptions;
use burn_tensor::{Distribution, Tensor, TensorData, activation, module};
use sha2::{Digest, Sha256};

use crate::{Scope, VirtualBackend, enter};

/// The hash of what a device computed; equal on ranks of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Probe([u8; 8]);

impl core::fmt::Display for Probe {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Takes the bit probe of a device.
///
/// # Errors
/// If the device fails to compute or to hand its values over.
pub fn probe<B: Backend>(device: &B::Device) -> Result<Probe, ExecutionError> {
    // The inputs are the same everywhere, whatever this thread was seeded with.
    let _scope = enter(Scope::Seeded { seed: 0x70726f6265 });
    let mut hash = Sha256::new();
    for data in products::<B>(device)
        .into_iter()
        .chain(sums::<B>(device))
        .chain(step::<B>(device))
    {
        let data = data?;
        hash.update(data.as_bytes());
    }
    let digest = hash.finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    Ok(Probe(bytes))
}

type Values = Vec<Result<TensorData, ExecutionError>>;
type V<B> = VirtualBackend<B>;

fn input<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Tensor<B, D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

/// Matrix products in shapes that take different paths through a gemm, and a convolution.
fn products<B: Backend>(device: &B::Device) -> Values {
    let mut values: Values = [(7, 33, 5), (64, 128, 32), (96, 300, 1), (1, 257, 48)]
        .into_iter()
        .map(|(m, k, n)| {
            let product = input::<V<B>, 2>([m, k], device).matmul(input([k, n], device));
            product.try_into_data()
        })
        .collect();
    let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let image = input::<V<B>, 4>([4, 3, 8, 8], device);
    values.push(module::conv2d(image, input([8, 3, 3, 3], device), None, options).try_into_data());
    values
}

/// Sums whole and along each dimension, and the functions that losses are made of.
fn sums<B: Backend>(device: &B::Device) -> Values {
    let matrix = input::<V<B>, 2>([300, 70], device);
    vec![
        matrix.clone().sum().try_into_data(),
        matrix.clone().transpose().sum().try_into_data(),
        matrix.clone().sum_dim(0).try_into_data(),
        matrix.clone().sum_dim(1).try_into_data(),
        matrix.clone().exp().try_into_data(),
        matrix.clone().tanh().try_into_data(),
        activation::log_softmax(matrix, 1).try_into_data(),
    ]
}

/// One step of gradient descent on a small network: its new weights.
fn step<B: Backend>(device: &B::Device) -> Values {
    type A<B> = Autodiff<VirtualBackend<B>>;
    let first = input::<A<B>, 2>([20, 32], device).require_grad();
    let second = input::<A<B>, 2>([32, 10], device).require_grad();
    let hidden = activation::relu(input::<A<B>, 2>([16, 20], device).matmul(first.clone()));
    let logits = activation::log_softmax(hidden.matmul(second.clone()), 1);
    let gradients = (logits * input([16, 10], device)).sum().backward();
    let updated = |weight: Tensor<A<B>, 2>| {
        let gradient = weight
            .grad(&gradients)
            .ok_or_else(|| ExecutionError::WithContext {
                reason: "the training step of the bit probe gave no gradient".to_owned(),
            })?;
        (weight.inner() - gradient * 0.1).try_into_data()
    };
    [first, second].into_iter().map(updated).collect()
}
