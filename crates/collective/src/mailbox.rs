//! What has arrived for one rank: a queue for each sender, and who is gone or closed the group.
//! Transports differ in who fills it; receiving from it is the same for all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::loan::{Borrowed, Desk};
use crate::spin::{Apart, Spin};
use crate::{Deadline, Match, Tag, TransportError};

/// One rank's mailbox. A mailbox for each rank, so that ranks do not contend for one lock.
#[derive(Debug)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
    // Number of changes so far, to be looked at over and over without the lock, which those who bring
    // a message need. It is never ahead of the one in the state, which alone decides.
    changes: Apart<AtomicU64>,
    // By sender.
    desks: Vec<Desk>,
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
    // Number of changes so far.
    changes: u64,
    // Threads that sleep until something changes.
    waiting: usize,
    spin: Spin,
}

#[derive(Debug)]
struct Message {
    tag: Tag,
    payload: Payload,
}

#[derive(Debug)]
enum Payload {
    Here(Vec<u8>),
    /// On offer at the sender's desk. If it is not there any more, a copy takes its place at once.
    Lent,
}

/// A message that was received.
pub(crate) enum Received<'a> {
    /// It is in the buffer.
    Here,
    /// It lies with its sender.
    Lent(Borrowed<'a>),
}

impl Mailbox {
    /// For a rank that looks for changes in the way of `spin` before it sleeps.
    pub(crate) fn new(world: usize, spin: Spin) -> Self {
        let state = State {
            queues: (0..world).map(|_| VecDeque::new()).collect(),
            gone: vec![None; world],
            closed: None,
            spare: Vec::new(),
            changes: 0,
            waiting: 0,
            spin,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            changes: Apart::default(),
            desks: (0..world).map(|_| Desk::default()).collect(),
        }
    }

    /// Where rank `from` lends messages to this one.
    pub(crate) fn desk(&self, from: usize) -> &Desk {
        &self.desks[from]
    }

    /// An empty buffer for a message of `bytes` to come, one that need not grow if there is any.
    pub(crate) fn buffer(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.spare(bytes);
        buffer.clear();
        buffer
    }

    /// The same, with what an earlier message has left in it.
    pub(crate) fn spare(&self, bytes: usize) -> Vec<u8> {
        self.lock().take_spare(bytes)
    }

    /// Puts a message from rank `from` in.
    pub(crate) fn push(&self, from: usize, tag: Tag, payload: Vec<u8>) {
        let payload = Payload::Here(payload);
        self.change(|state| state.queues[from].push_back(Message { tag, payload }));
    }

    /// Says that a message from rank `from` is on offer at its desk.
    pub(crate) fn push_lent(&self, from: usize, tag: Tag) {
        let payload = Payload::Lent;
        self.change(|state| state.queues[from].push_back(Message { tag, payload }));
    }

    /// Puts a copy in the place of a message that is on offer no more.
    pub(crate) fn replace_lent(&self, from: usize, tag: Tag, copy: Vec<u8>) {
        self.change(|state| {
            let is_it = |message: &&mut Message| {
                message.tag == tag && matches!(message.payload, Payload::Lent)
            };
            match state.queues[from].iter_mut().find(is_it) {
                Some(message) => message.payload = Payload::Here(copy),
                None => state.keep(copy), // dropped as stale
            }
        });
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

    /// Waits for the message of `tag` from rank `from`. Unless it is lent, it is in `buffer` then,
    /// whose memory is kept for messages to come. Stale messages are dropped and added to `stale`.
    pub(crate) fn receive(
        &self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
        stale: &mut u64,
    ) -> Result<Received<'_>, TransportError> {
        let mut state = self.lock();
        loop {
            let index = state.find(from, &tag, stale)?;
            if let Some(index) = index
                && let Some(received) = self.take(&mut state, from, index, buffer)
            {
                return Ok(received);
            }
            // What is being copied will come, whoever closes the group, unless its sender is gone.
            if index.is_none() || state.gone[from].is_some() {
                state.fault(from)?;
            }
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

    /// Takes a message out; `None` if it is not on offer any more, and its copy not there yet.
    fn take(
        &self,
        state: &mut State,
        from: usize,
        index: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<Received<'_>> {
        let message = state.queues[from].get_mut(index)?;
        let received = match &mut message.payload {
            Payload::Here(payload) => {
                std::mem::swap(buffer, payload);
                Received::Here
            }
            Payload::Lent => Received::Lent(self.desks[from].borrow(&message.tag)?),
        };
        state.drop_message(from, index);
        Some(received)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.change_state(change);
        // Whoever sees the number change finds the lock free.
        self.changes.0.fetch_add(1, Ordering::Release);
    }

    /// As [`Mailbox::change`], but those who look without the lock do not see it yet.
    fn change_state(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        // Under the lock: who is about to sleep sees it, or is seen to sleep.
        state.changes += 1;
        // To wake up is a call of the system, even if nobody sleeps.
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits for a change; false if the deadline has passed instead.
    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        deadline: Deadline,
    ) -> (MutexGuard<'a, State>, bool) {
        if deadline.remaining().is_none() {
            return (state, false);
        }
        let (mut state, has_changed) = self.look_for_change(state);
        let Some(left) = deadline.remaining() else {
            return (state, false);
        };
        if has_changed {
            return (state, true);
        }
        state.waiting += 1;
        let woken = self.changed.wait_timeout(state, left);
        let mut state = woken.unwrap_or_else(PoisonError::into_inner).0;
        state.waiting -= 1;
        (state, true)
    }

    /// Looks for a change for a moment; false if there was none since.
    fn look_for_change<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, bool) {
        let before = state.changes;
        let mut spin = std::mem::take(&mut state.spin);
        drop(state);
        spin.run(|| (self.changes.0.load(Ordering::Acquire) > before).then_some(()));
        let mut state = self.lock();
        state.spin = spin;
        // Not what the last look found: what came since counts, too.
        let has_changed = state.changes != before;
        (state, has_changed)
    }
}

impl State {
    /// Where the message of `tag` is, dropping stale ones on the way; `None` if it is not there yet.
    fn find(
        &mut self,
        from: usize,
        tag: &Tag,
        stale: &mut u64,
    ) -> Result<Option<usize>, TransportError> {
        let mut index = 0;
        while let Some(message) = self.queues[from].get(index) {
            match tag.matches(&message.tag) {
                Match::Exact => return Ok(Some(index)),
                Match::Later => index += 1,
                Match::Stale => {
                    *stale += u64::from(!message.tag.is_notice());
                    self.drop_message(from, index);
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

    fn drop_message(&mut self, from: usize, index: usize) {
        if let Some(Payload::Here(buffer)) = self.queues[from]
            .remove(index)
            .map(|message| message.payload)
        {
            self.keep(buffer);
        }
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
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::Operation;

    fn tag(part: u32) -> Tag {
        Tag {
            epoch: 0,
            sequence: 0,
            operation: Operation::Ring,
            part,
        }
    }

    #[test]
    fn nobody_sleeps_when_a_change_is_made_but_not_yet_seen() {
        const TRIES: usize = 1000;
        let changed = (0..TRIES).find(|_| {
            let mailbox = Mailbox::new(1, Spin::default());
            let state = mailbox.lock();
            thread::scope(|scope| {
                // Gets the lock while the other looks, mostly; has it seen nothing then, it sleeps.
                let leave = || mailbox.change_state(|state| state.gone[0] = Some("test".into()));
                scope.spawn(leave);
                let (state, has_changed) = mailbox.look_for_change(state);
                assert_eq!(has_changed, state.gone[0].is_some());
                has_changed
            })
        });
        assert!(changed.is_some(), "never in {TRIES} tries in time");
    }

    #[test]
    fn message_on_its_way_is_waited_for_when_the_group_is_closed_or_its_sender_alive() {
        let mailbox = Mailbox::new(3, Spin::never());
        let receive = |buffer: &mut Vec<u8>| {
            let now = Deadline::after(Duration::ZERO);
            let received = mailbox.receive(0, tag(1), buffer, now, &mut 0);
            received.map(|_| ())
        };
        let mut buffer = vec![];
        // On offer no more, and its copy is not there yet.
        mailbox.push_lent(0, tag(1));
        mailbox.close(2, "enough");
        let fault = receive(&mut buffer).unwrap_err();
        let waits = matches!(fault, TransportError::Timeout { from: 0, .. });
        assert!(waits, "{fault}");
        mailbox.replace_lent(0, tag(1), vec![7]);
        receive(&mut buffer).unwrap();
        assert_eq!(buffer, [7]);
        // A sender that is gone makes no copy.
        mailbox.push_lent(0, tag(1));
        mailbox.leave(0, "left");
        let fault = receive(&mut buffer).unwrap_err();
        assert!(matches!(fault, TransportError::Closed { by: 2, .. }));
    }

    #[test]
    fn spare_buffer_is_the_smallest_that_fits_else_the_largest() {
        let mailbox = Mailbox::new(1, Spin::default());
        for bytes in [10, 1000, 100] {
            mailbox.lock().keep(Vec::with_capacity(bytes));
        }
        let capacity = |bytes| mailbox.buffer(bytes).capacity();
        assert_eq!([capacity(50), capacity(5000), capacity(1)], [100, 1000, 10]);
        assert_eq!(capacity(1), 0);
    }
}
