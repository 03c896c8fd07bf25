//! Validation steps of a `VirtualValid` model.

use burn::data::dataloader::batcher::Batcher;
use burn::module::AutodiffModule;
use burn::train::InferenceStep;
use burn_flex::FlexDevice;
use burn_virtual_train::TrainError;

use crate::common::{
    Classifier, ItemBatcher, MAPPINGS, assert_close, bits, hash, items, panic_of, values, wrapped,
};

#[test]
fn validation_is_the_models_own_with_the_same_bits_for_every_placement() {
    let batch = items(10);
    let mut alone = Vec::new();
    for shares in MAPPINGS {
        let model = wrapped(shares, Classifier::full());
        // So that there are running statistics to use.
        model.try_step(&batch).unwrap();
        let model = model.valid();
        let before = hash(&model);
        let got = InferenceStep::step(&model, batch.clone());
        assert_eq!(hash(&model), before);

        let whole = ItemBatcher.batch(batch.clone(), &FlexDevice);
        let own = InferenceStep::step(model.model(), whole);
        let [loss, output] = [values(got.loss), values(got.output)];
        assert_close(&loss, &values(own.loss));
        assert_close(&output, &values(own.output));
        assert_eq!(
            got.targets.into_data().to_vec::<i32>().unwrap(),
            own.targets.into_data().to_vec::<i32>().unwrap()
        );
        alone.push([bits(&loss), bits(&output)]);
    }
    alone.dedup();
    assert_eq!(alone.len(), 1);
}

#[test]
fn only_nodes_with_items_run_when_the_batch_is_small() {
    let model = wrapped(&[3, 1], Classifier::plain()).valid();
    assert_eq!(model.try_step(&items(3)).unwrap().output.dims(), [3, 3]);
    assert!(matches!(model.try_step(&[]), Err(TrainError::EmptyBatch)));
}

#[test]
fn panics_of_the_model_name_rank_step_and_virtual_node() {
    let model = wrapped(&[2, 2], Classifier::full());
    model.try_step(&items(8)).unwrap();
    let mut bright = items(8);
    bright[4].pixels[0] = 1e3;
    let valid = model.valid();
    let text = panic_of(|| InferenceStep::step(&valid, bright));
    assert_eq!(
        text,
        "rank 1, step 1, virtual node 2: user code panicked: an image is too bright"
    );
    valid.try_step(&items(8)).unwrap();
}
