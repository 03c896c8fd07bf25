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

use crate::cube::Step;
use crate::header::Header;
use crate::roll::{Roll, Wait};
use crate::shape::Shape;
use crate::tag::NOTICE;
use crate::{
    CallName, CollectiveError, Deadline, Lender, Options, Shares, Stall, Tag, Transport,
    TransportError, wire,
};

/// Number of the first message from one rank to another.
pub(crate) const FIRST: u32 = 0;

/// How long a rank waits before it looks what the others do, and how often after that.
const PATIENCE: Duration = Duration::from_millis(50);

/// Time for a notice to be handed over; where it takes longer, it is tried again.
const MOMENT: Duration = Duration::from_millis(5);

/// Buffers that outlive a call, so that messages of the same size allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    aligned: wire::Aligned,
    roll: Roll,
    /// The shape of the vector, where the caller gave one.
    pub(crate) shape: Option<Shape>,
    /// Sums of elements that are too narrow to be summed themselves.
    pub(crate) wide: Vec<f32>,
    /// The steps of halving.
    pub(crate) steps: Vec<Step>,
    /// Even shares of the last vector that went around a ring.
    pub(crate) shares: Option<Shares>,
}

/// One call. All its messages share one deadline.
pub(crate) struct Call<'a> {
    transport: &'a mut dyn Transport,
    lender: Option<Arc<dyn Lender>>,
    pub(crate) buffers: &'a mut Buffers,
    options: &'a Options,
    pub(crate) name: CallName,
    header: Header,
    span: Span,
    // The moment at which this rank gives up: later than the deadline in a relay.
    limit: Deadline,
    // When to report, from the beginning of the span on.
    report_at: Duration,
}

/// The time that a call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    deadline: Deadline,
    timeout: Duration,
}

impl Span {
    /// One that begins now.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            deadline: Deadline::after(timeout),
            timeout,
        }
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        transport: &'a mut dyn Transport,
        buffers: &'a mut Buffers,
        options: &'a Options,
        name: CallName,
        header: Header,
        span: Span,
    ) -> Self {
        buffers.roll.begin(transport.world());
        Self {
            lender: transport.lender(),
            transport,
            buffers,
            options,
            name,
            header,
            span,
            limit: span.deadline,
            report_at: span.deadline.elapsed().saturating_add(options.stall),
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
        let Span { deadline, timeout } = self.span;
        if self.limit == deadline {
            let left = deadline.remaining().unwrap_or_default();
            self.limit = Deadline::after(left.saturating_add(timeout / 8));
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
        self.post(to, part, body)
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
        lent.map_err(|fault| self.fault(fault, to))?;
        result
    }

    /// Sends the first message to rank `to`: the header, and then what `write` adds.
    pub(crate) fn send_first(
        &mut self,
        to: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CollectiveError> {
        let mut out = std::mem::take(&mut self.buffers.outgoing);
        out.clear();
        self.header.encode(&mut out);
        if let Some(shape) = &self.buffers.shape {
            shape.encode(&mut out);
        }
        write(&mut out);
        let sent = self.post(to, FIRST, &out);
        self.buffers.outgoing = out;
        sent
    }

    /// Hands a message over, however long the other rank takes to take it: now and then this looks
    /// what the others do.
    fn post(&mut self, to: usize, part: u32, payload: &[u8]) -> Result<(), CollectiveError> {
        let tag = self.tag(part);
        loop {
            let until = self.limit.at_most(PATIENCE);
            let fault = match self.transport.send(to, tag, payload, until) {
                Ok(()) => return Ok(()),
                Err(TransportError::Stuck { .. }) if self.limit.remaining().is_some() => {
                    match self.look_around(to) {
                        Ok(()) => continue,
                        Err(fault) => fault,
                    }
                }
                Err(fault) => fault,
            };
            return Err(self.fault(fault, to));
        }
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
        let taken = self.take_next(part, from, |body| read(body, &mut room));
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
        for &from in senders {
            if from == self.rank() {
                read(from, None, &mut room).map_err(|problem| self.malformed(from, problem))?;
            } else {
                self.take_next(part, from, |body| read(from, Some(body), &mut room))?;
            }
        }
        self.buffers.aligned = room;
        Ok(())
    }

    fn take_next(
        &mut self,
        part: u32,
        from: usize,
        read: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<(), CollectiveError> {
        let (mut read, mut done) = (Some(read), Ok(()));
        self.wait(from, part, &mut |body| {
            if let Some(read) = read.take() {
                done = read(body);
            }
        })
        .map_err(|fault| self.fault(fault, from))?;
        self.buffers.roll.note_met(from);
        let malformed = |problem| self.malformed(from, problem);
        let Some(read) = read else {
            return done.map_err(malformed); // it was lent
        };
        let mut body = &self.buffers.incoming[..];
        if part == FIRST {
            let (header, rest) = Header::decode(body).map_err(malformed)?;
            let (shape, rest) = header.split_shape(rest).map_err(malformed)?;
            self.compare(from, &header, shape.as_ref())?;
            body = rest;
        }
        read(body).map_err(malformed)
    }

    fn compare(
        &self,
        from: usize,
        header: &Header,
        shape: Option<&Shape>,
    ) -> Result<(), CollectiveError> {
        let own = self.buffers.shape.as_ref();
        let Some(difference) = self.header.difference(own, header, shape) else {
            return Ok(());
        };
        Err(CollectiveError::Mismatch {
            rank: self.rank(),
            from,
            call: self.name,
            field: difference.field,
            expected: difference.expected.into(),
            got: difference.got.into(),
        })
    }

    /// Waits for a message; now and then this looks what the others do.
    fn wait(
        &mut self,
        from: usize,
        part: u32,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), TransportError> {
        loop {
            match self.receive(from, part, self.limit.at_most(PATIENCE), read) {
                Err(TransportError::Timeout { .. }) => {}
                result => return result,
            }
            self.look_around(from)?;
            if self.limit.remaining().is_none() {
                let waited = self.elapsed();
                return Err(TransportError::Timeout { from, waited });
            }
        }
    }

    /// What a rank does now and then while it waits for rank `awaited`: it takes the notices of the
    /// others, sends its own, and reports. A rank that runs another operation may send to others
    /// than those that wait for it: a message of such a one shows here.
    fn look_around(&mut self, awaited: usize) -> Result<(), TransportError> {
        let now = Deadline::after(Duration::ZERO);
        for other in self.others() {
            loop {
                match self.receive(other, NOTICE, now, &mut |_| {}) {
                    Ok(()) => self.take_notice(other),
                    Err(clash @ TransportError::Operation { .. }) => return Err(clash),
                    Err(_) => break, // nothing yet, or what a wait for this rank would say
                }
            }
        }
        self.give_notice(awaited);
        self.report(awaited);
        Ok(())
    }

    fn take_notice(&mut self, from: usize) {
        if let Some(wait) = Wait::decode(&self.buffers.incoming, self.world()) {
            self.buffers.roll.note_waits(from, wait);
        }
    }

    /// Tells the others for whom this rank waits, once it does so for long, or others do. Half of the
    /// time after which a rank must know is left for that.
    fn give_notice(&mut self, awaited: usize) {
        let long = self.options.stall.min(self.span.timeout) / 2;
        if self.elapsed() < long && !self.buffers.roll.someone_waits() {
            return;
        }
        let wait = self.wait_for(awaited);
        for to in self.others() {
            if self.buffers.roll.is_told(to, wait) {
                continue;
            }
            let (tag, until) = (self.tag(NOTICE), Deadline::after(MOMENT));
            match self.transport.send(to, tag, &wait.encode(), until) {
                Err(TransportError::Stuck { .. }) => {} // tried again the next time
                _ => self.buffers.roll.note_told(to, wait),
            }
        }
    }

    fn wait_for(&self, awaited: usize) -> Wait {
        Wait {
            on: awaited,
            met: self.buffers.roll.is_met(awaited) || self.has_sent(awaited),
        }
    }

    /// Whether something of this call, or of a later one, has come from a rank and was not taken yet.
    fn has_sent(&self, rank: usize) -> bool {
        self.transport.arrived(rank) >= Some((self.options.epoch, self.name.sequence))
    }

    fn report(&mut self, awaited: usize) {
        let waited = self.elapsed();
        if waited < self.report_at {
            return;
        }
        self.report_at = waited.saturating_add(self.options.stall);
        let missing = self.missing(awaited);
        let here = (0..self.world()).filter(|rank| !missing.contains(rank));
        self.options.on_stall.report(&Stall {
            rank: self.rank(),
            call: self.name,
            waited,
            here: here.collect(),
            missing,
        });
    }

    /// The ranks that keep this one waiting, as far as it knows; it waits for rank `awaited`.
    fn missing(&self, awaited: usize) -> Vec<usize> {
        let (own, wait) = (self.rank(), self.wait_for(awaited));
        let roll = &self.buffers.roll;
        roll.missing(own, wait, |rank| self.has_sent(rank))
    }

    /// All ranks but this one.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, world) = (self.rank(), self.world());
        (0..world).filter(move |&other| other != rank)
    }

    fn elapsed(&self) -> Duration {
        self.span.deadline.elapsed()
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
            epoch: self.options.epoch,
            sequence: self.name.sequence,
            operation: self.name.operation,
            part,
        }
    }

    /// What a fault means that was met while this rank waited for rank `awaited`.
    fn fault(&self, fault: TransportError, awaited: usize) -> CollectiveError {
        let (rank, call) = (self.rank(), self.name);
        match fault {
            TransportError::Timeout { .. } | TransportError::Stuck { .. } => {
                CollectiveError::Timeout {
                    rank,
                    call,
                    missing: self.missing(awaited),
                    waited: self.elapsed(),
                }
            }
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
                expected: expected.to_string().into(),
                got: got.to_string().into(),
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

    /// Refuses a shape of another number of elements.
    pub(crate) fn check_shape(&self, elements: u64) -> Result<(), CollectiveError> {
        match &self.buffers.shape {
            Some(shape) if shape.elements() != Some(elements) => Err(CollectiveError::Shape {
                rank: self.rank(),
                call: self.name,
                elements,
                shape: shape.to_string(),
            }),
            _ => Ok(()),
        }
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
