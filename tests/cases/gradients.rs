//! Case 18: every trained parameter has a gradient in each step, or the step fails by its name.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::Optimizer;
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor};
use burn_virtual::nodes::{NodeError, TrainError, VirtualNodes, WeightsHash};

use crate::common::{
    CLASSES, Net, OnFlex, SampleBatcher, adam, devices, hash, samples, trained_ids, weighted_loss,
};

type B = OnFlex;

#[derive(Module, Debug)]
struct Deep<B: Backend> {
    first: Linear<B>,
    second: Linear<B>,
    third: Linear<B>,
}

impl<B: Backend> Net<B> for Deep<B> {
    fn init(device: &B::Device) -> Self {
        Self {
            first: LinearConfig::new(16, 8).init(device),
            second: LinearConfig::new(8, 8).init(device),
            third: LinearConfig::new(8, CLASSES).init(device),
        }
    }

    fn logits(&self, images: Tensor<B, 2>) -> Tensor<B, 2> {
        self.third.forward(
            self.second
                .forward(self.first.forward(images).tanh())
                .tanh(),
        )
    }
}

/// The weights after `steps` on so many devices; a missing gradient fails the step.
fn train(ranks: usize, steps: u64) -> WeightsHash {
    let mut model = Deep::<B>::init(&Default::default());
    let mut session = VirtualNodes::new(4)
        .devices(devices::<B>(ranks))
        .require_all_gradients()
        .start(&mut model)
        .unwrap();
    let parameters = trained_ids(&model).len();
    assert_eq!(parameters, 6);
    let mut optim = adam::<B, Deep<B>>();
    for step in 0..steps {
        let batch = samples(step, 8);
        let out = session
            .backward(&model, &batch, &SampleBatcher, weighted_loss)
            .unwrap();
        assert_eq!(out.grads.len(), parameters, "step {step}");
        model = optim.step(0.01, model, out.grads);
    }
    hash(&model)
}

/// Backward passes in another thread, all the time: what is not theirs they must leave alone.
fn beside_other_backward_passes<T>(work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let device = Default::default();
            let leaf = Tensor::<B, 2>::ones([32, 32], &device).require_grad();
            while !done.load(Relaxed) {
                drop((leaf.clone() * 2.0).sum().backward());
                drop(
                    Tensor::cat(vec![leaf.clone(), leaf.clone()], 0)
                        .sum()
                        .backward(),
                );
            }
        });
        // Also where the work panics, or the thread would never end.
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let _done = Done(&done);
        work()
    })
}

#[test]
fn case_18_no_gradient_is_missing_in_300_steps_on_4_devices() {
    let together = beside_other_backward_passes(|| train(4, 300));
    assert_eq!(together, train(1, 300));
}

#[derive(Module, Debug)]
struct Forgetful<B: Backend> {
    used: Linear<B>,
    forgotten: Linear<B>,
}

#[test]
fn case_18_step_fails_by_name_when_a_gradient_is_missing() {
    let device = Default::default();
    let mut model = Forgetful::<B> {
        used: LinearConfig::new(2, 1).init(&device),
        forgotten: LinearConfig::new(2, 1).with_bias(false).init(&device),
    };
    let mut session = VirtualNodes::new(4)
        .devices(devices::<B>(2))
        .require_all_gradients()
        .start(&mut model)
        .unwrap();
    let inputs = Tensor::<B, 2>::ones([8, 2], &device);
    let loss = |model: &Forgetful<B>, rows: Tensor<B, 2>| burn_virtual::nodes::LossSum {
        weight: rows.dims()[0] as f64,
        sum: model.used.forward(rows).sum(),
    };
    let error = session.backward_batch(&model, &inputs, loss).unwrap_err();
    let TrainError::Node {
        source: NodeError::NoGradient { path },
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(path, "forgotten.weight");
    assert!(
        error.to_string().contains("rank 0, step 0, virtual node 0"),
        "{error}"
    );

    // A frozen parameter is not trained: none is missing.
    model.forgotten = model.forgotten.no_grad();
    let out = session.backward_batch(&model, &inputs, loss).unwrap();
    assert_eq!(out.grads.len(), 2);
}

/// The same fault where Burn itself has it: a leaf used again after a throw-away backward pass.
#[test]
fn case_18_reused_leaf_keeps_its_gradient_beside_other_threads() {
    let round = |seed: u64| {
        let device = Default::default();
        <B as Backend>::seed(&device, seed);
        let leaf = Tensor::<B, 2>::random([16, 16], Distribution::Uniform(-1.0, 1.0), &device);
        let leaf = leaf.require_grad();
        drop((leaf.clone() * 3.0).sum().backward());
        // As the session does: a fresh leaf for every pass.
        let fresh = Tensor::<B, 2>::from_inner(leaf.inner()).require_grad();
        let cat = Tensor::cat(vec![fresh.clone(), fresh.clone() * 2.0], 0);
        let gradients = (cat.clone() * cat).sum().backward();
        crate::common::bits(fresh.grad(&gradients).unwrap())
    };
    let alone: Vec<_> = (0..50).map(round).collect();
    beside_other_backward_passes(|| {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert!((0..50).map(round).eq(alone.iter().cloned())));
            }
        });
    });
}
