//! Case 17, world size 1: one virtual node is a plain Burn loop, bit for bit.
//!
//! Burn's gradient hook makes a plain `Autodiff<Flex>` stop compiling, so this is tested without it.
#![cfg(not(feature = "overlap"))]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn::backend::Autodiff;
use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, GradientsParams, Optimizer, SgdConfig};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn_flex::Flex;
use burn_virtual::models::{
    Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, DigitsMlp,
    DigitsMlpConfig,
};
use burn_virtual::nodes::{VirtualNodes, WeightsHash, cross_entropy_sum};

use common::{OnFlex, hash, load, save};

type Plain = Autodiff<Flex>;
type Virtual = OnFlex;

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
fn plain<M, O>(weights: &[u8], mut optim: O, batch: usize) -> Vec<WeightsHash>
where
    M: AutodiffModule<Plain> + Classifier<Plain>,
    O: Optimizer<M, Plain>,
{
    let device = Default::default();
    let mut model = load(M::init(&device), weights);
    let steps = batches(batch).into_iter().map(|items| {
        let batch: DigitsBatch<Plain> = DigitsBatcher.batch(items, &device);
        let loss = CrossEntropyLossConfig::new().init(&device);
        let loss = loss.forward(model.logits(batch.images), batch.targets);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optim.step(0.05, model.clone(), gradients);
        hash(&model.valid())
    });
    steps.collect()
}

/// The same through one virtual node.
fn through_one_node<M, O>(weights: &[u8], mut optim: O, batch: usize) -> Vec<WeightsHash>
where
    M: AutodiffModule<Virtual> + Classifier<Virtual>,
    M::InnerModule: Send,
    O: Optimizer<M, Virtual>,
{
    let mut model = load(M::init(&Default::default()), weights);
    let mut session = VirtualNodes::new(1).start(&mut model).unwrap();
    let steps = batches(batch).into_iter().map(|items| {
        let loss = |model: &M, micro: DigitsBatch<Virtual>| {
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

fn assert_equal<P, V>(batch: usize)
where
    P: AutodiffModule<Plain> + Classifier<Plain>,
    V: AutodiffModule<Virtual> + Classifier<Virtual>,
    V::InnerModule: Send,
{
    let weights = save(&P::init(&Default::default()));
    let momentum = || SgdConfig::new().with_momentum(Some(MomentumConfig::new()));
    let sgd = plain::<P, _>(&weights, momentum().init(), batch);
    assert_eq!(
        through_one_node::<V, _>(&weights, momentum().init(), batch),
        sgd
    );
    let adam = plain::<P, _>(&weights, AdamConfig::new().init(), batch);
    assert_eq!(
        through_one_node::<V, _>(&weights, AdamConfig::new().init(), batch),
        adam
    );
    // Five steps that all moved the model.
    assert_eq!((sgd.len(), adam.len()), (STEPS, STEPS));
    assert!(sgd.windows(2).all(|two| two[0] != two[1]) && sgd[0] != adam[0]);
}

#[test]
fn case_17_mlp_is_that_of_a_plain_loop_at_batch_8() {
    assert_equal::<DigitsMlp<Plain>, DigitsMlp<Virtual>>(8);
}

#[test]
fn case_17_mlp_is_that_of_a_plain_loop_at_batch_64() {
    assert_equal::<DigitsMlp<Plain>, DigitsMlp<Virtual>>(64);
}

#[test]
fn case_17_cnn_is_that_of_a_plain_loop_at_batch_8() {
    assert_equal::<DigitsCnn<Plain>, DigitsCnn<Virtual>>(8);
}

#[test]
fn case_17_cnn_is_that_of_a_plain_loop_at_batch_64() {
    assert_equal::<DigitsCnn<Plain>, DigitsCnn<Virtual>>(64);
}
