//! The gradients of the losses, and their values, are those of the whole batch: random small jobs on
//! virtual nodes against closed forms, computed in f64 over all rows at once.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use burn::backend::Autodiff;
use burn::module::Param;
use burn::nn::Linear;
use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};
use burn_virtual_backend::VirtualBackend;
use burn_virtual_train::{
    CrossEntropy, IntoLossSum, LossSum, Skipped, SplitBatch, StepOutput, VirtualNodes,
    binary_cross_entropy_sum, cross_entropy_sum, squared_error_sum,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_assert, prop_assert_eq, prop_oneof};
use proptest::sample::subsequence;
use proptest::test_runner::TestCaseError;

type V = VirtualBackend<Flex>;
type B = Autodiff<V>;

const FEATURES: usize = 3;
const MOST_CLASSES: usize = 5;
const MOST_ROWS: usize = 20;
/// Of a sequence.
const POSITIONS: usize = 3;
const TOLERANCE: f64 = 1e-6;

/// A linear model, a batch, and where it runs. There are numbers for the largest job; a smaller one
/// takes the first of them.
#[derive(Clone, Debug)]
struct Job {
    virtual_nodes: usize,
    ranks: usize,
    rows: usize,
    classes: usize,
    weight: Vec<f32>,
    bias: Vec<f32>,
    inputs: Vec<f32>,
    /// One number per logit, for targets that are numbers.
    numbers: Vec<f32>,
    /// One number per row or position, for targets that are classes or padding.
    draws: Vec<usize>,
}

fn jobs() -> impl Strategy<Value = Job> {
    let sizes = (1..=8_usize, 1..=3_usize, 1..=MOST_ROWS, 2..=MOST_CLASSES);
    let model = (
        vec(-0.5..0.5_f32, FEATURES * MOST_CLASSES),
        vec(-0.5..0.5_f32, MOST_CLASSES),
    );
    let batch = (
        vec(-1.0..1.0_f32, MOST_ROWS * POSITIONS * FEATURES),
        vec(-1.0..1.0_f32, MOST_ROWS * MOST_CLASSES),
        vec(0..840_usize, MOST_ROWS * POSITIONS),
    );
    (sizes, model, batch).prop_map(|(sizes, (weight, bias), (inputs, numbers, draws))| {
        let (virtual_nodes, ranks, rows, classes) = sizes;
        Job {
            virtual_nodes,
            ranks: ranks.min(virtual_nodes),
            rows,
            classes,
            weight: weight[..FEATURES * classes].to_vec(),
            bias: bias[..classes].to_vec(),
            inputs,
            numbers,
            draws,
        }
    })
}

/// Targets that are padding: -100 as elsewhere, one past the classes, or a class like any other.
fn paddings() -> impl Strategy<Value = Vec<i64>> {
    subsequence(vec![-100, -1, 0, 9], 1..=4)
}

fn class_weights() -> impl Strategy<Value = Vec<f32>> {
    let weight = prop_oneof![1 => Just(0.0_f32), 4 => 0.5..1.5_f32];
    vec(weight, MOST_CLASSES)
}

impl Job {
    fn with_nodes(&self, virtual_nodes: usize) -> Self {
        Self {
            virtual_nodes,
            ranks: self.ranks.min(virtual_nodes),
            ..self.clone()
        }
    }

    fn model(&self) -> Linear<B> {
        let weight = TensorData::new(self.weight.clone(), [FEATURES, self.classes]);
        let bias = TensorData::new(self.bias.clone(), [self.classes]);
        Linear {
            weight: Param::from_data(weight, &FlexDevice),
            bias: Some(Param::from_data(bias, &FlexDevice)),
        }
    }

    fn inputs(&self) -> Tensor<B, 2> {
        floats(&self.inputs, [self.rows, FEATURES])
    }

    /// Classes, and now and then padding.
    fn targets(&self, padding: &[i64]) -> Vec<i64> {
        let classes = 0..self.classes as i64;
        let choices: Vec<i64> = classes.chain(padding.iter().copied()).collect();
        let draws = self.draws.iter();
        draws.map(|draw| choices[draw % choices.len()]).collect()
    }

    fn numbers(&self) -> Tensor<B, 2> {
        floats(&self.numbers, [self.rows, self.classes])
    }

    /// A step on virtual nodes.
    fn step<S: SplitBatch<B>, L: IntoLossSum<B>>(
        &self,
        batch: &S,
        loss: impl Fn(&Linear<B>, S::Micro) -> L + Sync,
    ) -> Step {
        let mut model = self.model();
        let mut nodes = VirtualNodes::new(self.virtual_nodes)
            .devices(vec![FlexDevice; self.ranks])
            .start(&mut model)
            .unwrap();
        let out = nodes.backward_batch(&model, batch, loss).unwrap();
        assert_eq!(nodes.applied_steps(), u64::from(out.skipped.is_none()));
        Step::of(&model, out)
    }
}

fn floats<const D: usize>(values: &[f32], shape: [usize; D]) -> Tensor<B, D> {
    let count = shape.iter().product();
    let data = TensorData::new(values[..count].to_vec(), shape);
    Tensor::from_data(data, &FlexDevice)
}

fn ints<const D: usize>(values: &[i64], shape: [usize; D]) -> Tensor<B, D, Int> {
    let count = shape.iter().product();
    let data = TensorData::new(values[..count].to_vec(), shape);
    Tensor::from_data(data, &FlexDevice)
}

/// What a step came to. A skipped one has no gradients.
#[derive(Debug)]
struct Step {
    loss: f64,
    weight: f64,
    /// By the weight, then by the bias.
    gradient: Vec<f64>,
    skipped: Option<Skipped>,
}

impl Step {
    fn of(model: &Linear<B>, out: StepOutput) -> Self {
        let bias = model.bias.as_ref().unwrap();
        let data = [
            out.grads
                .get::<V, 2>(model.weight.id)
                .map(Tensor::into_data),
            out.grads.get::<V, 1>(bias.id).map(Tensor::into_data),
        ];
        let gradient = data.iter().flatten().flat_map(TensorData::iter::<f64>);
        Self {
            loss: out.loss,
            weight: out.weight,
            gradient: gradient.collect(),
            skipped: out.skipped,
        }
    }
}

/// A row's loss, what it weighs, and the slope of its loss by each of its logits.
struct Row {
    loss: f64,
    weight: f64,
    slopes: Vec<f64>,
}

/// The whole batch at once: `row` is asked for each row of logits.
fn whole(job: &Job, rows: usize, row: impl Fn(usize, &[f64]) -> Row) -> Step {
    let (mut loss, mut weight) = (0.0, 0.0);
    let mut gradient = vec![0.0; (FEATURES + 1) * job.classes];
    for index in 0..rows {
        let inputs = &job.inputs[FEATURES * index..][..FEATURES];
        let row = row(index, &logits(job, inputs));
        loss += row.loss;
        weight += row.weight;
        // The bias is the weight of an input of 1.
        let inputs = inputs.iter().copied().map(f64::from).chain([1.0]);
        for (input, gradient) in inputs.zip(gradient.chunks_mut(job.classes)) {
            for (gradient, slope) in gradient.iter_mut().zip(&row.slopes) {
                *gradient += input * slope;
            }
        }
    }
    let skipped = (weight == 0.0).then_some(Skipped::NoItems);
    Step {
        loss: loss / weight,
        weight,
        gradient: gradient.iter().map(|sum| sum / weight).collect(),
        skipped,
    }
}

fn logits(job: &Job, inputs: &[f32]) -> Vec<f64> {
    let logit = |class: usize| {
        let weights = job.weight.iter().skip(class).step_by(job.classes);
        let products = inputs.iter().zip(weights);
        let sum: f64 = products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        sum + f64::from(job.bias[class])
    };
    (0..job.classes).map(logit).collect()
}

/// Softmax, less the smoothed target; each class with its weight.
fn cross_entropy(logits: &[f64], target: i64, weights: &[f64], smoothing: f64) -> Row {
    let total: f64 = logits.iter().map(|x| x.exp()).sum();
    let spread = smoothing / logits.len() as f64;
    let share = |class: usize| {
        let hit = f64::from(u8::from(class as i64 == target));
        weights[class] * ((1.0 - smoothing) * hit + spread)
    };
    let shares: f64 = (0..logits.len()).map(share).sum();
    let classes = logits.iter().enumerate();
    Row {
        loss: classes
            .clone()
            .map(|(class, x)| -share(class) * (x - total.ln()))
            .sum(),
        weight: weights[target as usize],
        slopes: classes
            .map(|(class, x)| shares * x.exp() / total - share(class))
            .collect(),
    }
}

/// The settings of a [`CrossEntropy`].
#[derive(Clone, Debug, Default)]
struct Settings {
    padding: Vec<i64>,
    class_weights: Option<Vec<f32>>,
    smoothing: f64,
}

impl Settings {
    fn loss(&self, classes: usize) -> CrossEntropy {
        let loss = CrossEntropy::new()
            .with_padding(self.padding.iter().copied())
            .with_smoothing(self.smoothing);
        match &self.class_weights {
            Some(weights) => loss.with_class_weights(weights[..classes].to_vec()),
            None => loss,
        }
    }

    /// Over so many rows, or positions of sequences.
    fn whole(&self, job: &Job, rows: usize) -> Step {
        let weights = self.class_weights.clone();
        let weights = weights.unwrap_or_else(|| vec![1.0; MOST_CLASSES]);
        let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
        let targets = job.targets(&self.padding);
        whole(job, rows, |index, logits| {
            let target = targets[index];
            if self.padding.contains(&target) {
                let slopes = vec![0.0; logits.len()];
                return Row {
                    loss: 0.0,
                    weight: 0.0,
                    slopes,
                };
            }
            cross_entropy(logits, target, &weights, self.smoothing)
        })
    }

    fn split(&self, job: &Job) -> Step {
        let loss = self.loss(job.classes);
        let targets = ints(&job.targets(&self.padding), [job.rows]);
        job.step(&(job.inputs(), targets), |model, (inputs, targets)| {
            loss.sum(model.forward(inputs), targets)
        })
    }

    fn split_sequences(&self, job: &Job) -> Step {
        let loss = self.loss(job.classes);
        let inputs = floats(&job.inputs, [job.rows, POSITIONS, FEATURES]);
        let targets = ints(&job.targets(&self.padding), [job.rows, POSITIONS]);
        job.step(&(inputs, targets), |model, (inputs, targets)| {
            loss.sequence_sum(model.forward(inputs), targets)
        })
    }

    fn check(&self, job: &Job) -> Result<(), TestCaseError> {
        compare(&self.split(job), &self.whole(job, job.rows))?;
        let positions = job.rows * POSITIONS;
        compare(&self.split_sequences(job), &self.whole(job, positions))
    }
}

fn compare(got: &Step, expected: &Step) -> Result<(), TestCaseError> {
    prop_assert_eq!(&got.skipped, &expected.skipped);
    prop_assert!((got.weight - expected.weight).abs() <= TOLERANCE * expected.weight.max(1.0));
    if expected.skipped.is_some() {
        prop_assert!(got.gradient.is_empty() && got.loss.is_nan());
        return Ok(());
    }
    prop_assert_eq!(got.gradient.len(), expected.gradient.len());
    let (got_all, expected_all) = (got.gradient.iter(), expected.gradient.iter());
    let pairs = got_all
        .zip(expected_all)
        .chain([(&got.loss, &expected.loss)]);
    for (a, b) in pairs {
        prop_assert!((a - b).abs() <= TOLERANCE, "{a}, not {b}");
    }
    Ok(())
}

fn squared_error(job: &Job) -> Step {
    whole(job, job.rows, |index, logits| {
        let targets = &job.numbers[job.classes * index..][..job.classes];
        let errors = logits.iter().zip(targets).map(|(x, y)| x - f64::from(*y));
        Row {
            loss: errors.clone().map(|error| error * error).sum(),
            weight: job.classes as f64,
            slopes: errors.map(|error| 2.0 * error).collect(),
        }
    })
}

fn binary_cross_entropy(job: &Job, targets: &[i64]) -> Step {
    whole(job, job.rows, |index, logits| {
        let targets = &targets[job.classes * index..][..job.classes];
        let pairs = logits.iter().zip(targets).map(|(x, y)| (*x, *y as f64));
        Row {
            loss: pairs.clone().map(|(x, y)| x.exp().ln_1p() - y * x).sum(),
            weight: job.classes as f64,
            slopes: pairs.map(|(x, y)| 1.0 / (1.0 + (-x).exp()) - y).collect(),
        }
    })
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A row of a class that weighs nothing has a smoothing term all the same, or has none: not one that
/// depends on which other rows are in its micro-batch.
#[test]
fn smoothed_rows_of_weight_0_count_alike_on_any_virtual_nodes() {
    let job = Job {
        virtual_nodes: 1,
        ranks: 1,
        rows: 3,
        classes: 3,
        weight: vec![0.1, -0.2, 0.3, 0.4, 0.0, -0.3, 0.2, 0.5, -0.1],
        bias: vec![0.1, 0.0, -0.1],
        inputs: vec![1.0, 0.5, -0.5, 0.2, -1.0, 0.7, -0.3, 0.8, 0.1],
        numbers: Vec::new(),
        draws: vec![0, 1, 2],
    };
    let settings = Settings {
        class_weights: Some(vec![1.0, 0.0, 0.5]),
        smoothing: 0.2,
        ..Settings::default()
    };
    let expected = settings.split(&job);
    for virtual_nodes in 2..=4 {
        let got = settings.split(&job.with_nodes(virtual_nodes));
        compare(&got, &expected).unwrap();
    }
}

proptest::proptest! {
    #![proptest_config(config())]

    #[test]
    fn cross_entropy_is_that_of_the_whole_batch(job in jobs()) {
        Settings::default().check(&job)?;
        let batch = (job.inputs(), ints(&job.targets(&[]), [job.rows]));
        let short = job.step(&batch, |model, (inputs, targets)| {
            cross_entropy_sum(model.forward(inputs), targets)
        });
        compare(&short, &Settings::default().whole(&job, job.rows))?;
    }

    #[test]
    fn cross_entropy_is_that_of_the_whole_batch_when_padded(job in jobs(), padding in paddings()) {
        Settings { padding, ..Settings::default() }.check(&job)?;
    }

    #[test]
    fn cross_entropy_is_that_of_the_whole_batch_when_classes_are_weighted(
        job in jobs(),
        weights in class_weights(),
    ) {
        Settings { class_weights: Some(weights), ..Settings::default() }.check(&job)?;
    }

    #[test]
    fn cross_entropy_is_that_of_the_whole_batch_when_smoothed(
        job in jobs(),
        smoothing in 0.01..0.4_f64,
    ) {
        Settings { smoothing, ..Settings::default() }.check(&job)?;
    }

    #[test]
    fn cross_entropy_is_that_of_the_whole_batch_when_padded_weighted_and_smoothed(
        job in jobs(),
        padding in paddings(),
        class_weights in of(vec(0.5..1.5_f32, MOST_CLASSES)),
        smoothing in 0.01..0.4_f64,
    ) {
        Settings { padding, class_weights, smoothing }.check(&job)?;
    }

    #[test]
    fn cross_entropy_is_that_of_one_node_when_smoothed_classes_weigh_nothing(
        job in jobs(),
        weights in class_weights(),
        smoothing in 0.01..0.4_f64,
    ) {
        let settings = Settings { padding: vec![-100], class_weights: Some(weights), smoothing };
        compare(&settings.split(&job), &settings.split(&job.with_nodes(1)))?;
    }

    #[test]
    fn squared_error_is_that_of_the_whole_batch(job in jobs()) {
        let batch = (job.inputs(), job.numbers());
        let got = job.step(&batch, |model, (inputs, targets)| {
            squared_error_sum(model.forward(inputs), targets)
        });
        compare(&got, &squared_error(&job))?;
    }

    #[test]
    fn binary_cross_entropy_is_that_of_the_whole_batch(job in jobs()) {
        let labels: Vec<i64> = job.numbers.iter().map(|x| i64::from(*x > 0.0)).collect();
        let batch = (job.inputs(), ints(&labels, [job.rows, job.classes]));
        let got = job.step(&batch, |model, (inputs, targets)| {
            binary_cross_entropy_sum(model.forward(inputs), targets)
        });
        compare(&got, &binary_cross_entropy(&job, &labels))?;
    }

    #[test]
    fn means_are_those_of_the_whole_batch_when_taken_by_burn(job in jobs()) {
        let batch = (job.inputs(), job.numbers());
        let got = job.step(&batch, |model, (inputs, targets)| {
            let elements = targets.shape().num_elements() as f64;
            let mean = MseLoss::new().forward(model.forward(inputs), targets, Reduction::Mean);
            LossSum::from_mean(mean, elements)
        });
        compare(&got, &squared_error(&job))?;
        let batch = (job.inputs(), ints(&job.targets(&[]), [job.rows]));
        let got = job.step(&batch, |model, (inputs, targets)| {
            let rows = targets.dims()[0] as f64;
            let loss = CrossEntropyLossConfig::new().init(&FlexDevice);
            LossSum::from_mean(loss.forward(model.forward(inputs), targets), rows)
        });
        compare(&got, &Settings::default().whole(&job, job.rows))?;
    }

    #[test]
    fn steps_are_skipped_when_all_is_padding(
        job in jobs(),
        padding in paddings(),
        smoothing in 0.0..0.4_f64,
    ) {
        let draws = job.draws.iter().map(|draw| job.classes + draw % padding.len());
        let job = Job { draws: draws.collect(), ..job };
        let settings = Settings { padding, smoothing, ..Settings::default() };
        prop_assert_eq!(settings.split(&job).skipped, Some(Skipped::NoItems));
        settings.check(&job)?;
    }
}
