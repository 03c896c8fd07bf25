//! Whole trainings with burn-train's `SupervisedTraining`.

use std::path::Path;
use std::sync::Arc;

use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::{Dataset, InMemDataset};
use burn::optim::AdamConfig;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::record::{DefaultFileRecorder, FullPrecisionSettings};
use burn::tensor::backend::Backend;
use burn::train::logger::InMemoryMetricLogger;
use burn::train::metric::store::{Aggregate, Direction, EventStoreClient, Split};
use burn::train::metric::{AccuracyMetric, LossMetric, MetricDefinition};
use burn::train::renderer::{
    EvaluationName, EvaluationProgress, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining, ProgressType, TrainingProgress,
};
use burn::train::{
    EarlyStoppingStrategy, Learner, LearningComponentsMarker, MetricEarlyStoppingStrategy,
    StoppingCondition, SupervisedTraining,
};
use burn_flex::FlexDevice;
use burn_virtual_train::learner::{Handle, Uncollated};
use burn_virtual_train::{Skipped, WeightsHash};
use tempfile::TempDir;

use crate::common::{B, Classifier, Item, MAPPINGS, V, Wrapped, hash, items, panic_of, wrapped};

type Optim = OptimizerAdaptor<burn::optim::Adam, Wrapped, B>;
type Training = SupervisedTraining<LearningComponentsMarker<B, f64, Wrapped, Optim>>;

const BATCH: usize = 10;
/// Items to train on: four batches, the last one short.
const ITEMS: usize = 36;
const STEPS: u64 = 4;

/// Tells nobody.
struct Quiet;

impl MetricsRendererTraining for Quiet {
    fn update_train(&mut self, _: MetricState) {}
    fn update_valid(&mut self, _: MetricState) {}
    fn render_train(&mut self, _: TrainingProgress, _: Vec<ProgressType>) {}
    fn render_valid(&mut self, _: TrainingProgress, _: Vec<ProgressType>) {}
}

impl MetricsRendererEvaluation for Quiet {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
    fn render_test(&mut self, _: EvaluationProgress, _: Vec<ProgressType>) {}
}

impl MetricsRenderer for Quiet {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, _: MetricDefinition) {}
}

/// In the order of the items: an order that burn-train shuffles is lost when a training resumes.
fn loader<B: Backend>(items: impl Dataset<Item> + 'static) -> Arc<dyn DataLoader<B, Vec<Item>>> {
    DataLoaderBuilder::new(Uncollated)
        .batch_size(BATCH)
        .build(items)
}

fn training(directory: &Path, items: impl Dataset<Item> + 'static) -> Training {
    let valid = loader::<V>(InMemDataset::new(validation_set()));
    SupervisedTraining::new(directory, loader::<B>(items), valid)
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .with_application_logger(None)
        .with_metric_logger(InMemoryMetricLogger::new())
        .renderer(Quiet)
        .num_epochs(4)
}

/// The same batch six times. Burn-train computes metrics on another thread and doesn't wait for it at
/// the end of an epoch: up to two batches may be missing in what early stopping and checkpointing get
/// to see. So they had better be like the others. (The logger of files may lag behind even more.)
fn validation_set() -> Vec<Item> {
    vec![items(BATCH); 6].concat()
}

fn training_set() -> InMemDataset<Item> {
    InMemDataset::new(items(ITEMS))
}

fn launch(training: Training, model: Wrapped, rate: f64) -> WeightsHash {
    let learner = Learner::new(model, AdamConfig::new().init(), rate);
    hash(&training.launch(learner).model.into_model())
}

/// A training that nothing happens to.
fn quiet(shares: &[usize]) -> WeightsHash {
    let directory = TempDir::new().unwrap();
    let model = wrapped(shares, Classifier::full());
    let handle = model.handle();
    let weights = launch(training(directory.path(), training_set()), model, 0.01);
    assert_eq!(handle.status().applied_steps, 4 * STEPS);
    assert_eq!(handle.status().skipped_steps, 0);
    weights
}

#[test]
fn weights_have_the_same_bits_for_every_placement() {
    let alone = quiet(&[4]);
    for shares in MAPPINGS {
        assert_eq!(quiet(shares), alone, "{shares:?}");
    }
    assert_ne!(alone, hash(&wrapped(&[4], Classifier::full())));
}

#[test]
fn training_stops_early_when_nothing_improves() {
    let directory = TempDir::new().unwrap();
    // The mean of equal accuracies is exact, however many they are.
    let stopping = MetricEarlyStoppingStrategy::new(
        &AccuracyMetric::<B>::new(),
        Aggregate::Mean,
        Direction::Highest,
        Split::Valid,
        StoppingCondition::NoImprovementSince { n_epochs: 1 },
    );
    // Without statistics, and with a rate of 0, each epoch is like the one before.
    let model = wrapped(&[2, 2], Classifier::plain());
    let handle = model.handle();
    let training = training(directory.path(), training_set()).early_stopping(stopping);
    launch(training, model, 0.0);
    assert_eq!(handle.status().applied_steps, 2 * STEPS);
}

#[test]
fn weights_are_those_of_a_quiet_training_when_resumed_from_a_checkpoint() {
    let recorder = DefaultFileRecorder::<FullPrecisionSettings>::new;
    let directory = TempDir::new().unwrap();
    let first = training(directory.path(), training_set())
        .with_file_checkpointer(recorder())
        .num_epochs(2);
    launch(first, wrapped(&[2, 2], Classifier::full()), 0.01);
    for name in ["model", "optim", "scheduler"] {
        let file = directory.path().join(format!("checkpoint/{name}-2.mpk"));
        assert!(file.is_file(), "{}", file.display());
    }

    // A new process has none of this, and other devices.
    let model = wrapped(&[3, 1], Classifier::full());
    let handle = model.handle();
    let second = training(directory.path(), training_set())
        .with_file_checkpointer(recorder())
        .checkpoint(2);
    let resumed = launch(second, model, 0.01);
    assert_eq!(handle.status().applied_steps, 4 * STEPS);
    assert_eq!(resumed, quiet(&[4]));
}

/// Moves the training after every epoch, and never stops it.
#[derive(Clone)]
struct Mover(Handle<B>);

impl EarlyStoppingStrategy for Mover {
    fn should_stop(&mut self, epoch: usize, _: &EventStoreClient) -> bool {
        self.0.resize(vec![FlexDevice; 1 + epoch % 4]).unwrap();
        false
    }
}

#[test]
fn weights_are_those_of_a_quiet_training_when_resized_between_epochs() {
    let directory = TempDir::new().unwrap();
    let model = wrapped(&[4], Classifier::full());
    let handle = model.handle();
    let training = training(directory.path(), training_set()).early_stopping(Mover(model.handle()));
    assert_eq!(launch(training, model, 0.01), quiet(&[4]));
    assert_eq!(handle.status().placement.ranks(), 1);
}

/// Moves the training while its batches are put together.
struct MovingSet(Handle<B>);

impl Dataset<Item> for MovingSet {
    fn get(&self, index: usize) -> Option<Item> {
        self.0.resize(vec![FlexDevice; 1 + index % 3]).unwrap();
        items(ITEMS).get(index).cloned()
    }

    fn len(&self) -> usize {
        ITEMS
    }
}

#[test]
fn weights_are_those_of_a_quiet_training_when_resized_between_batches() {
    let directory = TempDir::new().unwrap();
    let model = wrapped(&[1, 3], Classifier::full());
    let training = training(directory.path(), MovingSet(model.handle()));
    assert_eq!(launch(training, model, 0.01), quiet(&[4]));
}

#[test]
fn panics_of_the_model_end_the_training_and_name_where() {
    let directory = TempDir::new().unwrap();
    let mut items = items(ITEMS);
    // In the third batch, the third of four virtual nodes.
    items[26].pixels[1] = 1e3;
    let training = training(directory.path(), InMemDataset::new(items));
    let text = panic_of(|| launch(training, wrapped(&[2, 2], Classifier::full()), 0.01));
    assert_eq!(
        text,
        "rank 1, step 2, virtual node 2: user code panicked: an image is too bright"
    );
}

#[test]
fn weights_are_as_if_a_batch_had_not_been_when_it_is_not_a_number() {
    let train = |items: Vec<Item>| {
        let directory = TempDir::new().unwrap();
        let model = wrapped(&[3, 1], Classifier::full());
        let handle = model.handle();
        let training = training(directory.path(), InMemDataset::new(items)).num_epochs(2);
        (launch(training, model, 0.01), handle)
    };
    let mut bad = items(40);
    bad[11].pixels[3] = f32::NAN;
    let without = [&bad[..BATCH], &bad[2 * BATCH..]].concat();

    let (weights, handle) = train(bad);
    let (expected, _) = train(without);
    assert_eq!(weights, expected);
    let skipped = || Skipped::NotFinite { nodes: vec![0] };
    assert_eq!(handle.status().skipped_steps, 2);
    assert_eq!(handle.status().last_skipped, Some((4, skipped())));
    assert_eq!(handle.status().applied_steps, 6);
}
