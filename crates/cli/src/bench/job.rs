//! What is measured, as plain data.

use burn_virtual::distributed::Reduce;
use burn_virtual::plan::{Placement, tree};

use super::BenchError;
use crate::resources::free_bytes;

/// Vectors of a rank beside those that it brings: the tensor that comes in, the one that goes out, what
/// is on its way.
const VECTORS: u128 = 4;

/// What is measured.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) reduce: Reduce,
    /// Each virtual node brings a vector.
    pub(super) placement: Placement,
    /// Numbers in a vector.
    pub(super) elements: usize,
    pub(super) iterations: usize,
    /// Iterations before those that are measured.
    pub(super) warmup: usize,
}

impl Job {
    pub(super) fn bytes(&self) -> usize {
        self.elements * size_of::<f32>()
    }

    /// The sums that a rank brings: one where its virtual nodes are aligned.
    pub(super) fn subtrees(&self, rank: usize) -> Vec<std::ops::Range<usize>> {
        tree::maximal_subtrees(self.placement.virtual_nodes(), self.placement.range(rank))
    }

    /// Refuses what would take more memory than is free: the system would let it begin, and kill it.
    pub(super) fn check_memory(&self, ranks_here: usize) -> Result<(), BenchError> {
        let ranks = 0..self.placement.ranks();
        let most = ranks.map(|rank| self.subtrees(rank).len()).max();
        // As much again for what each brings, that is made anew each time.
        let vectors = VECTORS + 2 * most.unwrap_or_default() as u128;
        let need = self.bytes() as u128 * vectors * ranks_here as u128;
        match free_bytes() {
            Some(free) if need > u128::from(free) => Err(BenchError::Memory { free, need }),
            _ => Ok(()),
        }
    }
}
