//! Cases 1, 2, 3, 7 and 8: losses are sums, divided once by what was really there.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use burn_virtual::nodes::{LossSum, Session, StepOutput, TrainError, VirtualAutodiff};

use crate::common::{MAPPINGS, OneParam, assert_close, gradient, on_both, start};

/// The tokens of one sequence, each with its own gradient.
#[derive(Clone)]
struct Sequence(Vec<f32>);

fn tokens(count: usize, value: f32) -> Sequence {
    Sequence(vec![value; count])
}

/// Samples of one token each.
fn singles(values: &[f32]) -> Vec<Sequence> {
    values.iter().map(|&value| tokens(1, value)).collect()
}

/// Pads every sequence to the longest.
struct Padder;

struct Padded<B: Backend> {
    values: Tensor<B, 2>,
    mask: Tensor<B, 2>,
    tokens: usize,
}

impl<B: Backend> Batcher<B, Sequence, Padded<B>> for Padder {
    fn batch(&self, items: Vec<Sequence>, device: &B::Device) -> Padded<B> {
        const PAD: f32 = 99.0;
        assert!(!items.is_empty(), "a virtual node without samples was run");
        let lengths = items.iter().map(|item| item.0.len());
        let (longest, tokens) = (lengths.clone().max().unwrap_or(0).max(1), lengths.sum());
        let shape = [items.len(), longest];
        let place = |index: usize| items[index / longest].0.get(index % longest).copied();
        let places = 0..items.len() * longest;
        let values: Vec<f32> = places
            .clone()
            .map(|index| place(index).unwrap_or(PAD))
            .collect();
        let mask: Vec<f32> = places
            .map(|index| if place(index).is_some() { 1.0 } else { 0.0 })
            .collect();
        Padded {
            values: Tensor::from_data(TensorData::new(values, shape), device),
            mask: Tensor::from_data(TensorData::new(mask, shape), device),
            tokens,
        }
    }
}

fn sum<B: Backend>(model: &OneParam<B>, micro: &Padded<B>) -> Tensor<B, 1> {
    let weight = model.w.val().unsqueeze::<2>();
    (micro.values.clone() * weight * micro.mask.clone()).sum()
}

fn step<B: VirtualAutodiff>(
    session: &mut Session<B>,
    model: &OneParam<B>,
    batch: &[Sequence],
) -> Result<StepOutput, TrainError> {
    session.backward(model, batch, &Padder, |model, micro: Padded<B>| LossSum {
        sum: sum(model, &micro),
        weight: micro.tokens as f64,
    })
}

/// At a weight of 1 the loss has the value of the gradient.
#[track_caller]
fn assert_gradient<B: VirtualAutodiff>(shares: &[usize], batch: &[Sequence], expected: f64) {
    let mut model = OneParam::<B>::new(&[1.0]);
    let mut session = start(shares, &mut model);
    let out = step(&mut session, &model, batch).unwrap();
    assert_eq!(out.skipped, None);
    let got = gradient(&out, &model.w).unwrap();
    assert_close(got[0].into(), expected);
    assert_close(out.loss, expected);
    assert_close(out.norm, expected);
}

on_both! {
    case_01_gradient_is_210_over_110_when_sequences_differ_in_length
    case_01_gradient_is_26_over_16_for_every_mapping
    case_02_gradient_is_28_over_9_when_devices_differ_in_tokens
    case_02_gradient_is_not_scaled_twice_when_nodes_hold_copies
    case_03_gradient_stays_1_when_the_last_batch_is_short
    case_07_mean_is_5_5_for_every_split
    case_07_sum_loss_is_55_for_every_split
    case_08_gradient_is_3_when_most_nodes_are_empty
    case_08_batch_of_0_is_refused
}

fn case_01_gradient_is_210_over_110_when_sequences_differ_in_length<B: VirtualAutodiff>() {
    for shares in [&[2][..], &[1, 1]] {
        assert_gradient::<B>(shares, &[tokens(10, 1.0), tokens(100, 2.0)], 210.0 / 110.0);
    }
}

fn case_01_gradient_is_26_over_16_for_every_mapping<B: VirtualAutodiff>() {
    let batch = [
        [tokens(2, 1.0), tokens(2, 1.0), tokens(1, 1.0)].as_slice(),
        &[tokens(1, 8.0), tokens(0, 8.0), tokens(0, 8.0)],
        &[tokens(4, 1.0), tokens(3, 1.0)],
        &[tokens(2, 2.0), tokens(1, 2.0)],
    ]
    .concat();
    for shares in MAPPINGS {
        assert_gradient::<B>(shares, &batch, 1.625);
    }
}

fn case_02_gradient_is_28_over_9_when_devices_differ_in_tokens<B: VirtualAutodiff>() {
    let batch = [
        tokens(3, 1.0),
        tokens(1, 5.0),
        tokens(5, 4.0),
        tokens(0, 0.0),
    ];
    for shares in MAPPINGS {
        assert_gradient::<B>(shares, &batch, 28.0 / 9.0);
    }
}

fn case_02_gradient_is_not_scaled_twice_when_nodes_hold_copies<B: VirtualAutodiff>() {
    for shares in MAPPINGS {
        assert_gradient::<B>(shares, &singles(&[1.0; 4]), 1.0);
    }
}

fn case_03_gradient_stays_1_when_the_last_batch_is_short<B: VirtualAutodiff>() {
    for (samples, sizes) in [(10, [4, 4, 2]), (9, [4, 4, 1])] {
        for shares in [&[2][..], &[1, 1]] {
            let mut model = OneParam::<B>::new(&[1.0]);
            let mut session = start(shares, &mut model);
            let mut seen = Vec::new();
            for batch in singles(&vec![1.0; samples]).chunks(4) {
                let out = step(&mut session, &model, batch).unwrap();
                assert_close(gradient(&out, &model.w).unwrap()[0].into(), 1.0);
                seen.push(out.weight as usize);
            }
            assert_eq!(seen, sizes);
        }
    }
}

const SPLITS: [&[usize]; 5] = [&[7, 3], &[9, 1], &[5, 5], &[10], &[1, 9]];

fn ten() -> Vec<Sequence> {
    singles(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
}

fn case_07_mean_is_5_5_for_every_split<B: VirtualAutodiff>() {
    for shares in SPLITS {
        assert_gradient::<B>(shares, &ten(), 5.5);
    }
}

/// A loss that is a sum over the batch weighs 1 in all, whatever share of it a node has.
fn case_07_sum_loss_is_55_for_every_split<B: VirtualAutodiff>() {
    for shares in SPLITS {
        let mut model = OneParam::<B>::new(&[1.0]);
        let mut session = start(shares, &mut model);
        let loss = |model: &OneParam<B>, micro: Padded<B>| LossSum {
            sum: sum(model, &micro),
            weight: micro.tokens as f64 / 10.0,
        };
        let out = session.backward(&model, &ten(), &Padder, loss).unwrap();
        assert_close(gradient(&out, &model.w).unwrap()[0].into(), 55.0);
        assert_close(out.loss, 55.0);
    }
}

fn case_08_gradient_is_3_when_most_nodes_are_empty<B: VirtualAutodiff>() {
    for shares in [&[4, 4][..], &[8], &[1; 8], &[5, 3], &[1, 1, 6]] {
        let mut model = OneParam::<B>::new(&[1.0]);
        let mut session = start(shares, &mut model);
        let calls = AtomicUsize::new(0);
        let loss = |model: &OneParam<B>, micro: Padded<B>| {
            calls.fetch_add(1, Relaxed);
            assert_eq!(micro.values.dims()[0], 1);
            LossSum {
                sum: sum(model, &micro),
                weight: micro.tokens as f64,
            }
        };
        let out = session
            .backward(&model, &singles(&[1.0, 2.0, 6.0]), &Padder, loss)
            .unwrap();
        assert_close(gradient(&out, &model.w).unwrap()[0].into(), 3.0);
        assert_close(out.loss, 3.0);
        assert_eq!(calls.into_inner(), 3);
    }
}

fn case_08_batch_of_0_is_refused<B: VirtualAutodiff>() {
    let mut model = OneParam::<B>::new(&[1.0]);
    let mut session = start(&[4, 4], &mut model);
    let error = step(&mut session, &model, &[]).unwrap_err();
    assert!(matches!(error, TrainError::EmptyBatch), "{error}");
    assert_eq!(session.applied_steps(), 0);
}
