//! The gradients of layers of every kind agree between backends.

use burn::module::Module;
use burn::nn::activation::ActivationConfig;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Embedding, EmbeddingConfig, LayerNorm,
    LayerNormConfig, Linear, LinearConfig, PaddingConfig2d,
};
use burn::tensor::activation::relu;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, TensorData};
use burn_virtual::nodes::{
    LossError, LossSum, Task, ValidModel, Verify, VerifySettings, cross_entropy_sum,
};

use crate::common::{OnFlex, OnNdArray, OnWgpu, fraction};

const WIDTH: usize = 8;
const CLASSES: usize = 3;
const WORDS: usize = 10;

/// A 4 x 4 image with a caption.
#[derive(Clone)]
struct Captioned {
    pixels: [f32; 16],
    caption: [u8; 5],
    class: u8,
}

fn items(count: usize) -> Vec<Captioned> {
    let item = |index: usize| {
        let at = |offset: usize| fraction((index * 100 + offset) as u64);
        Captioned {
            pixels: std::array::from_fn(|pixel| 2.0 * at(pixel) - 1.0),
            caption: std::array::from_fn(|word| (at(20 + word) * WORDS as f32) as u8),
            class: (at(50) * CLASSES as f32) as u8,
        }
    };
    (0..count).map(item).collect()
}

struct Captions<B: Backend> {
    images: Tensor<B, 4>,
    words: Tensor<B, 2, Int>,
    classes: Tensor<B, 1, Int>,
}

/// The image becomes a word in front of its caption; all words attend to each other.
#[derive(Module, Debug)]
struct Layers<B: Backend> {
    conv: Conv2d<B>,
    batch_norm: BatchNorm<B>,
    image: Linear<B>,
    embedding: Embedding<B>,
    attention: MultiHeadAttention<B>,
    layer_norm: LayerNorm<B>,
    encoder: TransformerEncoder<B>,
    dropout: Dropout,
    output: Linear<B>,
}

impl<B: Backend> Layers<B> {
    fn init(device: &B::Device) -> Self {
        Self {
            conv: Conv2dConfig::new([1, 2], [3, 3])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .init(device),
            batch_norm: BatchNormConfig::new(2).init(device),
            image: LinearConfig::new(32, WIDTH).init(device),
            embedding: EmbeddingConfig::new(WORDS, WIDTH).init(device),
            // Burn drops scores before their softmax: that would leave a hint of a gradient to the
            // bias of the keys.
            attention: MultiHeadAttentionConfig::new(WIDTH, 2)
                .with_dropout(0.0)
                .init(device),
            layer_norm: LayerNormConfig::new(WIDTH).init(device),
            // Not its GELU: but for flex, Burn has an approximate derivative of it.
            encoder: TransformerEncoderConfig::new(WIDTH, 16, 2, 1)
                .with_activation(ActivationConfig::Relu)
                .with_dropout(0.0)
                .init(device),
            dropout: DropoutConfig::new(0.3).init(),
            output: LinearConfig::new(WIDTH, CLASSES).init(device),
        }
    }

    fn logits(&self, images: Tensor<B, 4>, words: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let x = relu(self.batch_norm.forward(self.conv.forward(images)));
        let image = self.image.forward(x.flatten::<2>(1, 3));
        let words = self.embedding.forward(words);
        let x = Tensor::cat(vec![image.unsqueeze_dim::<3>(1), words], 1);
        let attended = self.attention.forward(MhaInput::self_attn(x.clone()));
        let x = self.layer_norm.forward(x + attended.context);
        let x = self.encoder.forward(TransformerEncoderInput::new(x));
        let x: Tensor<B, 2> = x.mean_dim(1).squeeze_dim(1);
        self.output.forward(self.dropout.forward(x))
    }
}

struct Captioning;

impl Task for Captioning {
    type Item = Captioned;
    type Prediction = u8;
    type Model<B: AutodiffBackend> = Layers<B>;
    type Batch<B: Backend> = Captions<B>;

    fn model<B: AutodiffBackend>(&self, device: &B::Device) -> Layers<B> {
        Layers::init(device)
    }

    fn batch<B: Backend>(&self, items: Vec<Captioned>, device: &B::Device) -> Captions<B> {
        let rows = items.len();
        let pixels: Vec<f32> = items.iter().flat_map(|item| item.pixels).collect();
        let words = items.iter().flat_map(|item| item.caption.map(i32::from));
        let classes: Vec<i32> = items.iter().map(|item| item.class.into()).collect();
        let words: Vec<i32> = words.collect();
        Captions {
            images: Tensor::from_data(TensorData::new(pixels, [rows, 1, 4, 4]), device),
            words: Tensor::from_data(TensorData::new(words, [rows, 5]), device),
            classes: Tensor::from_data(TensorData::new(classes, [rows]), device),
        }
    }

    fn loss<B: AutodiffBackend>(
        &self,
        model: &Layers<B>,
        batch: Captions<B>,
    ) -> Result<LossSum<B>, LossError> {
        cross_entropy_sum(model.logits(batch.images, batch.words), batch.classes)
    }

    fn predict<B: AutodiffBackend>(
        &self,
        model: &ValidModel<Self, B>,
        batch: Captions<B::InnerBackend>,
    ) -> Vec<u8> {
        let logits = model.logits(batch.images, batch.words);
        logits.argmax(1).into_data().iter().collect()
    }

    fn score(&self, item: &Captioned, prediction: &u8) -> f64 {
        f64::from(item.class == *prediction)
    }
}

/// Two of a layer with a bias and one of the embedding: convolution, batch norm, two linear layers
/// and a layer norm; four linear layers in each of two attentions; the encoder also has two linear
/// layers and two layer norms.
const PARAMETERS: usize = 1 + 2 * (5 + 2 * 4 + 4);

/// What has no gradient but rounding: batch norm takes a constant away again, and a softmax one that
/// all keys share.
const WITHOUT_GRADIENT: [&str; 3] = [
    "conv.bias",
    "attention.key.bias",
    "encoder.layers.0.mha.key.bias",
];

fn settings() -> VerifySettings {
    VerifySettings {
        steps: 2,
        batch_size: 24,
        virtual_nodes: 4,
        ..VerifySettings::default()
    }
}

#[test]
fn gradients_of_all_layers_agree_between_backends() {
    let items = items(24);
    let settings = settings();
    assert_eq!(settings.tolerance, 5e-5);
    let report = Verify::new(&Captioning, &items)
        .settings(settings)
        .backend::<OnFlex>("flex", [Default::default()])
        .unwrap()
        .inexact_backend::<OnNdArray>("ndarray", Default::default())
        .unwrap()
        .backend::<OnWgpu>("wgpu", [Default::default(), Default::default()])
        .unwrap()
        .report();
    assert_eq!(report.backends.len(), 3);
    for backend in &report.backends {
        assert_eq!(backend.layers.len(), PARAMETERS);
        let left_out = backend
            .layers
            .iter()
            .filter(|layer| layer.difference.is_none());
        let left_out: Vec<_> = left_out.map(|layer| layer.path.as_str()).collect();
        assert_eq!(left_out, WITHOUT_GRADIENT, "{}", backend.name);
        assert_eq!(backend.first_differing_layer(), None, "{}", backend.name);
        assert!(backend.gradient_difference() <= 5e-5, "{}", backend.name);
    }
    assert!(report.holds(), "{report}");
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn gradients_of_all_layers_agree_on_cuda() {
    let items = items(24);
    let report = Verify::new(&Captioning, &items)
        .settings(VerifySettings {
            tolerance: crate::ON_CUDA,
            ..settings()
        })
        .backend::<OnFlex>("flex", [Default::default()])
        .unwrap()
        .backend::<crate::common::OnCuda>("cuda", [Default::default(), Default::default()])
        .unwrap()
        .report();
    let [_, cuda] = &report.backends[..] else {
        panic!("{report}");
    };
    assert!(cuda.same_initial_weights && cuda.identical(), "{report}");
    assert_eq!(cuda.layers.len(), PARAMETERS);
    // TF32 rounds what would cancel out: there the rest is rounding, of any size.
    let compared = cuda.layers.iter().filter(|layer| {
        let path = layer.path.as_str();
        !WITHOUT_GRADIENT.contains(&path)
    });
    for layer in compared {
        let difference = layer.difference.unwrap();
        let path = &layer.path;
        assert!(difference <= crate::ON_CUDA, "{path}: {difference:.1e}");
    }
}
