//! Batches that can be split: items with a batcher, or tensors that are ready.

use std::marker::PhantomData;
use std::ops::Range;

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::backend::Backend;
use burn::tensor::{BasicOps, Tensor};
use burn_virtual_plan::BatchSplit;

use crate::TrainError;

/// A batch that virtual nodes can each take their samples from.
pub trait SplitBatch<B: Backend>: Sync {
    /// What the model gets: the samples of one virtual node.
    type Micro;

    /// The number of samples.
    ///
    /// # Errors
    /// [`TrainError::UnequalBatch`] if the parts of the batch disagree.
    fn samples(&self) -> Result<usize, TrainError>;

    /// The samples of a range, on a device. `range` is not empty and lies within
    /// [`samples`](Self::samples).
    fn micro(&self, range: Range<usize>, device: &B::Device) -> Self::Micro;
}

/// Shares a batch of at least one sample among virtual nodes.
pub(crate) fn split<B: Backend>(
    batch: &impl SplitBatch<B>,
    virtual_nodes: usize,
) -> Result<BatchSplit, TrainError> {
    match batch.samples()? {
        0 => Err(TrainError::EmptyBatch),
        samples => Ok(BatchSplit::new(samples, virtual_nodes)?),
    }
}

/// Items and the batcher that makes tensors of them when a virtual node's turn comes, so that the
/// inputs of one micro-batch are on the device at a time.
pub(crate) struct Items<'a, I, T, O> {
    items: &'a [I],
    batcher: &'a T,
    output: PhantomData<fn() -> O>,
}

impl<'a, I, T, O> Items<'a, I, T, O> {
    pub(crate) fn new(items: &'a [I], batcher: &'a T) -> Self {
        Self {
            items,
            batcher,
            output: PhantomData,
        }
    }

    /// The items themselves.
    #[cfg(feature = "burn-train")]
    pub(crate) fn items(&self) -> &'a [I] {
        self.items
    }
}

impl<B, I, T, O> SplitBatch<B> for Items<'_, I, T, O>
where
    B: Backend,
    I: Clone + Sync,
    T: Batcher<B, I, O>,
{
    type Micro = O;

    fn samples(&self) -> Result<usize, TrainError> {
        Ok(self.items.len())
    }

    fn micro(&self, range: Range<usize>, device: &B::Device) -> O {
        self.batcher.batch(self.items[range].to_vec(), device)
    }
}

/// Splits along the first dimension.
impl<B: Backend, const D: usize, K: BasicOps<B>> SplitBatch<B> for Tensor<B, D, K>
where
    Tensor<B, D, K>: Sync,
{
    type Micro = Self;

    fn samples(&self) -> Result<usize, TrainError> {
        Ok(self.dims()[0])
    }

    fn micro(&self, range: Range<usize>, device: &B::Device) -> Self {
        self.clone().slice_dim(0, range).to_device(device)
    }
}

/// Parts that are split together.
macro_rules! tuple {
    ($first:ident $first_index:tt, $($name:ident $index:tt),*) => {
        impl<B: Backend, $first: SplitBatch<B>, $($name: SplitBatch<B>),*> SplitBatch<B>
            for ($first, $($name),*)
        {
            type Micro = ($first::Micro, $($name::Micro),*);

            fn samples(&self) -> Result<usize, TrainError> {
                let expected = self.$first_index.samples()?;
                $(
                    let got = self.$index.samples()?;
                    if got != expected {
                        return Err(TrainError::UnequalBatch { expected, got });
                    }
                )*
                Ok(expected)
            }

            fn micro(&self, range: Range<usize>, device: &B::Device) -> Self::Micro {
                (self.$first_index.micro(range.clone(), device),
                 $(self.$index.micro(range.clone(), device)),*)
            }
        }
    };
}
tuple!(S0 0, S1 1);
tuple!(S0 0, S1 1, S2 2);
tuple!(S0 0, S1 1, S2 2, S3 3);
