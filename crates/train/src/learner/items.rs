//! Items on their way from burn-train's data loader to the virtual nodes.

use std::ops::Range;

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::backend::Backend;

use crate::batch::Items;
use crate::{SplitBatch, TrainError};

/// A batcher that hands items on as they are: for the data loader of a [`Virtual`](super::Virtual)
/// model, which has the real one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncollated;

impl<B: Backend, I> Batcher<B, I, Vec<I>> for Uncollated {
    fn batch(&self, items: Vec<I>, _device: &B::Device) -> Vec<I> {
        items
    }
}

/// Items, the batcher that makes tensors of them, and what they weigh.
pub(super) struct WeightedItems<'a, I, T, O> {
    pub(super) items: Items<'a, I, T, O>,
    pub(super) weight: fn(&[I]) -> f64,
}

impl<B, I, T, O> SplitBatch<B> for WeightedItems<'_, I, T, O>
where
    B: Backend,
    I: Clone + Sync,
    T: Batcher<B, I, O>,
{
    type Micro = (f64, O);

    fn samples(&self) -> Result<usize, TrainError> {
        self.items.samples()
    }

    fn micro(&self, range: Range<usize>, device: &B::Device) -> (f64, O) {
        let weight = (self.weight)(&self.items.items()[range.clone()]);
        (weight, self.items.micro(range, device))
    }
}
