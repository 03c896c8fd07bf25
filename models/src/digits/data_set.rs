//! The digits data set and its split.

use super::{Digit, DigitsError, parse};
use crate::Epoch;

const ARCHIVE: &[u8] = include_bytes!("../../data/digits.csv.gz");

/// One sample in this many is held out.
const HELD_OUT_EVERY: usize = 5;

/// 1,797 handwritten digits, split once and for all.
///
/// Every fifth sample of the file is held out (the 5th, the 10th, ...: index % 5 == 4, counted
/// from 0): 359 samples to measure with, 1,438 to train on. Both parts keep the file's order.
#[derive(Clone, Debug)]
pub struct Digits {
    train: Vec<Digit>,
    held_out: Vec<Digit>,
}

impl Digits {
    /// Unpacks the data set, which is part of the crate.
    ///
    /// # Errors
    ///
    /// [`DigitsError`], with line and column, when the file in the crate is damaged.
    pub fn load() -> Result<Self, DigitsError> {
        let (mut train, mut held_out) = (Vec::new(), Vec::new());
        for (index, digit) in parse::archive(ARCHIVE)?.into_iter().enumerate() {
            if index % HELD_OUT_EVERY == HELD_OUT_EVERY - 1 {
                held_out.push(digit);
            } else {
                train.push(digit);
            }
        }
        Ok(Self { train, held_out })
    }

    /// The 1,438 samples to train on, in the order of the file.
    pub fn train(&self) -> &[Digit] {
        &self.train
    }

    /// The 359 samples that training never sees, in the order of the file.
    pub fn held_out(&self) -> &[Digit] {
        &self.held_out
    }

    /// The samples to train on, shuffled for epoch number `epoch` under `seed`.
    pub fn epoch(&self, seed: u64, epoch: u64) -> Epoch<Digit> {
        Epoch::new(&self.train, seed, epoch)
    }
}
