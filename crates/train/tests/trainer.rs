//! `Trainer`: clipping, schedules, frozen statistics, and what a report says.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use burn::backend::Autodiff;
use burn::lr_scheduler::LrScheduler;
use burn::module::{AutodiffModule, Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::{BatchNorm, BatchNormConfig};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn_flex::{Flex, FlexDevice};
use burn_virtual_backend::VirtualBackend;
use burn_virtual_train::{
    LossSum, Session, Skipped, TrainError, Trainer, VirtualNodes, WeightsHash,
};

type V = VirtualBackend<Flex>;
type B = Autodiff<V>;

/// Two parameters of one element, with loss `p[0] * a + p[1] * b` for a row `[a, b]`.
#[derive(Module, Debug)]
struct Pair<B: Backend> {
    first: Param<Tensor<B, 1>>,
    second: Param<Tensor<B, 1>>,
}

fn pair() -> Pair<B> {
    let one = || Param::from_tensor(Tensor::ones([1], &FlexDevice));
    Pair {
        first: one(),
        second: one(),
    }
}

fn rows<const N: usize>(rows: [[f32; 2]; N]) -> Tensor<B, 2> {
    Tensor::from_floats(rows, &FlexDevice)
}

fn loss(model: &Pair<B>, micro: Tensor<B, 2>) -> LossSum<B> {
    let [items, _] = micro.dims();
    let column = |index: usize| {
        micro
            .clone()
            .slice_dim(1, index..index + 1)
            .reshape([items])
    };
    let sum = (model.first.val() * column(0)).sum() + (model.second.val() * column(1)).sum();
    LossSum {
        sum,
        weight: items as f64,
    }
}

fn gradients(model: &Pair<B>, gradients: &GradientsParams) -> [f32; 2] {
    [model.first.id, model.second.id].map(|id| gradients.get::<V, 1>(id).unwrap().into_scalar())
}

/// The rates 0.1, 0.2, 0.3, ... one at each step.
#[derive(Clone, Debug)]
struct Rising(u32);

impl LrScheduler for Rising {
    type Record<B: Backend> = ();

    fn step(&mut self) -> f64 {
        self.0 += 1;
        f64::from(self.0) / 10.0
    }

    fn to_record<B: Backend>(&self) {}

    fn load_record<B: Backend>(self, (): ()) -> Self {
        self
    }
}

#[test]
fn case_10_gradients_are_clipped_once_by_the_global_norm_of_the_mean() {
    for ranks in 1..=2 {
        let mut model = pair();
        let mut nodes: Session<B> = VirtualNodes::new(2)
            .devices(vec![FlexDevice; ranks])
            .clip_norm(1.0)
            .start(&mut model)
            .unwrap();
        let out = nodes
            .backward_batch(&model, &rows([[3.0, 0.0], [0.0, 4.0]]), loss)
            .unwrap();
        assert_eq!(out.norm, 2.5);
        let [first, second] = gradients(&model, &out.grads);
        assert!(
            (first - 0.6).abs() < 1e-6 && (second - 0.8).abs() < 1e-6,
            "{first}, {second}"
        );
        // Below the limit nothing is touched.
        let out = nodes
            .backward_batch(&model, &rows([[0.3, 0.0], [0.0, 0.4]]), loss)
            .unwrap();
        assert_eq!(gradients(&model, &out.grads), [0.15, 0.2]);
    }
}

#[test]
fn clip_norms_are_refused_when_not_above_zero() {
    for limit in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = VirtualNodes::new(2)
            .clip_norm(limit)
            .start::<B, _>(&mut pair())
            .unwrap_err();
        assert!(
            matches!(
                error,
                TrainError::Setting {
                    what: "clip norm",
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn case_04_schedules_step_once_per_applied_update_on_any_ranks() {
    for ranks in [1, 2, 4] {
        let mut model = pair();
        let nodes = VirtualNodes::new(4)
            .devices(vec![FlexDevice; ranks])
            .start(&mut model)
            .unwrap();
        let mut trainer = Trainer::new(nodes, model, SgdConfig::new().init(), Rising(0));
        // Five samples, two a batch: the last, shorter batch is a step like any other.
        let batches = [
            rows([[1.0, 1.0], [1.0, 1.0]]),
            rows([[f32::NAN, 1.0], [1.0, 1.0]]),
            rows([[1.0, 1.0], [1.0, 1.0]]),
            rows([[1.0, 1.0]]),
        ];
        let reports = batches.map(|batch| trainer.step_batch(&batch, loss).unwrap());
        let rates = reports.each_ref().map(|report| report.learning_rate);
        assert_eq!(rates, [Some(0.1), None, Some(0.2), Some(0.3)]);
        assert_eq!(
            reports[1].skipped,
            Some(Skipped::NotFinite { nodes: vec![0] })
        );
        assert_eq!(trainer.nodes().applied_steps(), 3);
        let weight = trainer.model().unwrap().second.val().into_scalar();
        assert!((weight - (1.0 - 0.1 - 0.2 - 0.3)).abs() < 1e-6, "{weight}");
    }
}

#[test]
fn reports_time_the_virtual_nodes_that_ran() {
    let mut model = pair();
    let nodes = VirtualNodes::new(4)
        .devices([FlexDevice, FlexDevice])
        .start(&mut model)
        .unwrap();
    let mut trainer = Trainer::new(nodes, model, SgdConfig::new().init(), 0.1);
    let report = trainer
        .step_batch(&rows([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]), loss)
        .unwrap();
    let ran = report
        .seconds
        .iter()
        .map(|seconds| *seconds > 0.0)
        .collect::<Vec<_>>();
    assert_eq!(ran, [true, true, true, false]);
}

#[test]
fn weights_are_the_same_when_resized_in_mid_run() {
    let train = |resize: bool| {
        let mut model = pair();
        let nodes = VirtualNodes::new(4).start(&mut model).unwrap();
        let mut trainer = Trainer::new(nodes, model, SgdConfig::new().init(), 0.1);
        for step in 0..6 {
            if resize {
                trainer
                    .nodes()
                    .resize(vec![FlexDevice; 1 + step % 4])
                    .unwrap();
            }
            let batch = rows([[0.1, 0.2], [0.3, 0.7], [1.1, 1.3], [0.9, step as f32 * 0.1]]);
            trainer.step_batch(&batch, loss).unwrap();
        }
        let (_, model, _, _) = trainer.into_parts().unwrap();
        WeightsHash::of(&model).unwrap()
    };
    assert_eq!(train(true), train(false));
}

/// A batch norm in a module of its own, for a path with two parts.
#[derive(Module, Debug)]
struct Normed<B: Backend> {
    norm: BatchNorm<B>,
}

#[test]
fn case_25_frozen_statistics_do_not_move() {
    let run = |frozen: Option<&str>| {
        let mut model = Normed::<B> {
            norm: BatchNormConfig::new(2).init(&FlexDevice),
        };
        let mut nodes = VirtualNodes::new(2).start(&mut model).unwrap();
        if let Some(path) = frozen {
            nodes.freeze_statistics(path).unwrap();
        }
        for _ in 0..10 {
            let batch = rows([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 8.0]]);
            nodes
                .backward_batch(&model, &batch, |model, micro| LossSum {
                    weight: micro.dims()[0] as f64,
                    sum: model.norm.forward(micro).sum(),
                })
                .unwrap();
        }
        let mean = model
            .norm
            .running_mean
            .value()
            .into_data()
            .to_vec::<f32>()
            .unwrap();
        let variance = model
            .norm
            .running_var
            .value()
            .into_data()
            .to_vec::<f32>()
            .unwrap();
        (mean, variance)
    };
    assert_eq!(run(Some("norm")), (vec![0.0; 2], vec![1.0; 2]));
    assert_eq!(run(Some("")), (vec![0.0; 2], vec![1.0; 2]));
    let half = run(Some("norm.running_mean"));
    assert_eq!(half.0, [0.0; 2]);
    assert_ne!(half.1, [1.0; 2]);
    assert_ne!(run(None).0, [0.0; 2]);
}

#[test]
fn freezing_is_refused_when_there_is_nothing_to_freeze() {
    let mut model = Normed::<B> {
        norm: BatchNormConfig::new(2).init(&FlexDevice),
    };
    let mut nodes = VirtualNodes::new(2).start(&mut model).unwrap();
    for path in ["nor", "norm.gamma", "other"] {
        let error = nodes.freeze_statistics(path).unwrap_err();
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn losses_of_more_than_one_value_are_refused() {
    let mut model = pair();
    let mut nodes = VirtualNodes::new(2).start(&mut model).unwrap();
    let error = nodes
        .backward_batch(
            &model,
            &rows([[1.0, 1.0], [1.0, 1.0]]),
            |model: &Pair<B>, micro| LossSum {
                weight: 1.0,
                sum: Tensor::cat(
                    vec![loss(model, micro.clone()).sum, loss(model, micro).sum],
                    0,
                ),
            },
        )
        .unwrap_err();
    assert!(
        error.to_string().contains("expected 1 value, got 2"),
        "{error}"
    );
}

#[test]
fn steps_are_skipped_when_the_weights_overflow() {
    let mut model = pair();
    let mut nodes = VirtualNodes::new(2).start(&mut model).unwrap();
    let out = nodes
        .backward_batch(&model, &rows([[1.0, 1.0], [1.0, 1.0]]), |model, micro| {
            LossSum {
                weight: 1.5e308,
                ..loss(model, micro)
            }
        })
        .unwrap();
    assert!(
        matches!(out.skipped, Some(Skipped::NotFinite { .. })),
        "{out:?}"
    );
    assert!(out.grads.is_empty());
}

#[test]
fn too_many_virtual_nodes_are_refused() {
    let error = VirtualNodes::new(1 << 40)
        .start::<B, _>(&mut pair())
        .unwrap_err();
    assert!(
        error.to_string().contains("expected at most 1048576"),
        "{error}"
    );
}

/// A hand-written module that gives both of its parameters one path.
#[derive(Clone, Debug)]
struct Nameless<B: Backend>(Pair<B>);

impl<B: Backend> Module<B> for Nameless<B> {
    type Record = <Pair<B> as Module<B>>::Record;

    fn collect_devices(&self, devices: Vec<B::Device>) -> Vec<B::Device> {
        self.0.collect_devices(devices)
    }

    fn fork(self, device: &B::Device) -> Self {
        Self(self.0.fork(device))
    }

    fn to_device(self, device: &B::Device) -> Self {
        Self(self.0.to_device(device))
    }

    fn visit<V: ModuleVisitor<B>>(&self, visitor: &mut V) {
        visitor.visit_float(&self.0.first);
        visitor.visit_float(&self.0.second);
    }

    fn map<M: ModuleMapper<B>>(self, mapper: &mut M) -> Self {
        let Pair { first, second } = self.0;
        Self(Pair {
            first: mapper.map_float(first),
            second: mapper.map_float(second),
        })
    }

    fn load_record(self, record: Self::Record) -> Self {
        Self(self.0.load_record(record))
    }

    fn into_record(self) -> Self::Record {
        self.0.into_record()
    }
}

impl<B: AutodiffBackend> AutodiffModule<B> for Nameless<B> {
    type InnerModule = Nameless<B::InnerBackend>;

    fn valid(&self) -> Self::InnerModule {
        Nameless(self.0.valid())
    }

    fn from_inner(module: Self::InnerModule) -> Self {
        Self(Pair::from_inner(module.0))
    }
}

#[test]
fn modules_that_give_two_parameters_one_path_are_refused() {
    let mut model = Nameless(pair());
    let error = VirtualNodes::new(2).start::<B, _>(&mut model).unwrap_err();
    assert!(matches!(error, TrainError::SharedPath { .. }), "{error}");
    let error = WeightsHash::of(&model).unwrap_err();
    assert!(matches!(error, TrainError::SharedPath { .. }), "{error}");
}
