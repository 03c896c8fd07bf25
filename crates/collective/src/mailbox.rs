//! What has arrived for one rank: a queue for each sender, and who is gone or closed the group.
//! Transports differ in who fills it; receiving from it is the same for all.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Deadline, Match, Tag, TransportError};

/// One rank's mailbox. A mailbox for each rank, so that ranks do not contend for one lock.
#[derive(Debug)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    queues: Vec<VecDeque<Message>>,
    // Why a rank will send no more.
    gone: Vec<Option<String>>,
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
    pub(crate) fn new(world: usize) -> Self {
        let state = State {
            queues: (0..world).map(|_| VecDeque::new()).collect(),
            gone: vec![None; world],
            closed: None,
            spare: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// An empty buffer for a message of `bytes` to come, one that need not grow if there is any.
    pub(crate) fn buffer(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.lock().take_spare(bytes);
        buffer.clear();
        buffer
    }

    /// Puts a message from rank `from` in.
    pub(crate) fn push(&self, from: usize, tag: Tag, payload: Vec<u8>) {
        self.change(|state| state.queues[from].push_back(Message { tag, payload }));
    }

    /// Nothing more will come from rank `from`. The first reason stays.
    pub(crate) fn leave(&self, from: usize, reason: &str) {
        self.change(|state| {
            state.gone[from].get_or_insert_with(|| reason.to_owned());
        });
    }

    /// Rank `by` closed the group. The first reason stays; true if this is it.
    pub(crate) fn close(&self, by: usize, reason: &str) -> bool {
        let mut first = false;
        self.change(|state| {
            first = state.closed.is_none();
            state.closed.get_or_insert_with(|| (by, reason.to_owned()));
        });
        first
    }

    /// Who closed the group, and why.
    pub(crate) fn closed(&self) -> Option<(usize, String)> {
        self.lock().closed.clone()
    }

    /// Waits for the message of `tag` from rank `from` and puts it in `buffer`, whose memory is kept
    /// for messages to come. Stale messages are dropped and added to `stale`.
    pub(crate) fn receive(
        &self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
        stale: &mut u64,
    ) -> Result<(), TransportError> {
        let mut state = self.lock();
        loop {
            if let Some(message) = state.take(from, &tag, stale)? {
                let used = std::mem::replace(buffer, message.payload);
                state.keep(used);
                return Ok(());
            }
            state.fault(from)?;
            let in_time;
            (state, in_time) = self.wait(state, deadline);
            if !in_time {
                let waited = deadline.elapsed();
                return Err(TransportError::Timeout { from, waited });
            }
        }
    }

    /// The latest call of which a message from rank `from` is here, if there is such a rank and
    /// message: its epoch and number.
    pub(crate) fn arrived(&self, from: usize) -> Option<(u64, u64)> {
        let state = self.lock();
        let messages = state.queues.get(from)?.iter();
        messages
            .map(|message| (message.tag.epoch, message.tag.sequence))
            .max()
    }

    /// Why nothing more will come from rank `from`, waiting until that is known.
    pub(crate) fn fault(&self, from: usize, deadline: Deadline) -> Option<TransportError> {
        let mut state = self.lock();
        let mut in_time = true;
        while in_time {
            if let Err(fault) = state.fault(from) {
                return Some(fault);
            }
            (state, in_time) = self.wait(state, deadline);
        }
        None
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
                    *stale += u64::from(!message.tag.is_notice());
                    if let Some(dropped) = self.queues[from].remove(index) {
                        self.keep(dropped.payload);
                    }
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
        if let Some(reason) = self.gone[from].clone() {
            return Err(TransportError::Gone { from, reason });
        }
        Ok(())
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }

    /// The smallest spare buffer that holds `bytes`, so that small messages do not take what large
    /// ones need; the largest if none does.
    fn take_spare(&mut self, bytes: usize) -> Vec<u8> {
        let rank = |buffer: &Vec<u8>| match buffer.capacity() {
            fits if fits >= bytes => (0, fits),
            short => (1, bytes - short),
        };
        let best = (0..self.spare.len()).min_by_key(|&index| rank(&self.spare[index]));
        best.map_or_else(Vec::new, |index| self.spare.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_buffer_is_the_smallest_that_fits_else_the_largest() {
        let mailbox = Mailbox::new(1);
        for bytes in [10, 1000, 100] {
            mailbox.lock().keep(Vec::with_capacity(bytes));
        }
        let capacity = |bytes| mailbox.buffer(bytes).capacity();
        assert_eq!([capacity(50), capacity(5000), capacity(1)], [100, 1000, 10]);
        assert_eq!(capacity(1), 0);
    }
}
