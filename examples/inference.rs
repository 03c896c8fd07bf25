//! Inference on virtual nodes: a batch of any size, and a stream of items.
//!
//! A trained model predicts the held-out digits, as one batch that is split over eight virtual nodes
//! and as a stream. The predictions are the same, in order, with the same bits on one device as on
//! three, and with an eighth of the activations of the unsplit batch.

use std::error::Error;

use burn::backend::Autodiff;
use burn::optim::{AdamConfig, Optimizer};
use burn::tensor::Tensor;
use burn_flex::{Flex, FlexDevice as Cpu};
use burn_virtual::backend::{Meter, VirtualBackend};
use burn_virtual::models::{Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig};
use burn_virtual::nodes::{Predictor, TrainError, VirtualNodes, cross_entropy_sum};

type V = VirtualBackend<Flex>;
type B = Autodiff<V>;

/// A model after three epochs.
fn trained(digits: &Digits) -> Result<DigitsCnn<B>, Box<dyn Error>> {
    let mut model: DigitsCnn<B> = DigitsCnnConfig::new().init(&Cpu);
    let mut optim = AdamConfig::new().init();
    let mut nodes = VirtualNodes::new(8).seed(42).start(&mut model)?;
    for epoch in 0..3 {
        for items in digits.epoch(42, epoch).batches(64)? {
            let out = nodes.backward(&model, items, &DigitsBatcher, |model, micro| {
                cross_entropy_sum(model.forward(micro.images), micro.targets)
            })?;
            model = optim.step(0.005, model, out.grads);
        }
    }
    Ok(model)
}

fn predictor(
    virtual_nodes: usize,
    devices: Vec<Cpu>,
    model: &DigitsCnn<B>,
) -> Result<Predictor<V, DigitsCnn<V>>, TrainError> {
    VirtualNodes::new(virtual_nodes)
        .devices(devices)
        .predictor(model)
}

/// What is run on each micro-batch: its results are put together again, here the rows of a tensor.
fn forward(model: &DigitsCnn<V>, micro: DigitsBatch<V>) -> Tensor<V, 2> {
    model.forward(micro.images)
}

/// The class of each row of logits.
fn classes(logits: Tensor<V, 2>) -> Vec<u8> {
    logits.argmax(1).into_data().iter().collect()
}

fn accuracy(named: &[u8], digits: &[Digit]) -> f64 {
    let pairs = named.iter().zip(digits);
    let right = pairs.filter(|(named, digit)| **named == digit.label);
    right.count() as f64 / digits.len() as f64
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let digits = Digits::load()?;
    let items = digits.held_out();
    let model = trained(&digits)?;
    // Without a meter that listens, `memory()` has nothing to tell.
    let meter = Meter::new();
    let _listening = meter.listen();

    let mut whole = predictor(1, vec![Cpu], &model)?;
    let mut one = predictor(8, vec![Cpu], &model)?;
    let mut three = predictor(8, vec![Cpu; 3], &model)?;
    let unsplit = whole.predict(items, &DigitsBatcher, forward)?;
    let split = one.predict(items, &DigitsBatcher, forward)?;
    let on_three = three.predict(items, &DigitsBatcher, forward)?;

    assert_eq!(split.to_data(), on_three.into_data());
    let named = classes(split);
    assert_eq!(named, classes(unsplit));
    let accuracy = accuracy(&named, items);
    println!("{} digits, {accuracy:.4} right", items.len());
    assert!(accuracy > 0.9);

    let [unsplit, split] = [&whole, &one].map(|predictor| predictor.memory()[0].activations);
    println!("activations: {unsplit} bytes unsplit, {split} on virtual nodes");
    assert!(split <= unsplit / 7);

    // A stream holds one batch of 50 at a time, and does the same.
    let mut streamed = Vec::new();
    for logits in three.stream(items.iter().cloned(), 50, &DigitsBatcher, forward)? {
        streamed.extend(classes(logits?));
    }
    assert_eq!(streamed, named);
    Ok(())
}
