//! The ranks that train together, as one of them sees them.

use std::fmt;
use std::time::Duration;

use burn_virtual_plan::{Layout, Node, Partial, Placement};

use crate::call::{Buffers, Call};
use crate::header::Header;
use crate::{CallName, CollectiveError, Deadline, Operation, Transport, exchange, ordered};

/// How a group waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Generation of the group; greater each time it is formed anew over the same links. Messages
    /// of an earlier one are dropped.
    pub epoch: u64,
    /// The longest that a collective may take, from entering it to its result.
    pub timeout: Duration,
    /// The same for the first collective of the group: other ranks may still be compiling.
    pub first_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            epoch: 0,
            timeout: Duration::from_secs(30),
            first_timeout: Duration::from_secs(300),
        }
    }
}

/// One rank's membership in a group.
///
/// All ranks make the same calls in the same order. The first error on any rank closes the group
/// for all of them: the others get an error that says why instead of waiting for their deadline,
/// and every later call returns [`CollectiveError::Closed`] with that first reason.
pub struct Group {
    transport: Box<dyn Transport>,
    options: Options,
    sequence: u64,
    closed: Option<(usize, String)>,
    buffers: Buffers,
    slice: Option<ordered::Slice>,
    spare: Vec<Partial>,
}

impl Group {
    /// A group over the given transport.
    pub fn new(transport: Box<dyn Transport>, options: Options) -> Self {
        Self {
            transport,
            options,
            sequence: 0,
            closed: None,
            buffers: Buffers::default(),
            slice: None,
            spare: Vec::new(),
        }
    }

    /// This rank, in `0..world`.
    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// Number of ranks.
    pub fn world(&self) -> usize {
        self.transport.world()
    }

    /// Number of messages of earlier calls or epochs that were dropped.
    pub fn stale(&self) -> u64 {
        self.transport.stale()
    }

    /// Waits until every rank has entered the barrier.
    ///
    /// # Errors
    /// A rank is missing, gone, or runs another operation; the group is closed.
    pub fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.run(Header::barrier(), |call, _| exchange::barrier(call))
    }

    /// Replaces `bytes` on every rank by those of rank `root`; lengths need not agree before.
    ///
    /// # Errors
    /// As [`Group::barrier`]; `root` is no rank of the group, or not the same on every rank.
    pub fn broadcast(&mut self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CollectiveError> {
        self.run(Header::broadcast(root), |call, _| {
            exchange::broadcast(call, root, bytes)
        })
    }

    /// The sum over all virtual nodes along the tree, the same bits on every rank and for every
    /// placement. `nodes` are this rank's maximal subtrees in order, as its stack gave them.
    /// Absent segments of the result hold zeros; `None` if no virtual node contributed.
    ///
    /// # Errors
    /// As [`Group::barrier`]; a contribution that is not what `layout` and `placement` ask for;
    /// another step, layout or placement on some other rank.
    pub fn all_reduce(
        &mut self,
        step: u64,
        layout: &Layout,
        placement: &Placement,
        nodes: Vec<Node>,
    ) -> Result<Option<Partial>, CollectiveError> {
        let header = Header::all_reduce(step, layout, placement);
        self.run(header, |call, kept| {
            let (slice, spare) = kept;
            ordered::all_reduce(call, slice, layout, placement, nodes, spare)
        })
    }

    /// Buffers of nodes that the results of [`Group::all_reduce`] did not use, for
    /// [`burn_virtual_plan::Stack::recycle`]. Those that nobody takes are dropped at the next call.
    pub fn take_spares(&mut self) -> Vec<Partial> {
        std::mem::take(&mut self.spare)
    }

    /// Closes the group for all ranks because this one cannot go on; they read `reason`. Without
    /// effect if it is closed already.
    pub fn abort(&mut self, reason: &str) {
        if self.closed.is_none() {
            self.transport.close(reason);
            self.closed = Some((self.rank(), reason.to_owned()));
        }
    }

    /// Makes one call, and closes the group if it fails.
    fn run<T>(
        &mut self,
        header: Header,
        body: impl FnOnce(&mut Call<'_>, Kept<'_>) -> Result<T, CollectiveError>,
    ) -> Result<T, CollectiveError> {
        let operation = header.operation;
        let name = CallName {
            operation,
            step: (operation == Operation::AllReduce).then_some(header.step),
            sequence: self.sequence,
        };
        self.check_open(name)?;
        let timeout = match self.sequence {
            0 => self.options.first_timeout,
            _ => self.options.timeout,
        };
        self.sequence += 1;
        self.spare.clear();
        let mut call = Call {
            transport: &mut *self.transport,
            buffers: &mut self.buffers,
            name,
            epoch: self.options.epoch,
            header,
            deadline: Deadline::after(timeout),
        };
        let result = body(&mut call, (&mut self.slice, &mut self.spare));
        if let Err(error) = &result {
            self.shut(error);
        }
        result
    }

    fn check_open(&self, call: CallName) -> Result<(), CollectiveError> {
        match self.closed.clone() {
            None => Ok(()),
            Some((by, reason)) => Err(CollectiveError::Closed {
                rank: self.rank(),
                call,
                by,
                reason,
            }),
        }
    }

    fn shut(&mut self, error: &CollectiveError) {
        match error {
            CollectiveError::Closed { by, reason, .. } => {
                self.closed = Some((*by, reason.clone()));
            }
            error => self.abort(&error.to_string()),
        }
    }
}

/// What a group keeps from one all-reduce to the next.
type Kept<'a> = (&'a mut Option<ordered::Slice>, &'a mut Vec<Partial>);

impl fmt::Debug for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Group")
            .field("rank", &self.rank())
            .field("world", &self.world())
            .field("sequence", &self.sequence)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
