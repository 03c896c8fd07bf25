//! What cannot be right is refused by name, and nothing of a step that failed is applied.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

#[path = "../common/mod.rs"]
mod common;

mod batches;
mod changed;
mod failure;
mod random;
mod skipped;
mod start;
mod user_code;
mod weights;

use std::time::Duration;

use burn::module::{AutodiffModule, Module};
use burn::nn::Linear;
use burn::tensor::backend::Backend;
use burn_virtual::nodes::{Session, VirtualNodes};

use common::devices;

type B = common::OnFlex;

/// A wait that should never happen ends here.
const LIMIT: Duration = Duration::from_secs(5);

fn job(shares: &[usize], model: &mut impl AutodiffModule<B>) -> Session<B> {
    VirtualNodes::new(shares.iter().sum())
        .devices(devices::<B>(shares.len()))
        .shares(shares.iter().copied())
        .timeout(LIMIT)
        .start(model)
        .unwrap()
}

#[derive(Module, Debug)]
struct Twins<B: Backend> {
    first: Linear<B>,
    others: Vec<Linear<B>>,
}
