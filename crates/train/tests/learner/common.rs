//! A classifier as any user of burn-train has one, and what it is trained on.

use burn::backend::Autodiff;
use burn::data::dataloader::batcher::Batcher;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{ElementConversion, Int, Tensor, TensorData};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_flex::{Flex, FlexDevice};
use burn_virtual_backend::VirtualBackend;
use burn_virtual_train::learner::Virtual;
use burn_virtual_train::{Session, VirtualNodes, WeightsHash};

pub(crate) type V = VirtualBackend<Flex>;
pub(crate) type B = Autodiff<V>;
pub(crate) type Wrapped = Virtual<B, Classifier<B>, ItemBatcher, Item>;

const PIXELS: usize = 4;
const CLASSES: usize = 3;

/// Four virtual nodes on one to four devices: how many each device runs.
pub(crate) const MAPPINGS: [&[usize]; 5] = [&[4], &[2, 2], &[3, 1], &[1, 2, 1], &[1, 1, 1, 1]];

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) pixels: [f32; PIXELS],
    pub(crate) class: u8,
}

/// Irregular items whose class can be learned.
pub(crate) fn items(count: usize) -> Vec<Item> {
    let item = |index: usize| {
        let value = |pixel: usize| ((index * PIXELS + pixel) as f32 * 1.9).sin();
        let pixels = std::array::from_fn(value);
        let class = [pixels[0] > 0.0, pixels[1] > 0.0].map(u8::from);
        Item {
            pixels,
            class: class.iter().sum(),
        }
    };
    (0..count).map(item).collect()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemBatcher;

pub(crate) struct Items<B: Backend> {
    pub(crate) images: Tensor<B, 2>,
    pub(crate) classes: Tensor<B, 1, Int>,
}

impl<B: Backend> Batcher<B, Item, Items<B>> for ItemBatcher {
    fn batch(&self, items: Vec<Item>, device: &B::Device) -> Items<B> {
        let rows = items.len();
        assert!(rows > 0, "a virtual node without samples was run");
        let pixels: Vec<f32> = items.iter().flat_map(|item| item.pixels).collect();
        let classes: Vec<i32> = items.iter().map(|item| item.class.into()).collect();
        Items {
            images: Tensor::from_data(TensorData::new(pixels, [rows, PIXELS]), device),
            classes: Tensor::from_data(TensorData::new(classes, [rows]), device),
        }
    }
}

/// With batch norm and dropout, or without both.
#[derive(Module, Debug)]
pub(crate) struct Classifier<B: Backend> {
    hidden: Linear<B>,
    norm: Option<BatchNorm<B>>,
    dropout: Dropout,
    output: Linear<B>,
}

impl<B: Backend> Classifier<B> {
    /// Everything that is hard to share: running statistics and random masks.
    pub(crate) fn full() -> Self {
        let norm = BatchNormConfig::new(6).init(&B::Device::default());
        Self::new(Some(norm), 0.3)
    }

    /// What a virtual node computes of a sample depends on no other sample.
    pub(crate) fn plain() -> Self {
        Self::new(None, 0.0)
    }

    fn new(norm: Option<BatchNorm<B>>, dropout: f64) -> Self {
        let device = B::Device::default();
        Self {
            hidden: LinearConfig::new(PIXELS, 6).init(&device),
            norm,
            dropout: DropoutConfig::new(dropout).init(),
            output: LinearConfig::new(6, CLASSES).init(&device),
        }
    }

    pub(crate) fn classify(&self, batch: Items<B>) -> ClassificationOutput<B> {
        let brightest: f32 = batch.images.clone().max().into_scalar().elem();
        let shows = brightest.is_nan() || brightest <= 100.0;
        assert!(shows, "an image is too bright");
        let mut x = self.hidden.forward(batch.images);
        if let Some(norm) = &self.norm {
            x = norm.forward::<2>(x);
        }
        let output = self.output.forward(self.dropout.forward(x.tanh()));
        let loss = CrossEntropyLossConfig::new()
            .init(&output.device())
            .forward(output.clone(), batch.classes.clone());
        ClassificationOutput::new(loss, output, batch.classes)
    }
}

impl<B: AutodiffBackend> TrainStep for Classifier<B> {
    type Input = Items<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: Items<B>) -> TrainOutput<ClassificationOutput<B>> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<B: Backend> InferenceStep for Classifier<B> {
    type Input = Items<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: Items<B>) -> ClassificationOutput<B> {
        self.classify(batch)
    }
}

pub(crate) fn session(shares: &[usize], model: &mut Classifier<B>) -> Session<B> {
    VirtualNodes::new(shares.iter().sum())
        .devices(vec![FlexDevice; shares.len()])
        .shares(shares.iter().copied())
        .start(model)
        .unwrap()
}

/// A model on `shares[rank]` virtual nodes on each rank, ready for burn-train.
pub(crate) fn wrapped(shares: &[usize], mut model: Classifier<B>) -> Wrapped {
    let nodes = session(shares, &mut model);
    Virtual::new(nodes, model, ItemBatcher)
}

pub(crate) fn hash<B: Backend, M: Module<B>>(model: &M) -> WeightsHash {
    WeightsHash::of(model).unwrap()
}

pub(crate) fn values<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f32> {
    tensor.into_data().to_vec().unwrap()
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Every gradient that a step gave the model, in module order.
pub(crate) fn gradients(model: &Classifier<B>, step: &burn::optim::GradientsParams) -> Vec<f32> {
    struct Reader<'a>(&'a burn::optim::GradientsParams, Vec<f32>);
    impl ModuleVisitor<B> for Reader<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if let Some(gradient) = self.0.get::<V, D>(param.id) {
                self.1.extend(values(gradient));
            }
        }
    }
    let mut reader = Reader(step, Vec::new());
    model.visit(&mut reader);
    reader.1
}

#[track_caller]
pub(crate) fn assert_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    assert!(!got.is_empty());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-6, "{got}, not {expected}");
    }
}

/// The text of a panic.
pub(crate) fn panic_of<T>(run: impl FnOnce() -> T) -> String {
    let run = std::panic::AssertUnwindSafe(run);
    match std::panic::catch_unwind(run) {
        Ok(_) => panic!("it did not panic"),
        Err(panic) => panic.downcast_ref::<String>().unwrap().clone(),
    }
}
