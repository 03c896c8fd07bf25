//! Random numbers that would depend on the placement.

use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor};
use burn_virtual::backend::{Scope, enter};
use burn_virtual::nodes::{LossSum, NodeError, Session};

use crate::B;
use crate::common::{Cnn, SampleBatcher, Samples, samples, weighted_loss};
use crate::failure::{assert_failure_leaves_no_trace, at, node_error};

/// A draw inside a step but outside a virtual node.
fn stray_draw() {
    let _scope = enter(Scope::Step { step: 9 });
    drop(Tensor::<B, 1>::random(
        [2],
        Distribution::Default,
        &Default::default(),
    ));
}

#[test]
fn random_operation_outside_a_node_is_refused() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            stray_draw();
            weighted_loss(model, micro)
        };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        Some(node_error(&error, |source| {
            matches!(source, NodeError::Fault(_))
        }))
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![
            at(shares, 1, 0),
            "inside step 9 but outside any virtual node".into(),
        ]
    });
}

/// Seeded in the loss, every virtual node would draw the same mask.
#[test]
fn seeding_the_backend_in_a_node_is_refused() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            B::seed(&Default::default(), 7);
            weighted_loss(model, micro)
        };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| vec![at(shares, 1, 0), "seeded".into()]);
}

/// The fault belongs to the step that panicked after it, not to the next one.
#[test]
fn random_operation_outside_a_node_is_forgotten_when_its_node_panics() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |_: &Cnn<B>, _: Samples<B>| -> LossSum<B> {
            stray_draw();
            panic!("boom after a draw")
        };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 0), "boom after a draw".into()]
    });
}

#[test]
fn random_operation_outside_a_node_is_refused_in_an_evaluation() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let score = |_: &Cnn<_>, _: Samples<_>| {
            stray_draw();
            [1.0]
        };
        let error = session
            .evaluate(model, &samples(9, 8), &SampleBatcher, score)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 0), "outside any virtual node".into()]
    });
}
