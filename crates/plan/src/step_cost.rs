//! Weighing what a placement computes against what it sends.

use crate::search::Search;
use crate::wire::byte_ratio;
use crate::{Placement, PlanError};

/// What a step costs on ranks of equal speed, which first run their virtual nodes, then sum.
///
/// The rank with the most virtual nodes and the one that sends the most bytes decide:
/// `largest share · virtual_node_s + worst ratio · ring_s`, with the ratio of
/// [`Placement::byte_ratio`]. What is sent while others still compute is not modelled, nor are
/// latencies, nor the additions.
///
/// ```
/// use burn_virtual_plan::{Placement, StepCost};
///
/// // A virtual node in 10 ms, the gradient around a ring in 30 ms.
/// let cost = StepCost { virtual_node_s: 0.010, ring_s: 0.030 };
/// let even = Placement::even(32, 3)?;
/// let best = Placement::least_time(32, 3, &cost)?;
/// assert_eq!(Vec::from(best.clone()), [12, 12, 8]);
/// assert!((cost.step_s(&even) - 0.185).abs() < 1e-12); // 11 · 10 ms + 2.5 · 30 ms
/// assert!((cost.step_s(&best) - 0.165).abs() < 1e-12); // 12 · 10 ms + 1.5 · 30 ms
/// # Ok::<(), burn_virtual_plan::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Time that a rank takes for one virtual node, in seconds.
    pub virtual_node_s: f64,
    /// Time that a ring all-reduce of the gradient takes on as many ranks, in seconds.
    pub ring_s: f64,
}

impl StepCost {
    /// Time of a step, in seconds.
    pub fn step_s(&self, placement: &Placement) -> f64 {
        let sizes = placement.shares().map(|share| share.len());
        self.seconds(sizes.max().unwrap_or(0), placement.worst_byte_ratio())
    }

    fn seconds(&self, largest: usize, worst_ratio: f64) -> f64 {
        largest as f64 * self.virtual_node_s + worst_ratio * self.ring_s
    }

    fn check(&self) -> Result<(), PlanError> {
        for (what, seconds) in [
            ("a virtual node", self.virtual_node_s),
            ("a ring", self.ring_s),
        ] {
            if !(seconds.is_finite() && seconds >= 0.0) {
                return Err(PlanError::Seconds { what, seconds });
            }
        }
        Ok(())
    }
}

impl Placement {
    /// The placement whose step takes the least time. Among equals the one with the smallest largest
    /// share; beyond that as [`Placement::fewest_bytes`].
    ///
    /// # Errors
    /// As [`Placement::even`]; a time that is negative or not finite; more than 4096 virtual nodes.
    pub fn least_time(
        virtual_nodes: usize,
        ranks: usize,
        cost: &StepCost,
    ) -> Result<Self, PlanError> {
        cost.check()?;
        let search = Search::new(virtual_nodes, ranks)?;
        let least = search.least_largest();
        // For each number of subtrees only the smallest largest share matters. More subtrees are worth
        // a try while they may make it smaller, and the step shorter.
        let mut largest = virtual_nodes;
        let mut best = (f64::INFINITY, largest);
        for subtrees in 1.. {
            if cost.seconds(least, byte_ratio(subtrees)) > best.0 {
                break;
            }
            // There is one: the tree can be cut into any number of nodes.
            largest = search
                .smallest_largest(largest, subtrees)
                .unwrap_or(largest);
            let seconds = cost.seconds(largest, byte_ratio(subtrees));
            if seconds <= best.0 {
                best = (seconds, largest);
            }
            if largest == least {
                break;
            }
        }
        Self::fewest_bytes(virtual_nodes, ranks, best.1)
    }
}
