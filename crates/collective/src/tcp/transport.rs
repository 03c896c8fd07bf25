//! One rank's end of a group over TCP.

use std::fmt;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::JoinError;
use super::frame::Subject;
use super::link::{Link, WriteError};
use super::shared::Shared;
use crate::mailbox::Mailbox;
use crate::spin::Spin;
use crate::{Deadline, Sent, Tag, Transport, TransportError};

/// Time for a reader to find out why its connection broke, once a writer has seen that it did.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A reader has small frames on its stack and no more.
const READER_STACK: usize = 256 << 10;

/// One rank's end of a group over TCP, made by [`super::join`]. Dropping it tells the others that
/// this rank left; dropping it in a panic closes the group.
pub struct TcpTransport {
    shared: Arc<Shared>,
    readers: Vec<JoinHandle<()>>,
    sent: Sent,
    stale: u64,
    spin: Spin,
}

impl TcpTransport {
    /// Takes over connections that have passed the handshake, by rank; none for this rank.
    pub(super) fn start(
        rank: usize,
        streams: Vec<Option<TcpStream>>,
        limit: u64,
    ) -> Result<Self, JoinError> {
        let link =
            |stream: Option<TcpStream>| stream.map(|stream| Link::new(stream, limit)).transpose();
        let links: Result<Vec<_>, _> = streams.into_iter().map(link).collect();
        let links = links.map_err(|fault| JoinError::System {
            what: "the connections to other ranks",
            reason: fault.to_string(),
        })?;
        let mut transport = Self {
            shared: Arc::new(Shared {
                rank,
                // To look there would keep a reader from its core.
                mailbox: Mailbox::new(links.len(), Spin::never()),
                links,
                limit,
            }),
            readers: Vec::new(),
            sent: Sent::default(),
            stale: 0,
            spin: Spin::default(),
        };
        for other in (0..transport.world()).filter(|&other| other != rank) {
            transport.start_reader(other)?;
        }
        Ok(transport)
    }

    fn start_reader(&mut self, from: usize) -> Result<(), JoinError> {
        let shared = self.shared.clone();
        let reader = thread::Builder::new()
            .name(format!("rank {} from {from}", shared.rank))
            .stack_size(READER_STACK)
            .spawn(move || shared.read(from));
        self.readers.push(reader.map_err(|fault| JoinError::System {
            what: "a thread to read from another rank",
            reason: fault.to_string(),
        })?);
        Ok(())
    }

    /// Why a message to rank `to` was not written. The reader knows best how a connection ended: it
    /// may have been told.
    fn fault(&self, to: usize, fault: WriteError, deadline: Deadline) -> TransportError {
        let mailbox = &self.shared.mailbox;
        match fault {
            WriteError::Late { written, bytes } => {
                let known = mailbox.fault(to, Deadline::after(Duration::ZERO));
                known.unwrap_or_else(|| TransportError::Stuck {
                    to,
                    written,
                    bytes,
                    waited: deadline.elapsed(),
                })
            }
            WriteError::Broken(reason) => {
                let known = mailbox.fault(to, deadline.at_most(LAST_WORDS));
                known.unwrap_or(TransportError::Gone { from: to, reason })
            }
        }
    }
}

impl Transport for TcpTransport {
    fn rank(&self) -> usize {
        self.shared.rank
    }

    fn world(&self) -> usize {
        self.shared.links.len()
    }

    fn send(
        &mut self,
        to: usize,
        tag: Tag,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<(), TransportError> {
        self.check_link(to)?;
        let (bytes, limit) = (payload.len() as u64, self.shared.limit);
        if bytes > limit {
            return Err(TransportError::TooLong { to, bytes, limit });
        }
        let Some(link) = &self.shared.links[to] else {
            return Ok(()); // only this rank has no link, and it was refused above
        };
        let mailbox = &self.shared.mailbox;
        let called_off = || mailbox.closed().is_some();
        link.write(Subject::Data(tag), payload, deadline, called_off)
            .map_err(|fault| self.fault(to, fault, deadline))?;
        self.sent.count(&tag, payload);
        Ok(())
    }

    fn receive(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<(), TransportError> {
        self.check_link(from)?;
        let mailbox = &self.shared.mailbox;
        let mut receive = |until, buffer: &mut Vec<u8>| {
            let received = mailbox.receive(from, tag, buffer, until, &mut self.stale);
            received.map(|_| ()) // nothing is lent between processes
        };
        let now = Deadline::after(Duration::ZERO);
        while deadline.remaining().is_some() {
            match receive(now, buffer) {
                Err(TransportError::Timeout { .. }) => {}
                result => return result,
            }
            if !self.shared.look(from, &mut self.spin) {
                break;
            }
        }
        receive(deadline, buffer)
    }

    fn arrived(&self, from: usize) -> Option<(u64, u64)> {
        self.shared.mailbox.arrived(from)
    }

    fn close(&mut self, reason: &str) {
        self.shared.close(reason);
    }

    fn stale(&self) -> u64 {
        self.stale
    }

    fn sent(&self) -> Sent {
        self.sent
    }
}

impl Drop for TcpTransport {
    fn drop(&mut self) {
        if thread::panicking() {
            self.close("it panicked");
        }
        self.shared.leave();
        for link in self.shared.links.iter().flatten() {
            link.shut();
            link.turn.give_back();
        }
        for reader in self.readers.drain(..) {
            // A panic there was reported there, and the others have heard that this rank left.
            let _ = reader.join();
        }
    }
}

impl fmt::Debug for TcpTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TcpTransport")
            .field("rank", &self.rank())
            .field("world", &self.world())
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
