//! Case 17, world size 1: one virtual node is a plain Burn loop, bit for bit.
//!
//! Burn's gradient hook makes a plain `Autodiff<Flex>` stop compiling, so this is tested without it.
#![cfg(not(feature = "overlap"))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, GradientsParams, Optimizer, SgdConfig};
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn_virtual::models::{
    Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, DigitsMlp,
    DigitsMlpConfig,
};
use burn_virtual::nodes::{VirtualAutodiff, VirtualNodes, WeightsHash, cross_entropy_sum};

use common::{hash, load, save};

const STEPS: usize = 5;

trait Classifier<B: Backend>: Module<B> {
    fn init(device: &B::Device) -> Self;
    fn logits(&self, images: Tensor<B, 3>) -> Tensor<B, 2>;
}

impl<B: Backend> Classifier<B> for DigitsMlp<B> {
    fn init(device: &B::Device) -> Self {
        DigitsMlpConfig::new()
            .with_hidden([24, 16])
            .with_dropout(0.0)
            .init(device)
    }

    fn logits(&self, images: Tensor<B, 3>) -> Tensor<B, 2> {
        self.forward(images)
    }
}

impl<B: Backend> Classifier<B> for DigitsCnn<B> {
    fn init(device: &B::Device) -> Self {
        let config = DigitsCnnConfig::new().with_channels([4, 6]).with_hidden(12);
        config.with_dropout(0.0).init(device)
    }

    fn logits(&self, images: Tensor<B, 3>) -> Tensor<B, 2> {
        self.forward(images)
    }
}

fn batches(size: usize) -> Vec<Vec<Digit>> {
    let epoch = Digits::load().unwrap().epoch(42, 0);
    epoch
        .batches(size)
        .unwrap()
        .take(STEPS)
        .map(<[_]>::to_vec)
        .collect()
}

/// The weights and statistics after each step of a plain loop with a mean loss.
fn plain<A, M, O>(weights: &[u8], mut optim: O, batch: usize) -> Vec<WeightsHash>
where
    A: AutodiffBackend,
    M: AutodiffModule<A> + Classifier<A>,
    O: Optimizer<M, A>,
{
    let device = Default::default();
    let mut model = load(M::init(&device), weights);
    let steps = batches(batch).into_iter().map(|items| {
        let batch: DigitsBatch<A> = DigitsBatcher.batch(items, &device);
        let loss = CrossEntropyLossConfig::new().init(&device);
        let loss = loss.forward(model.logits(batch.images), batch.targets);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optim.step(0.05, model.clone(), gradients);
        hash(&model.valid())
    });
    steps.collect()
}

/// The same through one virtual node.
fn through_one_node<V, M, O>(weights: &[u8], mut optim: O, batch: usize) -> Vec<WeightsHash>
where
    V: VirtualAutodiff,
    M: AutodiffModule<V> + Classifier<V>,
    O: Optimizer<M, V>,
{
    let mut model = load(M::init(&Default::default()), weights);
    let mut session = VirtualNodes::new(1).start::<V, M>(&mut model).unwrap();
    let steps = batches(batch).into_iter().map(|items| {
        let loss = |model: &M, micro: DigitsBatch<V>| {
            cross_entropy_sum(model.logits(micro.images), micro.targets)
        };
        let out = session
            .backward(&model, &items, &DigitsBatcher, loss)
            .unwrap();
        model = optim.step(0.05, model.clone(), out.grads);
        hash(&model.valid())
    });
    steps.collect()
}

/// `P` is a model of the plain backend `A`, `M` the same model of the virtual backend `V`.
fn assert_equal<A, V, P, M>(batch: usize)
where
    A: AutodiffBackend,
    V: VirtualAutodiff,
    P: AutodiffModule<A> + Classifier<A>,
    M: AutodiffModule<V> + Classifier<V>,
{
    let weights = save(&P::init(&Default::default()));
    let momentum = || SgdConfig::new().with_momentum(Some(MomentumConfig::new()));
    let sgd = plain::<A, P, _>(&weights, momentum().init(), batch);
    assert_eq!(
        through_one_node::<V, M, _>(&weights, momentum().init(), batch),
        sgd
    );
    let adam = plain::<A, P, _>(&weights, AdamConfig::new().init(), batch);
    assert_eq!(
        through_one_node::<V, M, _>(&weights, AdamConfig::new().init(), batch),
        adam
    );
    // Five steps that all moved the model.
    assert_eq!((sgd.len(), adam.len()), (STEPS, STEPS));
    assert!(sgd.windows(2).all(|two| two[0] != two[1]) && sgd[0] != adam[0]);
}

/// The tests on one backend, plain and virtual.
macro_rules! on {
    ($plain:ty, $on:ty $(, #[$attribute:meta])?) => {
        use super::*;

        type Plain = burn::backend::Autodiff<$plain>;
        type Virtual = $on;

        #[test]
        $(#[$attribute])?
        fn case_17_mlp_is_that_of_a_plain_loop_at_batch_8() {
            assert_equal::<Plain, Virtual, DigitsMlp<_>, DigitsMlp<_>>(8);
        }

        #[test]
        $(#[$attribute])?
        fn case_17_mlp_is_that_of_a_plain_loop_at_batch_64() {
            assert_equal::<Plain, Virtual, DigitsMlp<_>, DigitsMlp<_>>(64);
        }

        #[test]
        $(#[$attribute])?
        fn case_17_cnn_is_that_of_a_plain_loop_at_batch_8() {
            assert_equal::<Plain, Virtual, DigitsCnn<_>, DigitsCnn<_>>(8);
        }

        #[test]
        $(#[$attribute])?
        fn case_17_cnn_is_that_of_a_plain_loop_at_batch_64() {
            assert_equal::<Plain, Virtual, DigitsCnn<_>, DigitsCnn<_>>(64);
        }
    };
}

mod flex {
    on!(burn_flex::Flex, crate::common::OnFlex);
}

#[cfg(feature = "wgpu")]
mod wgpu {
    on!(burn_virtual::backend::Wgpu, crate::common::OnWgpu);
}

#[cfg(feature = "cuda")]
mod cuda {
    on!(
        burn_virtual::backend::Cuda,
        crate::common::OnCuda,
        #[ignore = "needs an NVIDIA GPU"]
    );
}
