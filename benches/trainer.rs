//! A step of a `Trainer` against the same by hand: a session's `backward`, then the optimizer.
//!
//! Bar: at most 1 % slower. It is the price of having the loop held.

mod support;
#[allow(dead_code, reason = "other benches use the rest")]
#[path = "support/training.rs"]
mod training;

use std::error::Error;
use std::time::Duration;

use burn::optim::AdamConfig;
use burn_flex::FlexDevice;
use burn_virtual::models::{Digit, DigitsBatch, DigitsBatcher, DigitsCnn};
use burn_virtual::nodes::{TrainError, Trainer, VirtualNodes, cross_entropy_sum};
use support::paired;
use training::{LEARNING_RATE, SEED, Virtual, digits, model, on_virtual_nodes};

const BATCH: usize = 64;
const VIRTUAL_NODES: usize = 8;
// Many: a step is short, and what is to be seen is smaller than the noise of one.
const PAIRS: usize = 400;
const AT_MOST: f64 = 1.01;

fn main() -> Result<(), Box<dyn Error>> {
    let items = digits(BATCH)?;
    let mut hand = on_virtual_nodes::<Virtual>(VIRTUAL_NODES, &items, &FlexDevice)?;
    let mut held = with_trainer(&items)?;

    if support::measures() {
        paired(
            "step, DigitsCnn, batch 64 = 8 x 8",
            PAIRS,
            Some(AT_MOST),
            ("by hand", &mut hand),
            ("trainer", &mut held),
        );
    }

    let mut criterion = support::criterion(Duration::from_secs(3));
    let mut group = criterion.benchmark_group("trainer");
    group.bench_function("by hand", |bencher| bencher.iter(&mut hand));
    group.bench_function("trainer", |bencher| bencher.iter(&mut held));
    group.finish();
    criterion.final_summary();
    Ok(())
}

/// A step of a trainer on one device. Each call is one step.
///
/// # Panics
/// Where a step fails: there is nothing to measure then.
fn with_trainer(items: &[Digit]) -> Result<impl FnMut(), TrainError> {
    let mut model = model::<Virtual>(&FlexDevice);
    let nodes = VirtualNodes::new(VIRTUAL_NODES)
        .seed(SEED)
        .devices([FlexDevice])
        .start(&mut model)?;
    let mut trainer = Trainer::new(nodes, model, AdamConfig::new().init(), LEARNING_RATE);
    let loss = |model: &DigitsCnn<Virtual>, micro: DigitsBatch<Virtual>| {
        cross_entropy_sum(model.forward(micro.images), micro.targets)
    };
    Ok(move || {
        trainer
            .step(items, &DigitsBatcher, loss)
            .map(drop)
            .unwrap_or_else(|error| panic!("{error}"));
    })
}
