//! Initial weights, data and dropout masks have the same bits on every backend.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use burn::module::{AutodiffModule, Module};
use burn::nn::attention::{MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig};
use burn::nn::conv::{ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Embedding, EmbeddingConfig, GroupNorm,
    GroupNormConfig, Gru, GruConfig, Initializer, LayerNorm, LayerNormConfig, Linear, LinearConfig,
    Lstm, LstmConfig,
};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn_virtual::models::{
    Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, DigitsMlp, DigitsMlpConfig,
};
use burn_virtual::nodes::{
    VirtualAutodiff, VirtualNodes, WeightsHash, cross_entropy_sum, load_weights, save_weights,
};

use crate::common::{OnFlex, bits, hash, on_all, on_gpus, values};
use crate::tensors::{gap, tensors};

/// Every way that Burn has to draw initial weights. The last one computes on the device with what it
/// drew: see below.
const INITIALIZERS: [Initializer; 10] = [
    Initializer::Constant { value: 0.3 },
    Initializer::Ones,
    Initializer::Zeros,
    Initializer::Uniform {
        min: -0.7,
        max: 0.4,
    },
    Initializer::Normal {
        mean: 0.1,
        std: 0.3,
    },
    Initializer::KaimingUniform {
        gain: 1.3,
        fan_out_only: false,
    },
    Initializer::KaimingNormal {
        gain: 1.3,
        fan_out_only: true,
    },
    Initializer::XavierUniform { gain: 0.9 },
    Initializer::XavierNormal { gain: 0.9 },
    Initializer::Orthogonal { gain: 1.1 },
];

/// The place in the list: with an initializer that isn't in it, this does not compile.
fn place(initializer: &Initializer) -> usize {
    match initializer {
        Initializer::Constant { .. } => 0,
        Initializer::Ones => 1,
        Initializer::Zeros => 2,
        Initializer::Uniform { .. } => 3,
        Initializer::Normal { .. } => 4,
        Initializer::KaimingUniform { .. } => 5,
        Initializer::KaimingNormal { .. } => 6,
        Initializer::XavierUniform { .. } => 7,
        Initializer::XavierNormal { .. } => 8,
        Initializer::Orthogonal { .. } => 9,
    }
}

/// A layer for each initializer but the last, and layers with initializers of their own.
#[derive(Module, Debug)]
struct Zoo<B: Backend> {
    drawn: Vec<Linear<B>>,
    conv1d: Conv1d<B>,
    conv2d: Conv2d<B>,
    transposed: ConvTranspose2d<B>,
    batch_norm: BatchNorm<B>,
    layer_norm: LayerNorm<B>,
    group_norm: GroupNorm<B>,
    embedding: Embedding<B>,
    attention: MultiHeadAttention<B>,
    encoder: TransformerEncoder<B>,
    gru: Gru<B>,
    lstm: Lstm<B>,
    cnn: DigitsCnn<B>,
    mlp: DigitsMlp<B>,
}

fn linear<B: Backend>(initializer: &Initializer) -> Linear<B> {
    LinearConfig::new(24, 10)
        .with_bias(false)
        .with_initializer(initializer.clone())
        .init(&Default::default())
}

fn zoo<B: Backend>() -> Zoo<B> {
    let device = Default::default();
    let [drawn @ .., _orthogonal] = &INITIALIZERS;
    Zoo {
        drawn: drawn.iter().map(linear).collect(),
        conv1d: Conv1dConfig::new(3, 5, 3).init(&device),
        conv2d: Conv2dConfig::new([3, 5], [3, 3]).init(&device),
        transposed: ConvTranspose2dConfig::new([3, 5], [2, 2]).init(&device),
        batch_norm: BatchNormConfig::new(5).init(&device),
        layer_norm: LayerNormConfig::new(7).init(&device),
        group_norm: GroupNormConfig::new(2, 6).init(&device),
        embedding: EmbeddingConfig::new(11, 7).init(&device),
        attention: MultiHeadAttentionConfig::new(8, 2).init(&device),
        encoder: TransformerEncoderConfig::new(8, 16, 2, 2).init(&device),
        gru: GruConfig::new(4, 6, true).init(&device),
        lstm: LstmConfig::new(4, 6, true).init(&device),
        cnn: DigitsCnnConfig::new().init(&device),
        mlp: DigitsMlpConfig::new().init(&device),
    }
}

/// A model with its initial weights.
fn started<B: VirtualAutodiff, M: AutodiffModule<B>>(mut model: M) -> M {
    VirtualNodes::new(4).seed(42).start(&mut model).unwrap();
    model
}

/// By path, the bits of the initial weights; and their hash.
fn initial<B: VirtualAutodiff>() -> (BTreeMap<String, Vec<u32>>, WeightsHash) {
    let model = started::<B, _>(zoo());
    (tensors(&model), hash(&model))
}

on_all! {
    @ndarray
    initial_weights_have_the_bits_of_flex
    orthogonal_weights_have_the_bits_of_flex_by_way_of_a_file
    data_and_dropout_masks_have_the_bits_of_flex
}
on_gpus! {
    initial_weights_have_the_bits_of_flex
    orthogonal_weights_have_the_bits_of_flex_by_way_of_a_file
    data_and_dropout_masks_have_the_bits_of_flex
}

fn initial_weights_have_the_bits_of_flex<B: VirtualAutodiff>() {
    let (expected, expected_hash) = initial::<OnFlex>();
    let (weights, hash) = initial::<B>();
    assert!(weights.keys().eq(expected.keys()));
    let other = |path: &&String| weights[*path] != expected[*path];
    let different: Vec<_> = expected.keys().filter(other).collect();
    assert!(different.is_empty(), "{different:?}");
    assert_eq!(hash, expected_hash);
}

#[test]
fn initial_weights_are_of_every_initializer_and_only_constant_ones_have_one_value() {
    assert!(INITIALIZERS.iter().map(place).eq(0..INITIALIZERS.len()));
    let (weights, _) = initial::<OnFlex>();
    for (index, initializer) in INITIALIZERS[..9].iter().enumerate() {
        let values = &weights[&format!("drawn.{index}.weight")];
        let constant = values.iter().all(|value| *value == values[0]);
        assert_eq!(constant, index < 3, "{initializer:?}");
    }
}

/// What backends compute they round differently: such weights are taken over from one of them.
fn orthogonal_weights_have_the_bits_of_flex_by_way_of_a_file<B: VirtualAutodiff>() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weights.safetensors");
    let flex = started::<OnFlex, _>(linear(&INITIALIZERS[9]));
    let saved = save_weights(&flex, &file, &BTreeMap::new()).unwrap();
    let expected = values(flex.weight.val());

    let drawn = started::<B, _>(linear(&INITIALIZERS[9]));
    assert!(gap(&values(drawn.weight.val()), &expected) < 1e-5);
    let mut loaded = linear(&INITIALIZERS[9]);
    load_weights(&mut loaded, &file).unwrap();
    assert_eq!(hash(&started::<B, _>(loaded)), saved);
}

#[derive(Module, Debug)]
struct Dropping<B: Backend> {
    first: Dropout,
    second: Dropout,
    mlp: DigitsMlp<B>,
}

/// What one virtual node had on its device in one step.
#[derive(Debug, PartialEq)]
struct Seen {
    images: Vec<u32>,
    labels: Vec<i64>,
    masks: [Vec<u32>; 2],
}

/// Three steps of four virtual nodes: on one rank they run in order.
fn seen<B: VirtualAutodiff>() -> Vec<Seen> {
    let digits = Digits::load().unwrap();
    let mut model = Dropping::<B> {
        first: DropoutConfig::new(0.5).init(),
        second: DropoutConfig::new(0.3).init(),
        mlp: DigitsMlpConfig::new()
            .with_hidden([8, 8])
            .init(&Default::default()),
    };
    let mut session = VirtualNodes::new(4).seed(42).start(&mut model).unwrap();
    let seen = Mutex::new(Vec::new());
    let loss = |model: &Dropping<B>, micro: DigitsBatch<B>| {
        let images = micro.images.clone();
        let masks = [&model.first, &model.second]
            .map(|dropout| bits(dropout.forward(Tensor::ones_like(&images))));
        seen.lock().unwrap().push(Seen {
            images: bits(images),
            labels: micro.targets.to_data().iter().collect(),
            masks,
        });
        cross_entropy_sum(model.mlp.forward(micro.images), micro.targets)
    };
    for items in digits.epoch(42, 0).batches(18).unwrap().take(3) {
        let out = session
            .backward(&model, items, &DigitsBatcher, loss)
            .unwrap();
        assert_eq!(out.skipped, None);
    }
    assert_eq!(session.applied_steps(), 3);
    seen.into_inner().unwrap()
}

fn data_and_dropout_masks_have_the_bits_of_flex<B: VirtualAutodiff>() {
    let expected = seen::<OnFlex>();
    assert_eq!(expected.len(), 12);
    assert_eq!(seen::<B>(), expected);
}

#[test]
fn data_are_in_the_order_of_the_epoch_and_differ_as_masks_do_between_virtual_nodes() {
    let expected = seen::<OnFlex>();
    let images: BTreeSet<_> = expected.iter().map(|seen| &seen.images).collect();
    let masks: BTreeSet<_> = expected.iter().flat_map(|seen| &seen.masks).collect();
    assert_eq!((images.len(), masks.len()), (12, 24));
    let digits = Digits::load().unwrap();
    let epoch = digits.epoch(42, 0);
    let labels = epoch.items().iter().map(|digit| i64::from(digit.label));
    assert!(
        labels
            .take(3 * 18)
            .eq(expected.iter().flat_map(|seen| seen.labels.clone()))
    );
}
