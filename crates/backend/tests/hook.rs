//! The gradient hook (feature `overlap`): what fires, when, and with which bits.
#![cfg(feature = "overlap")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use core::any::Any;
use std::sync::{Arc, Mutex};

use burn_autodiff::Autodiff;
use burn_backend::distributed::DistributedParamId;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, TensorData};
use burn_flex::Flex;
use burn_tensor::{Distribution, Tensor, activation};
use burn_virtual_backend::{GradientHook, Hooked, VirtualBackend, hook};

use common::read_float;

type V = VirtualBackend<Flex>;
type A = Autodiff<V>;

/// What fired, in order.
type Log = Arc<Mutex<Vec<(DistributedParamId, TensorData)>>>;

struct Recorder(Log);

impl GradientHook for Recorder {
    fn ready(&mut self, parameter: DistributedParamId, gradient: Box<dyn Any + Send>) {
        let gradient = gradient.downcast::<FloatTensor<V>>().unwrap();
        self.0
            .lock()
            .unwrap()
            .push((parameter, read_float::<V>(*gradient)));
    }
}

fn record() -> (Log, Hooked) {
    let log = Log::default();
    let hooked = hook(Box::new(Recorder(log.clone())));
    (log, hooked)
}

fn ids(log: &Log) -> Vec<DistributedParamId> {
    log.lock().unwrap().iter().map(|(id, _)| *id).collect()
}

fn numbered<const N: usize>(ids: [u64; N]) -> Vec<DistributedParamId> {
    ids.map(DistributedParamId::from).to_vec()
}

fn leaf<const D: usize>(shape: [usize; D], id: u64) -> Tensor<A, D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &Default::default())
        .require_grad()
        .set_distributed(id.into())
}

fn input() -> Tensor<A, 2> {
    Tensor::random(
        [4, 6],
        Distribution::Uniform(-1.0, 1.0),
        &Default::default(),
    )
}

fn seed() {
    A::seed(&Default::default(), 42);
}

/// Three layers, marked 1, 2, 3 from the input on, and their loss.
fn network() -> ([Tensor<A, 2>; 3], Tensor<A, 1>) {
    seed();
    let layers = [leaf([6, 5], 1), leaf([5, 5], 2), leaf([5, 3], 3)];
    let out = layers.iter().fold(input(), |x, layer| {
        activation::tanh(x.matmul(layer.clone()))
    });
    (layers, out.sum())
}

#[test]
fn hook_fires_once_per_parameter_deep_to_shallow() {
    let (log, _hooked) = record();
    let (_layers, loss) = network();
    assert!(ids(&log).is_empty());
    loss.backward();
    assert_eq!(ids(&log), numbered([3, 2, 1]));
}

#[test]
fn hook_sees_the_bits_of_the_final_gradients() {
    let (log, _hooked) = record();
    let (layers, loss) = network();
    let gradients = loss.backward();
    let log = log.lock().unwrap();
    for (id, gradient) in log.iter() {
        let index = (1..=3).position(|n| DistributedParamId::from(n) == *id);
        let layer = &layers[index.unwrap()];
        assert_eq!(
            layer.grad(&gradients).unwrap().into_data().as_bytes(),
            gradient.as_bytes()
        );
    }
    assert_eq!(log.len(), 3);
}

#[test]
fn gradients_have_the_same_bits_with_and_without_a_hook() {
    let bits = || {
        let (layers, loss) = network();
        let gradients = loss.backward();
        layers.map(|layer| layer.grad(&gradients).unwrap().into_data())
    };
    let without = bits();
    let (log, _hooked) = record();
    assert_eq!(bits(), without);
    assert_eq!(log.lock().unwrap().len(), 3);
}

#[test]
fn tied_weight_fires_once_with_the_whole_gradient() {
    let (log, _hooked) = record();
    seed();
    let tied = leaf([6, 6], 9);
    let hidden = activation::tanh(input().matmul(tied.clone()));
    let gradients = hidden.matmul(tied.clone()).sum().backward();
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 1);
    assert_eq!(
        tied.grad(&gradients).unwrap().into_data().as_bytes(),
        log[0].1.as_bytes()
    );
}

#[test]
fn unused_frozen_and_unmarked_parameters_do_not_fire() {
    let (log, _hooked) = record();
    seed();
    let used = leaf([6, 3], 1);
    let unused = leaf([6, 3], 2);
    let unmarked = Tensor::<A, 2>::ones([3, 3], &Default::default()).require_grad();
    let frozen = Tensor::<A, 2>::ones([3, 3], &Default::default());
    let out = input()
        .matmul(used)
        .matmul(unmarked.clone())
        .matmul(frozen.clone());
    let gradients = out.sum().backward();
    assert_eq!(ids(&log), numbered([1]));
    assert!(unused.grad(&gradients).is_none());
    assert!(unmarked.grad(&gradients).is_some());
    assert!(frozen.grad(&gradients).is_none());
}

#[test]
fn dropped_guard_takes_the_hook_off() {
    let (log, hooked) = record();
    network().1.backward();
    assert_eq!(log.lock().unwrap().len(), 3);
    drop(hooked);
    let (layers, loss) = network();
    let gradients = loss.backward();
    assert!(layers[0].grad(&gradients).is_some());
    assert_eq!(log.lock().unwrap().len(), 3);
    // The recorder itself is gone with it.
    assert_eq!(Arc::strong_count(&log), 1);
}

#[test]
fn nested_hook_takes_over_and_gives_back() {
    let (outer, _outer_hooked) = record();
    {
        let (inner, _inner_hooked) = record();
        network().1.backward();
        assert_eq!(ids(&inner), numbered([3, 2, 1]));
        assert!(ids(&outer).is_empty());
    }
    network().1.backward();
    assert_eq!(ids(&outer), numbered([3, 2, 1]));
}

#[test]
fn hooks_are_per_thread() {
    let (here, _hooked) = record();
    let there = std::thread::spawn(|| {
        network().1.backward();
        let (there, _hooked) = record();
        let (_layer, loss) = {
            seed();
            let layer = leaf([6, 2], 8);
            let loss = input().matmul(layer.clone()).sum();
            (layer, loss)
        };
        loss.backward();
        ids(&there)
    })
    .join()
    .unwrap();
    assert_eq!(there, numbered([8]));
    assert!(ids(&here).is_empty());
    network().1.backward();
    assert_eq!(ids(&here), numbered([3, 2, 1]));
}

#[test]
fn hook_fires_for_every_fresh_leaf_of_the_same_weight() {
    let (log, _hooked) = record();
    seed();
    let weight = leaf([6, 3], 1).inner();
    for _ in 0..3 {
        let replica = Tensor::<A, 2>::from_inner(weight.clone())
            .require_grad()
            .set_distributed(1.into());
        input().matmul(replica).sum().backward();
    }
    assert_eq!(ids(&log), numbered([1, 1, 1]));
}

#[test]
fn hook_that_computes_with_a_gradient_leaves_it_as_it_was() {
    // The hook gets a tensor of its own: what it does with it leaves the gradient alone.
    struct Overwriter;
    impl GradientHook for Overwriter {
        fn ready(&mut self, _parameter: DistributedParamId, gradient: Box<dyn Any + Send>) {
            let gradient = *gradient.downcast::<FloatTensor<V>>().unwrap();
            let gradient =
                Tensor::<V, 2>::from_primitive(burn_backend::TensorPrimitive::Float(gradient));
            drop(gradient * 0.0);
        }
    }
    let straight = {
        let (layers, loss) = network();
        let gradients = loss.backward();
        layers.map(|layer| layer.grad(&gradients).unwrap().into_data())
    };
    let _hooked = hook(Box::new(Overwriter));
    let (layers, loss) = network();
    let gradients = loss.backward();
    let after = layers.map(|layer| layer.grad(&gradients).unwrap().into_data());
    assert_eq!(after, straight);
}
