//! Case 27: dropout masks belong to virtual nodes, not to devices.

use std::collections::BTreeMap;
use std::sync::Mutex;

use burn::data::dataloader::batcher::Batcher;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use burn_virtual::backend::{Scope, enter};
use burn_virtual::nodes::{LossSum, Session, VirtualAutodiff, VirtualNodes};

use crate::common::{MAPPINGS, OnFlex, OnNdArray, bits, devices, hash, on_both};

const WIDTH: usize = 64;
const SEED: u64 = 11;

/// Two dropout layers around one linear layer.
#[derive(Module, Debug)]
pub(crate) struct Dropping<B: Backend> {
    linear: Linear<B>,
    dropout: Dropout,
}

fn dropping<B: Backend>() -> Dropping<B> {
    let linear = LinearConfig::new(WIDTH, WIDTH).init(&Default::default());
    Dropping {
        linear,
        dropout: DropoutConfig::new(0.5).init(),
    }
}

/// Item `n` is the only sample of virtual node `n`.
struct Ones;

impl<B: Backend> Batcher<B, usize, (usize, Tensor<B, 2>)> for Ones {
    fn batch(&self, items: Vec<usize>, device: &B::Device) -> (usize, Tensor<B, 2>) {
        let [node] = items[..] else {
            panic!("expected 1 item, got {}", items.len())
        };
        let ones = TensorData::new(vec![1.0_f32; WIDTH], [1, WIDTH]);
        (node, Tensor::from_data(ones, device))
    }
}

/// By virtual node: the masks of both layers, and the weights that the node saw.
pub(crate) type Seen = BTreeMap<usize, ([Vec<u32>; 2], Vec<u32>)>;

pub(crate) fn begin<B: VirtualAutodiff>(seed: u64, shares: &[usize]) -> (Session<B>, Dropping<B>) {
    let mut model = dropping::<B>();
    let session = VirtualNodes::new(4)
        .seed(seed)
        .devices(devices::<B>(shares.len()))
        .shares(shares.iter().copied())
        .start(&mut model)
        .unwrap();
    (session, model)
}

pub(crate) fn step<B: VirtualAutodiff>(session: &mut Session<B>, model: &Dropping<B>) -> Seen {
    let seen = Mutex::new(Seen::new());
    let loss = |model: &Dropping<B>, (node, ones): (usize, Tensor<B, 2>)| {
        let first = model.dropout.forward(ones.clone());
        let sum = model.linear.forward(first.clone()).sum();
        let second = model.dropout.forward(ones);
        let masks = [bits(first), bits(second)];
        let weights = bits(model.linear.weight.val());
        seen.lock().unwrap().insert(node, (masks, weights));
        LossSum { sum, weight: 1.0 }
    };
    session.backward(model, &[0, 1, 2, 3], &Ones, loss).unwrap();
    seen.into_inner().unwrap()
}

on_both! {
    case_27_masks_differ_between_nodes_layers_and_steps
    case_27_masks_are_equal_for_every_mapping
    case_27_masks_are_equal_when_nodes_run_in_reverse
    case_27_masks_go_on_when_the_device_count_changes
    case_27_initial_weights_are_equal_on_all_ranks
}

fn case_27_masks_differ_between_nodes_layers_and_steps<B: VirtualAutodiff>() {
    let (mut session, model) = begin::<B>(SEED, &[2, 2]);
    let steps = [step(&mut session, &model), step(&mut session, &model)];
    let masks = steps
        .iter()
        .flat_map(|seen| seen.values())
        .flat_map(|(masks, _)| masks);
    let masks: Vec<_> = masks.collect();
    assert_eq!(masks.len(), 16);
    for (index, mask) in masks.iter().enumerate() {
        assert!(!masks[..index].contains(mask), "mask {index} occurs twice");
        let kept = mask.iter().filter(|&&value| value != 0).count();
        assert!((10..55).contains(&kept), "{kept} of {WIDTH} kept");
    }
}

fn case_27_masks_are_equal_for_every_mapping<B: VirtualAutodiff>() {
    let run = |shares: &[usize]| {
        let (mut session, model) = begin::<B>(SEED, shares);
        [step(&mut session, &model), step(&mut session, &model)]
    };
    let expected = run(&[4]);
    for shares in MAPPINGS {
        assert_eq!(run(shares), expected, "{shares:?}");
    }
}

/// A node's stream needs nothing but its name: last first, outside any session.
fn case_27_masks_are_equal_when_nodes_run_in_reverse<B: VirtualAutodiff>() {
    let (mut session, model) = begin::<B>(SEED, &[1, 3]);
    step(&mut session, &model);
    let seen = step(&mut session, &model);
    for (&node, (masks, _)) in seen.iter().rev() {
        let _scope = enter(Scope::Node {
            seed: SEED,
            step: 1,
            node: node as u64,
        });
        let ones = Tensor::<B, 2>::ones([1, WIDTH], &Default::default());
        let again = [(); 2].map(|()| bits(model.dropout.forward(ones.clone())));
        assert_eq!(&again, masks, "virtual node {node}");
    }
}

fn case_27_masks_go_on_when_the_device_count_changes<B: VirtualAutodiff>() {
    let (mut still, model) = begin::<B>(SEED, &[4]);
    let expected: Vec<Seen> = (0..4).map(|_| step(&mut still, &model)).collect();
    let (mut moved, model) = begin::<B>(SEED, &[1, 1, 1, 1]);
    for (expected, ranks) in expected.into_iter().zip([2, 1, 3, 4]) {
        assert_eq!(step(&mut moved, &model), expected);
        moved.resize(devices::<B>(ranks)).unwrap();
    }
}

fn case_27_initial_weights_are_equal_on_all_ranks<B: VirtualAutodiff>() {
    let (_, expected) = begin::<B>(SEED, &[4]);
    for shares in MAPPINGS {
        let (mut session, model) = begin::<B>(SEED, shares);
        assert_eq!(hash(&model), hash(&expected));
        for (node, (_, weights)) in step(&mut session, &model) {
            assert_eq!(
                weights,
                bits(expected.linear.weight.val()),
                "virtual node {node}"
            );
        }
    }
    let mut other = dropping::<B>();
    VirtualNodes::new(4)
        .seed(SEED + 1)
        .devices(devices::<B>(1))
        .start(&mut other)
        .unwrap();
    assert_ne!(hash(&other), hash(&expected));
}

#[test]
fn case_27_masks_are_equal_on_both_backends() {
    let (mut flex, model) = begin::<OnFlex>(SEED, &[2, 2]);
    let on_flex = step(&mut flex, &model);
    let (mut ndarray, model) = begin::<OnNdArray>(SEED, &[3, 1]);
    assert_eq!(step(&mut ndarray, &model), on_flex);
}
