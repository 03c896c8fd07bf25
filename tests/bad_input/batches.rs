//! Batches that are short, empty, or do not fit their targets.

use burn::tensor::{Int, Tensor};
use burn_virtual::nodes::{LossError, LossSum, NodeError, Session, TrainError, cross_entropy_sum};

use crate::common::{
    Cnn, MAPPINGS, Mlp, Net, SampleBatcher, Samples, adam, hash, samples, train_step,
};
use crate::failure::{assert_failure_leaves_no_trace, at, with_sample_5};
use crate::{B, job};

#[test]
fn step_works_when_the_batch_is_smaller_than_the_nodes() {
    let run = |shares: &[usize]| {
        let mut model = Cnn::<B>::init(&Default::default());
        let mut session = job(shares, &mut model);
        let (model, trace) = train_step(&mut session, model, &mut adam(), &samples(1, 2)).unwrap();
        assert_eq!(trace.skipped, None);
        (trace, hash(&model))
    };
    for shares in MAPPINGS {
        assert_eq!(run(shares), run(&[4]));
    }
}

#[test]
fn step_is_refused_when_the_batch_is_empty() {
    let mut model = Mlp::<B>::init(&Default::default());
    let mut session = job(&[2, 2], &mut model);
    let none = train_step(&mut session, model.clone(), &mut adam(), &[]).unwrap_err();
    assert!(matches!(none, TrainError::EmptyBatch), "{none}");
    let empty = Tensor::<B, 2>::zeros([0, 16], &Default::default());
    let loss = |model: &Mlp<B>, rows: Tensor<B, 2>| LossSum {
        sum: model.logits(rows).sum(),
        weight: 1.0,
    };
    let none = session.backward_batch(&model, &empty, loss).unwrap_err();
    assert!(matches!(none, TrainError::EmptyBatch), "{none}");
    assert_eq!(session.applied_steps(), 0);
}

#[test]
fn step_is_refused_when_tensors_of_a_batch_differ_in_length() {
    let device = Default::default();
    let mut model = Mlp::<B>::init(&device);
    let mut session = job(&[2, 2], &mut model);
    let images = Tensor::<B, 2>::zeros([5, 16], &device);
    let targets = Tensor::<B, 1, Int>::zeros([4], &device);
    let batch = (images.clone(), targets);
    let loss = |model: &Mlp<B>, (images, targets): (Tensor<B, 2>, Tensor<B, 1, Int>)| {
        cross_entropy_sum(model.logits(images), targets)
    };
    let error = session.backward_batch(&model, &batch, loss).unwrap_err();
    assert!(
        matches!(
            error,
            TrainError::UnequalBatch {
                expected: 5,
                got: 4
            }
        ),
        "{error}"
    );
    let batch = (images, Tensor::<B, 1, Int>::zeros([5], &device));
    session.backward_batch(&model, &batch, loss).unwrap();
}

#[test]
fn target_out_of_range_is_named_by_rank_step_and_node() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let items = with_sample_5(9, |item| item.label = 7);
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            cross_entropy_sum(model.logits(micro.images), micro.targets)
        };
        let error = session
            .backward(model, &items, &SampleBatcher, loss)
            .unwrap_err();
        let TrainError::Node {
            node: 2,
            source: NodeError::Loss(source),
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(
            *source,
            LossError::Target {
                row: 1,
                target: 7,
                classes: 3
            }
        );
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![
            at(shares, 1, 2),
            "target 7".into(),
            "row 1".into(),
            "0..3".into(),
        ]
    });
}

#[test]
fn logits_and_targets_of_different_length_are_named() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            cross_entropy_sum(model.logits(micro.images), micro.targets.narrow(0, 0, 1))
        };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![
            at(shares, 1, 0),
            "logits have 2 rows".into(),
            "1 targets".into(),
        ]
    });
}
