//! Ranks in one process: each has a mailbox that the others write to.

use std::sync::Arc;

use crate::mailbox::Mailbox;
use crate::{Deadline, Sent, Tag, Transport, TransportError};

/// The ends of a group of `world` ranks, in rank order; each goes to its own thread.
pub fn group(world: usize) -> Vec<MemoryTransport> {
    let mailboxes: Arc<[Mailbox]> = (0..world).map(|_| Mailbox::new(world)).collect();
    let end = |rank| MemoryTransport {
        rank,
        mailboxes: mailboxes.clone(),
        sent: Sent::default(),
        stale: 0,
    };
    (0..world).map(end).collect()
}

/// One rank's end of a group in memory. Dropping it tells those who wait for this rank that it is
/// gone; dropping it in a panic closes the group.
#[derive(Debug)]
pub struct MemoryTransport {
    rank: usize,
    mailboxes: Arc<[Mailbox]>,
    sent: Sent,
    stale: u64,
}

impl Transport for MemoryTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.mailboxes.len()
    }

    fn send(
        &mut self,
        to: usize,
        tag: Tag,
        payload: &[u8],
        _deadline: Deadline, // a mailbox has no limit: nothing to wait for
    ) -> Result<(), TransportError> {
        self.check_link(to)?;
        // Copied outside the lock: a payload may be large, and its receiver reads others meanwhile.
        let mut copy = self.mailboxes[to].buffer(payload.len());
        copy.extend_from_slice(payload);
        self.mailboxes[to].push(self.rank, tag, copy);
        self.sent.count(&tag, payload);
        Ok(())
    }

    fn receive(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<(), TransportError> {
        self.check_link(from)?;
        self.mailboxes[self.rank].receive(from, tag, buffer, deadline, &mut self.stale)
    }

    fn arrived(&self, from: usize) -> Option<(u64, u64)> {
        self.mailboxes[self.rank].arrived(from)
    }

    fn close(&mut self, reason: &str) {
        for mailbox in &*self.mailboxes {
            mailbox.close(self.rank, reason);
        }
    }

    fn stale(&self) -> u64 {
        self.stale
    }

    fn sent(&self) -> Sent {
        self.sent
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.close("it panicked");
        }
        for mailbox in &*self.mailboxes {
            mailbox.leave(self.rank, "it left the group");
        }
    }
}
