//! The seam between collectives and what carries their messages.

use std::sync::Arc;

use crate::{Deadline, Tag, TransportError};

/// Tagged messages between the ranks of one group. One value is one rank's end.
///
/// What an implementation promises:
/// - messages from one rank to another arrive whole, unaltered and in the order of sending;
/// - [`Transport::send`] takes the payload over and does not wait for the receiver to ask for it:
///   a collective may have all ranks send before any of them receives;
/// - no call waits past its deadline, and a waiting rank is woken when the rank that it waits for
///   is gone or when any rank closes the group;
/// - what had arrived before such a fault can still be received, so that ranks which have all that
///   they need finish a call that others finished too.
pub trait Transport: Send {
    /// This rank, in `0..world`.
    fn rank(&self) -> usize;

    /// Number of ranks in the group.
    fn world(&self) -> usize;

    /// Hands `payload` over for rank `to`. `Ok` means taken over, not delivered: that `to` is gone
    /// may only show at the next receive. After [`TransportError::Stuck`] the same message may be
    /// sent again, and goes on where it stopped; of others, only notices ([`Tag::is_notice`]) may be
    /// tried meanwhile.
    ///
    /// # Errors
    /// `to` is no other rank of the group; the deadline passed; the link is broken.
    fn send(
        &mut self,
        to: usize,
        tag: Tag,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<(), TransportError>;

    /// Waits for the message of `tag` from rank `from` and puts it in `buffer` in place of what was
    /// there. With a deadline that has passed, takes it only if it has arrived. Stale messages
    /// ([`crate::Match::Stale`]) are dropped and counted. After an error, `buffer` is unspecified.
    ///
    /// # Errors
    /// `from` is no other rank of the group, is gone, or did not send in time; it runs another
    /// operation in this call; the group was closed.
    fn receive(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<(), TransportError>;

    /// As [`Transport::receive`], for a message that may be lent (see [`Lender`]): calls `read` with it
    /// where it lies, and leaves `buffer` as it is; true if it did. The sender waits until `read`
    /// returns, whatever its deadline: `read` must not wait for anything, least of all for the sender.
    /// A transport that lends nothing leaves this as it is.
    ///
    /// # Errors
    /// As [`Transport::receive`].
    fn receive_or_read(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
        _read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, TransportError> {
        self.receive(from, tag, buffer, deadline).map(|()| false)
    }

    /// Where the ranks share memory, what lends messages to others instead of copying them; with it
    /// [`Transport::receive_or_read`] is worth being called.
    fn lender(&self) -> Option<Arc<dyn Lender>> {
        None
    }

    /// The latest call, as its epoch and number, of which a message from rank `from` is there to be
    /// received. A transport that cannot tell says that there is none: it helps to name those who
    /// are missing, and decides nothing else.
    fn arrived(&self, _from: usize) -> Option<(u64, u64)> {
        None
    }

    /// Closes the group for all ranks, with a reason that they will read. The first reason stays.
    fn close(&mut self, reason: &str);

    /// Number of stale messages dropped so far.
    fn stale(&self) -> u64;

    /// What this rank has sent so far.
    fn sent(&self) -> Sent;

    /// Refuses a rank that this one has no link to.
    ///
    /// # Errors
    /// `other` is this rank itself, or no rank of the group.
    fn check_link(&self, other: usize) -> Result<(), TransportError> {
        check_link(self.rank(), self.world(), other)
    }
}

pub(crate) fn check_link(rank: usize, world: usize, other: usize) -> Result<(), TransportError> {
    if other == rank || other >= world {
        return Err(TransportError::NoLink { rank, other, world });
    }
    Ok(())
}

/// Sends messages of one rank as [`Transport::send`] does, without a copy where it can.
pub trait Lender: Send + Sync {
    /// Sends `payload` to rank `to`, and calls `meanwhile`, once. Until that returns, and a moment
    /// longer, rank `to` may read `payload` where it lies; what it has not begun to read by then is
    /// copied. So this waits for no rank that does not ask for the message, and for one that does as
    /// long as it takes to read it.
    ///
    /// # Errors
    /// `to` is no other rank of the group; `meanwhile` was not called.
    fn lend(
        &self,
        to: usize,
        tag: Tag,
        payload: &[u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), TransportError>;
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn world(&self) -> usize {
        (**self).world()
    }

    fn send(
        &mut self,
        to: usize,
        tag: Tag,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<(), TransportError> {
        (**self).send(to, tag, payload, deadline)
    }

    fn receive(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<(), TransportError> {
        (**self).receive(from, tag, buffer, deadline)
    }

    fn receive_or_read(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, TransportError> {
        (**self).receive_or_read(from, tag, buffer, deadline, read)
    }

    fn lender(&self) -> Option<Arc<dyn Lender>> {
        (**self).lender()
    }

    fn arrived(&self, from: usize) -> Option<(u64, u64)> {
        (**self).arrived(from)
    }

    fn close(&mut self, reason: &str) {
        (**self).close(reason);
    }

    fn stale(&self) -> u64 {
        (**self).stale()
    }

    fn sent(&self) -> Sent {
        (**self).sent()
    }
}

/// Messages of collectives that a rank sent, and the bytes in them. Notices and what a transport adds
/// on the wire (frames, control messages) are not in it: it is the same count on every transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of messages.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

impl Sent {
    /// Adds one message, unless it is a notice.
    pub fn count(&mut self, tag: &Tag, payload: &[u8]) {
        if !tag.is_notice() {
            self.messages += 1;
            self.bytes += payload.len() as u64;
        }
    }
}
