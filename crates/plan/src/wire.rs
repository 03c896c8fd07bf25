//! What a placement costs on the wire, in the all-reduce that sums along the tree.

use std::ops::Range;

use crate::{Placement, tree};

/// What the ordered all-reduce sends, from the placement alone. A rank brings one vector for each of
/// its maximal subtrees. The formulas are derived, and compared with what is really sent, in the
/// README of the algorithms in `burn-virtual-collective`.
impl Placement {
    /// Number of maximal subtrees of `rank`: 1 where its share is one node of the tree, else up to
    /// about twice the logarithm of its share. 0 if there is no such rank.
    ///
    /// ```
    /// use burn_virtual_plan::Placement;
    ///
    /// let subtrees = |placement: Placement| [0, 1, 2].map(|rank| placement.subtrees(rank));
    /// assert_eq!(subtrees(Placement::even(32, 3)?), [3, 4, 2]); // 11 + 11 + 10
    /// assert_eq!(subtrees(Placement::explicit(32, &[12, 12, 8])?), [2, 2, 1]);
    /// # Ok::<(), burn_virtual_plan::PlanError>(())
    /// ```
    pub fn subtrees(&self, rank: usize) -> usize {
        tree::maximal_subtrees(self.virtual_nodes(), self.range(rank)).len()
    }

    /// Bytes of values that `rank` sends, divided by those that it would send in a ring: `(k + 1) / 2`
    /// for `k` maximal subtrees. It sends all but its own slice of `k` vectors, then its slice of the
    /// sum to all; in a ring, which sends as few as can be, it sends all but a slice twice. (With one
    /// rank there is nothing to send, and the ratio is 1.)
    pub fn byte_ratio(&self, rank: usize) -> f64 {
        byte_ratio(self.subtrees(rank))
    }

    /// The largest [`Placement::byte_ratio`] of any rank, for which the others wait.
    pub fn worst_byte_ratio(&self) -> f64 {
        let ratios = (0..self.ranks()).map(|rank| self.byte_ratio(rank));
        ratios.fold(0.0, f64::max)
    }

    /// The mean of [`Placement::byte_ratio`] over all ranks.
    pub fn mean_byte_ratio(&self) -> f64 {
        let ratios = (0..self.ranks()).map(|rank| self.byte_ratio(rank));
        ratios.sum::<f64>() / self.ranks() as f64
    }

    /// Whether halving with doubling distance evaluates the tree: the ranks are a power of two, each
    /// holds one node, and the tree joins them pairwise, then the pairs, and so on. Then as many bytes
    /// as in a ring take `2·log2 W` steps.
    ///
    /// ```
    /// use burn_virtual_plan::Placement;
    ///
    /// assert!(Placement::even(8, 4)?.is_aligned());
    /// assert!(Placement::explicit(7, &[4, 3])?.is_aligned());
    /// assert!(!Placement::even(12, 3)?.is_aligned()); // one node each, but three ranks
    /// assert!(!Placement::explicit(8, &[4, 2, 1, 1])?.is_aligned()); // nodes of several depths
    /// # Ok::<(), burn_virtual_plan::PlanError>(())
    /// ```
    pub fn is_aligned(&self) -> bool {
        self.ranks().is_power_of_two() && self.is_cube(0..self.ranks(), 0..self.virtual_nodes())
    }

    fn is_cube(&self, ranks: Range<usize>, node: Range<usize>) -> bool {
        let middle = ranks.start + ranks.len() / 2;
        match tree::children(&node) {
            _ if ranks.len() == 1 => self.range(ranks.start) == node,
            None => false,
            Some((left, right)) => {
                self.is_cube(ranks.start..middle, left) && self.is_cube(middle..ranks.end, right)
            }
        }
    }
}

/// See [`Placement::byte_ratio`].
pub(crate) fn byte_ratio(subtrees: usize) -> f64 {
    (subtrees as f64 + 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(counts: &[usize]) -> Placement {
        Placement::explicit(counts.iter().sum(), counts).unwrap()
    }

    #[test]
    fn ratios_follow_the_number_of_subtrees() {
        let uneven = placed(&[31, 33]);
        assert_eq!([uneven.subtrees(0), uneven.subtrees(1)], [5, 2]);
        assert_eq!([uneven.byte_ratio(0), uneven.byte_ratio(1)], [3.0, 1.5]);
        assert_eq!(uneven.worst_byte_ratio(), 3.0);
        assert_eq!(uneven.mean_byte_ratio(), 2.25);
        assert_eq!(uneven.subtrees(2), 0);
        assert_eq!(placed(&[5]).worst_byte_ratio(), 1.0);
    }

    #[test]
    fn shares_of_a_cube_are_aligned() {
        for counts in [
            &[1][..],
            &[5],
            &[1, 1],
            &[4, 4],
            &[2, 2, 2, 2],
            &[4, 2],
            &[2, 2, 2, 1],
        ] {
            assert!(placed(counts).is_aligned(), "{counts:?}");
        }
        assert!(placed(&[1; 16]).is_aligned());
        assert!(placed(&[8, 3]).is_aligned());
    }

    #[test]
    fn shares_are_not_aligned_when_the_tree_joins_others_first() {
        // No power of two; no node each; one node each, but at several depths.
        for counts in [
            &[2, 2, 2][..],
            &[3, 5],
            &[2, 4],
            &[3, 1],
            &[2, 1, 1, 2],
            &[4, 2, 1, 1],
        ] {
            assert!(!placed(counts).is_aligned(), "{counts:?}");
        }
    }

    #[test]
    fn aligned_placements_have_the_ratio_of_a_ring() {
        for ranks in [1, 2, 4, 8, 16] {
            for virtual_nodes in ranks..40 {
                let placement = Placement::even(virtual_nodes, ranks).unwrap();
                if placement.is_aligned() {
                    assert_eq!(placement.worst_byte_ratio(), 1.0, "{placement}");
                }
            }
        }
    }
}
