//! Ranks in one process: each has a mailbox with one queue for each sender.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Deadline, Match, Tag, Transport, TransportError};

/// The ends of a group of `world` ranks, in rank order; each goes to its own thread.
pub fn group(world: usize) -> Vec<MemoryTransport> {
    let mailboxes: Arc<[Mailbox]> = (0..world).map(|_| Mailbox::new(world)).collect();
    let end = |rank| MemoryTransport {
        rank,
        mailboxes: mailboxes.clone(),
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
    stale: u64,
}

/// What has arrived for one rank. A mailbox for each, so that ranks do not contend for one lock.
#[derive(Debug)]
struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    queues: Vec<VecDeque<Message>>,
    gone: Vec<bool>,
    closed: Option<(usize, String)>,
    // Buffers of messages that were received, for messages to come: in the steady state none is
    // allocated.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Message {
    tag: Tag,
    payload: Vec<u8>,
}

impl Mailbox {
    fn new(world: usize) -> Self {
        let state = State {
            queues: (0..world).map(|_| VecDeque::new()).collect(),
            gone: vec![false; world],
            closed: None,
            spare: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// No code that holds the lock can leave the state half changed, so a panic elsewhere in such
    /// a thread does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits for a change; false if the deadline has passed instead.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        deadline: Deadline,
    ) -> (MutexGuard<'a, State>, bool) {
        let Some(left) = deadline.remaining() else {
            return (state, false);
        };
        let woken = self.changed.wait_timeout(state, left);
        (woken.unwrap_or_else(PoisonError::into_inner).0, true)
    }
}

impl State {
    /// Takes the message of `tag`, dropping stale ones on the way; `None` if it is not there yet.
    fn take(
        &mut self,
        from: usize,
        tag: &Tag,
        stale: &mut u64,
    ) -> Result<Option<Message>, TransportError> {
        let mut index = 0;
        while let Some(message) = self.queues[from].get(index) {
            match tag.matches(&message.tag) {
                Match::Exact => return Ok(self.queues[from].remove(index)),
                Match::Later => index += 1,
                Match::Stale => {
                    *stale += 1;
                    let dropped = self.queues[from].remove(index);
                    self.spare.extend(dropped.map(|message| message.payload));
                }
                Match::Clash => {
                    let (expected, got) = (tag.operation, message.tag.operation);
                    return Err(TransportError::Operation {
                        from,
                        expected,
                        got,
                    });
                }
            }
        }
        Ok(None)
    }

    /// Why the message will not come, if that is known.
    fn fault(&self, from: usize) -> Result<(), TransportError> {
        if let Some((by, reason)) = self.closed.clone() {
            return Err(TransportError::Closed { by, reason });
        }
        if self.gone[from] {
            let reason = "it left the group".to_owned();
            return Err(TransportError::Gone { from, reason });
        }
        Ok(())
    }
}

impl MemoryTransport {
    fn check(&self, other: usize) -> Result<(), TransportError> {
        let (rank, world) = (self.rank, self.world());
        if other == rank || other >= world {
            return Err(TransportError::NoLink { rank, other, world });
        }
        Ok(())
    }
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
        self.check(to)?;
        let mailbox = &self.mailboxes[to];
        let mut copy = mailbox.lock().spare.pop().unwrap_or_default();
        // Copied outside the lock: a payload may be large, and its receiver reads others meanwhile.
        copy.clear();
        copy.extend_from_slice(payload);
        let message = Message { tag, payload: copy };
        mailbox.change(|state| state.queues[self.rank].push_back(message));
        Ok(())
    }

    fn receive(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<(), TransportError> {
        self.check(from)?;
        let mailbox = &self.mailboxes[self.rank];
        let mut state = mailbox.lock();
        loop {
            if let Some(message) = state.take(from, &tag, &mut self.stale)? {
                state.spare.push(std::mem::replace(buffer, message.payload));
                return Ok(());
            }
            state.fault(from)?;
            let in_time;
            (state, in_time) = mailbox.wait(state, deadline);
            if !in_time {
                let waited = deadline.elapsed();
                return Err(TransportError::Timeout { from, waited });
            }
        }
    }

    fn close(&mut self, reason: &str) {
        for mailbox in &*self.mailboxes {
            mailbox.change(|state| {
                state
                    .closed
                    .get_or_insert_with(|| (self.rank, reason.to_owned()));
            });
        }
    }

    fn stale(&self) -> u64 {
        self.stale
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.close("it panicked");
        }
        for mailbox in &*self.mailboxes {
            mailbox.change(|state| state.gone[self.rank] = true);
        }
    }
}
