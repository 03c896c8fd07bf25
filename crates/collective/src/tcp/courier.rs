//! A connection between a rank and the store that neither of them waits on.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::frame::{BYTES, FrameError, Header, Subject};
use super::message::{Message, limit};
use super::pace::Pace;
use super::timed::is_wait;
use crate::Deadline;

/// Bytes that may wait for the other end to read them.
const BACKLOG: usize = 1 << 20;

/// Messages in both directions, with what is not yet read or written of them.
pub(super) struct Courier {
    stream: TcpStream,
    limit: u64,
    incoming: Vec<u8>,
    received: u64,
    outgoing: Vec<u8>,
    sent: u64,
}

/// Why no more messages will come.
#[derive(Debug, thiserror::Error)]
pub(super) enum CourierError {
    #[error("the connection was closed")]
    Ended,
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("expected a message of the store's, got {0:?}")]
    Subject(Subject),
    #[error("{0}")]
    Message(String),
    #[error("it does not read: {0} bytes wait for it")]
    Stuck(usize),
}

impl Courier {
    pub(super) fn new(stream: TcpStream, world: usize) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            limit: limit(world),
            incoming: Vec::new(),
            received: 0,
            outgoing: Vec::new(),
            sent: 0,
        })
    }

    /// Writes a message, as much of it as the connection takes at once; the rest goes out with
    /// [`Courier::poll`].
    pub(super) fn say(&mut self, message: &Message) {
        let (code, payload) = message.encode();
        let header = Header::new(Subject::Store(code), self.sent, &payload);
        self.sent += 1;
        self.outgoing.extend_from_slice(&header.encode());
        self.outgoing.extend_from_slice(&payload);
        // A fault shows at the next poll, too.
        let _ = self.flush();
    }

    /// The next message, if it has arrived.
    pub(super) fn poll(&mut self) -> Result<Option<Message>, CourierError> {
        // What has arrived counts even where nothing can be written any more.
        let flushed = self.flush();
        let mut ended = self.fill();
        match self.parse()? {
            Some(message) => return Ok(Some(message)),
            None if ended.is_ok() => ended = flushed,
            None => {}
        }
        ended.map(|()| None)
    }

    /// Writes what is left, until the deadline.
    pub(super) fn finish(&mut self, deadline: Deadline) {
        let mut pace = Pace::new(std::time::Duration::from_millis(5));
        while self.flush().is_ok() && !self.outgoing.is_empty() && deadline.remaining().is_some() {
            pace.rest(false);
        }
    }

    fn flush(&mut self) -> Result<(), CourierError> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => return Err(CourierError::Ended),
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(fault) if is_wait(&fault) => break,
                Err(fault) => return Err(fault.into()),
            }
        }
        match self.outgoing.len() {
            waiting if waiting > BACKLOG => Err(CourierError::Stuck(waiting)),
            _ => Ok(()),
        }
    }

    /// Takes in what is there, up to one frame more than the longest.
    fn fill(&mut self) -> Result<(), CourierError> {
        let mut chunk = [0; 4096];
        while (self.incoming.len() as u64) < self.limit + BYTES as u64 {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(CourierError::Ended),
                Ok(more) => self.incoming.extend_from_slice(&chunk[..more]),
                Err(fault) if is_wait(&fault) => break,
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(())
    }

    /// Takes one message out of what came in.
    fn parse(&mut self) -> Result<Option<Message>, CourierError> {
        let Some((bytes, rest)) = self.incoming.split_first_chunk::<BYTES>() else {
            return Ok(None);
        };
        let header = Header::decode(bytes, self.received, self.limit)?;
        let length = header.length as usize; // at most the limit, which is small
        let Some(payload) = rest.get(..length) else {
            return Ok(None);
        };
        header.check(crc32fast::hash(payload))?;
        let Subject::Store(code) = header.subject else {
            return Err(CourierError::Subject(header.subject));
        };
        let message = Message::decode(code, payload).map_err(CourierError::Message)?;
        self.incoming.drain(..BYTES + length);
        self.received += 1;
        Ok(Some(message))
    }
}
