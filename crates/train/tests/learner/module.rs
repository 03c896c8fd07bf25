//! As a module, a `Virtual` model is the model that it wraps.

use burn::module::{AutodiffModule, Module};
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Record, Recorder};
use burn::tensor::backend::Backend;
use burn_flex::FlexDevice;

use crate::common::{B, Classifier, V, Wrapped, bits, gradients, hash, items, wrapped};

/// A model after three steps.
fn stepped() -> Wrapped {
    let model = wrapped(&[3, 1], Classifier::full());
    for first in 0..3 {
        model.try_step(&items(20)[first..first + 10]).unwrap();
    }
    model
}

fn bytes<B: Backend>(record: impl Record<B>) -> Vec<u8> {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    Recorder::<B>::record(&recorder, record, ()).unwrap()
}

fn record<B: Backend<Device = FlexDevice>, R: Record<B>>(bytes: &[u8]) -> R {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    Recorder::<B>::load(&recorder, bytes.to_vec(), &FlexDevice).unwrap()
}

#[test]
fn parameters_paths_and_text_are_those_of_the_wrapped_model() {
    let model = stepped();
    // Over paths, shapes and values.
    assert_eq!(hash(&model), hash(model.model()));
    assert_eq!(model.num_params(), model.model().num_params());
    assert_eq!(model.devices(), [FlexDevice]);
    assert_eq!(model.to_string(), model.model().to_string());
    assert!(model.to_string().contains("hidden"), "{model}");

    let valid = model.valid();
    assert_eq!(hash(&valid), hash(&model.model().valid()));
    assert_eq!(valid.num_params(), model.num_params());
    assert_eq!(valid.devices(), [FlexDevice]);
    assert_eq!(valid.to_string(), valid.model().to_string());
    assert_eq!(hash(&valid.clone().into_model()), hash(&valid));
}

#[test]
fn debug_text_names_the_wrapped_model() {
    let model = stepped();
    for text in [format!("{model:?}"), format!("{:?}", model.valid())] {
        assert!(text.starts_with("Virtual"), "{text}");
        assert!(text.contains("Classifier"), "{text}");
    }
}

#[test]
fn steps_go_on_bit_for_bit_when_a_record_is_loaded() {
    let model = stepped();
    let saved = bytes::<B>(model.clone().into_record());
    let next = |model: &Wrapped| {
        let out = model.try_step(&items(10)).unwrap();
        bits(&gradients(model.model(), &out.grads))
    };
    let before = hash(&model);
    let expected = next(&model);
    for shares in [&[4][..], &[1, 1, 2]] {
        let loaded = wrapped(shares, Classifier::full());
        assert_ne!(hash(&loaded), before);
        let loaded = loaded.load_record(record::<B, _>(&saved));
        assert_eq!(hash(&loaded), before);
        // Masks are drawn by the number of the step.
        assert_eq!(loaded.handle().status().applied_steps, 3);
        assert_eq!(next(&loaded), expected);
    }
}

#[test]
fn records_hold_the_wrapped_models_own() {
    let model = stepped();
    let (own, applied) = model.clone().into_record();
    assert_eq!(applied, 3);
    assert_eq!(
        bytes::<B>(own),
        bytes::<B>(model.model().clone().into_record())
    );
    let valid = model.valid();
    let saved = bytes::<V>(valid.clone().into_record());
    assert_eq!(saved, bytes::<V>(valid.clone().into_model().into_record()));
    let other = wrapped(&[4], Classifier::full()).valid();
    assert_ne!(hash(&other), hash(&valid));
    let other = other.load_record(record::<V, _>(&saved));
    assert_eq!(hash(&other), hash(&valid));
}

#[test]
fn steps_go_on_when_the_model_is_forked_and_mapped() {
    struct Nothing;
    impl<B: Backend> burn::module::ModuleMapper<B> for Nothing {}
    let model = stepped();
    let moved = model.clone().fork(&FlexDevice).to_device(&FlexDevice);
    let moved = moved.map(&mut Nothing);
    assert_eq!(hash(&moved), hash(&model));
    moved.try_step(&items(10)).unwrap();
    assert_eq!(model.handle().status().applied_steps, 4);

    let valid = model.valid();
    let moved = valid.clone().fork(&FlexDevice).to_device(&FlexDevice);
    let moved = moved.map(&mut Nothing);
    assert_eq!(hash(&moved), hash(&valid));
    moved.try_step(&items(10)).unwrap();
}
