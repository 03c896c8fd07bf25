//! What is trained: one layer of each kind that has a gradient of its own, in a row.

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};
use burn_virtual_backend::VirtualBackend;
use burn_virtual_train::{
    LossError, LossSum, Task, TrainError, ValidModel, Verify, VerifySettings, squared_error_sum,
};

use crate::broken::{Broken, Fault};

/// Autodiff on virtual nodes on Flex.
pub(crate) type Sound = Autodiff<VirtualBackend<Flex>>;

/// The same with a fault.
pub(crate) type Faulty<F> = Autodiff<VirtualBackend<Broken<Flex, F>>>;

const VOCABULARY: usize = 7;
const SIDE: usize = 4;
const CHANNELS: usize = 2;
const FILTERS: usize = 3;

/// Every pixel of an image is a token.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    tokens: [i32; SIDE * SIDE],
    target: f32,
}

pub(crate) fn items() -> Vec<Item> {
    let item = |index: usize| {
        let token = |pixel: usize| (index * index + 3 * index * pixel + pixel * pixel) % VOCABULARY;
        Item {
            tokens: std::array::from_fn(|pixel| token(pixel) as i32),
            target: (index as f32 * 1.7).sin(),
        }
    };
    (0..45).map(item).collect()
}

#[derive(Module, Debug)]
pub(crate) struct Model<B: Backend> {
    embedding: Embedding<B>,
    conv: Conv2d<B>,
    norm: BatchNorm<B>,
    hidden: Linear<B>,
    output: Linear<B>,
}

impl<B: Backend> Model<B> {
    fn forward(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let [rows, _] = tokens.dims();
        let pixels = self.embedding.forward(tokens).swap_dims(1, 2);
        let image = pixels.reshape([rows, CHANNELS, SIDE, SIDE]);
        let x = relu(self.norm.forward(self.conv.forward(image)));
        let x = relu(self.hidden.forward(x.flatten(1, 3)));
        self.output.forward(x)
    }
}

pub(crate) struct Batch<B: Backend> {
    tokens: Tensor<B, 2, Int>,
    targets: Tensor<B, 2>,
}

pub(crate) struct Images;

impl Task for Images {
    type Item = Item;
    type Prediction = f32;
    type Model<B: AutodiffBackend> = Model<B>;
    type Batch<B: Backend> = Batch<B>;

    fn model<B: AutodiffBackend>(&self, device: &B::Device) -> Model<B> {
        // Of 4 x 4 pixels, a filter of 3 x 3 gives 2 x 2. Before the norm, a bias would do nothing.
        Model {
            embedding: EmbeddingConfig::new(VOCABULARY, CHANNELS).init(device),
            conv: Conv2dConfig::new([CHANNELS, FILTERS], [3, 3])
                .with_bias(false)
                .init(device),
            norm: BatchNormConfig::new(FILTERS).init(device),
            hidden: LinearConfig::new(FILTERS * 4, 6).init(device),
            output: LinearConfig::new(6, 1).init(device),
        }
    }

    fn batch<B: Backend>(&self, items: Vec<Item>, device: &B::Device) -> Batch<B> {
        let rows = items.len();
        let tokens: Vec<_> = items.iter().flat_map(|item| item.tokens).collect();
        let targets: Vec<_> = items.iter().map(|item| item.target).collect();
        Batch {
            tokens: Tensor::from_data(TensorData::new(tokens, [rows, SIDE * SIDE]), device),
            targets: Tensor::from_data(TensorData::new(targets, [rows, 1]), device),
        }
    }

    fn loss<B: AutodiffBackend>(
        &self,
        model: &Model<B>,
        batch: Batch<B>,
    ) -> Result<LossSum<B>, LossError> {
        squared_error_sum(model.forward(batch.tokens), batch.targets)
    }

    fn predict<B: AutodiffBackend>(
        &self,
        model: &ValidModel<Self, B>,
        batch: Batch<B::InnerBackend>,
    ) -> Vec<f32> {
        model.forward(batch.tokens).into_data().iter().collect()
    }

    fn score(&self, item: &Item, prediction: &f32) -> f64 {
        f64::from((item.target - prediction).abs())
    }
}

/// Three steps of five virtual nodes: an operation that a virtual node calls once is called an odd
/// number of times in one training, and a fault in every second call is elsewhere in the next one.
pub(crate) fn verify(items: &[Item]) -> Verify<'_, Images> {
    Verify::new(&Images, items).settings(VerifySettings {
        steps: 3,
        batch_size: 15,
        virtual_nodes: 5,
        ..VerifySettings::default()
    })
}

/// Adds Flex with a fault, on one rank and on two.
pub(crate) fn with_fault<F: Fault>(
    verify: Verify<'_, Images>,
) -> Result<Verify<'_, Images>, TrainError> {
    verify.backend::<Faulty<F>>("broken", [FlexDevice; 2])
}
