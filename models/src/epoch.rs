//! One pass over a data set.

use std::slice::Chunks;

use crate::shuffle;

/// The items of a data set in the order of one epoch.
///
/// The order is a function of the data set's length, the seed and the epoch's number alone (see
/// [`shuffle::order`]): a job that is resumed, resized or moved meets the same batches again.
#[derive(Clone, Debug)]
pub struct Epoch<T> {
    items: Vec<T>,
}

/// A batch of no items was asked for: an epoch has no end in such steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the batch size is 0, it must be 1 or more")]
pub struct ZeroBatchSize;

impl<T> Epoch<T> {
    /// `items`, each once, in the order of epoch number `epoch` under `seed`.
    pub fn new(items: &[T], seed: u64, epoch: u64) -> Self
    where
        T: Clone,
    {
        let order = shuffle::order(items.len(), seed, epoch);
        Self {
            items: order.into_iter().map(|id| items[id].clone()).collect(),
        }
    }

    /// All items in this epoch's order.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// The items in batches of `size`, in order.
    ///
    /// Every item is in one batch; the last batch is shorter where `size` doesn't divide the
    /// number of items.
    ///
    /// # Errors
    ///
    /// [`ZeroBatchSize`] when `size` is 0.
    pub fn batches(&self, size: usize) -> Result<Chunks<'_, T>, ZeroBatchSize> {
        if size == 0 {
            return Err(ZeroBatchSize);
        }
        Ok(self.items.chunks(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch_of(len: usize) -> Epoch<usize> {
        Epoch::new(&(0..len).collect::<Vec<_>>(), 42, 0)
    }

    fn sizes(epoch: &Epoch<usize>, size: usize) -> Vec<usize> {
        epoch.batches(size).unwrap().map(<[_]>::len).collect()
    }

    #[test]
    fn items_follow_the_shuffled_order() {
        assert_eq!(epoch_of(100).items(), shuffle::order(100, 42, 0));
    }

    #[test]
    fn batches_cover_the_items_in_order() {
        for size in [1, 2, 7, 10, 11] {
            let epoch = epoch_of(10);
            let joined: Vec<_> = epoch.batches(size).unwrap().flatten().copied().collect();
            assert_eq!(joined, epoch.items(), "batch size {size}");
        }
    }

    #[test]
    fn last_batch_is_shorter_when_size_does_not_divide() {
        assert_eq!(sizes(&epoch_of(10), 4), [4, 4, 2]);
        assert_eq!(sizes(&epoch_of(10), 5), [5, 5]);
        assert_eq!(sizes(&epoch_of(10), 64), [10]);
    }

    #[test]
    fn batches_of_no_items_are_none() {
        assert!(sizes(&epoch_of(0), 4).is_empty());
    }

    #[test]
    fn batches_refuse_size_zero() {
        assert_eq!(epoch_of(10).batches(0).unwrap_err(), ZeroBatchSize);
    }
}
