//! Tasks, and what else a `Trainer` does beside its steps: scoring, and changing the model.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use burn::backend::Autodiff;
use burn::module::{Module, ModuleMapper, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::{Adam, AdamConfig};
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Recorder};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};
use burn_virtual_backend::VirtualBackend;
use burn_virtual_train::{
    LossError, LossSum, NodeError, Predictor, Task, TaskBatcher, TrainError, Trainer, ValidModel,
    VirtualNodes, WeightsHash, id_of_path, squared_error_sum,
};

type V = VirtualBackend<Flex>;
type B = Autodiff<V>;

const WIDTH: usize = 3;

#[derive(Clone, Debug)]
struct Item {
    inputs: [f32; WIDTH],
    target: f32,
}

fn items(count: usize) -> Vec<Item> {
    let value = |index: usize| (index as f32 * 2.3).sin();
    let item = |index: usize| {
        let inputs = std::array::from_fn(|column| value(index * WIDTH + column));
        let target = inputs[0] - inputs[2];
        Item { inputs, target }
    };
    (0..count).map(item).collect()
}

/// With everything that is hard to share: running statistics and random masks.
#[derive(Module, Debug)]
struct Model<B: Backend> {
    hidden: Linear<B>,
    norm: BatchNorm<B>,
    output: Linear<B>,
    dropout: Dropout,
}

impl<B: Backend> Model<B> {
    fn forward(&self, inputs: Tensor<B, 2>) -> Tensor<B, 2> {
        let x = self.norm.forward::<2>(self.hidden.forward(inputs)).tanh();
        self.output.forward(self.dropout.forward(x))
    }
}

struct Pairs<B: Backend> {
    inputs: Tensor<B, 2>,
    targets: Tensor<B, 2>,
}

struct Regression;

impl Task for Regression {
    type Item = Item;
    type Prediction = f32;
    type Model<B: AutodiffBackend> = Model<B>;
    type Batch<B: Backend> = Pairs<B>;

    fn model<B: AutodiffBackend>(&self, device: &B::Device) -> Model<B> {
        Model {
            hidden: LinearConfig::new(WIDTH, 5).init(device),
            norm: BatchNormConfig::new(5).init(device),
            output: LinearConfig::new(5, 1).init(device),
            dropout: DropoutConfig::new(0.2).init(),
        }
    }

    fn batch<B: Backend>(&self, items: Vec<Item>, device: &B::Device) -> Pairs<B> {
        let rows = items.len();
        assert!(rows > 0, "a virtual node without samples was run");
        let inputs: Vec<f32> = items.iter().flat_map(|item| item.inputs).collect();
        let targets: Vec<f32> = items.iter().map(|item| item.target).collect();
        Pairs {
            inputs: Tensor::from_data(TensorData::new(inputs, [rows, WIDTH]), device),
            targets: Tensor::from_data(TensorData::new(targets, [rows, 1]), device),
        }
    }

    fn loss<B: AutodiffBackend>(
        &self,
        model: &Model<B>,
        batch: Pairs<B>,
    ) -> Result<LossSum<B>, LossError> {
        squared_error_sum(model.forward(batch.inputs), batch.targets)
    }

    fn predict<B: AutodiffBackend>(
        &self,
        model: &ValidModel<Self, B>,
        batch: Pairs<B::InnerBackend>,
    ) -> Vec<f32> {
        model.forward(batch.inputs).into_data().to_vec().unwrap()
    }

    fn score(&self, item: &Item, prediction: &f32) -> f64 {
        f64::from((item.target - prediction).abs())
    }
}

type Optim = OptimizerAdaptor<Adam, Model<B>, B>;
type Training = Trainer<B, Model<B>, Optim, f64>;

fn trainer(ranks: usize) -> Training {
    let mut model = Regression.model::<B>(&FlexDevice);
    let nodes = VirtualNodes::new(4)
        .devices(vec![FlexDevice; ranks])
        .start(&mut model)
        .unwrap();
    Trainer::new(nodes, model, AdamConfig::new().init(), 0.05)
}

fn hash(trainer: &Training) -> WeightsHash {
    WeightsHash::of(trainer.model().unwrap()).unwrap()
}

fn step(trainer: &mut Training, first: usize) {
    trainer
        .step_task(&Regression, &items(30)[first..first + 10])
        .unwrap();
}

fn predictor(trainer: &Training, ranks: usize) -> Predictor<V, Model<V>> {
    VirtualNodes::new(4)
        .devices(vec![FlexDevice; ranks])
        .predictor(trainer.model().unwrap())
        .unwrap()
}

#[test]
fn task_steps_are_those_with_closures() {
    let (mut with_task, mut with_closures) = (trainer(2), trainer(3));
    for count in [9, 10, 2] {
        let items = items(count);
        let task = with_task.step_task(&Regression, &items).unwrap();
        let closures = with_closures
            .step(
                &items,
                &TaskBatcher(&Regression),
                |model: &Model<B>, micro: Pairs<B>| {
                    squared_error_sum(model.forward(micro.inputs), micro.targets)
                },
            )
            .unwrap();
        assert_eq!(
            (task.loss, task.norm, task.weight),
            (closures.loss, closures.norm, closures.weight)
        );
        assert_eq!(hash(&with_task), hash(&with_closures));
    }
}

/// Refuses every loss, and predicts one value however many samples there are.
struct Broken;

impl Task for Broken {
    type Item = Item;
    type Prediction = f32;
    type Model<B: AutodiffBackend> = Model<B>;
    type Batch<B: Backend> = Pairs<B>;

    fn model<B: AutodiffBackend>(&self, device: &B::Device) -> Model<B> {
        Regression.model::<B>(device)
    }

    fn batch<B: Backend>(&self, items: Vec<Item>, device: &B::Device) -> Pairs<B> {
        Regression.batch::<B>(items, device)
    }

    fn loss<B: AutodiffBackend>(
        &self,
        _model: &Model<B>,
        batch: Pairs<B>,
    ) -> Result<LossSum<B>, LossError> {
        Err(LossError::Other(format!("{} rows", batch.inputs.dims()[0])))
    }

    fn predict<B: AutodiffBackend>(
        &self,
        _model: &ValidModel<Self, B>,
        _batch: Pairs<B::InnerBackend>,
    ) -> Vec<f32> {
        vec![0.0]
    }

    fn score(&self, _item: &Item, _prediction: &f32) -> f64 {
        0.0
    }
}

#[test]
fn steps_are_not_taken_when_the_loss_of_a_task_refuses() {
    let mut trainer = trainer(1);
    let before = hash(&trainer);
    let error = trainer.step_task(&Broken, &items(8)).unwrap_err();
    assert_eq!(error.to_string(), "rank 0, step 0, virtual node 0: 2 rows");
    assert_eq!(hash(&trainer), before);
}

#[test]
fn predictions_are_refused_when_their_number_is_wrong() {
    let mut predictor = predictor(&trainer(1), 2);
    let predicted = predictor.predict_task::<B, _>(&Broken, &items(5));
    let scored = predictor.score_task::<B, _>(&Broken, &items(9), 5);
    for error in [predicted.unwrap_err(), scored.unwrap_err()] {
        let expected = matches!(
            error,
            TrainError::Node {
                source: NodeError::Results { .. },
                ..
            }
        );
        assert!(expected, "{error}");
    }
}

#[test]
fn predictions_of_a_task_come_in_the_order_of_its_items() {
    let mut trainer = trainer(1);
    step(&mut trainer, 0);
    let valid = trainer.valid().unwrap();
    for ranks in 1..=4 {
        let mut predictor = predictor(&trainer, ranks);
        for count in [1, 3, 4, 11] {
            let items = items(count);
            let got = predictor.predict_task::<B, _>(&Regression, &items).unwrap();
            let alone = items.iter().map(|item| {
                let batch = Regression.batch::<V>(vec![item.clone()], &FlexDevice);
                Regression.predict::<B>(&valid, batch)[0]
            });
            for (got, alone) in got.iter().zip(alone) {
                assert!((got - alone).abs() < 1e-6, "{got}, not {alone}");
            }
            assert_eq!(got.len(), count);
        }
    }
}

#[test]
fn score_is_the_mean_over_the_items_for_any_batch_size() {
    let mut trainer = trainer(1);
    step(&mut trainer, 0);
    let items = items(11);
    let mut one = predictor(&trainer, 1);
    let predictions = one.predict_task::<B, _>(&Regression, &items).unwrap();
    let scores = items.iter().zip(&predictions);
    let scores: Vec<_> = scores
        .map(|(item, prediction)| Regression.score(item, prediction))
        .collect();
    let mean = scores.iter().sum::<f64>() / 11.0;
    assert!(mean > 0.0);
    for batch_size in [1, 4, 5, 11, 100] {
        let score = |ranks: usize| {
            predictor(&trainer, ranks)
                .score_task::<B, _>(&Regression, &items, batch_size)
                .unwrap()
        };
        assert!((score(1) - mean).abs() < 1e-6, "{}, not {mean}", score(1));
        assert_eq!(score(1).to_bits(), score(3).to_bits());
    }
}

#[test]
fn scores_of_nothing_are_refused() {
    let mut predictor = predictor(&trainer(1), 2);
    let error = predictor
        .score_task::<B, _>(&Regression, &[], 4)
        .unwrap_err();
    assert!(matches!(error, TrainError::EmptyBatch), "{error}");
    let error = predictor
        .score_task::<B, _>(&Regression, &items(3), 0)
        .unwrap_err();
    assert!(matches!(error, TrainError::Setting { .. }), "{error}");
    let error = predictor
        .predict_task::<B, _>(&Regression, &[])
        .unwrap_err();
    assert!(matches!(error, TrainError::EmptyBatch), "{error}");
}

#[test]
fn evaluation_sums_the_scores_of_the_model_as_it_is() {
    let items = items(11);
    let score = |model: &Model<V>, micro: Pairs<V>| {
        let rows = micro.targets.dims()[0];
        let error = (model.forward(micro.inputs) - micro.targets).powi_scalar(2);
        [f64::from(error.sum().into_scalar()), rows as f64]
    };
    let mut totals = Vec::new();
    for ranks in 1..=4 {
        let mut trainer = trainer(ranks);
        step(&mut trainer, 0);
        let before = hash(&trainer);
        let [sum, count] = trainer
            .evaluate(&items, &TaskBatcher(&Regression), score)
            .unwrap();
        assert_eq!((count, hash(&trainer)), (11.0, before));
        let whole = Regression.batch::<V>(items.clone(), &FlexDevice);
        let [expected, _] = score(&trainer.valid().unwrap(), whole);
        assert!((sum - expected).abs() < 1e-5, "{sum}, not {expected}");
        totals.push(sum.to_bits());
    }
    totals.dedup();
    assert_eq!(totals.len(), 1);
}

#[test]
fn evaluation_of_nothing_is_zero() {
    let none: [Item; 0] = [];
    let totals = trainer(2).evaluate(
        &none,
        &TaskBatcher(&Regression),
        |_: &Model<V>, _: Pairs<V>| [1.0],
    );
    assert_eq!(totals.unwrap(), [0.0]);
}

/// A model as bytes, and back.
fn save(trainer: &Training) -> Vec<u8> {
    let record = trainer.model().unwrap().clone().into_record();
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    Recorder::<B>::record(&recorder, record, ()).unwrap()
}

fn load(model: Model<B>, bytes: &[u8]) -> Model<B> {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    let record = Recorder::<B>::load(&recorder, bytes.to_vec(), &FlexDevice);
    model.load_record(record.unwrap())
}

#[test]
fn training_goes_on_bit_for_bit_when_a_record_is_loaded() {
    let mut quiet = trainer(2);
    let mut loaded = trainer(2);
    for first in 0..3 {
        step(&mut quiet, first);
        step(&mut loaded, first);
    }
    let bytes = save(&loaded);
    loaded.map_model(|model| load(model, &bytes)).unwrap();
    assert_eq!(hash(&loaded), hash(&quiet));
    for first in 3..6 {
        step(&mut quiet, first);
        step(&mut loaded, first);
        // The optimizer still knows the parameters.
        assert_eq!(hash(&loaded), hash(&quiet), "step {first}");
    }
    assert_eq!(loaded.nodes().applied_steps(), 6);
}

#[test]
fn earlier_weights_are_back_when_their_record_is_loaded() {
    let mut trainer = trainer(3);
    step(&mut trainer, 0);
    let (bytes, before) = (save(&trainer), hash(&trainer));
    step(&mut trainer, 1);
    assert_ne!(hash(&trainer), before);
    trainer.map_model(|model| load(model, &bytes)).unwrap();
    assert_eq!(hash(&trainer), before);
    step(&mut trainer, 2);
    assert_ne!(hash(&trainer), before);
}

#[test]
fn layers_stand_still_when_frozen() {
    let mut trainer = trainer(2);
    trainer
        .map_model(|model| Model {
            hidden: model.hidden.no_grad(),
            ..model
        })
        .unwrap();
    let weights = |trainer: &Training| {
        let model = trainer.model().unwrap();
        [&model.hidden, &model.output].map(|layer| layer.weight.val().into_data())
    };
    let before = weights(&trainer);
    step(&mut trainer, 0);
    let after = weights(&trainer);
    assert_eq!(after[0], before[0]);
    assert_ne!(after[1], before[1]);
}

/// Gives every parameter one and the same id.
struct SameIds;

impl<B: Backend> ModuleMapper<B> for SameIds {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (_, tensor, mapper) = param.consume();
        Param::from_mapped_value(id_of_path("same"), tensor.mul_scalar(2), mapper)
    }
}

#[test]
fn trainer_keeps_its_model_when_the_new_one_is_refused() {
    let mut trainer = trainer(2);
    let mut quiet = self::trainer(2);
    step(&mut trainer, 0);
    step(&mut quiet, 0);
    let error = trainer
        .map_model(|model| Model {
            output: model.output.map(&mut SameIds),
            ..model
        })
        .unwrap_err();
    let TrainError::DuplicateParameter { first, second, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((&**first, &**second), ("output.weight", "output.bias"));
    assert_eq!(hash(&trainer), hash(&quiet));
    step(&mut trainer, 1);
    step(&mut quiet, 1);
    assert_eq!(hash(&trainer), hash(&quiet));
}
