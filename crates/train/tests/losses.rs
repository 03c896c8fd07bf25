//! The losses against an f64 reference, whole and split over virtual nodes.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use burn::backend::Autodiff;
use burn::module::{Module, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};
use burn_virtual_backend::VirtualBackend;
use burn_virtual_train::{
    CrossEntropy, LossError, LossSum, VirtualNodes, binary_cross_entropy_sum, cross_entropy_sum,
    squared_error_sum,
};

type V = VirtualBackend<Flex>;
type B = Autodiff<V>;

const CLASSES: usize = 3;

fn logits() -> Vec<[f32; CLASSES]> {
    (0..7)
        .map(|row| [0, 1, 2].map(|class| ((row * 5 + class * 3) % 7) as f32 * 0.6 - 1.5))
        .collect()
}

fn tensor<B: Backend>(rows: &[[f32; CLASSES]]) -> Tensor<B, 2> {
    let data = TensorData::new(rows.concat(), [rows.len(), CLASSES]);
    Tensor::from_data(data, &B::Device::default())
}

fn ints<B: Backend>(values: &[i64]) -> Tensor<B, 1, Int> {
    Tensor::from_data(
        TensorData::new(values.to_vec(), [values.len()]),
        &B::Device::default(),
    )
}

/// The formula of [`CrossEntropy`], in f64.
fn reference(
    targets: &[i64],
    pad: Option<i64>,
    weights: [f64; CLASSES],
    smoothing: f64,
) -> (f64, f64) {
    let (mut sum, mut weight) = (0.0, 0.0);
    for (row, &target) in logits().iter().zip(targets) {
        if Some(target) == pad || weights[target as usize] == 0.0 {
            continue;
        }
        let total: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        let log_p = row.map(|x| f64::from(x) - total.ln());
        let class = target as usize;
        sum -= (1.0 - smoothing) * weights[class] * log_p[class];
        sum -= smoothing / CLASSES as f64
            * log_p
                .iter()
                .zip(weights)
                .map(|(log_p, weight)| log_p * weight)
                .sum::<f64>();
        weight += weights[class];
    }
    (sum, weight)
}

fn close(got: &LossSum<V>, expected: (f64, f64)) {
    let sum = f64::from(got.sum.clone().into_scalar());
    assert!(
        (sum - expected.0).abs() < 1e-5,
        "{sum} is not {}",
        expected.0
    );
    assert!(
        (got.weight - expected.1).abs() < 1e-6,
        "{} is not {}",
        got.weight,
        expected.1
    );
}

#[test]
fn cross_entropy_is_the_formula_for_every_setting() {
    let targets = [0, 2, 1, -100, 2, -100, 0];
    let some = [0, 2, 1, 1, 2, 0, 0];
    let weights = [0.5f32, 2.0, 0.0];
    let wide = weights.map(f64::from);
    for smoothing in [0.0, 0.1] {
        let loss = CrossEntropy::new().with_smoothing(smoothing);
        let plain = loss.sum::<V>(tensor(&logits()), ints(&some)).unwrap();
        close(&plain, reference(&some, None, [1.0; 3], smoothing));
        let padded = loss.clone().with_padding([-100]);
        let got = padded.sum::<V>(tensor(&logits()), ints(&targets)).unwrap();
        close(&got, reference(&targets, Some(-100), [1.0; 3], smoothing));
        let weighted = padded.with_class_weights(weights);
        let got = weighted
            .sum::<V>(tensor(&logits()), ints(&targets))
            .unwrap();
        close(&got, reference(&targets, Some(-100), wide, smoothing));
    }
    let short = cross_entropy_sum::<V>(tensor(&logits()), ints(&some)).unwrap();
    close(&short, reference(&some, None, [1.0; 3], 0.0));
}

#[test]
fn cross_entropy_of_sequences_is_that_of_their_rows() {
    let targets = [0, 2, 1, -1, 2, -1];
    let loss = CrossEntropy::new().with_padding([-1]);
    let rows = tensor::<V>(&logits()[..6]).reshape([2, 3, CLASSES]);
    let got = loss
        .sequence_sum(rows, ints(&targets).reshape([2, 3]))
        .unwrap();
    close(&got, reference(&targets, Some(-1), [1.0; 3], 0.0));
    let rows = tensor::<V>(&logits()[..6]).reshape([2, 3, CLASSES]);
    let error = loss
        .sequence_sum(rows, ints::<V>(&targets).reshape([3, 2]))
        .unwrap_err();
    assert!(matches!(error, LossError::Shapes { .. }), "{error}");
}

#[test]
fn padding_adds_nothing_when_its_logits_are_infinite() {
    let mut rows = logits();
    rows[3] = [f32::INFINITY, 0.0, 0.0];
    let targets = [0, 2, 1, 9, 2, 1, 0];
    let loss = CrossEntropy::new().with_padding([9]);
    let got = loss.sum::<V>(tensor(&rows), ints(&targets)).unwrap();
    close(&got, reference(&targets, Some(9), [1.0; 3], 0.0));
}

#[test]
fn bad_targets_and_settings_are_refused_by_name() {
    let refuse = |loss: CrossEntropy, targets: &[i64]| {
        loss.sum::<V>(tensor(&logits()[..2]), ints(targets))
            .unwrap_err()
            .to_string()
    };
    let plain = CrossEntropy::new;
    assert_eq!(
        refuse(plain(), &[0, 3]),
        "target 3 of row 1 is out of range: expected 0..3"
    );
    assert_eq!(
        refuse(plain(), &[-1, 0]),
        "target -1 of row 0 is out of range: expected 0..3"
    );
    assert_eq!(
        refuse(plain(), &[0]),
        "logits have 2 rows, but there are 1 targets"
    );
    let smoothed = refuse(plain().with_smoothing(1.0), &[0, 0]);
    assert_eq!(
        smoothed,
        "smoothing: expected at least 0 and below 1, got 1"
    );
    let short = refuse(plain().with_class_weights([1.0]), &[0, 0]);
    assert_eq!(
        short,
        "number of class weights: expected 3, one per class, got 1"
    );
    let negative = refuse(plain().with_class_weights([1.0, -1.0, 1.0]), &[0, 0]);
    assert_eq!(
        negative,
        "class weight: expected finite and at least 0, got -1"
    );
}

#[test]
fn other_losses_are_their_formulas() {
    let (a, b) = (
        tensor::<V>(&[[1.0, 2.0, 3.0]]),
        tensor::<V>(&[[0.0, 4.0, 3.0]]),
    );
    close(
        &squared_error_sum(a.clone(), b.clone()).unwrap(),
        (5.0, 3.0),
    );
    let targets = ints::<V>(&[0, 1, 1]).reshape([1, 3]);
    let expected: f64 = [(1.0, 0.0), (2.0, 1.0), (3.0, 1.0)]
        .map(|(x, y): (f64, f64)| (1.0 + (-x).exp()).ln() + (1.0 - y) * x)
        .iter()
        .sum();
    close(
        &binary_cross_entropy_sum(a.clone(), targets).unwrap(),
        (expected, 3.0),
    );
    let wrong = binary_cross_entropy_sum(a.clone(), ints::<V>(&[0, 1, 2]).reshape([1, 3]));
    assert_eq!(
        wrong.unwrap_err(),
        LossError::Target {
            row: 2,
            target: 2,
            classes: 2
        }
    );
    let shapes = squared_error_sum(a, b.transpose());
    assert!(matches!(shapes.unwrap_err(), LossError::Shapes { .. }));
    let mean = Tensor::<V, 1>::from_floats([2.5], &FlexDevice);
    close(&LossSum::from_mean(mean, 4.0), (10.0, 4.0));
}

/// Logits are a table of parameters, one row an item.
#[derive(Module, Debug)]
struct Table<B: Backend> {
    rows: Param<Tensor<B, 2>>,
}

#[test]
fn gradients_are_those_of_the_whole_batch_when_split() {
    let targets = [0i64, 2, 1, -100, 2, -100, 0];
    let loss = CrossEntropy::new()
        .with_padding([-100])
        .with_class_weights([0.5, 2.0, 1.5])
        .with_smoothing(0.1);
    let indices = Tensor::<B, 1, Int>::arange(0..7, &FlexDevice);
    let run = |virtual_nodes: usize| {
        let mut model = Table::<B> {
            rows: Param::from_tensor(tensor(&logits())),
        };
        let mut nodes = VirtualNodes::new(virtual_nodes).start(&mut model).unwrap();
        let batch = (indices.clone(), ints::<B>(&targets));
        let out = nodes
            .backward_batch(&model, &batch, |model, (rows, targets)| {
                loss.sum(model.rows.val().select(0, rows), targets)
            })
            .unwrap();
        let gradient = out.grads.get::<V, 2>(model.rows.id).unwrap().into_data();
        (out.loss, out.weight, gradient.to_vec::<f32>().unwrap())
    };
    let (loss, weight, whole) = run(1);
    for virtual_nodes in 2..=9 {
        let (split_loss, split_weight, split) = run(virtual_nodes);
        assert!(
            (loss - split_loss).abs() < 1e-6,
            "{loss} is not {split_loss}"
        );
        assert!((weight - split_weight).abs() < 1e-6);
        for (a, b) in whole.iter().zip(&split) {
            assert!((a - b).abs() < 1e-6, "{a} is not {b}");
        }
    }
}

#[test]
fn parameters_learn_when_the_loss_runs_a_backward_pass_of_its_own() {
    let mut model = Table::<B> {
        rows: Param::from_tensor(tensor(&logits())),
    };
    let mut nodes = VirtualNodes::new(2)
        .require_all_gradients()
        .start(&mut model)
        .unwrap();
    let inputs = Tensor::<B, 2>::ones([4, 7], &FlexDevice);
    let out = nodes
        .backward_batch(&model, &inputs, |model, micro| {
            let weight = micro.dims()[0] as f64;
            let thrown_away = micro.clone().matmul(model.rows.val()).sum().backward();
            drop(thrown_away);
            LossSum {
                sum: micro.matmul(model.rows.val()).sum(),
                weight,
            }
        })
        .unwrap();
    let gradient = out.grads.get::<V, 2>(model.rows.id).unwrap().into_data();
    assert_eq!(gradient.to_vec::<f32>().unwrap(), [1.0; 21]);
}

#[test]
fn steps_are_skipped_when_a_half_precision_gradient_overflows_on_its_way_back() {
    let half = burn::tensor::DType::F16;
    let value = Tensor::<B, 2>::ones([1, 1], &FlexDevice).cast(half);
    let mut model = Table::<B> {
        rows: Param::from_tensor(value),
    };
    let mut nodes = VirtualNodes::new(2).start(&mut model).unwrap();
    // Each virtual node's own gradient, 40,000, is an f16; their sum over a weight of 1 is not.
    let inputs = Tensor::<B, 2>::from_floats([[40_000.0], [40_000.0]], &FlexDevice).cast(half);
    let out = nodes
        .backward_batch(&model, &inputs, |model, micro| LossSum {
            sum: micro
                .matmul(model.rows.val())
                .sum()
                .cast(burn::tensor::DType::F32),
            weight: 0.5,
        })
        .unwrap();
    assert!(out.skipped.is_some());
    assert!(out.grads.is_empty());
    assert_eq!(nodes.applied_steps(), 0);
}
