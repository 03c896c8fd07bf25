//! From samples to tensors.

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

use super::Digit;
use super::digit::SIDE;

/// Puts digits on a device, in the order given. No digits make a batch of size 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigitsBatcher;

/// Digits on a device.
#[derive(Clone, Debug)]
pub struct DigitsBatch<B: Backend> {
    /// The images, `[batch, 8, 8]`, from 0 (paper) to 1 (ink).
    pub images: Tensor<B, 3>,
    /// The labels, `[batch]`, 0 to 9.
    pub targets: Tensor<B, 1, Int>,
}

impl<B: Backend> Batcher<B, Digit, DigitsBatch<B>> for DigitsBatcher {
    fn batch(&self, items: Vec<Digit>, device: &B::Device) -> DigitsBatch<B> {
        let pixels: Vec<f32> = items.iter().flat_map(|item| item.pixels).collect();
        let labels: Vec<i32> = items.iter().map(|item| i32::from(item.label)).collect();
        let batch = items.len();
        DigitsBatch {
            images: Tensor::from_data(TensorData::new(pixels, [batch, SIDE, SIDE]), device),
            targets: Tensor::from_data(TensorData::new(labels, [batch]), device),
        }
    }
}
