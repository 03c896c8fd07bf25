//! The placement that sends the least.

use std::num::NonZeroUsize;
use std::ops::Range;

use crate::placement::check_sizes;
use crate::{Placement, PlanError, tree};

/// Virtual nodes of a job whose placements are searched: what bounds the time and memory it takes.
const LIMIT: usize = 4096;

impl Placement {
    /// The placement whose ordered all-reduce sends the fewest bytes on the rank that sends the most,
    /// among those where no rank runs more than `largest` virtual nodes. Among equals the one that
    /// sends the fewest on average, then the most even one (the least sum of squared shares), then
    /// that with larger shares first.
    ///
    /// With `largest` from twice `virtual_nodes / ranks` on, there always is one that sends no more
    /// than a ring. It takes time in proportion to the square of `virtual_nodes`.
    ///
    /// ```
    /// use burn_virtual_plan::Placement;
    ///
    /// let placement = Placement::fewest_bytes(32, 3, 12)?;
    /// assert_eq!(Vec::from(placement.clone()), [12, 12, 8]);
    /// assert_eq!(placement.worst_byte_ratio(), 1.5); // where 11 + 11 + 10 has 2.5
    /// assert_eq!(Vec::from(Placement::fewest_bytes(32, 3, 16)?), [16, 8, 8]); // 1
    /// # Ok::<(), burn_virtual_plan::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Placement::even`]; a `largest` that is too small for anybody to run all; more than 4096
    /// virtual nodes.
    pub fn fewest_bytes(
        virtual_nodes: usize,
        ranks: usize,
        largest: usize,
    ) -> Result<Self, PlanError> {
        let search = Search::new(virtual_nodes, ranks)?;
        let found = search.fewest_bytes(largest);
        found.ok_or(PlanError::LargestShare {
            virtual_nodes,
            ranks,
            largest,
            least: search.least_largest(),
        })
    }
}

/// All placements of some virtual nodes on some ranks.
pub(crate) struct Search {
    ranks: NonZeroUsize,
    /// Where the nodes of the tree end that begin at each virtual node.
    ends: Vec<Vec<usize>>,
}

/// What a rank may run: `size` virtual nodes, in `subtrees` maximal subtrees.
#[derive(Clone, Copy)]
struct Share {
    size: usize,
    subtrees: usize,
}

/// The best ways to share what is left from some virtual node on, for each number of ranks from
/// `fewest` on: what it costs, and the share of the first of them.
struct Row<C> {
    fewest: usize,
    ways: Vec<Option<(C, usize)>>,
}

impl<C> Default for Row<C> {
    fn default() -> Self {
        let (fewest, ways) = (0, Vec::new());
        Self { fewest, ways }
    }
}

impl<C: Copy> Row<C> {
    fn way(&self, ranks: usize) -> Option<(C, usize)> {
        let index = ranks.checked_sub(self.fewest)?;
        self.ways.get(index).copied().flatten()
    }
}

/// What all shares must keep to.
#[derive(Clone, Copy)]
struct Bounds {
    size: usize,
    subtrees: usize,
}

impl Search {
    pub(crate) fn new(virtual_nodes: usize, ranks: usize) -> Result<Self, PlanError> {
        let ranks = check_sizes(virtual_nodes, ranks)?;
        if virtual_nodes > LIMIT {
            return Err(PlanError::TooManyToSearch {
                virtual_nodes,
                limit: LIMIT,
            });
        }
        let mut ends = vec![Vec::new(); virtual_nodes];
        note_ends(&(0..virtual_nodes), &mut ends);
        Ok(Self { ranks, ends })
    }

    /// The smallest that the largest share can be.
    pub(crate) fn least_largest(&self) -> usize {
        self.ends.len().div_ceil(self.ranks.get())
    }

    /// See [`Placement::fewest_bytes`]; none if the largest share must be larger.
    pub(crate) fn fewest_bytes(&self, largest: usize) -> Option<Placement> {
        let bounds = Bounds {
            size: largest,
            subtrees: self.fewest_subtrees(largest)?,
        };
        // Sums, whose least for all ranks is made of the least for some; maxima in their place
        // would not be, hence the bound.
        let add = |share: Share, rest: (usize, usize)| {
            (rest.0 + share.subtrees, rest.1 + share.size * share.size)
        };
        let (_, counts) = self.least(bounds, (0, 0), add)?;
        Some(Placement::from_counts(counts))
    }

    /// The most subtrees of any rank, where that is the least; none if the largest share must be
    /// larger.
    fn fewest_subtrees(&self, largest: usize) -> Option<usize> {
        // Room for twice the mean is enough for one subtree each: the nodes of at most that size, a
        // power of two above the mean, are no more than the ranks, and can be cut further.
        let enough = (2 * self.ends.len()).div_ceil(self.ranks.get());
        let bounds = Bounds {
            size: largest.min(enough),
            subtrees: usize::MAX,
        };
        let most = |share: Share, rest: usize| rest.max(share.subtrees);
        self.least(bounds, 0, most).map(|(most, _)| most)
    }

    /// The largest share, where that is the least, if no rank may have more than so many subtrees, and
    /// no more than `largest` virtual nodes; none if there is no such placement.
    pub(crate) fn smallest_largest(&self, largest: usize, subtrees: usize) -> Option<usize> {
        let bounds = Bounds {
            size: largest,
            subtrees,
        };
        let most = |share: Share, rest: usize| rest.max(share.size);
        self.least(bounds, 0, most).map(|(most, _)| most)
    }

    /// The least cost of any placement within the bounds, and the shares of the first that has it,
    /// larger ones first. `cost` is that of a share and the ranks behind it, whose own it is given;
    /// it must not fall when theirs grows.
    ///
    /// Dynamic programming from the last virtual node to the first: the best way for the last ranks
    /// to share what is left is made of the best ways for fewer of them.
    fn least<C: Copy + Ord>(
        &self,
        bounds: Bounds,
        nothing: C,
        cost: impl Fn(Share, C) -> C,
    ) -> Option<(C, Vec<usize>)> {
        let (all, ranks) = (self.ends.len(), self.ranks.get());
        let mut best: Vec<Row<C>> = (0..all).map(|_| Row::default()).collect();
        best.push(Row {
            fewest: 0,
            ways: vec![Some((nothing, 0))],
        });
        for start in (0..all).rev() {
            let last = self.last_ranks(start, bounds);
            let mut ways = vec![None; last.len()];
            for share in self.shares(start, bounds) {
                let rest = &best[start + share.size];
                for (n, way) in last.clone().zip(&mut ways) {
                    let Some((rest, _)) = rest.way(n - 1) else {
                        continue;
                    };
                    let with = cost(share, rest);
                    if way.is_none_or(|(least, _)| with <= least) {
                        *way = Some((with, share.size));
                    }
                }
            }
            best[start] = Row {
                fewest: last.start,
                ways,
            };
        }
        let (least, _) = best[0].way(ranks)?;
        let mut start = 0;
        let counts = (1..=ranks).rev().map_while(|n| {
            let (_, size) = best[start].way(n)?;
            start += size;
            Some(size)
        });
        Some((least, counts.collect()))
    }

    /// How many ranks may be left for the virtual nodes from `start` on: no more than there are nodes,
    /// no fewer than the largest share allows, and the same for those before.
    fn last_ranks(&self, start: usize, bounds: Bounds) -> Range<usize> {
        let (left, ranks, size) = (
            self.ends.len() - start,
            self.ranks.get(),
            bounds.size.max(1),
        );
        let fewest = left.div_ceil(size).max(ranks.saturating_sub(start));
        let most = left.min(ranks.saturating_sub(start.div_ceil(size)));
        fewest..most + 1
    }

    /// The shares that begin at `start`, smaller ones first. Maximal subtrees are the fewest nodes
    /// that cover a range, so that a share costs one more than the cheapest before its last node.
    fn shares(&self, start: usize, bounds: Bounds) -> Vec<Share> {
        let most = bounds.size.min(self.ends.len() - start);
        let mut subtrees = vec![usize::MAX; most + 1];
        subtrees[0] = 0;
        for size in 0..most {
            let before = subtrees[size];
            if before >= bounds.subtrees {
                continue;
            }
            for end in &self.ends[start + size] {
                if let Some(fewest) = subtrees.get_mut(end - start) {
                    *fewest = (*fewest).min(before + 1);
                }
            }
        }
        let share = |(size, subtrees)| Share { size, subtrees };
        let fits = |share: &Share| share.subtrees <= bounds.subtrees && share.subtrees < usize::MAX;
        let shares = subtrees.into_iter().enumerate().skip(1).map(share);
        shares.filter(fits).collect()
    }
}

/// Notes where `node` and all nodes below it end.
fn note_ends(node: &Range<usize>, ends: &mut [Vec<usize>]) {
    ends[node.start].push(node.end);
    if let Some((left, right)) = tree::children(node) {
        note_ends(&left, ends);
        note_ends(&right, ends);
    }
}
