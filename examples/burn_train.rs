//! Training with burn-train's `SupervisedTraining`, beside the same training on virtual nodes.
//!
//! The model has burn-train's `TrainStep` and `InferenceStep` and knows nothing of virtual nodes.
//! Wrapped in `Virtual`, it keeps the metrics, early stopping and checkpoints, and gets the same
//! bits on one device as on three.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn::backend::Autodiff;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::AdamConfig;
use burn::record::CompactRecorder;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, MetricEarlyStoppingStrategy, StoppingCondition,
    SupervisedTraining, TrainOutput, TrainStep,
};
use burn_flex::{Flex, FlexDevice as Cpu};
use burn_virtual::backend::VirtualBackend;
use burn_virtual::models::{Digit, Digits, DigitsBatch, DigitsBatcher, DigitsMlp, DigitsMlpConfig};
use burn_virtual::nodes::learner::{Uncollated, Virtual};
use burn_virtual::nodes::{VirtualNodes, WeightsHash};

type B = Autodiff<VirtualBackend<Flex>>;

const EPOCHS: usize = 3;
const RATE: f64 = 0.002;

/// A classifier as any user of burn-train has one.
#[derive(Module, Debug)]
struct Classifier<B: Backend> {
    mlp: DigitsMlp<B>,
}

impl<B: Backend> Classifier<B> {
    fn new(device: &B::Device) -> Self {
        let mlp = DigitsMlpConfig::new().init(device);
        Self { mlp }
    }

    fn classify(&self, batch: DigitsBatch<B>) -> ClassificationOutput<B> {
        let output = self.mlp.forward(batch.images);
        let loss = CrossEntropyLossConfig::new()
            .init(&output.device())
            .forward(output.clone(), batch.targets.clone());
        ClassificationOutput::new(loss, output, batch.targets)
    }
}

impl<B: AutodiffBackend> TrainStep for Classifier<B> {
    type Input = DigitsBatch<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: DigitsBatch<B>) -> TrainOutput<ClassificationOutput<B>> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<B: Backend> InferenceStep for Classifier<B> {
    type Input = DigitsBatch<B>;
    type Output = ClassificationOutput<B>;

    fn step(&self, batch: DigitsBatch<B>) -> ClassificationOutput<B> {
        self.classify(batch)
    }
}

fn loader<B: Backend, O: Send + Sync + Clone + std::fmt::Debug + 'static>(
    batcher: impl Batcher<B, Digit, O> + 'static,
    digits: &[Digit],
) -> Arc<dyn DataLoader<B, O>> {
    DataLoaderBuilder::new(batcher)
        .batch_size(64)
        .shuffle(42)
        .build(InMemDataset::new(digits.to_vec()))
}

/// What both trainings have in common.
macro_rules! launch {
    ($directory:expr, $train:expr, $valid:expr, $model:expr) => {
        SupervisedTraining::new($directory, $train, $valid)
            .metrics((AccuracyMetric::new(), LossMetric::new()))
            .with_file_checkpointer(CompactRecorder::new())
            .early_stopping(MetricEarlyStoppingStrategy::new(
                &LossMetric::<B>::new(),
                Aggregate::Mean,
                Direction::Lowest,
                Split::Valid,
                StoppingCondition::NoImprovementSince { n_epochs: 2 },
            ))
            .num_epochs(EPOCHS)
            .launch(Learner::new($model, AdamConfig::new().init(), RATE))
            .model
    };
}

type Trained = Classifier<VirtualBackend<Flex>>;

/// As without this project: one batch at a time, whole.
fn plainly(directory: &Path, digits: &Digits) -> Trained {
    B::seed(&Cpu, 42);
    let train = loader::<B, _>(DigitsBatcher, digits.train());
    let valid = loader::<VirtualBackend<Flex>, _>(DigitsBatcher, digits.held_out());
    launch!(directory, train, valid, Classifier::<B>::new(&Cpu))
}

/// The same on eight virtual nodes: the data loader passes items on, `Virtual` has the batcher.
fn on_virtual_nodes(
    directory: &Path,
    digits: &Digits,
    devices: Vec<Cpu>,
) -> Result<Trained, Box<dyn Error>> {
    let mut model = Classifier::<B>::new(&Cpu);
    let nodes = VirtualNodes::new(8)
        .seed(42)
        .devices(devices)
        .start(&mut model)?;
    let model = Virtual::new(nodes, model, DigitsBatcher);
    let handle = model.handle();

    let train = loader::<B, _>(Uncollated, digits.train());
    let valid = loader::<VirtualBackend<Flex>, _>(Uncollated, digits.held_out());
    let trained = launch!(directory, train, valid, model).into_model();

    assert_eq!(
        handle.status().applied_steps,
        (EPOCHS * digits.train().len().div_ceil(64)) as u64
    );
    Ok(trained)
}

fn accuracy(model: &Trained, digits: &Digits) -> f64 {
    let held_out = digits.held_out();
    let batch = DigitsBatcher.batch(held_out.to_vec(), &Cpu);
    let named: Vec<i64> = model
        .mlp
        .forward(batch.images)
        .argmax(1)
        .into_data()
        .iter()
        .collect();
    let right = named.iter().zip(held_out);
    let right = right.filter(|(named, digit)| **named == i64::from(digit.label));
    right.count() as f64 / held_out.len() as f64
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("burn-virtual-{}", std::process::id()));
    let digits = Digits::load()?;

    let plain = plainly(&directory.join("plain"), &digits);
    let one = on_virtual_nodes(&directory.join("one"), &digits, vec![Cpu])?;
    let three = on_virtual_nodes(&directory.join("three"), &digits, vec![Cpu, Cpu, Cpu])?;

    let [plain, virtual_nodes] = [&plain, &one].map(|model| accuracy(model, &digits));
    println!("held-out accuracy: {plain:.4} plainly, {virtual_nodes:.4} on 8 virtual nodes");
    assert!(plain > 0.85 && virtual_nodes > 0.85);
    assert_eq!(WeightsHash::of(&one)?, WeightsHash::of(&three)?);
    println!(
        "SHA-256 on one device and on three: {}",
        WeightsHash::of(&one)?
    );

    fs::remove_dir_all(directory)?;
    Ok(())
}
