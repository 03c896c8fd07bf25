//! Case 25: running statistics follow one rule for every mapping.

use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module, Param};
use burn::nn::{BatchNorm, BatchNormConfig};
use burn::optim::Optimizer;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use burn_virtual::nodes::{LossSum, Session, VirtualAutodiff};

use crate::common::{
    MAPPINGS, OnFlex, assert_all_close, assert_close, bits, load, on_both, save, sgd, start,
    values, vector,
};

#[derive(Module, Debug)]
struct Normed<B: Backend> {
    norm: BatchNorm<B>,
    w: Param<Tensor<B, 1>>,
}

fn normed<B: Backend>() -> Normed<B> {
    Normed {
        norm: BatchNormConfig::new(1).init(&Default::default()),
        w: vector(&[0.5]),
    }
}

impl<B: Backend> Normed<B> {
    fn forward(&self, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        (self.norm.forward(rows) * self.w.val().unsqueeze::<2>()).exp()
    }

    /// Normalises by the running statistics, which is how such a layer is frozen in Burn.
    fn forward_frozen(&self, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        let norm = &self.norm;
        let std = norm.running_var.value().add_scalar(norm.epsilon).sqrt();
        let x = (rows - norm.running_mean.value().unsqueeze::<2>()) / std.unsqueeze::<2>();
        x * norm.gamma.val().unsqueeze::<2>() + norm.beta.val().unsqueeze::<2>()
    }
}

/// One value, and where it stands in the batch.
#[derive(Clone, Copy)]
struct Item(usize, f32);

struct Column;

struct Micro<B: Backend> {
    rows: Tensor<B, 2>,
    places: Vec<usize>,
}

impl<B: Backend> Batcher<B, Item, Micro<B>> for Column {
    fn batch(&self, items: Vec<Item>, device: &B::Device) -> Micro<B> {
        let values: Vec<f32> = items.iter().map(|item| item.1).collect();
        Micro {
            rows: Tensor::from_data(TensorData::new(values, [items.len(), 1]), device),
            places: items.iter().map(|item| item.0).collect(),
        }
    }
}

fn items(values: &[f32]) -> Vec<Item> {
    values
        .iter()
        .enumerate()
        .map(|(place, &value)| Item(place, value))
        .collect()
}

/// Four micro-batches of two, with means 1, 2, 3, 4 and variance 0.25.
const MEANS_1_TO_4: [f32; 8] = [0.5, 1.5, 1.5, 2.5, 2.5, 3.5, 3.5, 4.5];

fn step<B: VirtualAutodiff>(
    session: &mut Session<B>,
    model: Normed<B>,
    optim: &mut impl Optimizer<Normed<B>, B>,
    batch: &[Item],
    forward: impl Fn(&Normed<B>, Tensor<B, 2>) -> Tensor<B, 2> + Sync,
) -> Normed<B> {
    let loss = |model: &Normed<B>, micro: Micro<B>| {
        let weight = micro.places.len() as f64;
        LossSum {
            sum: forward(model, micro.rows).sum(),
            weight,
        }
    };
    let out = session.backward(&model, batch, &Column, loss).unwrap();
    optim.step(0.1, model, out.grads)
}

on_both! {
    case_25_running_mean_is_0_25_for_every_mapping
    case_25_mean_weighs_samples_when_nodes_differ_in_size
    case_25_running_mean_stays_0_when_frozen
}

fn case_25_running_mean_is_0_25_for_every_mapping<B: VirtualAutodiff>() {
    for shares in MAPPINGS {
        let mut model = normed::<B>();
        let mut session = start(shares, &mut model);
        let model = step(
            &mut session,
            model,
            &mut sgd(),
            &items(&MEANS_1_TO_4),
            Normed::forward,
        );
        assert_close(values(model.norm.running_mean.value())[0].into(), 0.25);
        assert_close(values(model.norm.running_var.value())[0].into(), 0.925);
    }
}

/// Five samples on four nodes: the first node has two of them.
fn case_25_mean_weighs_samples_when_nodes_differ_in_size<B: VirtualAutodiff>() {
    for shares in MAPPINGS {
        let mut model = normed::<B>();
        let mut session = start(shares, &mut model);
        let batch = items(&[1.0, 3.0, 4.0, 5.0, 6.0]);
        let model = step(&mut session, model, &mut sgd(), &batch, Normed::forward);
        let mean = 0.1 * (2.0 * 2.0 + 4.0 + 5.0 + 6.0) / 5.0;
        assert_close(values(model.norm.running_mean.value())[0].into(), mean);
        let variance = (2.0 * (0.9 + 0.1) + 3.0 * 0.9) / 5.0;
        assert_close(values(model.norm.running_var.value())[0].into(), variance);
    }
}

fn case_25_running_mean_stays_0_when_frozen<B: VirtualAutodiff>() {
    for shares in MAPPINGS {
        let mut model = normed::<B>();
        let mut session = start(shares, &mut model);
        let (mut optim, batch) = (sgd(), items(&MEANS_1_TO_4));
        for _ in 0..10 {
            model = step(
                &mut session,
                model,
                &mut optim,
                &batch,
                Normed::forward_frozen,
            );
        }
        assert_eq!(bits(model.norm.running_mean.value()), [0.0_f32.to_bits()]);
        assert_eq!(bits(model.norm.running_var.value()), [1.0_f32.to_bits()]);
        assert!(values(model.norm.gamma.val())[0] != 1.0);
    }
}

/// The output for every item.
fn evaluate<B: VirtualAutodiff>(session: &mut Session<B>, model: &Normed<B>) -> [f64; 8] {
    let score = |model: &Normed<B::InnerBackend>, micro: Micro<B::InnerBackend>| {
        let mut sums = [0.0; 8];
        for (place, value) in micro.places.iter().zip(values(model.forward(micro.rows))) {
            sums[*place] = value.into();
        }
        sums
    };
    session
        .evaluate(model, &items(&MEANS_1_TO_4), &Column, score)
        .unwrap()
}

/// Several steps; then the same outputs on every mapping, after loading, and in plain Burn.
#[test]
fn case_25_evaluation_is_bitwise_equal_on_every_mapping_and_after_load() {
    let run = |shares: &[usize]| {
        let mut model = normed::<OnFlex>();
        let mut session = start(shares, &mut model);
        let mut optim = sgd();
        for size in [8, 5, 3, 7] {
            let batch = items(&MEANS_1_TO_4[..size]);
            model = step(&mut session, model, &mut optim, &batch, Normed::forward);
        }
        (session, model)
    };
    let (mut session, model) = run(&[4]);
    let expected = evaluate(&mut session, &model);
    assert_ne!(expected[0], expected[7]);
    for shares in MAPPINGS {
        let (mut session, model) = run(shares);
        assert_eq!(evaluate(&mut session, &model), expected, "{shares:?}");
    }

    let bytes = save(&model);
    for shares in MAPPINGS {
        let mut loaded = load(normed::<OnFlex>(), &bytes);
        let mut session = start(shares, &mut loaded);
        assert_eq!(evaluate(&mut session, &loaded), expected, "{shares:?}");
    }

    let rows = TensorData::new(MEANS_1_TO_4.to_vec(), [8, 1]);
    let plain = model
        .valid()
        .forward(Tensor::from_data(rows, &Default::default()));
    let expected: Vec<f32> = expected.iter().map(|&value| value as f32).collect();
    assert_all_close(&values(plain), &expected);
}
