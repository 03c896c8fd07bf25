//! A thread without a stream draws what the inner backend draws. Alone in its file: the inner
//! backend's generator is one for the whole process.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn_backend::{Backend, Distribution, FloatDType, IntDType, TensorData};
use burn_flex::Flex;
use burn_virtual_backend::VirtualBackend;

use common::{read_float, read_int};

fn draw<B: Backend>() -> [TensorData; 2] {
    let device = B::Device::default();
    let normal = Distribution::Normal(1.0, 2.0);
    let uniform = Distribution::Uniform(0.0, 100.0);
    [
        read_float::<B>(B::float_random(
            [64].into(),
            normal,
            &device,
            FloatDType::F32,
        )),
        read_int::<B>(B::int_random([64].into(), uniform, &device, IntDType::I32)),
    ]
}

#[test]
fn draw_without_a_stream_is_the_inner_backends() {
    let device = Default::default();
    Flex::seed(&device, 5);
    let inner = draw::<Flex>();
    Flex::seed(&device, 5);
    assert_eq!(draw::<VirtualBackend<Flex>>(), inner);

    // Once the thread is seeded, the inner backend's generator is neither used nor set.
    Flex::seed(&device, 5);
    VirtualBackend::<Flex>::seed(&device, 9);
    let ours = draw::<VirtualBackend<Flex>>();
    assert_ne!(ours, inner);
    assert_eq!(draw::<Flex>(), inner);
}
