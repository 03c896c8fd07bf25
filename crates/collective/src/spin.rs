//! Looking for a message for a moment before sleeping until it comes.

use std::{hint, thread};

/// How often to look without a pause: ten microseconds or so.
const LOOKS: u32 = 400;

/// How often to look after that, while others that want to run may: some tens of microseconds. In all a
/// little longer than it takes to fall asleep and to be woken on another core, so that one rank that
/// slept does not make the next one sleep.
const PATIENT_LOOKS: u32 = 100;

/// The most waits in a row that are not begun with a look.
const MOST_SKIPPED: u32 = 64;

/// What is looked at over and over, away from what else is written nearby: two cache lines, since
/// processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// Whether looking pays. It does where the ranks run at the same time and are about equally fast; it
/// doesn't where there are more ranks than cores, or where one rank waits long for another. So after
/// each vain look, twice as many waits begin without one.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    is_off: bool,
    skipped: u32,
    to_skip: u32,
}

impl Spin {
    /// One that never looks twice.
    pub(crate) fn never() -> Self {
        Self {
            is_off: true,
            ..Self::default()
        }
    }

    /// Calls `look` over and over, until it finds something or it is time to sleep.
    pub(crate) fn run<T>(&mut self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let found = look();
        if found.is_some() {
            return found; // there before: says nothing about looking for longer
        }
        if self.is_off {
            return None;
        }
        if self.skipped < self.to_skip {
            self.skipped += 1;
            return None;
        }
        self.skipped = 0;
        let found = run(look);
        self.to_skip = match found {
            Some(_) => 0,
            None => (2 * self.to_skip + 1).min(MOST_SKIPPED),
        };
        found
    }
}

/// Calls `look` over and over, until it finds something or has looked for long enough.
pub(crate) fn run<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for count in 0..LOOKS + PATIENT_LOOKS {
        let found = look();
        if found.is_some() {
            return found;
        }
        if count < LOOKS {
            hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it looks for what is never there.
    fn looks(spin: &mut Spin) -> u32 {
        let mut looks = 0;
        let found = spin.run(|| {
            looks += 1;
            None::<()>
        });
        assert_eq!(found, None);
        looks
    }

    #[test]
    fn fewer_waits_begin_with_a_look_when_looks_are_in_vain() {
        let mut spin = Spin::default();
        let long: Vec<usize> = (0..200).filter(|_| looks(&mut spin) > LOOKS).collect();
        // After 0, 1, 3, 7, 15, 31 and 63 skipped waits, and then 64.
        assert_eq!(long, [0, 2, 6, 14, 30, 62, 126, 191]);
        // What was there at once is no reason to look for longer.
        assert_eq!(spin.run(|| Some(7)), Some(7));
        assert_eq!(spin.to_skip, MOST_SKIPPED);
    }

    #[test]
    fn every_wait_begins_with_a_look_when_looks_succeed() {
        let mut spin = Spin::default();
        for _ in 0..3 {
            let mut left = 3;
            let found = spin.run(|| {
                left -= 1;
                (left == 0).then_some(left)
            });
            assert_eq!(found, Some(0));
        }
        assert!(looks(&mut spin) > LOOKS);
    }
}
