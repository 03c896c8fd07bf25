//! Inference on eight virtual nodes against the unsplit batch.
//!
//! Bar: at least 0.95 of the samples per second of the unsplit batch, with an eighth of its
//! activations by the live-bytes meter. (It is an eighth and 112 bytes: batch norm's factors, one a
//! channel, don't become fewer. So the second is printed as missed.) Unsplit are the model's own
//! forward pass and a `Predictor` with one virtual node.

mod support;
#[allow(
    dead_code,
    reason = "training steps are made of the other things in it"
)]
#[path = "support/training.rs"]
mod training;

use std::error::Error;
use std::time::Duration;

use burn::data::dataloader::batcher::Batcher;
use burn::module::AutodiffModule;
use burn::tensor::Tensor;
use burn_flex::{Flex, FlexDevice};
use burn_virtual::backend::{Meter, VirtualBackend};
use burn_virtual::models::{Digit, DigitsBatch, DigitsBatcher, DigitsCnn};
use burn_virtual::nodes::{Predictor, TrainError, VirtualNodes};
use support::{paired, verdict};
use training::{Virtual, digits};

type Inner = VirtualBackend<Flex>;
type Model = DigitsCnn<Inner>;

const BATCH: usize = 256;
const VIRTUAL_NODES: usize = 8;
const PAIRS: usize = 40;
const SAMPLES_PER_S: f64 = 0.95;
const ACTIVATIONS: f64 = 1.0 / 8.0;

fn main() -> Result<(), Box<dyn Error>> {
    let items = digits(BATCH)?;
    let model = training::model::<Virtual>(&FlexDevice);
    let valid = model.valid();
    memory(&model, &items)?;

    let mut plain = || own_forward(&valid, &items);
    let mut whole = on_virtual_nodes(1, &model, &items)?;
    let mut split = on_virtual_nodes(VIRTUAL_NODES, &model, &items)?;
    if support::measures() {
        throughput("forward of the model", &mut plain, &mut split);
        throughput("one virtual node", &mut whole, &mut split);
    }

    let mut criterion = support::criterion(Duration::from_secs(3));
    let mut group = criterion.benchmark_group("inference");
    group.throughput(criterion::Throughput::Elements(BATCH as u64));
    group.bench_function("forward of the model", |bencher| bencher.iter(&mut plain));
    group.bench_function("one virtual node", |bencher| bencher.iter(&mut whole));
    group.bench_function("8 virtual nodes", |bencher| bencher.iter(&mut split));
    group.finish();
    criterion.final_summary();
    Ok(())
}

fn throughput(
    unsplit: &str,
    reference: &mut impl FnMut() -> Tensor<Inner, 2>,
    split: &mut impl FnMut() -> Tensor<Inner, 2>,
) {
    let result = paired(
        "inference, DigitsCnn, batch 256",
        PAIRS,
        Some(1.0 / SAMPLES_PER_S),
        (unsplit, reference),
        ("8 virtual nodes", split),
    );
    let share = 1.0 / result.ratio();
    println!("samples/s of 8 virtual nodes: {share:.3} of {unsplit}'s");
}

/// The activations of one batch, whole and split.
fn memory(model: &DigitsCnn<Virtual>, items: &[Digit]) -> Result<(), TrainError> {
    let meter = Meter::new();
    let _listening = meter.listen();
    drop(own_forward(&model.valid(), items));
    let own = meter.peak();
    let activations = |count| {
        let mut predictor = predictor(count, model)?;
        predictor.predict(items, &DigitsBatcher, forward)?;
        Ok::<_, TrainError>(predictor.memory()[0].activations)
    };
    let (whole, split) = (activations(1)?, activations(VIRTUAL_NODES)?);
    for (unsplit, bytes) in [("forward of the model", own), ("one virtual node", whole)] {
        let share = split as f64 / bytes as f64;
        println!(
            "activations, DigitsCnn, batch 256: {unsplit} {bytes} bytes, 8 virtual nodes {split}; \
             {share:.4} of it; {}",
            verdict(share, Some(ACTIVATIONS)),
        );
    }
    Ok(())
}

fn predictor(
    count: usize,
    model: &DigitsCnn<Virtual>,
) -> Result<Predictor<Inner, Model>, TrainError> {
    VirtualNodes::new(count)
        .devices([FlexDevice])
        .predictor(model)
}

fn forward(model: &Model, micro: DigitsBatch<Inner>) -> Tensor<Inner, 2> {
    model.forward(micro.images)
}

/// Without virtual nodes: the batch as a whole.
fn own_forward(model: &Model, items: &[Digit]) -> Tensor<Inner, 2> {
    forward(model, DigitsBatcher.batch(items.to_vec(), &FlexDevice))
}

/// Inference on one device. Each call is one batch.
///
/// # Panics
/// Where it fails: there is nothing to measure then.
fn on_virtual_nodes(
    count: usize,
    model: &DigitsCnn<Virtual>,
    items: &[Digit],
) -> Result<impl FnMut() -> Tensor<Inner, 2>, TrainError> {
    let mut predictor = predictor(count, model)?;
    Ok(move || {
        predictor
            .predict(items, &DigitsBatcher, forward)
            .unwrap_or_else(|error| panic!("{error}"))
    })
}
