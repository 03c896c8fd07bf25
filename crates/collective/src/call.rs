//! One collective call as one rank sees it: what it sends to whom, and the checks that every
//! message passes before its contents are looked at.
//!
//! The first message of a call from one rank to another, [`FIRST`], begins with the header. Those
//! that follow it on the same link are bare: they are of the same call (the tag says so), and what
//! their sender takes the call for was compared when the first one came. A message is taken only
//! after the first one from the same rank.

use std::sync::Arc;
use std::time::Duration;

use burn_virtual_plan::PlanError;
use bytemuck::Pod;

use crate::header::Header;
use crate::spin::Spin;
use crate::{
    CallName, CollectiveError, Deadline, Lender, Shares, Tag, Transport, TransportError, wire,
};

/// Number of the first message from one rank to another.
pub(crate) const FIRST: u32 = 0;

/// A part that no message has: asking for it shows what else has arrived, and takes nothing.
const NONE: u32 = u32::MAX;

/// How long a rank waits before it looks whether a rank that it doesn't wait for runs another
/// operation.
const PATIENCE: Duration = Duration::from_millis(50);

/// Buffers that outlive a call, so that messages of the same size allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    aligned: wire::Aligned,
    spin: Spin,
    /// Sums of elements that are too narrow to be summed themselves.
    pub(crate) wide: Vec<f32>,
}

/// One call. All its messages share one deadline.
pub(crate) struct Call<'a> {
    transport: &'a mut dyn Transport,
    lender: Option<Arc<dyn Lender>>,
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) name: CallName,
    epoch: u64,
    header: Header,
    // The deadline, and the moment at which this rank gives up: later in a relay.
    deadline: Deadline,
    limit: Deadline,
    grace: Duration,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        transport: &'a mut dyn Transport,
        buffers: &'a mut Buffers,
        name: CallName,
        epoch: u64,
        header: Header,
        timeout: Duration,
    ) -> Self {
        let deadline = Deadline::after(timeout);
        Self {
            lender: transport.lender(),
            transport,
            buffers,
            name,
            epoch,
            header,
            deadline,
            limit: deadline,
            grace: timeout / 8,
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.transport.rank()
    }

    pub(crate) fn world(&self) -> usize {
        self.transport.world()
    }

    /// From here on this rank waits for messages that their senders can only send once they have
    /// heard from others. It gives up a little later, so that the rank that waits for the culprit
    /// itself is the one that says so.
    pub(crate) fn relay(&mut self) {
        if self.limit == self.deadline {
            let left = self.deadline.remaining().unwrap_or_default();
            self.limit = Deadline::after(left.saturating_add(self.grace));
        }
    }

    /// Sends message `part` to rank `to`.
    pub(crate) fn send(
        &mut self,
        to: usize,
        part: u32,
        body: &[u8],
    ) -> Result<(), CollectiveError> {
        if part == FIRST {
            return self.send_first(to, |out| out.extend_from_slice(body));
        }
        let sent = self.transport.send(to, self.tag(part), body, self.limit);
        sent.map_err(|fault| self.fault(fault, &[to]))
    }

    /// Whether [`Call::lend`] saves a copy.
    pub(crate) fn lends(&self) -> bool {
        self.lender.is_some()
    }

    /// Sends message `part` to rank `to`, which may read it where it lies while `meanwhile` runs.
    pub(crate) fn lend(
        &mut self,
        to: usize,
        part: u32,
        body: &[u8],
        meanwhile: impl FnOnce(&mut Self) -> Result<(), CollectiveError>,
    ) -> Result<(), CollectiveError> {
        let lender = match self.lender.clone() {
            // A first message is put together from parts.
            Some(lender) if part != FIRST => lender,
            _ => {
                self.send(to, part, body)?;
                return meanwhile(self);
            }
        };
        let (mut meanwhile, mut result) = (Some(meanwhile), Ok(()));
        let lent = lender.lend(to, self.tag(part), body, &mut || {
            if let Some(meanwhile) = meanwhile.take() {
                result = meanwhile(self);
            }
        });
        lent.map_err(|fault| self.fault(fault, &[to]))?;
        result
    }

    /// Sends the first message to rank `to`: the header, and then what `write` adds.
    pub(crate) fn send_first(
        &mut self,
        to: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CollectiveError> {
        let (tag, out) = (self.tag(FIRST), &mut self.buffers.outgoing);
        out.clear();
        self.header.encode(out);
        write(out);
        let sent = self.transport.send(to, tag, out, self.limit);
        sent.map_err(|fault| self.fault(fault, &[to]))
    }

    /// Sends the first message to every other rank, starting with the next one, so that not all
    /// ranks send to the same one at once.
    pub(crate) fn scatter(
        &mut self,
        write: impl Fn(usize, &mut Vec<u8>),
    ) -> Result<(), CollectiveError> {
        let (rank, world) = (self.rank(), self.world());
        (rank + 1..world)
            .chain(0..rank)
            .try_for_each(|to| self.send_first(to, |out| write(to, out)))
    }

    /// Receives message `part` from rank `from` and hands its body to `read`, with room for values
    /// that cannot be read in place.
    pub(crate) fn take(
        &mut self,
        from: usize,
        part: u32,
        read: impl FnOnce(&[u8], &mut wire::Aligned) -> Result<(), String>,
    ) -> Result<(), CollectiveError> {
        let mut room = std::mem::take(&mut self.buffers.aligned);
        let taken = self.take_next(part, &[from], |body| read(body, &mut room));
        self.buffers.aligned = room;
        taken
    }

    /// Receives message `part` from rank `from`, which consists of `count` values.
    pub(crate) fn take_values<T: Pod>(
        &mut self,
        from: usize,
        part: u32,
        count: usize,
        merge: impl FnOnce(&[T]),
    ) -> Result<(), CollectiveError> {
        self.take(from, part, |mut body, room| {
            merge(wire::take_values(&mut body, count, room)?);
            wire::finish(body)
        })
    }

    /// Receives message `part` from each of `senders`, in that order, and hands its body to `read`,
    /// with room for values that cannot be read in place. For this rank itself, if it is among them,
    /// `read` gets `None`.
    pub(crate) fn gather(
        &mut self,
        part: u32,
        senders: &[usize],
        mut read: impl FnMut(usize, Option<&[u8]>, &mut wire::Aligned) -> Result<(), String>,
    ) -> Result<(), CollectiveError> {
        let mut room = std::mem::take(&mut self.buffers.aligned);
        for (index, &from) in senders.iter().enumerate() {
            if from == self.rank() {
                read(from, None, &mut room).map_err(|problem| self.malformed(from, problem))?;
            } else {
                let pending = &senders[index..];
                self.take_next(part, pending, |body| read(from, Some(body), &mut room))?;
            }
        }
        self.buffers.aligned = room;
        Ok(())
    }

    /// Receives message `part` from the first of the ranks that are still to be heard.
    fn take_next(
        &mut self,
        part: u32,
        pending: &[usize],
        read: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<(), CollectiveError> {
        let from = pending[0];
        let (mut read, mut done) = (Some(read), Ok(()));
        self.wait(from, part, &mut |body| {
            if let Some(read) = read.take() {
                done = read(body);
            }
        })
        .map_err(|fault| self.fault_while_waiting(fault, part, pending))?;
        let malformed = |problem| self.malformed(from, problem);
        let Some(read) = read else {
            return done.map_err(malformed); // where it lay with its sender
        };
        let mut body = &self.buffers.incoming[..];
        if part == FIRST {
            let (header, rest) = Header::decode(body).map_err(malformed)?;
            self.compare(from, &header)?;
            body = rest;
        }
        read(body).map_err(malformed)
    }

    fn compare(&self, from: usize, header: &Header) -> Result<(), CollectiveError> {
        let Some(difference) = self.header.difference(header) else {
            return Ok(());
        };
        Err(CollectiveError::Mismatch {
            rank: self.rank(),
            from,
            call: self.name,
            field: difference.field,
            expected: difference.expected,
            got: difference.got,
        })
    }

    /// Waits for a message. A rank that runs another operation may send to others than those that
    /// wait for it: now and then this looks for such a message from anybody.
    fn wait(
        &mut self,
        from: usize,
        part: u32,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), TransportError> {
        let now = Deadline::after(Duration::ZERO);
        let mut spin = std::mem::take(&mut self.buffers.spin);
        let found = spin.run(|| match self.receive(from, part, now, read) {
            Err(TransportError::Timeout { .. }) => None,
            result => Some(result),
        });
        self.buffers.spin = spin;
        if let Some(result) = found {
            return result;
        }
        loop {
            let last = self.limit.remaining().is_none_or(|left| left <= PATIENCE);
            match self.receive(from, part, self.limit.at_most(PATIENCE), read) {
                Err(TransportError::Timeout { .. }) => {}
                result => return result,
            }
            self.look_around()?;
            if last {
                let waited = self.deadline.elapsed();
                return Err(TransportError::Timeout { from, waited });
            }
        }
    }

    fn look_around(&mut self) -> Result<(), TransportError> {
        let now = Deadline::after(Duration::ZERO);
        let rank = self.rank();
        for other in (0..self.world()).filter(|&other| other != rank) {
            if let Err(clash @ TransportError::Operation { .. }) =
                self.receive(other, NONE, now, &mut |_| {})
            {
                return Err(clash);
            }
        }
        Ok(())
    }

    /// Puts a message where it is read from, unless it is lent: then `read` has it.
    fn receive(
        &mut self,
        from: usize,
        part: u32,
        until: Deadline,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), TransportError> {
        let (tag, buffer) = (self.tag(part), &mut self.buffers.incoming);
        let received = self
            .transport
            .receive_or_read(from, tag, buffer, until, read);
        received.map(|_| ())
    }

    fn tag(&self, part: u32) -> Tag {
        Tag {
            epoch: self.epoch,
            sequence: self.name.sequence,
            operation: self.name.operation,
            part,
        }
    }

    /// After a timeout, finds out which of the ranks that were still to be heard have not sent: the
    /// limit has passed, so this does not wait.
    fn fault_while_waiting(
        &mut self,
        fault: TransportError,
        part: u32,
        pending: &[usize],
    ) -> CollectiveError {
        let mut missing = Vec::new();
        if let TransportError::Timeout { from, .. } = fault {
            missing.push(from);
            let own = self.rank();
            let others = pending.iter().filter(|&&rank| rank != from && rank != own);
            missing.extend(
                others.filter(|&&rank| self.receive(rank, part, self.limit, &mut |_| {}).is_err()),
            );
        }
        self.fault(fault, &missing)
    }

    fn fault(&self, fault: TransportError, missing: &[usize]) -> CollectiveError {
        let (rank, call) = (self.rank(), self.name);
        match fault {
            TransportError::Timeout { waited, .. } => CollectiveError::Timeout {
                rank,
                call,
                missing: missing.to_vec(),
                waited,
            },
            TransportError::Closed { by, reason } => CollectiveError::Closed {
                rank,
                call,
                by,
                reason,
            },
            TransportError::Operation {
                from,
                expected,
                got,
            } => CollectiveError::Mismatch {
                rank,
                from,
                call,
                field: "operation",
                expected: expected.to_string(),
                got: got.to_string(),
            },
            source => CollectiveError::Transport { rank, call, source },
        }
    }

    pub(crate) fn plan(&self, source: PlanError) -> CollectiveError {
        CollectiveError::Plan {
            rank: self.rank(),
            call: self.name,
            source,
        }
    }

    /// Refuses a root that is no rank.
    pub(crate) fn check_root(&self, root: usize) -> Result<(), CollectiveError> {
        let (rank, call, world) = (self.rank(), self.name, self.world());
        if root < world {
            return Ok(());
        }
        Err(CollectiveError::Root {
            rank,
            call,
            root,
            world,
        })
    }

    /// Refuses shares of another vector or for another group.
    pub(crate) fn check_shares(
        &self,
        shares: &Shares,
        elements: usize,
    ) -> Result<(), CollectiveError> {
        if (shares.ranks(), shares.elements()) == (self.world(), elements) {
            return Ok(());
        }
        Err(CollectiveError::Shares {
            rank: self.rank(),
            call: self.name,
            expected_elements: elements,
            expected_ranks: self.world(),
            elements: shares.elements(),
            ranks: shares.ranks(),
        })
    }

    fn malformed(&self, from: usize, problem: String) -> CollectiveError {
        CollectiveError::Malformed {
            rank: self.rank(),
            from,
            call: self.name,
            problem,
        }
    }
}
