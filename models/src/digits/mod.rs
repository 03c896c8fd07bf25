//! Handwritten digits, 8x8 pixels: small enough to lie inside the crate, hard enough that a
//! broken gradient shows in the accuracy.
//!
//! Source and licence are in `data/README.md` of this crate.

mod batcher;
mod data_set;
mod digit;
mod error;
mod parse;

pub use batcher::{DigitsBatch, DigitsBatcher};
pub use data_set::Digits;
pub use digit::Digit;
pub use error::DigitsError;
