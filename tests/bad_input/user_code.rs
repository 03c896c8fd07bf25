//! Panics in the model, the batcher and the score.

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::backend::Backend;
use burn_virtual::nodes::{LossSum, NodeError, Session};

use crate::B;
use crate::common::{Cnn, Sample, SampleBatcher, Samples, samples, weighted_loss};
use crate::failure::{assert_failure_leaves_no_trace, at, node_error, with_sample_5};

/// Panics on sample 5, on whatever thread runs it.
fn explode(micro: &Samples<B>) {
    let first: Vec<f32> = micro.images.clone().into_data().iter::<f32>().collect();
    assert!(
        first.iter().all(|&pixel| pixel != 77.0),
        "boom in the model"
    );
}

#[test]
fn panic_in_the_model_is_named_by_rank_step_and_node() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let items = with_sample_5(9, |item| item.pixels[3] = 77.0);
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            explode(&micro);
            weighted_loss(model, micro)
        };
        let error = session
            .backward(model, &items, &SampleBatcher, loss)
            .unwrap_err();
        Some(node_error(&error, |source| {
            matches!(source, NodeError::Panicked(_))
        }))
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 2), "panicked: boom in the model".into()]
    });
}

#[test]
fn panics_on_every_rank_are_one_error() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |_: &Cnn<B>, _: Samples<B>| -> LossSum<B> { panic!("boom everywhere") };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 0), "boom everywhere".into()]
    });
}

/// A batcher that will not take an item.
struct Picky;

impl<B: Backend> Batcher<B, Sample, Samples<B>> for Picky {
    fn batch(&self, items: Vec<Sample>, device: &B::Device) -> Samples<B> {
        assert!(
            items.iter().all(|item| item.label < 9),
            "boom in the batcher"
        );
        SampleBatcher.batch(items, device)
    }
}

#[test]
fn panic_in_the_batcher_is_named_by_rank_step_and_node() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let items = with_sample_5(9, |item| item.label = 9);
        let error = session
            .backward(model, &items, &Picky, weighted_loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 2), "panicked: boom in the batcher".into()]
    });
}

#[test]
fn panic_in_an_evaluation_is_named_by_rank_step_and_node() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let items = with_sample_5(9, |item| item.label = 9);
        let error = session
            .evaluate(model, &items, &Picky, |_, _| [1.0])
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 2), "panicked: boom in the batcher".into()]
    });
}
