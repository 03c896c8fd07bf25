//! A job that moves to other devices in mid-run.
//!
//! It starts on four devices, goes on on one, and ends on two that share the virtual nodes unevenly.
//! The optimizer has its state and the model has dropout; still the weights have the bits of the job
//! that was left in peace.

use std::error::Error;

use burn::backend::Autodiff;
use burn::optim::{AdamConfig, Optimizer};
use burn_flex::{Flex, FlexDevice as Cpu};
use burn_virtual::backend::VirtualBackend;
use burn_virtual::models::{Digits, DigitsBatcher, DigitsMlp, DigitsMlpConfig};
use burn_virtual::nodes::{Session, TrainError, VirtualNodes, WeightsHash, cross_entropy_sum};

type B = Autodiff<VirtualBackend<Flex>>;

/// Trains for an epoch; `before_step` may move the job. Returns the losses and the weights.
fn train(
    devices: Vec<Cpu>,
    before_step: impl Fn(u64, &mut Session<B>) -> Result<(), TrainError>,
) -> Result<(Vec<f64>, WeightsHash), Box<dyn Error>> {
    let digits = Digits::load()?;
    let mut model: DigitsMlp<B> = DigitsMlpConfig::new().with_dropout(0.2).init(&Cpu);
    let mut optim = AdamConfig::new().init();
    let mut nodes = VirtualNodes::new(8)
        .seed(42)
        .devices(devices)
        .start(&mut model)?;

    let mut losses = Vec::new();
    for items in digits.epoch(42, 0).batches(64)? {
        before_step(nodes.applied_steps(), &mut nodes)?;
        let out = nodes.backward(&model, items, &DigitsBatcher, |model, micro| {
            cross_entropy_sum(model.forward(micro.images), micro.targets)
        })?;
        losses.push(out.loss);
        model = optim.step(0.01, model, out.grads);
    }
    Ok((losses, WeightsHash::of(&model)?))
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let (losses, quiet) = train(vec![Cpu], |_, _| Ok(()))?;

    let (moved_losses, moved) = train(vec![Cpu; 4], |step, nodes| {
        match step {
            8 => nodes.resize([Cpu])?,
            16 => nodes.resize_to([Cpu, Cpu], [5, 3])?,
            _ => return Ok(()),
        }
        println!("step {step}: {:?}", nodes.placement());
        Ok(())
    })?;

    println!("SHA-256 of both jobs: {quiet}");
    assert_eq!(moved, quiet);
    assert_eq!(moved_losses, losses);
    assert!(losses[losses.len() - 1] < losses[0] / 2.0, "{losses:?}");
    Ok(())
}
