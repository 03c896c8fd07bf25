//! Single training steps of a `Virtual` model.

use std::thread;

use burn::data::dataloader::batcher::Batcher;
use burn::module::AutodiffModule;
use burn::optim::AdamConfig;
use burn::train::{TrainOutput, TrainStep};
use burn_flex::FlexDevice;
use burn_virtual_train::{LossSum, Skipped, TrainError};

use crate::common::{
    B, Classifier, Item, ItemBatcher, Items, MAPPINGS, Wrapped, assert_close, bits, gradients,
    hash, items, panic_of, session, values, wrapped,
};

/// Ten items are three, three, two and two.
const BATCH: usize = 10;

#[test]
fn gradients_are_those_of_a_session_with_the_mean_loss_times_its_weight() {
    let model = wrapped(&[4], Classifier::full());
    let out = model.try_step(&items(BATCH)).unwrap();

    let mut other = Classifier::full();
    let mut nodes = session(&[4], &mut other);
    let loss = |model: &Classifier<B>, micro: Items<B>| {
        let weight = micro.classes.dims()[0] as f64;
        LossSum {
            sum: model.classify(micro).loss.mul_scalar(weight),
            weight,
        }
    };
    let expected = nodes
        .backward(&other, &items(BATCH), &ItemBatcher, loss)
        .unwrap();
    assert_eq!(out.grads.len(), 6);
    assert_close(
        &gradients(model.model(), &out.grads),
        &gradients(&other, &expected.grads),
    );
    let loss = f64::from(out.item.loss.into_scalar());
    assert!((loss - expected.loss).abs() < 1e-6, "{loss}");
    // The weights are the same, so this is about the running statistics.
    assert_eq!(hash(&model), hash(&other));
    assert_ne!(hash(&model), hash(&wrapped(&[4], Classifier::full())));
}

/// All that a few steps leave behind, to the last bit.
fn trace(mut model: Wrapped, mut before_step: impl FnMut(usize, &Wrapped)) -> Vec<Vec<u32>> {
    let mut optim = AdamConfig::new().init();
    let mut trace = Vec::new();
    for step in 0..6 {
        before_step(step, &model);
        let batch = &items(40)[5 * step..][..BATCH];
        let TrainOutput { grads, item } = TrainStep::step(&model, batch.to_vec());
        trace.push(bits(&gradients(model.model(), &grads)));
        trace.push(bits(&values(item.loss)));
        trace.push(bits(&values(item.output)));
        model = model.optimize::<B, _>(&mut optim, 0.05, grads);
    }
    trace.push(hash(&model).to_string().bytes().map(u32::from).collect());
    trace
}

#[test]
fn steps_have_the_same_bits_for_every_placement() {
    let alone = trace(wrapped(&[4], Classifier::full()), |_, _| ());
    assert!(alone[..2] != alone[3..5]);
    for shares in MAPPINGS {
        let shared = trace(wrapped(shares, Classifier::full()), |_, _| ());
        assert_eq!(shared, alone, "{shares:?}");
    }
}

#[test]
fn steps_have_the_same_bits_when_resized_between_them() {
    let alone = trace(wrapped(&[4], Classifier::full()), |_, _| ());
    let model = wrapped(&[3, 1], Classifier::full());
    let handle = model.handle();
    let moved = trace(model, |step, _| {
        handle.resize(vec![FlexDevice; 1 + step % 4]).unwrap();
        assert_eq!(handle.status().placement.ranks(), 1 + step % 4);
    });
    assert_eq!(moved, alone);
    assert_eq!(handle.status().applied_steps, 6);
}

#[test]
fn steps_have_the_same_bits_when_resized_from_another_thread() {
    let alone = trace(wrapped(&[4], Classifier::full()), |_, _| ());
    let model = wrapped(&[4], Classifier::full());
    let handle = model.handle();
    let mover = thread::spawn(move || {
        for ranks in (1..=4).cycle().take(40) {
            handle.resize(vec![FlexDevice; ranks]).unwrap();
        }
    });
    let moved = trace(model, |_, _| ());
    mover.join().unwrap();
    assert_eq!(moved, alone);
}

#[test]
fn resizing_is_refused_when_there_are_more_devices_than_nodes() {
    let model = wrapped(&[2, 2], Classifier::plain());
    let handle = model.handle();
    assert!(matches!(
        handle.resize(vec![FlexDevice; 5]),
        Err(TrainError::Plan(_))
    ));
    assert_eq!(handle.status().placement.ranks(), 2);
    model.try_step(&items(BATCH)).unwrap();
}

/// The model's own step on the whole batch, without virtual nodes.
fn own_step(
    batch: &[Item],
    model: &Classifier<B>,
) -> TrainOutput<<Classifier<B> as TrainStep>::Output> {
    TrainStep::step(model, ItemBatcher.batch(batch.to_vec(), &FlexDevice))
}

#[test]
fn one_virtual_node_is_the_models_own_step() {
    let model = wrapped(&[1], Classifier::plain());
    let got = model.try_step(&items(BATCH)).unwrap();
    let own = own_step(&items(BATCH), model.model());
    assert_close(
        &gradients(model.model(), &got.grads),
        &gradients(model.model(), &own.grads),
    );
    assert_close(&values(got.item.loss), &values(own.item.loss));
    assert_close(&values(got.item.output), &values(own.item.output));
}

#[test]
fn steps_are_the_models_own_step_when_micro_batches_are_uneven() {
    // Also with virtual nodes that have no item.
    for batch in [3, BATCH] {
        let model = wrapped(&[3, 1], Classifier::plain());
        let got = model.try_step(&items(batch)).unwrap();
        let own = own_step(&items(batch), model.model());
        assert_close(
            &gradients(model.model(), &got.grads),
            &gradients(model.model(), &own.grads),
        );
        assert_close(&values(got.item.loss), &values(own.item.loss));
        assert_close(&values(got.item.output), &values(own.item.output));
        let classes: Vec<i64> = got.item.targets.into_data().iter().collect();
        let expected: Vec<i64> = items(batch).iter().map(|item| item.class.into()).collect();
        assert_eq!(classes, expected);
    }
}

#[test]
fn empty_batches_are_refused() {
    let model = wrapped(&[2, 2], Classifier::plain());
    assert!(matches!(model.try_step(&[]), Err(TrainError::EmptyBatch)));
}

/// An item that the model, or the batcher, takes for too bright; the last virtual node gets it.
fn with_a_bright_one() -> Vec<Item> {
    let mut items = items(BATCH);
    items[BATCH - 1].pixels[0] = 1e3;
    items
}

#[test]
fn panics_of_the_model_name_rank_step_and_virtual_node() {
    let model = wrapped(&[3, 1], Classifier::full());
    model.try_step(&items(BATCH)).unwrap();
    let before = hash(&model);
    let expected = "rank 1, step 1, virtual node 3: user code panicked: an image is too bright";

    let Err(error) = model.try_step(&with_a_bright_one()) else {
        panic!("a step");
    };
    assert_eq!(error.to_string(), expected);
    let text = panic_of(|| TrainStep::step(&model, with_a_bright_one()));
    assert_eq!(text, expected);

    // Nothing was applied, and the training may go on.
    assert_eq!(
        (hash(&model), model.handle().status().applied_steps),
        (before, 1)
    );
    model.try_step(&items(BATCH)).unwrap();
}

#[test]
fn steps_are_skipped_when_an_item_is_not_a_number() {
    for shares in [&[4][..], &[3, 1]] {
        let mut model = wrapped(shares, Classifier::full());
        let handle = model.handle();
        model.try_step(&items(BATCH)).unwrap();
        let before = hash(&model);

        let mut bad = items(BATCH);
        bad[4].pixels[2] = f32::NAN;
        let out = model.try_step(&bad).unwrap();
        assert!(out.grads.is_empty());
        assert!(out.item.loss.into_scalar().is_nan());
        let mut optim = AdamConfig::new().init();
        model = model.optimize::<B, _>(&mut optim, 0.05, out.grads);

        // Weights and running statistics.
        assert_eq!(hash(&model), before);
        let nodes = vec![1];
        assert_eq!(
            handle.status().last_skipped,
            Some((1, Skipped::NotFinite { nodes }))
        );
        assert_eq!(handle.status().applied_steps, 1);
    }
}

#[test]
fn copies_share_the_session() {
    let model = wrapped(&[2, 2], Classifier::full());
    let copy = model.clone();
    copy.try_step(&items(BATCH)).unwrap();
    assert_eq!(model.handle().status().applied_steps, 1);
    let back = <Wrapped as AutodiffModule<B>>::from_inner(model.valid());
    back.try_step(&items(BATCH)).unwrap();
    assert_eq!(model.handle().status().applied_steps, 2);
}
