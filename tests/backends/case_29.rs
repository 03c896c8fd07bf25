//! Case 29: backends agree within a stated tolerance, and a GPU repeats its bits or refuses to start.

use std::collections::BTreeMap;
use std::path::Path;

use burn::data::dataloader::batcher::Batcher;
use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::Optimizer;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use burn_virtual::nodes::{
    LossError, LossSum, VirtualAutodiff, VirtualNodes, WeightsHash, cross_entropy_sum,
    load_weights, save_weights,
};

use crate::common::{OnFlex, OnNdArray, OnWgpu, adam, devices, fraction, gradient, hash, on_gpus};
use crate::tensors::{self, ByPath, gap};

const WORDS: usize = 12;
const CLASSES: usize = 5;
const TOLERANCE: f64 = 1e-4;

/// A mean of embeddings through a hidden layer and a layer norm.
#[derive(Module, Debug)]
struct Bag<B: Backend> {
    embedding: Embedding<B>,
    hidden: Linear<B>,
    norm: LayerNorm<B>,
    output: Linear<B>,
}

const PARAMETERS: [&str; 7] = [
    "embedding.weight",
    "hidden.bias",
    "hidden.weight",
    "norm.beta",
    "norm.gamma",
    "output.bias",
    "output.weight",
];

impl<B: Backend> Bag<B> {
    fn init() -> Self {
        let device = Default::default();
        Self {
            embedding: EmbeddingConfig::new(WORDS, 16).init(&device),
            hidden: LinearConfig::new(16, 32).init(&device),
            norm: LayerNormConfig::new(32).init(&device),
            output: LinearConfig::new(32, CLASSES).init(&device),
        }
    }

    fn logits(&self, words: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let x: Tensor<B, 2> = self.embedding.forward(words).mean_dim(1).squeeze_dim(1);
        self.output
            .forward(relu(self.norm.forward(self.hidden.forward(x))))
    }
}

/// Some words, and what they are about.
type Text = ([i32; 6], i32);

fn texts(seed: u64, count: usize) -> Vec<Text> {
    let text = |index: usize| {
        let at = |offset: usize| fraction((seed << 32) + (index * 10 + offset) as u64);
        let words = std::array::from_fn(|word| (at(word) * WORDS as f32) as i32);
        (words, (at(6) * CLASSES as f32) as i32)
    };
    (0..count).map(text).collect()
}

struct Texts;

impl<B: Backend> Batcher<B, Text, (Tensor<B, 2, Int>, Tensor<B, 1, Int>)> for Texts {
    fn batch(
        &self,
        items: Vec<Text>,
        device: &B::Device,
    ) -> (Tensor<B, 2, Int>, Tensor<B, 1, Int>) {
        let rows = items.len();
        let (words, classes): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        let words = TensorData::new(words.into_flattened(), [rows, 6]);
        let classes = TensorData::new(classes, [rows]);
        (
            Tensor::from_data(words, device),
            Tensor::from_data(classes, device),
        )
    }
}

fn loss<B: Backend>(
    model: &Bag<B>,
    (words, classes): (Tensor<B, 2, Int>, Tensor<B, 1, Int>),
) -> Result<LossSum<B>, LossError> {
    cross_entropy_sum(model.logits(words), classes)
}

/// Whether the backend fuses kernels, and its session has to be allowed to drift.
#[derive(Clone, Copy)]
enum Kernels {
    Single,
    #[cfg(feature = "fusion")]
    Fused,
}

fn nodes(count: usize, kernels: Kernels) -> VirtualNodes {
    let nodes = VirtualNodes::new(count);
    match kernels {
        Kernels::Single => nodes,
        #[cfg(feature = "fusion")]
        Kernels::Fused => nodes.allow_drift(),
    }
}

/// The gradients of one step from the weights of a file, whose hash they have.
fn gradients<B: VirtualAutodiff>(file: &Path, saved: WeightsHash, kernels: Kernels) -> ByPath<f32> {
    let mut model = Bag::<B>::init();
    assert_eq!(load_weights(&mut model, file).unwrap(), saved);
    let mut session = nodes(4, kernels).start(&mut model).unwrap();
    assert_eq!(hash(&model), saved);
    let out = session
        .backward(&model, &texts(0, 32), &Texts, loss)
        .unwrap();
    assert_eq!(out.skipped, None);
    tensors::gradients(&model, &out.grads)
}

/// Compares those of a backend with ndarray's, which also draws the weights.
fn assert_gradients_agree<B: VirtualAutodiff>(kernels: Kernels, tolerance: f64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weights.safetensors");
    let mut model = Bag::<OnNdArray>::init();
    VirtualNodes::new(4).start(&mut model).unwrap();
    let saved = save_weights(&model, &file, &BTreeMap::new()).unwrap();

    let expected = gradients::<OnNdArray>(&file, saved, Kernels::Single);
    assert!(expected.keys().eq(&PARAMETERS));
    let found = gradients::<B>(&file, saved, kernels);
    let backend = B::name(&B::Device::default());
    assert!(found.keys().eq(expected.keys()), "{backend}");
    for (path, got) in &found {
        let gap = gap(got, &expected[path]);
        assert!(gap <= tolerance, "{backend}, {path}: {gap:.1e}");
    }
}

#[test]
fn case_29_gradients_from_one_weights_file_agree_between_backends() {
    assert_gradients_agree::<OnFlex>(Kernels::Single, TOLERANCE);
    assert_gradients_agree::<OnWgpu>(Kernels::Single, TOLERANCE);
    #[cfg(feature = "fusion")]
    assert_gradients_agree::<crate::common::OnFusedWgpu>(Kernels::Fused, TOLERANCE);
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn case_29_gradients_from_one_weights_file_agree_with_those_on_cuda() {
    assert_gradients_agree::<crate::common::OnCuda>(Kernels::Single, crate::ON_CUDA);
}

/// Ids 3, 3, 3, 1 into an embedding of 5 rows; each output has gradient 1.
fn assert_rows_are_counted<B: VirtualAutodiff>(kernels: Kernels) {
    for count in [1, 2, 4] {
        let mut model: Embedding<B> = EmbeddingConfig::new(5, 3).init(&Default::default());
        let mut session = nodes(count, kernels).start(&mut model).unwrap();
        let ids = TensorData::new(vec![3, 3, 3, 1], [4, 1]);
        let ids = Tensor::<B, 2, Int>::from_data(ids, &Default::default());
        let loss = |model: &Embedding<B>, ids: Tensor<B, 2, Int>| LossSum {
            weight: ids.dims()[0] as f64 / 4.0,
            sum: model.forward(ids).sum(),
        };
        let out = session.backward_batch(&model, &ids, loss).unwrap();
        let rows = [0.0, 1.0, 0.0, 3.0, 0.0].map(|row| [row; 3]);
        assert_eq!(gradient(&out, &model.weight).unwrap(), rows.as_flattened());
    }
}

#[test]
fn case_29_embedding_counts_each_use_of_a_row_on_every_backend() {
    assert_rows_are_counted::<OnFlex>(Kernels::Single);
    assert_rows_are_counted::<OnNdArray>(Kernels::Single);
    assert_rows_are_counted::<OnWgpu>(Kernels::Single);
    #[cfg(feature = "fusion")]
    assert_rows_are_counted::<crate::common::OnFusedWgpu>(Kernels::Fused);
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn case_29_embedding_counts_each_use_of_a_row_on_cuda() {
    assert_rows_are_counted::<crate::common::OnCuda>(Kernels::Single);
}

/// The loss of each of 50 steps, and the weights after them.
fn train<B: VirtualAutodiff>(ranks: usize) -> (Vec<u64>, WeightsHash) {
    let mut model = Bag::<B>::init();
    let mut session = VirtualNodes::new(4)
        .devices(devices::<B>(ranks))
        .start(&mut model)
        .unwrap();
    let mut optim = adam::<B, Bag<B>>();
    let steps = (0..50).map(|step| {
        let out = session
            .backward(&model, &texts(step, 16), &Texts, loss)
            .unwrap();
        model = optim.step(0.01, model.clone(), out.grads);
        out.loss.to_bits()
    });
    let losses: Vec<_> = steps.collect();
    (losses, hash(&model))
}

on_gpus! { case_29_weights_with_an_embedding_and_a_layer_norm_are_equal_on_one_rank_and_on_two }

fn case_29_weights_with_an_embedding_and_a_layer_norm_are_equal_on_one_rank_and_on_two<
    B: VirtualAutodiff,
>() {
    let first = train::<B>(1);
    assert!(first.0.windows(2).all(|two| two[0] != two[1]));
    assert_eq!(train::<B>(2), first);
}

#[cfg(feature = "fusion")]
#[test]
fn case_29_fused_kernels_are_refused_by_name_unless_drift_is_allowed() {
    use burn_virtual::nodes::TrainError;

    type B = crate::common::OnFusedWgpu;

    let mut model = Bag::<B>::init();
    let error = VirtualNodes::new(4).start(&mut model).err().unwrap();
    assert!(matches!(error, TrainError::Fusion { .. }), "{error}");
    assert!(error.to_string().contains("fusion<cubecl<wgpu"), "{error}");
    assert!(error.to_string().contains("allow_drift"), "{error}");
    VirtualNodes::new(4)
        .allow_drift()
        .start(&mut model)
        .unwrap();
}
