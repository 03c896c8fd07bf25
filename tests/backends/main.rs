//! GPUs beside flex and ndarray: equal inputs, equal bits on their own, gradients within a tolerance.
#![cfg(feature = "wgpu")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

#[path = "../common/mod.rs"]
mod common;

mod accuracy;
mod bits;
mod case_29;
mod device;
mod inputs;
mod layers;
mod tensors;
mod unrepeatable;

/// How far gradients on CUDA may be from those of other backends. On an NVIDIA GPU since Ampere, cubecl
/// multiplies matrices of f32 in TF32, which keeps 10 bits of each factor: about 1e-3.
#[cfg(feature = "cuda")]
const ON_CUDA: f64 = 5e-3;
