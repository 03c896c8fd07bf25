//! Models and data sets to train, test and measure with, for every crate of the workspace that
//! needs one. They are a crate of their own to prove a promise: model code doesn't change. So
//! nothing here may import any other crate of this workspace; a model is written for plain Burn,
//! generic over its `Backend`, and doesn't know that virtual nodes exist.
//!
//! ```
//! use burn::data::dataloader::batcher::Batcher;
//! use burn_flex::Flex;
//! use burn_virtual_models::{DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, Digits};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Default::default();
//! let model: DigitsCnn<Flex> = DigitsCnnConfig::new().init(&device);
//!
//! let epoch = Digits::load()?.epoch(42, 0);
//! let items = epoch.batches(64)?.next().unwrap_or_default();
//! let batch: DigitsBatch<Flex> = DigitsBatcher.batch(items.to_vec(), &device);
//!
//! assert_eq!(model.forward(batch.images).dims(), [64, 10]);
//! # Ok(())
//! # }
//! ```

pub mod digits;
mod digits_cnn;
mod digits_mlp;
mod epoch;
pub mod shuffle;

pub use digits::{Digit, Digits, DigitsBatch, DigitsBatcher, DigitsError};
pub use digits_cnn::{DigitsCnn, DigitsCnnConfig};
pub use digits_mlp::{DigitsMlp, DigitsMlpConfig};
pub use epoch::{Epoch, ZeroBatchSize};
