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

    /// The shorter of the time left and `longest`; `None` once the deadline has passed.
    pub fn slice(&self, longest: Duration) -> Option<Duration> {
        self.remaining().map(|left| left.min(longest))
    }

    /// This deadline, or the moment `duration` from now if that comes first.
    #[must_use]
    pub fn at_most(self, duration: Duration) -> Self {
        let other = Instant::now().checked_add(duration);
        let at = match (self.at, other) {
            (Some(at), Some(other)) => Some(at.min(other)),
            (at, other) => at.or(other),
        };
        Self { at, ..self }
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

    #[test]
    fn earlier_moment_counts_when_a_deadline_is_cut_short() {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        for (long, short) in [(hour, second), (second, hour), (Duration::MAX, second)] {
            let left = Deadline::after(long).at_most(short).remaining().unwrap();
            assert!(left <= second);
        }
        let never = Deadline::after(Duration::MAX).at_most(Duration::MAX);
        assert_eq!(never.remaining(), Some(Duration::MAX));
        assert_eq!(never.slice(second), Some(second));
        assert_eq!(Deadline::after(Duration::ZERO).slice(second), None);
    }
}
