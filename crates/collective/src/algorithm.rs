#![doc = include_str!("README.md")]

use std::fmt;

use crate::Operation;

/// How a vector is summed over all ranks. Both are deterministic for one placement only: what is
/// added to what depends on the number of ranks, for the ring on the position in the vector too.
/// [`crate::Group::all_reduce`] is the one whose bits no placement changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The fewest bytes for every number of ranks, in `2(W - 1)` steps.
    Ring,
    /// As few bytes where the number of ranks is a power of two, in `2·log2 W` steps; elsewhere
    /// two more steps and up to twice the bytes.
    HalvingDoubling,
}

impl Algorithm {
    pub(crate) fn operation(self) -> Operation {
        match self {
            Self::Ring => Operation::Ring,
            Self::HalvingDoubling => Operation::HalvingDoubling,
        }
    }

    /// The operation of a mean.
    pub(crate) fn mean(self) -> Operation {
        match self {
            Self::Ring => Operation::RingMean,
            Self::HalvingDoubling => Operation::HalvingDoublingMean,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ring => "ring",
            Self::HalvingDoubling => "halving-doubling",
        })
    }
}
