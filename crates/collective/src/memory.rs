//! Ranks in one process: each has a mailbox that the others write to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::loan::End;
use crate::mailbox::{Mailbox, Received};
use crate::spin::Spin;
use crate::transport::check_link;
use crate::{Deadline, Lender, Sent, Tag, Transport, TransportError};

/// The ends of a group of `world` ranks, in rank order; each goes to its own thread.
pub fn group(world: usize) -> Vec<MemoryTransport> {
    let mailboxes: Arc<[Mailbox]> = (0..world)
        .map(|_| Mailbox::new(world, Spin::default()))
        .collect();
    let end = |rank| MemoryTransport {
        sender: Arc::new(Sender {
            rank,
            mailboxes: mailboxes.clone(),
            sent: Mutex::default(),
            lending: Mutex::default(),
        }),
        stale: 0,
    };
    (0..world).map(end).collect()
}

/// One rank's end of a group in memory. Dropping it tells those who wait for this rank that it is
/// gone; dropping it in a panic closes the group.
#[derive(Debug)]
pub struct MemoryTransport {
    sender: Arc<Sender>,
    stale: u64,
}

/// What sends, and lends.
#[derive(Debug)]
struct Sender {
    rank: usize,
    mailboxes: Arc<[Mailbox]>,
    sent: Mutex<Sent>,
    // Held while a message is lent: one at a time, as a desk demands.
    lending: Mutex<()>,
}

impl Sender {
    fn copy(&self, to: usize, payload: &[u8]) -> Vec<u8> {
        // Copied outside the lock: a payload may be large, and its receiver reads others meanwhile.
        let mut copy = self.mailboxes[to].buffer(payload.len());
        copy.extend_from_slice(payload);
        copy
    }

    fn send(&self, to: usize, tag: Tag, payload: &[u8]) {
        self.mailboxes[to].push(self.rank, tag, self.copy(to, payload));
        self.sent().count(&tag, payload);
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_lending(&self) -> Option<MutexGuard<'_, ()>> {
        match self.lending.try_lock() {
            Ok(lending) => Some(lending),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn check_link(&self, to: usize) -> Result<(), TransportError> {
        check_link(self.rank, self.mailboxes.len(), to)
    }
}

impl Lender for Sender {
    fn lend(
        &self,
        to: usize,
        tag: Tag,
        payload: &[u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), TransportError> {
        self.check_link(to)?;
        let Some(_lending) = self.begin_lending() else {
            self.send(to, tag, payload);
            meanwhile();
            return Ok(());
        };
        let mailbox = &self.mailboxes[to];
        self.sent().count(&tag, payload);
        let end = mailbox.desk(self.rank).lend(tag, payload, || {
            mailbox.push_lent(self.rank, tag);
            meanwhile();
        });
        if end == End::Withdrawn {
            mailbox.replace_lent(self.rank, tag, self.copy(to, payload));
        }
        Ok(())
    }
}

impl MemoryTransport {
    fn take(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<Received<'_>, TransportError> {
        self.check_link(from)?;
        let mailbox = &self.sender.mailboxes[self.sender.rank];
        mailbox.receive(from, tag, buffer, deadline, &mut self.stale)
    }
}

impl Transport for MemoryTransport {
    fn rank(&self) -> usize {
        self.sender.rank
    }

    fn world(&self) -> usize {
        self.sender.mailboxes.len()
    }

    fn send(
        &mut self,
        to: usize,
        tag: Tag,
        payload: &[u8],
        _deadline: Deadline, // a mailbox has no limit: nothing to wait for
    ) -> Result<(), TransportError> {
        self.check_link(to)?;
        self.sender.send(to, tag, payload);
        Ok(())
    }

    fn receive(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<(), TransportError> {
        if let Received::Lent(bytes) = self.take(from, tag, buffer, deadline)? {
            buffer.clear();
            buffer.extend_from_slice(&bytes);
        }
        Ok(())
    }

    fn receive_or_read(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, TransportError> {
        match self.take(from, tag, buffer, deadline)? {
            Received::Here => Ok(false),
            Received::Lent(bytes) => {
                read(&bytes);
                Ok(true)
            }
        }
    }

    fn lender(&self) -> Option<Arc<dyn Lender>> {
        Some(self.sender.clone())
    }

    fn arrived(&self, from: usize) -> Option<(u64, u64)> {
        self.sender.mailboxes[self.sender.rank].arrived(from)
    }

    fn close(&mut self, reason: &str) {
        for mailbox in &*self.sender.mailboxes {
            mailbox.close(self.sender.rank, reason);
        }
    }

    fn stale(&self) -> u64 {
        self.stale
    }

    fn sent(&self) -> Sent {
        *self.sender.sent()
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.close("it panicked");
        }
        for mailbox in &*self.sender.mailboxes {
            mailbox.leave(self.sender.rank, "it left the group");
        }
    }
}
