//! The seam between collectives and what carries their messages.

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
    /// may only show at the next receive.
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

    /// Closes the group for all ranks, with a reason that they will read. The first reason stays.
    fn close(&mut self, reason: &str);

    /// Number of stale messages dropped so far.
    fn stale(&self) -> u64;
}
