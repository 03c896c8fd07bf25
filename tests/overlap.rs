//! Feature `overlap` takes gradients on another way and must not change one bit.
//!
//! The two ways can't be built into one program. So this trains the digits CNN on three ranks and
//! compares the weights with those that the other build recorded in the file that
//! `BURN_VIRTUAL_WEIGHTS` names; the first build to come by records them. Without the variable,
//! three ranks are compared with one.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::path::Path;

use burn::backend::Autodiff;
use burn::optim::{AdamConfig, Optimizer};
use burn_flex::{Flex, FlexDevice};
use burn_virtual::backend::VirtualBackend;
use burn_virtual::models::{Digits, DigitsBatcher, DigitsCnn, DigitsCnnConfig};
use burn_virtual::nodes::{VirtualNodes, WeightsHash, cross_entropy_sum};

type B = Autodiff<VirtualBackend<Flex>>;

fn weights(ranks: usize) -> String {
    let digits = Digits::load().unwrap();
    let mut model: DigitsCnn<B> = DigitsCnnConfig::new().init(&FlexDevice);
    let mut optim = AdamConfig::new().init();
    let mut nodes = VirtualNodes::new(8)
        .devices(vec![FlexDevice; ranks])
        .start(&mut model)
        .unwrap();
    for items in digits.epoch(42, 0).batches(64).unwrap() {
        let out = nodes
            .backward(&model, items, &DigitsBatcher, |model, micro| {
                cross_entropy_sum(model.forward(micro.images), micro.targets)
            })
            .unwrap();
        model = optim.step(0.002, model, out.grads);
    }
    WeightsHash::of(&model).unwrap().to_string()
}

fn recorded() -> Option<String> {
    let file = std::env::var("BURN_VIRTUAL_WEIGHTS").ok()?;
    if Path::new(&file).exists() {
        return Some(fs::read_to_string(file).unwrap());
    }
    fs::write(file, weights(1)).unwrap();
    None
}

#[test]
fn weights_are_those_of_the_other_build_and_of_one_rank() {
    let expected = recorded().unwrap_or_else(|| weights(1));
    assert_eq!(weights(3), expected);
}
