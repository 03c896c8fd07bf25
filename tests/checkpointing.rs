//! Activation checkpointing of Burn's autodiff: activations that are computed a second time change
//! nothing but the memory.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, Optimizer};
use burn::tensor::Tensor;
use burn::tensor::activation::{gelu, relu};
use burn::tensor::backend::Backend;
use burn_flex::Flex;
use burn_virtual::backend::{Meter, VirtualBackend};
use burn_virtual::nodes::{
    LossSum, RankMemory, Session, Trainer, VirtualAutodiff, VirtualNodes, WeightsHash,
};

use common::{
    CLASSES, MAPPINGS, Net, OnFlex, OneParam, SampleBatcher, Samples, StepTrace, devices,
    gradient_bits, hash, samples, start, weighted_loss,
};

type Checkpointed = Autodiff<VirtualBackend<Flex>, BalancedCheckpointing>;

const STEPS: u64 = 4;
const RATE: f64 = 0.05;

/// Much between two products that is computed again rather than kept, and dropout and running
/// statistics among it, which would not be the same a second time.
#[derive(Module, Debug)]
struct Deep<B: Backend> {
    input: Linear<B>,
    norm: BatchNorm<B>,
    hidden: Linear<B>,
    output: Linear<B>,
    dropout: Dropout,
}

impl<B: Backend> Net<B> for Deep<B> {
    fn init(device: &B::Device) -> Self {
        Self {
            input: LinearConfig::new(16, 8).init(device),
            norm: BatchNormConfig::new(8).init(device),
            hidden: LinearConfig::new(8, 8).init(device),
            output: LinearConfig::new(8, CLASSES).init(device),
            dropout: DropoutConfig::new(0.3).init(),
        }
    }

    fn logits(&self, images: Tensor<B, 2>) -> Tensor<B, 2> {
        let x = self.norm.forward(self.input.forward(images));
        let x = self.dropout.forward(gelu(relu(x).add_scalar(-0.1)));
        let x = gelu(self.hidden.forward(x)).mul_scalar(1.5).exp().log();
        self.output.forward(self.dropout.forward(relu(x).tanh()))
    }
}

/// A step's report, its gradients, and the weights and statistics after it.
type Trace = Vec<(StepTrace, Vec<Vec<u32>>, WeightsHash)>;

/// Steps on batches that do not divide by four; each begins on the next of `placements`.
fn train<B: VirtualAutodiff>(placements: &[&[usize]], clip: Option<f64>) -> Trace {
    let (mut session, mut model) = begin::<B>(placements[0], clip);
    let mut optim = AdamConfig::new().init::<B, Deep<B>>();
    let mut trace = Trace::new();
    for step in 0..STEPS {
        let shares = placements[step as usize % placements.len()];
        let devices = devices::<B>(shares.len());
        session.resize_to(devices, shares.iter().copied()).unwrap();
        let batch = samples(step, 9 + step as usize);
        let out = session.backward(&model, &batch, &SampleBatcher, weighted_loss);
        let out = out.unwrap();
        let gradients = gradient_bits(&model, &out.grads);
        let report = StepTrace::of(&out);
        model = optim.step(RATE, model, out.grads);
        trace.push((report, gradients, hash(&model)));
    }
    trace
}

fn begin<B: VirtualAutodiff>(shares: &[usize], clip: Option<f64>) -> (Session<B>, Deep<B>) {
    let mut model = Deep::init(&Default::default());
    let settings = VirtualNodes::new(4)
        .devices(devices::<B>(shares.len()))
        .shares(shares.iter().copied())
        .require_all_gradients();
    let settings = match clip {
        Some(limit) => settings.clip_norm(limit),
        None => settings,
    };
    let session = settings.start(&mut model).unwrap();
    (session, model)
}

#[test]
fn bits_are_those_without_checkpointing_for_every_placement() {
    let expected = train::<OnFlex>(&[&[4]], None);
    assert_eq!(expected[0].1.len(), 8, "gradients");
    for shares in MAPPINGS {
        assert_eq!(
            train::<Checkpointed>(&[shares], None),
            expected,
            "{shares:?}"
        );
    }
}

#[test]
fn bits_are_those_without_checkpointing_when_resized_in_mid_run() {
    let expected = train::<OnFlex>(&[&[4]], None);
    assert_eq!(train::<Checkpointed>(&MAPPINGS, None), expected);
    let back = [&[1, 1, 1, 1][..], &[4], &[1, 3]];
    assert_eq!(train::<Checkpointed>(&back, None), expected);
}

#[test]
fn bits_are_those_without_checkpointing_when_clipped() {
    let expected = train::<OnFlex>(&[&[4]], Some(0.1));
    assert_ne!(expected, train::<OnFlex>(&[&[4]], None));
    for shares in MAPPINGS {
        let got = train::<Checkpointed>(&[shares], Some(0.1));
        assert_eq!(got, expected, "{shares:?}");
    }
}

/// Losses and weights of a clipped `Trainer` that is resized, and scores after each step.
fn train_held<B: VirtualAutodiff>(shares: &[usize]) -> Vec<([u64; 2], WeightsHash, [u64; 2])> {
    let (session, model) = begin::<B>(&[4], Some(1.0));
    let mut trainer = Trainer::new(session, model, AdamConfig::new().init(), RATE);
    let steps = (0..STEPS).map(|step| {
        if step == 2 {
            let devices = devices::<B>(shares.len());
            let nodes = trainer.nodes();
            nodes.resize_to(devices, shares.iter().copied()).unwrap();
        }
        let report = trainer.step(&samples(step, 10), &SampleBatcher, weighted_loss);
        let report = report.unwrap();
        let model = trainer.model().unwrap().clone();
        let scores = evaluate(trainer.nodes(), &model);
        let bits = [report.loss, report.norm].map(f64::to_bits);
        (bits, hash(&model), scores)
    });
    steps.collect()
}

/// The loss over a batch, and its weight.
fn evaluate<B: VirtualAutodiff>(session: &mut Session<B>, model: &Deep<B>) -> [u64; 2] {
    let score = |model: &Deep<B::InnerBackend>, micro: Samples<B::InnerBackend>| {
        let LossSum { sum, weight } = weighted_loss(model, micro);
        [sum.into_data().iter().next().unwrap(), weight]
    };
    let sums = session.evaluate(model, &samples(99, 13), &SampleBatcher, score);
    sums.unwrap().map(f64::to_bits)
}

#[test]
fn bits_are_those_without_checkpointing_in_a_trainer_and_in_evaluation() {
    let expected = train_held::<OnFlex>(&[4]);
    for shares in MAPPINGS {
        assert_eq!(train_held::<Checkpointed>(shares), expected, "{shares:?}");
    }
}

/// What rank 0 held at most in a step of six products, each with ten operations after it that are
/// computed again: all ten at once, which is why one chain without products would save nothing.
fn measure_chains<B: VirtualAutodiff>() -> RankMemory {
    let meter = Meter::new();
    let _listening = meter.listen();
    let mut model = OneParam::<B>::new(&[0.1; 32 * 32]);
    let mut session = start(&[2, 2], &mut model);
    let inputs = Tensor::<B, 1>::ones([4], &Default::default());
    let loss = |model: &OneParam<B>, micro: Tensor<B, 1>| {
        let w = model.w.val().reshape([32, 32]);
        let chain = |x: Tensor<B, 2>| (0..5).fold(x, |x, _| x.sin().cos());
        let end = (0..6).fold(w.clone(), |x, _| chain(x.matmul(w.clone())));
        LossSum {
            weight: micro.dims()[0] as f64,
            sum: end.sum() * micro.sum(),
        }
    };
    session.backward_batch(&model, &inputs, loss).unwrap();
    session.memory()[0]
}

#[test]
fn activations_are_less_than_half_when_chains_are_computed_again() {
    let kept = measure_chains::<OnFlex>();
    let again = measure_chains::<Checkpointed>();
    assert!(
        2 * again.activations < kept.activations,
        "{again:?}, not below half of {kept:?}"
    );
}
