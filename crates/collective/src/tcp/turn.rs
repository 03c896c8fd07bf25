//! Whose turn it is to read a connection: its reader's, or that of the rank that waits anyway.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long a reader stands back for a rank that has just read. Ranks that exchange piece after
/// piece come back sooner; meanwhile, what others send waits in the system's buffers.
const LEASE: Duration = Duration::from_millis(2);

/// The reader's turn, unless the rank has taken it for a while.
#[derive(Debug, Default)]
pub(super) struct Turn {
    taken_until: Mutex<Option<Instant>>,
    given_back: Condvar,
}

impl Turn {
    /// The reader stands back from now on, once it has read what it reads.
    pub(super) fn take(&self) {
        *self.lock() = Some(Instant::now() + LEASE);
    }

    /// The reader goes on at once.
    pub(super) fn give_back(&self) {
        *self.lock() = None;
        self.given_back.notify_all();
    }

    pub(super) fn is_taken(&self) -> bool {
        left(*self.lock()).is_some()
    }

    /// Waits until it is the reader's turn.
    pub(super) fn wait(&self) {
        let mut taken_until = self.lock();
        while let Some(left) = left(*taken_until) {
            let woken = self.given_back.wait_timeout(taken_until, left);
            taken_until = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.taken_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn left(until: Option<Instant>) -> Option<Duration> {
    let left = until?.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_is_the_readers_unless_it_was_just_taken() {
        let turn = Turn::default();
        assert!(!turn.is_taken());
        turn.wait();
        turn.take();
        turn.wait(); // for as long as the lease lasts
        assert!(!turn.is_taken());
        turn.take();
        turn.give_back();
        assert!(!turn.is_taken());
    }
}
