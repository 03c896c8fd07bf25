//! Dealing a number of things, evenly and in order, to a number of holders.

use std::num::NonZeroUsize;
use std::ops::Range;

use crate::PlanError;

/// The `index`-th of `parts` contiguous chunks of `0..total`: sizes differ by at most one, larger
/// ones first. An `index` beyond the last chunk gives the empty range at the end.
///
/// Closed form, and no intermediate exceeds `total`, so it cannot overflow at any width.
///
/// ```
/// use std::num::NonZeroUsize;
/// use burn_virtual_plan::chunk;
///
/// let parts = NonZeroUsize::new(3).expect("not zero");
/// assert_eq!(chunk(7, parts, 0), 0..3);
/// assert_eq!(chunk(7, parts, 2), 5..7);
/// ```
pub fn chunk(total: usize, parts: NonZeroUsize, index: usize) -> Range<usize> {
    let (small, larger) = (total / parts, total % parts);
    let start = |index: usize| index * small + index.min(larger);
    let index = index.min(parts.get());
    start(index)..start((index + 1).min(parts.get()))
}

/// How a global batch is shared among the virtual nodes: contiguous micro-batches whose sizes
/// differ by at most one, larger ones first. With fewer samples than virtual nodes the last
/// micro-batches are empty.
///
/// ```
/// use burn_virtual_plan::BatchSplit;
///
/// let split = BatchSplit::new(10, 4)?;
/// assert!(split.ranges().eq([0..3, 3..6, 6..8, 8..10]));
/// # Ok::<(), burn_virtual_plan::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSplit {
    batch: usize,
    virtual_nodes: NonZeroUsize,
}

impl BatchSplit {
    /// Shares `batch` samples among `virtual_nodes`.
    ///
    /// # Errors
    /// [`PlanError::NoVirtualNodes`] if `virtual_nodes` is 0. A batch of 0 is allowed.
    pub fn new(batch: usize, virtual_nodes: usize) -> Result<Self, PlanError> {
        let virtual_nodes = NonZeroUsize::new(virtual_nodes).ok_or(PlanError::NoVirtualNodes)?;
        Ok(Self {
            batch,
            virtual_nodes,
        })
    }

    /// Positions, within the batch, of the samples of virtual node `vn`; empty at the end of the
    /// batch if there is no such virtual node.
    pub fn range(&self, vn: usize) -> Range<usize> {
        chunk(self.batch, self.virtual_nodes, vn)
    }

    /// The ranges of all virtual nodes, in order.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> + use<> {
        let split = *self;
        (0..self.virtual_nodes()).map(move |vn| split.range(vn))
    }

    /// Number of virtual nodes, at least 1.
    pub fn virtual_nodes(&self) -> usize {
        self.virtual_nodes.get()
    }

    /// Number of samples in the batch.
    pub fn batch(&self) -> usize {
        self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(batch: usize, virtual_nodes: usize) -> Vec<usize> {
        let split = BatchSplit::new(batch, virtual_nodes).unwrap();
        split.ranges().map(|range| range.len()).collect()
    }

    #[test]
    fn sizes_differ_by_one_larger_first_when_batch_does_not_divide() {
        assert_eq!(sizes(10, 4), [3, 3, 2, 2]);
        assert_eq!(sizes(12, 4), [3, 3, 3, 3]);
    }

    #[test]
    fn last_micro_batches_are_empty_when_batch_is_small_case_8() {
        assert_eq!(sizes(3, 8), [1, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(sizes(0, 3), [0, 0, 0]);
    }

    #[test]
    fn split_refused_when_there_is_no_virtual_node() {
        assert_eq!(BatchSplit::new(4, 0), Err(PlanError::NoVirtualNodes));
    }

    #[test]
    fn chunks_cover_when_count_exceeds_31_bits_case_23() {
        let expected = [536_870_913, 536_870_913, 536_870_913, 536_870_912];
        assert_eq!(sizes((1 << 31) + 3, 4), expected);
        assert_eq!(sizes(2, 5), [1, 1, 0, 0, 0]);
        let starts: Vec<u64> = BatchSplit::new(1_500_000_000, 4)
            .unwrap()
            .ranges()
            .map(|range| range.start as u64 * 8)
            .collect();
        assert_eq!(starts, [0, 3_000_000_000, 6_000_000_000, 9_000_000_000]);
    }

    #[test]
    fn ranges_are_disjoint_and_covering_at_the_largest_count() {
        let mut next = 0;
        for range in BatchSplit::new(usize::MAX, 7).unwrap().ranges() {
            assert_eq!(range.start, next);
            next = range.end;
        }
        assert_eq!(next, usize::MAX);
    }

    #[test]
    fn range_is_empty_when_virtual_node_does_not_exist() {
        assert_eq!(BatchSplit::new(10, 4).unwrap().range(4), 10..10);
        let range = BatchSplit::new(10, 4).unwrap().range(usize::MAX);
        assert_eq!(range, 10..10);
    }

    proptest::proptest! {
        #[test]
        fn ranges_cover_the_batch_for_any_split(batch in 0usize..5000, nodes in 1usize..64) {
            let ranges: Vec<_> = BatchSplit::new(batch, nodes).unwrap().ranges().collect();
            proptest::prop_assert_eq!(ranges.len(), nodes);
            proptest::prop_assert!(ranges.windows(2).all(|two| two[0].end == two[1].start));
            proptest::prop_assert!(ranges.windows(2).all(|two| two[0].len() >= two[1].len()));
            proptest::prop_assert!(ranges[0].len() - ranges[nodes - 1].len() <= 1);
            proptest::prop_assert_eq!((ranges[0].start, ranges[nodes - 1].end), (0, batch));
        }
    }
}
