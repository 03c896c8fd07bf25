//! How long to wait for those who read the output, once a job is over.

use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::signals::Signal;
use super::supervisor::Event;

/// How often to look whether a thread has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Waits for threads that write to somebody who may never read, until it is too late or a signal comes.
pub(super) struct Patience<'a> {
    events: &'a Receiver<Event>,
    until: Option<Instant>,
    signal: Option<Signal>,
}

impl<'a> Patience<'a> {
    /// Without a limit a signal still ends the wait.
    pub(super) fn new(events: &'a Receiver<Event>, limit: Option<Duration>) -> Self {
        Self {
            events,
            until: limit.map(|limit| Instant::now() + limit),
            signal: None,
        }
    }

    /// What a thread comes to; none if it is left behind.
    pub(super) fn finish<T>(&mut self, thread: JoinHandle<T>) -> Option<T> {
        while !thread.is_finished() {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            if let Ok(Event::Signal(signal)) = self.events.recv_timeout(LOOK) {
                self.signal.get_or_insert(signal);
                self.until = Some(Instant::now());
            }
        }
        // After a panic there is nothing left of it; what processes came to doesn't depend on it.
        thread.join().ok()
    }

    /// The signal that ended the wait.
    pub(super) fn signal(&self) -> Option<Signal> {
        self.signal
    }
}
