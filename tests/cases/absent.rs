//! Cases 13 and 15: parameters that only some virtual nodes use, or none.

use burn::data::dataloader::batcher::Batcher;
use burn::module::{Module, Param};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{Optimizer, SgdConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use burn_virtual::nodes::{LossSum, Session, StepOutput, VirtualAutodiff, WeightsHash};

use crate::common::{
    MAPPINGS, OnFlex, assert_close, bits, gradient, hash, on_both, start, values, vector,
};

#[derive(Module, Debug)]
struct TwoLayers<B: Backend> {
    a: Param<Tensor<B, 1>>,
    b: Param<Tensor<B, 1>>,
}

fn two_layers<B: Backend>(a: f32, b: f32) -> TwoLayers<B> {
    TwoLayers {
        a: vector(&[a]),
        b: vector(&[b]),
    }
}

#[derive(Clone, Copy)]
enum Item {
    A(f32),
    B(f32),
}
use Item::{A, B as Bb};

/// Only the items of one layer are in a micro-batch: the other layer is not used at all.
struct Micro<B: Backend> {
    layer_a: Option<Tensor<B, 1>>,
    layer_b: Option<Tensor<B, 1>>,
    items: usize,
}

struct Sorter;

impl<B: Backend> Batcher<B, Item, Micro<B>> for Sorter {
    fn batch(&self, items: Vec<Item>, device: &B::Device) -> Micro<B> {
        let (mut layer_a, mut layer_b) = (Vec::new(), Vec::new());
        for item in &items {
            match item {
                A(value) => layer_a.push(*value),
                Bb(value) => layer_b.push(*value),
            }
        }
        let tensor = |values: Vec<f32>| {
            let shape = [values.len()];
            (shape != [0]).then(|| Tensor::from_data(TensorData::new(values, shape), device))
        };
        Micro {
            layer_a: tensor(layer_a),
            layer_b: tensor(layer_b),
            items: items.len(),
        }
    }
}

fn step<B: VirtualAutodiff>(
    session: &mut Session<B>,
    model: &TwoLayers<B>,
    batch: &[Item],
) -> StepOutput {
    let loss = |model: &TwoLayers<B>, micro: Micro<B>| {
        let layers = [(&model.a, micro.layer_a), (&model.b, micro.layer_b)];
        let sums = layers
            .into_iter()
            .filter_map(|(w, values)| Some((w.val() * values?).sum()));
        LossSum {
            sum: sums.reduce(|left, right| left + right).unwrap(),
            weight: micro.items as f64,
        }
    };
    session.backward(model, batch, &Sorter, loss).unwrap()
}

on_both! {
    case_13_both_layers_are_reduced_when_each_node_uses_one
    case_15_parameter_stays_when_no_rank_uses_it
    case_15_gradient_is_1_when_one_node_of_one_rank_uses_it
}

const IN_ORDER: [Item; 4] = [A(1.0), Bb(2.0), A(3.0), Bb(6.0)];
const SWAPPED: [Item; 4] = [Bb(2.0), A(1.0), Bb(6.0), A(3.0)];

fn case_13_both_layers_are_reduced_when_each_node_uses_one<B: VirtualAutodiff>() {
    for shares in MAPPINGS {
        for batch in [IN_ORDER, SWAPPED] {
            let mut model = two_layers::<B>(1.0, 1.0);
            let mut session = start(shares, &mut model);
            let out = step(&mut session, &model, &batch);
            assert_close(gradient(&out, &model.a).unwrap()[0].into(), 1.0);
            assert_close(gradient(&out, &model.b).unwrap()[0].into(), 2.0);
        }
    }
}

/// Twenty steps on irregular values: the weights of every mapping are those of one device.
#[test]
fn case_13_weights_are_bitwise_equal_after_20_steps() {
    let run = |shares: &[usize]| -> Vec<WeightsHash> {
        let mut model = two_layers::<OnFlex>(0.7, -0.3);
        let mut session = start(shares, &mut model);
        let mut optim = sgd::<OnFlex>();
        let hashes = (0..20).map(|index| {
            let value = 1.0 / (index as f32 + 0.3);
            let batch = match index % 3 {
                0 => vec![A(value), Bb(3.0 - value), A(0.1), Bb(value * value)],
                1 => vec![Bb(value), Bb(0.3), Bb(value + 0.1), A(0.7)],
                _ => vec![A(value), A(0.3), A(0.9), A(-value), A(0.2)],
            };
            let out = step(&mut session, &model, &batch);
            model = optim.step(0.1, model.clone(), out.grads);
            hash(&model)
        });
        hashes.collect()
    };
    let one = run(&[4]);
    assert_ne!(one[0], one[19]);
    for shares in MAPPINGS {
        assert_eq!(run(shares), one, "{shares:?}");
    }
}

fn sgd<B: VirtualAutodiff>() -> impl Optimizer<TwoLayers<B>, B> {
    SgdConfig::new()
        .with_momentum(Some(
            MomentumConfig::new().with_momentum(0.9).with_dampening(0.0),
        ))
        .with_weight_decay(Some(WeightDecayConfig::new(0.1)))
        .init()
}

/// The first step leaves `a` at 1 with velocity 1: a gradient of zero would now move it by 0.1.
fn case_15_parameter_stays_when_no_rank_uses_it<B: VirtualAutodiff>() {
    let run = |shares: &[usize], unused_step: bool| {
        let mut model = two_layers::<B>(1.1, 1.0);
        let mut session = start(shares, &mut model);
        let mut optim = sgd::<B>();
        let out = step(&mut session, &model, &[A(0.89); 4]);
        model = optim.step(0.1, model, out.grads);
        let before = bits(model.a.val());
        assert_close(values(model.a.val())[0].into(), 1.0);
        if unused_step {
            let out = step(&mut session, &model, &[Bb(1.0), Bb(2.0), Bb(3.0), Bb(4.0)]);
            assert_eq!(gradient(&out, &model.a), None);
            assert_eq!(gradient(&out, &model.b).unwrap(), [2.5]);
            model = optim.step(0.1, model, out.grads);
            assert_eq!(bits(model.a.val()), before);
        }
        let out = step(&mut session, &model, &[A(2.0); 4]);
        model = optim.step(0.1, model, out.grads);
        bits(model.a.val())
    };
    for shares in MAPPINGS {
        // Its momentum, too, is what it was: the next step moves it as if nothing had been between.
        assert_eq!(run(shares, true), run(shares, false));
    }
}

fn case_15_gradient_is_1_when_one_node_of_one_rank_uses_it<B: VirtualAutodiff>() {
    for shares in MAPPINGS {
        for position in 0..4 {
            let mut batch = [Bb(1.0); 4];
            batch[position] = A(4.0);
            let mut model = two_layers::<B>(1.0, 1.0);
            let mut session = start(shares, &mut model);
            let out = step(&mut session, &model, &batch);
            assert_eq!(gradient(&out, &model.a).unwrap(), [1.0]);
            assert_eq!(gradient(&out, &model.b).unwrap(), [0.75]);
        }
    }
}
