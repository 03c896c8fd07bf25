//! A batch that doesn't fit the memory of a device.
//!
//! `measure_step` runs micro-batches of a few sizes for real and counts their bytes;
//! `fewest_virtual_nodes` searches the fewest virtual nodes that stay below the limit. The training
//! that follows keeps it, where the whole batch at once would not. On two devices the same number
//! of virtual nodes gives the same weights.

use std::error::Error;

use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn_flex::{Flex, FlexDevice as Cpu};
use burn_virtual::backend::{Meter, VirtualBackend};
use burn_virtual::models::{Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig};
use burn_virtual::nodes::{
    LossError, LossSum, TrainError, Trainer, VirtualNodes, WeightsHash, cross_entropy_sum,
    measure_step,
};
use burn_virtual::plan::{Need, fewest_virtual_nodes};

type B = Autodiff<VirtualBackend<Flex>>;

/// Bytes of tensors that a device may hold.
const LIMIT: usize = 2_000_000;
const BATCH: usize = 256;

fn model(device: &Cpu) -> DigitsCnn<B> {
    DigitsCnnConfig::new().init(device)
}

fn loss(model: &DigitsCnn<B>, micro: DigitsBatch<B>) -> Result<LossSum<B>, LossError> {
    cross_entropy_sum(model.forward(micro.images), micro.targets)
}

/// What a device needs for these samples at once: nothing of it depends on the job to come.
fn need(items: &[Digit]) -> Result<Need, TrainError> {
    let optimizer = AdamConfig::new().init();
    measure_step(&Cpu, model, optimizer, items, &DigitsBatcher, loss)
}

/// Trains for a few steps: the largest peak of a device, and the weights.
fn train(
    virtual_nodes: usize,
    devices: Vec<Cpu>,
    items: &[Digit],
) -> Result<(usize, WeightsHash), TrainError> {
    // Without a meter that listens, `memory()` has nothing to tell.
    let meter = Meter::new();
    let _listening = meter.listen();
    let mut model = model(&Cpu);
    let nodes = VirtualNodes::new(virtual_nodes)
        .seed(42)
        .devices(devices)
        .start(&mut model)?;
    let mut trainer = Trainer::new(nodes, model, AdamConfig::new().init(), 0.002);
    for _ in 0..3 {
        trainer.step(items, &DigitsBatcher, loss)?;
    }
    let ranks = trainer.nodes().memory().iter();
    // Between two steps, the optimizer works on the thread that has the meter.
    let peak = ranks.map(|rank| rank.peak).fold(meter.peak(), usize::max);
    Ok((peak, WeightsHash::of(trainer.model()?)?))
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let epoch = Digits::load()?.epoch(42, 0);
    let items = &epoch.items()[..BATCH];

    let fit = fewest_virtual_nodes(BATCH, LIMIT, |samples| need(&items[..samples]))?;
    println!(
        "a batch of {BATCH} fits {LIMIT} bytes with {} virtual nodes of up to {} samples: {} bytes",
        fit.virtual_nodes, fit.micro_batch, fit.need
    );

    let (whole, _) = train(1, vec![Cpu], items)?;
    let (split, weights) = train(fit.virtual_nodes, vec![Cpu], items)?;
    println!("trained: {whole} bytes whole, {split} split");
    assert!(whole > LIMIT);
    assert!(split <= LIMIT);

    let (each, on_two) = train(fit.virtual_nodes, vec![Cpu, Cpu], items)?;
    assert!(each <= LIMIT);
    assert_eq!(weights, on_two);
    println!("SHA-256 on one device and on two: {weights}");
    Ok(())
}
