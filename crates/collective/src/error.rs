//! What can go wrong between ranks.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use burn_virtual_plan::PlanError;

use crate::{Operation, Work};

/// A message that could not be sent or received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// There is no such other rank in the group.
    #[error("rank {rank} has no link to rank {other} in a world of {world}")]
    NoLink {
        /// This rank.
        rank: usize,
        /// The rank asked for.
        other: usize,
        /// Ranks in the group.
        world: usize,
    },
    /// The deadline passed.
    #[error("no message from rank {from} within {waited:?}")]
    Timeout {
        /// The rank waited for.
        from: usize,
        /// Time since the deadline was set.
        waited: Duration,
    },
    /// The other rank, or the way to it, did not take a message in time: a stopped process, or a
    /// network that drops. In a collective, this becomes [`CollectiveError::Timeout`].
    #[error("rank {to} took {written} of {bytes} bytes within {waited:?}")]
    Stuck {
        /// The rank sent to.
        to: usize,
        /// Bytes that were written.
        written: u64,
        /// Bytes that there were, with those that the transport adds.
        bytes: u64,
        /// Time since the deadline was set.
        waited: Duration,
    },
    /// The message is longer than the transport lets it be.
    #[error("message of {bytes} bytes to rank {to}: expected at most {limit}")]
    TooLong {
        /// The rank sent to.
        to: usize,
        /// Bytes of the message.
        bytes: u64,
        /// The most that the transport takes.
        limit: u64,
    },
    /// The other rank left the group.
    #[error("rank {from} is gone: {reason}")]
    Gone {
        /// The rank that left.
        from: usize,
        /// How it left.
        reason: String,
    },
    /// Some rank closed the group for all.
    #[error("closed by rank {by}: {reason}")]
    Closed {
        /// The rank that closed it.
        by: usize,
        /// Its reason.
        reason: String,
    },
    /// The other rank runs another operation in the same call.
    #[error("rank {from} runs another operation: expected {expected}, got {got}")]
    Operation {
        /// The other rank.
        from: usize,
        /// This rank's operation.
        expected: Operation,
        /// The other rank's operation.
        got: Operation,
    },
}

/// Which collective call an error belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName {
    /// The operation.
    pub operation: Operation,
    /// What it is part of, where it belongs to a step.
    pub work: Option<Work>,
    /// Number of the call within the group's epoch, from 0.
    pub sequence: u64,
}

impl fmt::Display for CallName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            work,
            sequence,
        } = self;
        match work {
            Some(Work { step, bucket, .. }) => {
                write!(
                    formatter,
                    "{operation} of step {step}, bucket {bucket}, call {sequence}"
                )
            }
            None => write!(formatter, "{operation}, call {sequence}"),
        }
    }
}

fn ranks(ranks: &[usize]) -> String {
    let ranks: Vec<String> = ranks.iter().map(|rank| format!("rank {rank}")).collect();
    ranks.join(", ")
}

/// A collective that did not take place. The group is closed after any of them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// Some ranks did not enter the call, or stopped in it.
    #[error(
        "rank {rank}: {call}: no message from {} within {waited:?}",
        ranks(missing)
    )]
    Timeout {
        /// This rank.
        rank: usize,
        /// The call.
        call: CallName,
        /// Every rank that was waited for, whether by this rank or by those that it waited for.
        missing: Vec<usize>,
        /// Time since the call began.
        waited: Duration,
    },
    /// Two ranks do not mean the same call.
    #[error("rank {rank}: {call}: rank {from} has another {field}: expected {expected}, got {got}")]
    Mismatch {
        /// This rank.
        rank: usize,
        /// The rank that differs.
        from: usize,
        /// The call, as this rank sees it.
        call: CallName,
        /// What differs.
        field: &'static str,
        /// This rank's value.
        expected: Box<str>,
        /// The other rank's value.
        got: Box<str>,
    },
    /// A message that its header does not describe.
    #[error("rank {rank}: {call}: malformed message from rank {from}: {problem}")]
    Malformed {
        /// This rank.
        rank: usize,
        /// The sender.
        from: usize,
        /// The call.
        call: CallName,
        /// What is wrong with it.
        problem: String,
    },
    /// A message could not be sent or received.
    #[error("rank {rank}: {call}: {source}")]
    Transport {
        /// This rank.
        rank: usize,
        /// The call.
        call: CallName,
        /// The fault.
        source: TransportError,
    },
    /// The caller's contribution does not fit the layout or the tree.
    #[error("rank {rank}: {call}: {source}")]
    Plan {
        /// This rank.
        rank: usize,
        /// The call.
        call: CallName,
        /// The fault.
        source: PlanError,
    },
    /// The caller's nodes are not the maximal subtrees of its range.
    #[error("rank {rank}: {call}: expected the nodes {expected:?}, got {got:?}")]
    Nodes {
        /// This rank.
        rank: usize,
        /// The call.
        call: CallName,
        /// The nodes that the placement asks for.
        expected: Vec<Range<usize>>,
        /// The nodes given.
        got: Vec<Range<usize>>,
    },
    /// The placement is for another number of ranks.
    #[error("rank {rank}: {call}: expected a placement of {expected} ranks, got {got}")]
    World {
        /// This rank.
        rank: usize,
        /// The call.
        call: CallName,
        /// Ranks in the group.
        expected: usize,
        /// Ranks in the placement.
        got: usize,
    },
    /// The shares are for another number of ranks, or another vector.
    #[error(
        "rank {rank}: {call}: expected shares of {expected_elements} elements for \
         {expected_ranks} ranks, got {elements} for {ranks}"
    )]
    Shares {
        /// This rank.
        rank: usize,
        /// The call.
        call: CallName,
        /// Elements of the vector.
        expected_elements: usize,
        /// Ranks in the group.
        expected_ranks: usize,
        /// Elements of the shares.
        elements: usize,
        /// Ranks of the shares.
        ranks: usize,
    },
    /// The shape is of another number of elements.
    #[error("rank {rank}: {call}: expected a shape of {elements} elements, got {shape}")]
    Shape {
        /// This rank.
        rank: usize,
        /// The call.
        call: CallName,
        /// Elements of the vector.
        elements: u64,
        /// The shape given.
        shape: String,
    },
    /// The root of a broadcast is no rank of the group.
    #[error("rank {rank}: {call}: expected a root below {world}, got {root}")]
    Root {
        /// This rank.
        rank: usize,
        /// The call.
        call: CallName,
        /// The root given.
        root: usize,
        /// Ranks in the group.
        world: usize,
    },
    /// The group was closed before or during the call.
    #[error("rank {rank}: {call}: the group was closed by rank {by}: {reason}")]
    Closed {
        /// This rank.
        rank: usize,
        /// The call.
        call: CallName,
        /// The rank that closed it.
        by: usize,
        /// Why.
        reason: String,
    },
}
