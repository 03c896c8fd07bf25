//! Case 16: one weight used twice.

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn::data::dataloader::batcher::Batcher;
use burn::module::{Module, Param};
use burn::optim::{Optimizer, SgdConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::Flex;
use burn_virtual::backend::VirtualBackend;
use burn_virtual::nodes::{LossSum, Session, StepOutput, VirtualAutodiff, VirtualNodes};

use crate::common::{
    MAPPINGS, OnFlex, assert_all_close, assert_duplicate, bits, devices, gradient, hash, load,
    on_both, save, start,
};

type Checkpointed = Autodiff<VirtualBackend<Flex>, BalancedCheckpointing>;

/// An embedding of 3 words in 2 dimensions that is the output's weight, too.
#[derive(Module, Debug)]
struct Tied<B: Backend> {
    words: Param<Tensor<B, 2>>,
}

fn table<B: Backend>() -> Param<Tensor<B, 2>> {
    let data = TensorData::from([[0.5_f32, -0.25], [1.0, 0.75], [-0.5, 2.0]]);
    Param::from_data(data, &Default::default())
}

impl<B: Backend> Tied<B> {
    fn new() -> Self {
        Self { words: table() }
    }

    fn embed(&self, ids: Tensor<B, 1, Int>) -> Tensor<B, 2> {
        self.words.val().select(0, ids)
    }

    fn output(&self, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        hidden.matmul(self.words.val().transpose())
    }
}

/// The word that is read, and the one that is scored.
#[derive(Clone, Copy)]
struct Pair(i32, i32);

struct Pairs;

struct Micro<B: Backend> {
    read: Tensor<B, 1, Int>,
    scored: Tensor<B, 2, Int>,
}

impl<B: Backend> Batcher<B, Pair, Micro<B>> for Pairs {
    fn batch(&self, items: Vec<Pair>, device: &B::Device) -> Micro<B> {
        let count = items.len();
        let read: Vec<i32> = items.iter().map(|pair| pair.0).collect();
        let scored: Vec<i32> = items.iter().map(|pair| pair.1).collect();
        Micro {
            read: Tensor::from_data(TensorData::new(read, [count]), device),
            scored: Tensor::from_data(TensorData::new(scored, [count, 1]), device),
        }
    }
}

const BATCH: [Pair; 4] = [Pair(0, 2), Pair(1, 2), Pair(1, 0), Pair(2, 1)];

/// Of each sample's gradient, 1 comes from the embedding (0.5 + 0.5), 2 from the output (1.5 + 0.5).
fn step<B: VirtualAutodiff>(session: &mut Session<B>, model: &Tied<B>) -> StepOutput {
    let loss = |model: &Tied<B>, micro: Micro<B>| {
        let count = micro.read.dims()[0];
        let device = micro.read.device();
        let embedded = model.embed(micro.read).mul_scalar(0.5).sum();
        let hidden = Tensor::<B, 1>::from_data([1.5, 0.5], &device).unsqueeze::<2>();
        let scores = model
            .output(hidden.repeat_dim(0, count))
            .gather(1, micro.scored);
        LossSum {
            sum: embedded + scores.sum(),
            weight: count as f64,
        }
    };
    session.backward(model, &BATCH, &Pairs, loss).unwrap()
}

on_both! {
    case_16_gradient_is_the_sum_of_both_uses
    case_16_cloned_parameter_is_refused_by_both_names
}

fn case_16_gradient_is_the_sum_of_both_uses<B: VirtualAutodiff>() {
    for shares in MAPPINGS {
        let mut model = Tied::<B>::new();
        let mut session = start(shares, &mut model);
        let out = step(&mut session, &model);
        assert_eq!(out.grads.len(), 1);
        let got = gradient(&out, &model.words).unwrap();
        assert_all_close(&got, &[0.5, 0.25, 0.625, 0.375, 0.875, 0.375]);
        assert_eq!(got.iter().sum::<f32>(), 3.0);
    }
}

#[test]
fn case_16_gradient_is_the_sum_of_both_uses_with_checkpointing() {
    case_16_gradient_is_the_sum_of_both_uses::<Checkpointed>();
}

#[derive(Module, Debug)]
struct Cloned<B: Backend> {
    embedding: Param<Tensor<B, 2>>,
    head: Tied<B>,
}

fn case_16_cloned_parameter_is_refused_by_both_names<B: VirtualAutodiff>() {
    let embedding = table::<B>();
    let head = Tied {
        words: embedding.clone(),
    };
    let id = embedding.id;
    let mut model = Cloned { embedding, head };
    let error = VirtualNodes::new(4)
        .devices(devices::<B>(2))
        .start(&mut model)
        .err()
        .unwrap();
    assert_duplicate(&error, ["embedding", "head.words"]);
    assert_eq!((model.embedding.id, model.head.words.id), (id, id));
}

/// Saved, loaded on three devices, and one more step: as if it had gone on where it was.
#[test]
fn case_16_weight_is_still_tied_after_save_and_load() {
    let mut optim = SgdConfig::new().init::<OnFlex, Tied<OnFlex>>();
    let mut model = Tied::<OnFlex>::new();
    let mut session = start(&[4], &mut model);
    let out = step(&mut session, &model);
    model = optim.step(0.1, model, out.grads);
    let (saved, bytes) = (model.clone(), save(&model));
    let out = step(&mut session, &model);
    model = optim.step(0.1, model, out.grads);

    for in_memory in [true, false] {
        let fresh = Tied::<OnFlex>::new();
        let mut loaded = match in_memory {
            true => fresh.load_record(saved.clone().into_record()),
            false => load(fresh, &bytes),
        };
        session.resize_to(devices::<OnFlex>(3), [1, 2, 1]).unwrap();
        session.adopt(&mut loaded).unwrap();
        let out = step(&mut session, &loaded);
        assert_eq!(out.grads.len(), 1);
        loaded = optim.step(0.1, loaded, out.grads);
        assert_eq!(hash(&loaded), hash(&model));

        let device = Default::default();
        let read = loaded.embed(Tensor::from_data([0, 1, 2], &device));
        let scored = loaded.output(Tensor::eye(2, &device)).transpose();
        assert_eq!(bits(read), bits(scored));
    }
}
