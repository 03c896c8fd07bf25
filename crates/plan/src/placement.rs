//! Which virtual nodes each rank runs.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::fingerprint::fingerprint;
use crate::{PlanError, chunk};

/// The contiguous range of virtual nodes that each rank runs; every rank runs at least one.
///
/// Serialised as the number of virtual nodes of each rank, and checked again when read.
///
/// ```
/// use burn_virtual_plan::Placement;
///
/// let placement = Placement::even(8, 3)?;
/// assert_eq!(placement.to_string(), "[0..3][3..6][6..8]");
/// assert_eq!(placement.rank_of(6), Some(2));
/// # Ok::<(), burn_virtual_plan::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<usize>", into = "Vec<usize>")]
pub struct Placement {
    // Rank r runs bounds[r]..bounds[r + 1]; one entry more than there are ranks.
    bounds: Vec<usize>,
}

impl Placement {
    /// Shares whose sizes differ by at most one, larger ones first.
    ///
    /// # Errors
    /// 0 virtual nodes, 0 ranks, or more ranks than virtual nodes.
    pub fn even(virtual_nodes: usize, ranks: usize) -> Result<Self, PlanError> {
        let parts = check_sizes(virtual_nodes, ranks)?;
        Ok(Self::from_counts(
            (0..ranks).map(|rank| chunk(virtual_nodes, parts, rank).len()),
        ))
    }

    /// `counts[rank]` virtual nodes for each rank.
    ///
    /// # Errors
    /// As [`Placement::even`]; a count of 0; counts that do not sum to `virtual_nodes`.
    pub fn explicit(virtual_nodes: usize, counts: &[usize]) -> Result<Self, PlanError> {
        check_sizes(virtual_nodes, counts.len())?;
        if let Some(rank) = counts.iter().position(|&count| count == 0) {
            return Err(PlanError::EmptyShare { rank });
        }
        // Saturating: a sum too large to count is wrong too, and must not wrap to the right one.
        let got = counts.iter().copied().fold(0, usize::saturating_add);
        if got != virtual_nodes {
            let expected = virtual_nodes;
            return Err(PlanError::ShareSum { expected, got });
        }
        Ok(Self::from_counts(counts.iter().copied()))
    }

    /// Shares in proportion to the speed of each rank (any unit, say samples per second), rounded
    /// by largest remainder, with at least one virtual node for each. Ties go to the lower rank.
    ///
    /// # Errors
    /// As [`Placement::even`]; a speed that is not a positive finite number.
    pub fn weighted(virtual_nodes: usize, speeds: &[f64]) -> Result<Self, PlanError> {
        check_sizes(virtual_nodes, speeds.len())?;
        for (rank, &speed) in speeds.iter().enumerate() {
            if !(speed.is_finite() && speed > 0.0) {
                return Err(PlanError::Speed { rank, speed });
            }
        }
        let quotas = quotas(virtual_nodes, speeds);
        Ok(Self::from_counts(round_quotas(virtual_nodes, &quotas)))
    }

    pub(crate) fn from_counts(counts: impl IntoIterator<Item = usize>) -> Self {
        let ends = counts.into_iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        Self {
            bounds: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// Number of virtual nodes of the job.
    pub fn virtual_nodes(&self) -> usize {
        self.bounds[self.ranks()]
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The virtual nodes of `rank`; empty, at the end of the job, if there is no such rank.
    pub fn range(&self, rank: usize) -> Range<usize> {
        let rank = rank.min(self.ranks());
        self.bounds[rank]..self.bounds[(rank + 1).min(self.ranks())]
    }

    /// The rank that runs virtual node `vn`, if there is such a virtual node.
    pub fn rank_of(&self, vn: usize) -> Option<usize> {
        (vn < self.virtual_nodes()).then(|| self.bounds.partition_point(|&bound| bound <= vn) - 1)
    }

    /// The ranges of all ranks, in order.
    pub fn shares(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.bounds.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// A number that is equal, on every machine, for equal placements only (but for chance).
    pub fn fingerprint(&self) -> u64 {
        fingerprint(self.bounds.iter().map(|&bound| bound as u64))
    }
}

pub(crate) fn check_sizes(virtual_nodes: usize, ranks: usize) -> Result<NonZeroUsize, PlanError> {
    if virtual_nodes == 0 {
        return Err(PlanError::NoVirtualNodes);
    }
    let parts = NonZeroUsize::new(ranks).ok_or(PlanError::NoRanks)?;
    if ranks > virtual_nodes {
        return Err(PlanError::TooManyRanks {
            ranks,
            virtual_nodes,
        });
    }
    Ok(parts)
}

/// The exact share of each rank, a fraction of virtual nodes.
fn quotas(virtual_nodes: usize, speeds: &[f64]) -> Vec<f64> {
    // Scaled by the fastest first: a sum of finite speeds may be infinite.
    let fastest = speeds.iter().copied().fold(0.0, f64::max);
    let scaled: Vec<f64> = speeds.iter().map(|speed| speed / fastest).collect();
    let total: f64 = scaled.iter().sum();
    let share = |speed: &f64| speed / total * virtual_nodes as f64;
    scaled.iter().map(share).collect()
}

/// Whole shares, at least 1 each, that sum to `virtual_nodes`: each rank starts at its quota
/// rounded down, then those furthest below their quota get one more, and where the minimum of 1
/// gave out too many, those furthest above theirs give one back.
fn round_quotas(virtual_nodes: usize, quotas: &[f64]) -> Vec<usize> {
    let mut counts: Vec<usize> = quotas
        .iter()
        .map(|&quota| (quota as usize).max(1))
        .collect();
    let mut total: usize = counts.iter().sum();
    let excess = |counts: &[usize], rank: usize| counts[rank] as f64 - quotas[rank];
    while total < virtual_nodes {
        let by_excess = |&a: &usize, &b: &usize| excess(&counts, a).total_cmp(&excess(&counts, b));
        let Some(rank) = (0..counts.len()).min_by(by_excess) else {
            break;
        };
        counts[rank] += 1;
        total += 1;
    }
    while total > virtual_nodes {
        let by_excess = |&a: &usize, &b: &usize| excess(&counts, a).total_cmp(&excess(&counts, b));
        let above_one = (0..counts.len()).filter(|&rank| counts[rank] > 1);
        let Some(rank) = above_one.max_by(by_excess) else {
            break;
        };
        counts[rank] -= 1;
        total -= 1;
    }
    counts
}

impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shares()
            .try_for_each(|range| write!(formatter, "[{}..{}]", range.start, range.end))
    }
}

impl From<Placement> for Vec<usize> {
    fn from(placement: Placement) -> Self {
        placement.shares().map(|range| range.len()).collect()
    }
}

impl TryFrom<Vec<usize>> for Placement {
    type Error = PlanError;

    fn try_from(counts: Vec<usize>) -> Result<Self, PlanError> {
        let virtual_nodes = counts.iter().copied().fold(0, usize::saturating_add);
        Self::explicit(virtual_nodes, &counts)
    }
}
