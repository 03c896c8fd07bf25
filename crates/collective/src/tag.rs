//! What a message belongs to.

use std::cmp::Ordering;
use std::fmt;

/// A collective operation. The codes travel in headers: they never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Operation {
    /// Every rank waits for every other.
    Barrier = 1,
    /// One rank's bytes to all.
    Broadcast = 2,
    /// The sum over all virtual nodes to all.
    AllReduce = 3,
    /// The sum over all ranks to all, around a ring.
    Ring = 4,
    /// The sum over all ranks to all, by halving and doubling.
    HalvingDoubling = 5,
    /// The sum over all ranks, of each share to its rank.
    ReduceScatter = 6,
    /// Each rank's share to all.
    AllGather = 7,
    /// One rank's vector to all.
    BroadcastSlice = 8,
    /// Each rank's bytes to all.
    Gather = 9,
    /// The mean over all ranks to all, around a ring.
    RingMean = 10,
    /// The mean over all ranks to all, by halving and doubling.
    HalvingDoublingMean = 11,
}

impl Operation {
    /// The code that travels.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The operation of a code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        let all = [
            Self::Barrier,
            Self::Broadcast,
            Self::AllReduce,
            Self::Ring,
            Self::HalvingDoubling,
            Self::ReduceScatter,
            Self::AllGather,
            Self::BroadcastSlice,
            Self::Gather,
            Self::RingMean,
            Self::HalvingDoublingMean,
        ];
        all.into_iter().find(|operation| operation.code() == code)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::AllReduce => "all-reduce",
            Self::Ring => "ring all-reduce",
            Self::HalvingDoubling => "halving-doubling all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather => "all-gather",
            Self::BroadcastSlice => "slice broadcast",
            Self::Gather => "gather",
            Self::RingMean => "ring mean",
            Self::HalvingDoublingMean => "halving-doubling mean",
        })
    }
}

/// What a message belongs to: a receive takes the message of exactly its tag and sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Generation of the group: grows each time it is formed anew.
    pub epoch: u64,
    /// Number of the collective call within the epoch, counted alike on every rank.
    pub sequence: u64,
    /// The operation of the call.
    pub operation: Operation,
    /// Which message of the call, counted from 0 on each link; the last number is a notice's.
    pub part: u32,
}

/// The part of the message that says for whom its sender waits.
pub(crate) const NOTICE: u32 = u32::MAX;

/// How a message that has arrived relates to the one that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It is the one.
    Exact,
    /// It belongs to an earlier call or epoch, which is over: to be dropped and counted.
    Stale,
    /// It belongs to the same call, but its sender takes that for another operation: an error.
    Clash,
    /// It is another part of the call, or of a later one: to be kept.
    Later,
}

impl Tag {
    /// Whether the message is a notice, of a few bytes: it says for whom its sender waits. It is no
    /// data: counted neither among what was sent nor among what is stale.
    pub fn is_notice(&self) -> bool {
        self.part == NOTICE
    }

    /// Compares a message that has arrived, `got`, with the expected one, `self`.
    pub fn matches(&self, got: &Tag) -> Match {
        match (got.epoch, got.sequence).cmp(&(self.epoch, self.sequence)) {
            Ordering::Less => Match::Stale,
            Ordering::Greater => Match::Later,
            Ordering::Equal if got.operation != self.operation => Match::Clash,
            Ordering::Equal if got.part != self.part => Match::Later,
            Ordering::Equal => Match::Exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag {
        epoch: 2,
        sequence: 5,
        operation: Operation::AllReduce,
        part: 1,
    };

    #[test]
    fn message_is_matched_by_all_fields() {
        assert_eq!(TAG.matches(&TAG), Match::Exact);
        assert_eq!(TAG.matches(&Tag { part: 0, ..TAG }), Match::Later);
        assert_eq!(TAG.matches(&Tag { sequence: 6, ..TAG }), Match::Later);
        assert_eq!(TAG.matches(&Tag { sequence: 4, ..TAG }), Match::Stale);
        let operation = Operation::Barrier;
        assert_eq!(TAG.matches(&Tag { operation, ..TAG }), Match::Clash);
    }

    #[test]
    fn message_is_stale_when_epoch_is_older_whatever_its_sequence() {
        let (epoch, sequence) = (1, 100);
        assert_eq!(
            TAG.matches(&Tag {
                epoch,
                sequence,
                ..TAG
            }),
            Match::Stale
        );
    }

    #[test]
    fn code_round_trips_for_every_operation() {
        let known = (0..=u8::MAX).filter_map(Operation::from_code);
        assert_eq!(
            known.map(Operation::code).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
        );
    }
}
