//! The outputs of virtual nodes, put together.

use burn::tensor::{Int, Tensor, TensorData};
use burn::train::{
    ClassificationOutput, MultiLabelClassificationOutput, RegressionOutput, SequenceOutput,
};
use burn_flex::FlexDevice;
use burn_virtual_train::learner::JoinOutput;

use crate::common::{B, values};

/// Losses of three virtual nodes, with their weights: the mean is (3 · 1 + 1 · 5) / 4.
const LOSSES: [(f64, f32); 3] = [(3.0, 1.0), (0.0, f32::NAN), (1.0, 5.0)];
const MEAN: [f32; 1] = [2.0];

/// Rows per virtual node.
const ROWS: [usize; 3] = [3, 2, 1];

fn loss(value: f32) -> Tensor<B, 1> {
    Tensor::from_floats([value], &FlexDevice)
}

/// The numbers from `first` on.
fn floats<const D: usize>(first: usize, shape: [usize; D]) -> Tensor<B, D> {
    let elements = shape.iter().product::<usize>();
    let values: Vec<f32> = (first..first + elements)
        .map(|value| value as f32)
        .collect();
    Tensor::from_data(TensorData::new(values, shape), &FlexDevice)
}

fn ints<const D: usize>(first: usize, shape: [usize; D]) -> Tensor<B, D, Int> {
    floats(first, shape).int()
}

fn numbers<const D: usize>(tensor: Tensor<B, D, Int>) -> Vec<f32> {
    values(tensor.float())
}

/// Outputs of three virtual nodes, each made from its loss, its first row and its number of rows,
/// joined.
fn joined<O: JoinOutput>(output: impl Fn(f32, usize, usize) -> O) -> O {
    let mut first_row = 0;
    let parts = LOSSES.iter().zip(ROWS).map(|((weight, loss), rows)| {
        first_row += rows;
        (*weight, output(*loss, first_row - rows, rows))
    });
    let mut parts: Vec<_> = parts.collect();
    let first = parts.remove(0);
    O::join(first, parts)
}

fn counted(elements: usize) -> Vec<f32> {
    (0..elements).map(|value| value as f32).collect()
}

#[test]
fn classifications_are_joined_in_order() {
    let output = joined(|value, row, rows| {
        ClassificationOutput::new(loss(value), floats(2 * row, [rows, 2]), ints(row, [rows]))
    });
    assert_eq!(values(output.loss), MEAN);
    assert_eq!(output.output.dims(), [6, 2]);
    assert_eq!(values(output.output), counted(12));
    assert_eq!(numbers(output.targets), counted(6));
}

#[test]
fn multi_label_classifications_are_joined_in_order() {
    let output = joined(|value, row, rows| {
        let targets = ints(2 * row, [rows, 2]);
        MultiLabelClassificationOutput::new(loss(value), floats(2 * row, [rows, 2]), targets)
    });
    assert_eq!(values(output.loss), MEAN);
    assert_eq!(values(output.output), counted(12));
    assert_eq!(output.targets.dims(), [6, 2]);
    assert_eq!(numbers(output.targets), counted(12));
}

#[test]
fn regressions_are_joined_in_order() {
    let output = joined(|value, row, rows| {
        let targets = floats(3 * row, [rows, 3]);
        RegressionOutput::new(loss(value), floats(row, [rows, 1]), targets)
    });
    assert_eq!(values(output.loss), MEAN);
    assert_eq!(values(output.output), counted(6));
    assert_eq!(output.targets.dims(), [6, 3]);
    assert_eq!(values(output.targets), counted(18));
}

#[test]
fn sequences_are_joined_in_order_with_and_without_predictions() {
    for predicted in [true, false] {
        let output = joined(|value, row, rows| {
            let tokens = ints(2 * row, [rows, 2]);
            let predictions = predicted.then(|| tokens.clone().mul_scalar(2));
            SequenceOutput::new(
                loss(value),
                floats(8 * row, [rows, 2, 4]),
                predictions,
                tokens,
            )
        });
        assert_eq!(values(output.loss), MEAN);
        assert_eq!(output.logits.dims(), [6, 2, 4]);
        assert_eq!(values(output.logits), counted(48));
        assert_eq!(numbers(output.targets), counted(12));
        assert_eq!(output.predictions.is_some(), predicted);
        if let Some(predictions) = output.predictions {
            assert_eq!(predictions.dims(), [6, 2]);
            let doubled: Vec<_> = counted(12).iter().map(|value| 2.0 * value).collect();
            assert_eq!(numbers(predictions), doubled);
        }
    }
}

#[test]
fn sequences_have_no_predictions_when_one_virtual_node_has_none() {
    let output = joined(|value, row, rows| {
        let tokens = ints(2 * row, [rows, 2]);
        let predictions = (row > 0).then(|| tokens.clone());
        SequenceOutput::new(loss(value), floats(0, [rows, 2, 4]), predictions, tokens)
    });
    assert!(output.predictions.is_none());
}

#[test]
fn output_of_one_virtual_node_is_what_it_was() {
    let output = RegressionOutput::new(loss(7.0), floats(0, [2, 1]), floats(2, [2, 1]));
    let output = RegressionOutput::join((2.0, output), Vec::new());
    assert_eq!(values(output.loss), [7.0]);
    assert_eq!(values(output.output), counted(2));
}

#[test]
fn outputs_keep_no_graph_when_joined() {
    let weight = Tensor::<B, 1>::from_floats([3.0], &FlexDevice).require_grad();
    let part = || {
        let loss = weight.clone() * 2.0;
        let rows = weight.clone().reshape([1, 1]);
        (1.0, RegressionOutput::new(loss, rows.clone(), rows))
    };
    for rest in [vec![], vec![part()]] {
        let joined = RegressionOutput::join(part(), rest);
        let sum = joined.loss + joined.output.sum() + weight.clone() * 0.5;
        let gradients = sum.backward();
        // Through the last term alone.
        assert_eq!(values(weight.grad(&gradients).unwrap()), [0.5]);
    }
}
