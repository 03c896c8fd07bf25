//! Micro-batches that weigh something else than their number of items.

use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_flex::FlexDevice;
use burn_virtual_train::learner::Virtual;
use burn_virtual_train::{NodeError, Skipped, TrainError, VirtualNodes};

use crate::common::{B, assert_close, values};

/// A number to be doubled; padding does not count.
#[derive(Clone, Debug)]
struct Item {
    value: f32,
    counts: bool,
}

/// Eight items, two for each of four virtual nodes, of which `counting` count.
fn items(counting: [bool; 8]) -> Vec<Item> {
    let items = counting.into_iter().enumerate();
    items
        .map(|(index, counts)| Item {
            value: (index as f32 * 1.3).sin(),
            counts,
        })
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct Masked;

struct Batch<B: Backend> {
    inputs: Tensor<B, 2>,
    mask: Tensor<B, 2>,
}

impl<B: Backend> Batcher<B, Item, Batch<B>> for Masked {
    fn batch(&self, items: Vec<Item>, device: &B::Device) -> Batch<B> {
        let column = |value: fn(&Item) -> f32| {
            let values: Vec<_> = items.iter().map(value).collect();
            Tensor::from_data(TensorData::new(values, [items.len(), 1]), device)
        };
        Batch {
            inputs: column(|item| item.value),
            mask: column(|item| f32::from(u8::from(item.counts))),
        }
    }
}

#[derive(Module, Debug)]
struct Doubler<B: Backend> {
    layer: Linear<B>,
}

impl<B: Backend> Doubler<B> {
    /// The mean over the items that count: 0/0 where none does.
    fn regress(&self, batch: Batch<B>) -> RegressionOutput<B> {
        let output = self.layer.forward(batch.inputs.clone());
        let targets = batch.inputs.mul_scalar(2);
        let errors = (output.clone() - targets.clone()).powi_scalar(2) * batch.mask.clone();
        let loss = errors.sum() / batch.mask.sum();
        RegressionOutput::new(loss, output, targets)
    }
}

impl<B: AutodiffBackend> TrainStep for Doubler<B> {
    type Input = Batch<B>;
    type Output = RegressionOutput<B>;

    fn step(&self, batch: Batch<B>) -> TrainOutput<RegressionOutput<B>> {
        let output = self.regress(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<B: Backend> InferenceStep for Doubler<B> {
    type Input = Batch<B>;
    type Output = RegressionOutput<B>;

    fn step(&self, batch: Batch<B>) -> RegressionOutput<B> {
        self.regress(batch)
    }
}

type Wrapped = Virtual<B, Doubler<B>, Masked, Item>;

fn wrapped(ranks: usize, weight: fn(&[Item]) -> f64) -> Wrapped {
    let mut model = Doubler {
        layer: LinearConfig::new(1, 1).init(&FlexDevice),
    };
    let nodes = VirtualNodes::new(4)
        .devices(vec![FlexDevice; ranks])
        .start(&mut model)
        .unwrap();
    Virtual::new(nodes, model, Masked).with_weight(weight)
}

fn counting(items: &[Item]) -> f64 {
    items.iter().filter(|item| item.counts).count() as f64
}

fn gradients(model: &Wrapped, grads: &burn::optim::GradientsParams) -> [Vec<f32>; 2] {
    let layer = &model.model().layer;
    let weight = grads.get::<crate::common::V, 2>(layer.weight.id).unwrap();
    let bias = layer.bias.as_ref().unwrap();
    let bias = grads.get::<crate::common::V, 1>(bias.id).unwrap();
    [values(weight), values(bias)]
}

/// The second virtual node has no item that counts, the third has one.
const UNEVEN: [bool; 8] = [true, true, false, false, false, true, true, true];

#[test]
fn steps_are_the_models_own_step_when_items_count_unevenly() {
    for ranks in [1, 3] {
        let model = wrapped(ranks, counting);
        let got = model.try_step(&items(UNEVEN)).unwrap();
        let whole = Masked.batch(items(UNEVEN), &FlexDevice);
        let own = TrainStep::step(model.model(), whole);
        let [weight, bias] = gradients(&model, &got.grads);
        let [own_weight, own_bias] = gradients(&model, &own.grads);
        assert_close(&weight, &own_weight);
        assert_close(&bias, &own_bias);
        assert_close(&values(got.item.loss), &values(own.item.loss));
        // Padding is in the output as it is in the model's own.
        assert_close(&values(got.item.output), &values(own.item.output));
    }
}

#[test]
fn validation_is_the_models_own_when_items_count_unevenly() {
    let model = wrapped(3, counting).valid();
    let got = model.try_step(&items(UNEVEN)).unwrap();
    let whole = Masked.batch(items(UNEVEN), &FlexDevice);
    let own = InferenceStep::step(model.model(), whole);
    assert_close(&values(got.loss), &values(own.loss));
    assert_close(&values(got.output), &values(own.output));
}

#[test]
fn steps_are_skipped_when_no_item_counts() {
    let model = wrapped(2, counting);
    let out = model.try_step(&items([false; 8])).unwrap();
    assert!(out.grads.is_empty());
    assert_eq!(
        model.handle().status().last_skipped,
        Some((0, Skipped::NoItems))
    );
    assert_eq!(model.handle().status().applied_steps, 0);
}

#[test]
fn weights_are_refused_when_not_finite_and_at_least_zero() {
    let weights: [fn(&[Item]) -> f64; 3] = [|_| f64::NAN, |_| -1.0, |_| f64::INFINITY];
    for weight in weights {
        let Err(error) = wrapped(2, weight).try_step(&items([true; 8])) else {
            panic!("a step");
        };
        let expected = matches!(
            error,
            TrainError::Node {
                source: NodeError::Weight(_),
                ..
            }
        );
        assert!(expected, "{error}");
    }
}
