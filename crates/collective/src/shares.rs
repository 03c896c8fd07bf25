//! Which part of a vector each rank holds.

use std::num::NonZeroUsize;
use std::ops::Range;

use burn_virtual_plan::{Layout, chunk};

/// The contiguous share of a vector that belongs to each rank, in rank order; a share may be empty.
///
/// ```
/// use burn_virtual_collective::Shares;
///
/// assert_eq!(Shares::even(7, 3).range(1), 3..5);
/// assert_eq!(Shares::explicit(&[4, 0, 3]).range(2), 4..7);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    // Rank r holds bounds[r]..bounds[r + 1]; one entry more than there are ranks.
    bounds: Vec<usize>,
}

impl Shares {
    /// Shares of `0..elements` whose sizes differ by at most one, larger ones first; with fewer
    /// elements than ranks the last shares are empty.
    pub fn even(elements: usize, ranks: usize) -> Self {
        let parts = NonZeroUsize::new(ranks).unwrap_or(NonZeroUsize::MIN);
        let ends = (0..ranks).map(|rank| chunk(elements, parts, rank).end);
        Self {
            bounds: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// `counts[rank]` elements for each rank.
    pub fn explicit(counts: &[usize]) -> Self {
        // Saturating: no slice has as many elements, so that counts too large are refused later.
        let ends = counts.iter().scan(0_usize, |end, &count| {
            *end = end.saturating_add(count);
            Some(*end)
        });
        Self {
            bounds: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Number of elements of all shares together.
    pub fn elements(&self) -> usize {
        self.bounds[self.ranks()]
    }

    /// The share of `rank`; empty, at the end, if there is no such rank.
    pub fn range(&self, rank: usize) -> Range<usize> {
        let rank = rank.min(self.ranks());
        self.bounds[rank]..self.bounds[(rank + 1).min(self.ranks())]
    }

    /// Size of the largest share.
    pub(crate) fn largest(&self) -> usize {
        let sizes = self.bounds.windows(2).map(|pair| pair[1] - pair[0]);
        sizes.max().unwrap_or(0)
    }

    /// A number that is equal, on every machine, for equal shares only (but for chance).
    pub(crate) fn fingerprint(&self) -> u64 {
        let sizes = self.bounds.windows(2).map(|pair| pair[1] - pair[0]);
        Layout::new(sizes, 0, 0).fingerprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte ranges of all shares, in elements of the given size.
    fn bytes(shares: &Shares, size: u64) -> Vec<Range<u64>> {
        let ranges = (0..shares.ranks()).map(|rank| shares.range(rank));
        ranges
            .map(|range| range.start as u64 * size..range.end as u64 * size)
            .collect()
    }

    #[test]
    fn shares_are_right_when_counts_and_offsets_exceed_32_bits_case_23() {
        let shares = Shares::even((1 << 31) + 3, 4);
        let sizes: Vec<usize> = (0..4).map(|rank| shares.range(rank).len()).collect();
        let expected = [536_870_913, 536_870_913, 536_870_913, 536_870_912];
        assert_eq!(sizes, expected);
        assert_eq!(
            (shares.elements(), shares.largest()),
            ((1 << 31) + 3, 536_870_913)
        );
        let offsets = bytes(&Shares::even(1_500_000_000, 4), 8);
        let starts: Vec<u64> = offsets.iter().map(|range| range.start).collect();
        assert_eq!(starts, [0, 3_000_000_000, 6_000_000_000, 9_000_000_000]);
        assert!(offsets.windows(2).all(|two| two[0].end == two[1].start));
        assert_eq!(offsets[3].end, 12_000_000_000);
    }

    #[test]
    fn last_shares_are_empty_when_elements_are_few_case_23() {
        let shares = Shares::even(2, 5);
        let sizes: Vec<usize> = (0..5).map(|rank| shares.range(rank).len()).collect();
        assert_eq!(sizes, [1, 1, 0, 0, 0]);
        assert_eq!(shares.range(5), 2..2);
        assert_eq!(Shares::even(7, 0).elements(), 0);
    }

    #[test]
    fn fingerprints_differ_when_only_the_cut_does() {
        let cut = |counts: &[usize]| Shares::explicit(counts).fingerprint();
        assert_ne!(cut(&[3, 4]), cut(&[4, 3]));
        assert_eq!(cut(&[4, 3]), Shares::even(7, 2).fingerprint());
    }

    #[test]
    fn elements_saturate_when_counts_are_too_large_to_sum() {
        let shares = Shares::explicit(&[usize::MAX, 2]);
        assert_eq!(shares.elements(), usize::MAX);
    }
}
