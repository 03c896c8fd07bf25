//! Operations that don't repeat their bits are told from those that do, inside a job only.
#![cfg(any(feature = "wgpu", feature = "cuda"))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn_backend::ops::DeformConvOptions;
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{Backend, TensorData};
use burn_flex::Flex;
use burn_virtual_backend::{Fault, Scope, VirtualBackend, enter, take_fault};

use common::floats;

const NODE: Scope = Scope::Node {
    seed: 1,
    step: 2,
    node: 3,
};

/// Adds two values into one place.
fn scatter<B: Backend>() {
    let device = Default::default();
    let data = B::float_from_data(TensorData::from([0.0_f32; 4]), &device);
    let indices = B::int_from_data(TensorData::from([[1_i32], [1]]), &device);
    let values = B::float_from_data(TensorData::from([1.0_f32, 2.0]), &device);
    B::float_scatter_nd(data, indices, values, IndexingUpdateOp::Add);
}

fn scatter_ints<B: Backend>() {
    let device = Default::default();
    let data = B::int_from_data(TensorData::from([0_i32; 4]), &device);
    let indices = B::int_from_data(TensorData::from([[1_i32], [1]]), &device);
    let values = B::int_from_data(TensorData::from([1_i32, 2]), &device);
    B::int_scatter_nd(data, indices, values, IndexingUpdateOp::Add);
}

/// The gradients of a deformable convolution of one pixel.
fn deform<B: Backend>() {
    let pixel = || floats::<B, 4>([1; 4]);
    let offset = floats::<B, 4>([1, 2, 1, 1]);
    let options = DeformConvOptions::new([1; 2], [0; 2], [1; 2], 1, 1);
    B::deform_conv2d_backward(pixel(), offset, pixel(), None, None, pixel(), options);
}

/// What doesn't repeat its bits on a GPU, by name.
fn listed<B: Backend>() -> [(&'static str, fn()); 3] {
    [
        ("deform_conv2d_backward", deform::<B>),
        ("float_scatter_nd", scatter::<B>),
        ("int_scatter_nd", scatter_ints::<B>),
    ]
}

common::on_gpus! {
    listed_operations_are_faults_in_a_job
    listed_operations_are_no_faults_outside_a_job
}

fn listed_operations_are_faults_in_a_job<B: Backend>() {
    let _scope = enter(NODE);
    for (operation, run) in listed::<B>() {
        run();
        let fault = take_fault().unwrap();
        assert_eq!(fault, Fault::Unrepeatable { operation });
        assert!(
            fault.to_string().contains(&format!("`{operation}`")),
            "{fault}"
        );
        assert_eq!(take_fault(), None);
    }
}

fn listed_operations_are_no_faults_outside_a_job<B: Backend>() {
    for (operation, run) in listed::<B>() {
        run();
        assert_eq!(take_fault(), None, "{operation}");
    }
}

#[test]
fn listed_operations_are_no_faults_in_a_job_on_flex() {
    let _scope = enter(NODE);
    for (operation, run) in listed::<VirtualBackend<Flex>>() {
        run();
        assert_eq!(take_fault(), None, "{operation}");
    }
}
