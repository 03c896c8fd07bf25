//! The moment at which waiting ends.

use std::time::{Duration, Instant};

/// A moment after which an operation gives up. Handed down unchanged from a collective to its
/// messages, so that many short waits cannot add up to a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    // None where the moment is too far away to be represented.
    at: Option<Instant>,
    set: Instant,
}

impl Deadline {
    /// The moment `duration` from now.
    pub fn after(duration: Duration) -> Self {
        let set = Instant::now();
        Self {
            at: set.checked_add(duration),
            set,
        }
    }

    /// Time left; `None` once the deadline has passed.
    pub fn remaining(&self) -> Option<Duration> {
        let Some(at) = self.at else {
            return Some(Duration::MAX);
        };
        let left = at.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Time since the deadline was set.
    pub fn elapsed(&self) -> Duration {
        self.set.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_remains_when_deadline_has_passed() {
        assert_eq!(Deadline::after(Duration::ZERO).remaining(), None);
    }

    #[test]
    fn time_remains_when_deadline_lies_ahead() {
        let hour = Duration::from_secs(3600);
        let left = Deadline::after(hour).remaining().unwrap();
        assert!(left <= hour && left > hour / 2);
        assert_eq!(
            Deadline::after(Duration::MAX).remaining(),
            Some(Duration::MAX)
        );
    }
}
