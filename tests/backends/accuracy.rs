//! What is learned is the same on every backend, though its bits are not.

use burn::optim::AdamConfig;
use burn_virtual::models::{Digits, DigitsBatcher, DigitsCnn, DigitsCnnConfig};
use burn_virtual::nodes::{Trainer, VirtualAutodiff, VirtualNodes, cross_entropy_sum};

use crate::common::{OnFlex, OnNdArray, OnWgpu};

const STEPS: usize = 50;

/// The accuracy on held-out digits after 50 steps of 64.
fn accuracy<B: VirtualAutodiff>(config: &DigitsCnnConfig, rate: f64) -> f64 {
    let digits = Digits::load().unwrap();
    let mut model: DigitsCnn<B> = config.init(&Default::default());
    let nodes = VirtualNodes::new(4).start(&mut model).unwrap();
    let mut trainer = Trainer::new(nodes, model, AdamConfig::new().init(), rate);
    let epochs: Vec<_> = (0..3).map(|epoch| digits.epoch(42, epoch)).collect();
    let batches = epochs.iter().flat_map(|epoch| epoch.batches(64).unwrap());
    for items in batches.take(STEPS) {
        let report = trainer.step(items, &DigitsBatcher, |model: &DigitsCnn<B>, micro| {
            cross_entropy_sum(model.forward(micro.images), micro.targets)
        });
        assert_eq!(report.unwrap().skipped, None);
    }
    assert_eq!(trainer.nodes().applied_steps(), STEPS as u64);
    let held_out = digits.held_out();
    let [right] = trainer
        .evaluate(held_out, &DigitsBatcher, |model, micro| {
            let seen: Vec<i64> = model
                .forward(micro.images)
                .argmax(1)
                .into_data()
                .iter()
                .collect();
            let labels: Vec<i64> = micro.targets.into_data().iter().collect();
            [seen.iter().zip(&labels).filter(|(a, b)| a == b).count() as f64]
        })
        .unwrap();
    right / held_out.len() as f64
}

#[track_caller]
fn assert_within_a_point(accuracy: f64, flex: f64) {
    println!("held-out accuracy {accuracy:.4}, on flex {flex:.4}");
    assert!(flex > 0.8, "{flex}");
    assert!(
        (accuracy - flex).abs() <= 0.01,
        "{accuracy}, on flex {flex}"
    );
}

#[test]
fn accuracy_on_wgpu_after_50_steps_is_within_a_point() {
    let config = DigitsCnnConfig::new();
    let flex = accuracy::<OnFlex>(&config, 0.002);
    assert_within_a_point(accuracy::<OnWgpu>(&config, 0.002), flex);
}

/// With fewer channels: in a build for tests, ndarray takes seconds for a step of the whole model.
#[test]
fn accuracy_of_a_smaller_model_on_ndarray_after_50_steps_is_within_a_point() {
    let config = DigitsCnnConfig::new()
        .with_channels([4, 12])
        .with_hidden(32)
        .with_dropout(0.1);
    let flex = accuracy::<OnFlex>(&config, 0.01);
    assert_within_a_point(accuracy::<OnNdArray>(&config, 0.01), flex);
}
