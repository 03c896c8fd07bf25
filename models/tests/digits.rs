//! The data set as a user of the crate sees it.

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::TensorData;
use burn_flex::Flex;
use burn_virtual_models::{Digit, Digits, DigitsBatch, DigitsBatcher};

fn batch_of(items: &[Digit]) -> DigitsBatch<Flex> {
    DigitsBatcher.batch(items.to_vec(), &Default::default())
}

#[test]
fn split_is_1438_to_train_and_359_held_out() {
    let digits = Digits::load().unwrap();
    assert_eq!(digits.train().len(), 1438);
    assert_eq!(digits.held_out().len(), 359);
}

#[test]
fn every_fifth_sample_is_held_out() {
    let digits = Digits::load().unwrap();
    // The file opens with the digits in turn: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, ...
    let labels = |items: &[Digit]| items.iter().map(|item| item.label).collect::<Vec<_>>();
    assert_eq!(labels(&digits.train()[..8]), [0, 1, 2, 3, 5, 6, 7, 8]);
    assert_eq!(labels(&digits.held_out()[..4]), [4, 9, 4, 9]);
}

#[test]
fn labels_are_all_ten_digits_in_both_parts() {
    let digits = Digits::load().unwrap();
    for part in [digits.train(), digits.held_out()] {
        let mut counts = [0; 10];
        for item in part {
            counts[usize::from(item.label)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}

#[test]
fn pixels_are_sixteenths_from_0_to_1() {
    let digits = Digits::load().unwrap();
    let parts = [digits.train(), digits.held_out()].concat();
    let steps = parts.iter().flat_map(|item| item.pixels).map(|p| p * 16.0);
    assert!(
        steps
            .clone()
            .all(|s| s.fract() == 0.0 && (0.0..=16.0).contains(&s))
    );
    assert_eq!(steps.fold(0.0, f32::max), 16.0);
}

#[test]
fn epoch_is_a_function_of_seed_and_number() {
    let digits = Digits::load().unwrap();
    assert_eq!(digits.epoch(42, 3).items(), digits.epoch(42, 3).items());
    assert_ne!(digits.epoch(42, 3).items(), digits.epoch(42, 4).items());
    assert_eq!(digits.epoch(42, 3).items().len(), 1438);
}

#[test]
fn batch_holds_the_items_in_order() {
    let digits = Digits::load().unwrap();
    let items = &digits.train()[..30];
    let batch = batch_of(items);
    assert_eq!(batch.images.dims(), [30, 8, 8]);

    let pixels: Vec<f32> = items.iter().flat_map(|item| item.pixels).collect();
    let expected = TensorData::new(pixels, [30, 8, 8]);
    batch.images.to_data().assert_eq(&expected, true);

    let labels: Vec<i32> = items.iter().map(|item| i32::from(item.label)).collect();
    let expected = TensorData::new(labels, [30]);
    batch.targets.to_data().assert_eq(&expected, false);
}

#[test]
fn batch_is_empty_when_no_items_are_given() {
    let batch = batch_of(&[]);
    assert_eq!(batch.images.dims(), [0, 8, 8]);
    assert_eq!(batch.targets.dims(), [0]);
}
