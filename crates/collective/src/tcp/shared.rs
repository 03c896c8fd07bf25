//! What a rank and its readers have in common.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::RecvFlags;

use super::frame::{Assembler, FrameError, Read, Subject};
use super::handshake::shortened;
use super::link::Link;
use crate::Deadline;
use crate::mailbox::Mailbox;
use crate::spin::Spin;

/// Time for last words to one rank, and to all.
const WORDS: Duration = Duration::from_millis(100);
const ALL_WORDS: Duration = Duration::from_secs(1);

/// Bytes of a reason that travel.
const REASON_BYTES: usize = 4096;

pub(super) struct Shared {
    pub(super) rank: usize,
    pub(super) mailbox: Mailbox,
    /// By rank; none for this one.
    pub(super) links: Vec<Option<Link>>,
    /// Bytes that a message may have.
    pub(super) limit: u64,
}

impl Shared {
    /// Closes the group for all ranks, unless it is closed.
    pub(super) fn close(&self, reason: &str) {
        let reason = shortened(reason, REASON_BYTES);
        if self.mailbox.close(self.rank, reason) {
            self.say_to_all(Subject::Close, reason.as_bytes());
        }
    }

    /// Tells all ranks that this one leaves. If it does so because the group was closed, it says by
    /// whom and why: another rank may hear of it here first, and is to know the cause, not only that
    /// this rank left.
    pub(super) fn leave(&self) {
        let words = self.mailbox.closed().map(|(by, reason)| {
            let mut words = (by as u32).to_le_bytes().to_vec();
            words.extend_from_slice(reason.as_bytes());
            words
        });
        self.say_to_all(Subject::Leave, &words.unwrap_or_default());
    }

    fn heard_leave(&self, words: &[u8]) -> Result<(), FrameError> {
        if words.is_empty() {
            return Ok(());
        }
        let world = self.links.len();
        let (by, reason) = match words.split_first_chunk() {
            Some((by, reason)) => (u32::from_le_bytes(*by) as usize, reason),
            None => return Err(FrameError::ShortLeave(words.len())),
        };
        if by >= world {
            return Err(FrameError::Closer { by, world });
        }
        self.mailbox.close(by, &String::from_utf8_lossy(reason));
        Ok(())
    }

    /// Ranks that do not listen cost the others no more than a moment.
    fn say_to_all(&self, subject: Subject, payload: &[u8]) {
        let deadline = Deadline::after(ALL_WORDS);
        for link in self.links.iter().flatten() {
            link.write_words(subject, payload, deadline.at_most(WORDS));
        }
    }

    /// Puts what rank `from` sends into the mailbox until it sends no more, unless the rank itself
    /// does. It never waits for anybody to take it out, so that ranks that send to each other at once
    /// both get on.
    pub(super) fn read(&self, from: usize) {
        let Some(link) = &self.links[from] else {
            return;
        };
        loop {
            link.turn.wait();
            let mut incoming = link.incoming();
            if link.turn.is_taken() {
                continue; // just now
            }
            if let Incoming::End = self.read_some(from, link, &mut incoming, &mut &link.stream) {
                return;
            }
        }
    }

    /// Looks for a while whether rank `from` sends something; true if there is something new. In the
    /// place of the reader, so that nobody has to be woken; if the reader reads right now, it will
    /// stand back the next time. So the turn stays taken then: a reader that waits for the next frame
    /// would never let go else. If that frame is not the one that is waited for, the one after it is
    /// late by what is left of the lease.
    pub(super) fn look(&self, from: usize, spin: &mut Spin) -> bool {
        let Some(link) = &self.links[from] else {
            return false;
        };
        link.turn.take();
        let Some(mut incoming) = link.try_incoming() else {
            return false;
        };
        let input = &mut Now(&link.stream);
        let found = spin.run(|| match self.read_some(from, link, &mut incoming, input) {
            Incoming::NotYet => None,
            found => Some(found),
        });
        drop(incoming);
        match found {
            Some(Incoming::Frame) => link.turn.take(),
            _ => link.turn.give_back(),
        }
        found.is_some()
    }

    /// Reads what there is of a frame, and acts on it once it is complete.
    fn read_some(
        &self,
        from: usize,
        link: &Link,
        assembler: &mut Option<Assembler>,
        input: &mut impl io::Read,
    ) -> Incoming {
        let Some(frames) = assembler else {
            return Incoming::End;
        };
        let read = frames.read(input, |bytes| self.mailbox.spare(bytes));
        let end = match read.and_then(|read| self.act(from, read)) {
            Ok(Ok(incoming)) => return incoming,
            Ok(Err(end)) => end.to_owned(),
            Err(fault @ (FrameError::Io(_) | FrameError::Cut { .. })) => fault.to_string(),
            Err(fault) => {
                self.close(&format!("rank {from} sent a broken frame: {fault}"));
                link.shut();
                "it sent a broken frame".to_owned()
            }
        };
        *assembler = None;
        self.mailbox.leave(from, &end);
        Incoming::End
    }

    /// What has come, or why the stream ended between two frames.
    fn act(&self, from: usize, read: Read) -> Result<Result<Incoming, &'static str>, FrameError> {
        match read {
            Read::NotYet => return Ok(Ok(Incoming::NotYet)),
            Read::End => return Ok(Err("its connection ended without a word")),
            Read::Frame(Subject::Data(tag), payload) => self.mailbox.push(from, tag, payload),
            Read::Frame(Subject::Close, reason) => {
                let reason = String::from_utf8_lossy(&reason);
                self.mailbox.close(from, &reason);
            }
            Read::Frame(Subject::Leave, words) => {
                self.heard_leave(&words)?;
                return Ok(Err("it left the group"));
            }
            Read::Frame(Subject::Store(code), _) => return Err(FrameError::Subject(code)),
        }
        Ok(Ok(Incoming::Frame))
    }
}

/// What came from another rank.
#[derive(Clone, Copy)]
enum Incoming {
    Frame,
    NotYet,
    End,
}

/// A stream of which what is there is read, without waiting for more.
struct Now<'a>(&'a TcpStream);

impl io::Read for Now<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (read, _) = rustix::net::recv(self.0, bytes, RecvFlags::DONTWAIT)?;
        Ok(read)
    }
}
