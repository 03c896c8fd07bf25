//! One collective call as one rank sees it: what it sends to whom, and the checks that every
//! message passes before its contents are looked at.

use burn_virtual_plan::PlanError;

use crate::header::Header;
use crate::{CallName, CollectiveError, Deadline, Tag, Transport, TransportError};

/// Payload buffers that outlive a call, so that messages of the same size allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

/// One call. All its messages share one deadline.
pub(crate) struct Call<'a> {
    pub(crate) transport: &'a mut dyn Transport,
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) name: CallName,
    pub(crate) epoch: u64,
    pub(crate) header: Header,
    pub(crate) deadline: Deadline,
}

impl Call<'_> {
    pub(crate) fn rank(&self) -> usize {
        self.transport.rank()
    }

    pub(crate) fn world(&self) -> usize {
        self.transport.world()
    }

    /// Sends a message to every other rank, the header first and then what `write` adds. Starts
    /// with the next rank, so that not all ranks send to the same one at once.
    pub(crate) fn scatter(
        &mut self,
        part: u32,
        write: impl Fn(usize, &mut Vec<u8>),
    ) -> Result<(), CollectiveError> {
        let (rank, world, tag) = (self.rank(), self.world(), self.tag(part));
        for to in (rank + 1..world).chain(0..rank) {
            let out = &mut self.buffers.outgoing;
            out.clear();
            self.header.encode(out);
            write(to, out);
            let sent = self.transport.send(to, tag, out, self.deadline);
            sent.map_err(|fault| self.fault(fault, &[]))?;
        }
        Ok(())
    }

    /// Receives a message from each of `senders`, in that order, and hands what follows its header
    /// to `read`. For this rank itself, if it is among them, `read` gets `None`.
    pub(crate) fn gather(
        &mut self,
        part: u32,
        senders: &[usize],
        mut read: impl FnMut(usize, Option<&[u8]>) -> Result<(), String>,
    ) -> Result<(), CollectiveError> {
        for (index, &from) in senders.iter().enumerate() {
            if from == self.rank() {
                read(from, None).map_err(|problem| self.malformed(from, problem))?;
                continue;
            }
            self.receive(from, part)
                .map_err(|fault| self.fault_while_waiting(fault, part, &senders[index..]))?;
            self.open(from, &mut read)?;
        }
        Ok(())
    }

    /// Checks the header of the message that was just received, and reads the rest.
    fn open(
        &self,
        from: usize,
        read: impl FnOnce(usize, Option<&[u8]>) -> Result<(), String>,
    ) -> Result<(), CollectiveError> {
        let malformed = |problem| self.malformed(from, problem);
        let (header, body) = Header::decode(&self.buffers.incoming).map_err(malformed)?;
        if let Some(difference) = self.header.difference(&header) {
            return Err(CollectiveError::Mismatch {
                rank: self.rank(),
                from,
                call: self.name,
                field: difference.field,
                expected: difference.expected,
                got: difference.got,
            });
        }
        read(from, Some(body)).map_err(malformed)
    }

    fn receive(&mut self, from: usize, part: u32) -> Result<(), TransportError> {
        let (tag, buffer) = (self.tag(part), &mut self.buffers.incoming);
        self.transport.receive(from, tag, buffer, self.deadline)
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
    /// deadline has passed, so this does not wait.
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
            missing.extend(others.filter(|&&rank| self.receive(rank, part).is_err()));
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

    fn malformed(&self, from: usize, problem: String) -> CollectiveError {
        CollectiveError::Malformed {
            rank: self.rank(),
            from,
            call: self.name,
            problem,
        }
    }
}
