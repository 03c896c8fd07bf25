//! How often somebody looks who cannot be woken.

use std::thread;
use std::time::Duration;

const SHORTEST: Duration = Duration::from_micros(100);

/// Rests that grow while nothing happens.
pub(super) struct Pace {
    next: Duration,
    longest: Duration,
}

impl Pace {
    pub(super) fn new(longest: Duration) -> Self {
        let next = SHORTEST;
        Self { next, longest }
    }

    /// Rests, briefly if something happened since the last time.
    pub(super) fn rest(&mut self, happened: bool) {
        if happened {
            self.next = SHORTEST;
        }
        thread::sleep(self.next);
        self.next = (self.next * 2).min(self.longest);
    }
}
