//! Exact reads and writes that end at a deadline, however few bytes the other end gives at a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Deadline;

/// The longest wait before looking whether somebody called the whole thing off.
const SLICE: Duration = Duration::from_millis(20);

/// A blocking stream with a deadline for all that is read and written.
pub(super) struct Timed<'a> {
    pub(super) stream: &'a TcpStream,
    pub(super) deadline: Deadline,
    pub(super) cancelled: &'a AtomicBool,
}

/// What ended a read or write.
#[derive(Debug, thiserror::Error)]
pub(super) enum TimedError {
    #[error("no answer")]
    Late,
    #[error("called off")]
    Cancelled,
    #[error("the connection was closed")]
    Ended,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Timed<'_> {
    pub(super) fn read_exact(&self, bytes: &mut [u8]) -> Result<(), TimedError> {
        let mut done = 0;
        while done < bytes.len() {
            self.stream.set_read_timeout(Some(self.slice()?))?;
            done += progress((&mut &*self.stream).read(&mut bytes[done..]))?;
        }
        Ok(())
    }

    pub(super) fn write_all(&self, bytes: &[u8]) -> Result<(), TimedError> {
        let mut done = 0;
        while done < bytes.len() {
            self.stream.set_write_timeout(Some(self.slice()?))?;
            done += progress((&mut &*self.stream).write(&bytes[done..]))?;
        }
        Ok(())
    }

    fn slice(&self) -> Result<Duration, TimedError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(TimedError::Cancelled);
        }
        self.deadline.slice(SLICE).ok_or(TimedError::Late)
    }
}

/// Bytes moved; a wait that ended is none, and the end of the stream is an error.
fn progress(result: io::Result<usize>) -> Result<usize, TimedError> {
    match result {
        Ok(0) => Err(TimedError::Ended),
        Ok(bytes) => Ok(bytes),
        Err(fault) if is_wait(&fault) => Ok(0),
        Err(fault) => Err(fault.into()),
    }
}

/// Nothing happened yet: not a fault.
pub(super) fn is_wait(fault: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(fault.kind(), Interrupted | TimedOut | WouldBlock)
}
