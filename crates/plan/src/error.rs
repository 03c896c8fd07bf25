//! What can be wrong with a plan.

use std::ops::Range;

use crate::Layout;

/// A plan, or a contribution to one, that cannot be right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A job needs at least one virtual node.
    #[error("0 virtual nodes: a job needs at least one")]
    NoVirtualNodes,
    /// A placement needs at least one rank.
    #[error("0 ranks: a placement needs at least one")]
    NoRanks,
    /// Every rank runs at least one virtual node.
    #[error("{ranks} ranks cannot share {virtual_nodes} virtual nodes: each runs at least one")]
    TooManyRanks {
        /// Ranks asked for.
        ranks: usize,
        /// Virtual nodes there are.
        virtual_nodes: usize,
    },
    /// The shares of all ranks must add up to the virtual nodes of the job.
    #[error("the shares must sum to {expected} virtual nodes, got {got}")]
    ShareSum {
        /// Virtual nodes of the job.
        expected: usize,
        /// Sum of the shares given.
        got: usize,
    },
    /// A rank was given no virtual node.
    #[error("rank {rank} has no virtual node: each rank runs at least one")]
    EmptyShare {
        /// The rank.
        rank: usize,
    },
    /// The speed of a rank is not a positive, finite number.
    #[error("rank {rank} has speed {speed}, expected a positive finite number")]
    Speed {
        /// The rank.
        rank: usize,
        /// Its speed.
        speed: f64,
    },
    /// The largest share allowed is too small.
    #[error(
        "{ranks} ranks of at most {largest} virtual nodes cannot share {virtual_nodes}: \
         expected at least {least} for the largest"
    )]
    LargestShare {
        /// Virtual nodes of the job.
        virtual_nodes: usize,
        /// Ranks that share them.
        ranks: usize,
        /// Largest share allowed.
        largest: usize,
        /// The smallest that would do.
        least: usize,
    },
    /// Placements of a job as large are not searched.
    #[error("{virtual_nodes} virtual nodes: a placement is searched for at most {limit}")]
    TooManyToSearch {
        /// Virtual nodes of the job.
        virtual_nodes: usize,
        /// The most that are.
        limit: usize,
    },
    /// A time is not a number of seconds.
    #[error("{what} takes {seconds} s, expected a finite number that is not negative")]
    Seconds {
        /// What takes it.
        what: &'static str,
        /// The time, in seconds.
        seconds: f64,
    },
    /// A range of virtual nodes reaches outside the job.
    #[error("virtual nodes {range:?} do not lie within 0..{virtual_nodes}")]
    Outside {
        /// The range given.
        range: Range<usize>,
        /// Virtual nodes of the job.
        virtual_nodes: usize,
    },
    /// A range is no node of the summation tree.
    #[error("virtual nodes {range:?} are no node of the tree over 0..{virtual_nodes}")]
    NotANode {
        /// The range given.
        range: Range<usize>,
        /// Virtual nodes of the job.
        virtual_nodes: usize,
    },
    /// Contributions arrive in the order of virtual nodes, without gaps.
    #[error("expected virtual node {expected} next, got {got:?} in a sum over {range:?}")]
    OutOfOrder {
        /// First virtual node that has not arrived.
        expected: usize,
        /// What arrived instead.
        got: Range<usize>,
        /// The range being summed.
        range: Range<usize>,
    },
    /// A sum was asked for before all of its virtual nodes had contributed.
    #[error("virtual node {expected} is missing from the sum over {range:?}")]
    Missing {
        /// First virtual node that has not arrived.
        expected: usize,
        /// The range being summed.
        range: Range<usize>,
    },
    /// A layout has no such segment.
    #[error("segment {segment} does not exist: the layout has {segments}")]
    NoSegment {
        /// The segment asked for.
        segment: usize,
        /// Segments there are.
        segments: usize,
    },
    /// Values do not fill their segment exactly.
    #[error("segment {segment} has {expected} elements, got {got}")]
    SegmentLength {
        /// The segment.
        segment: usize,
        /// Its length in elements.
        expected: usize,
        /// Elements given.
        got: usize,
    },
    /// Two sums of different layouts cannot be added.
    #[error("cannot add sums of two layouts: expected {expected}, got {got}")]
    LayoutMismatch {
        /// Layout of the sum.
        expected: Box<Layout>,
        /// Layout of what was to be added.
        got: Box<Layout>,
    },
}
