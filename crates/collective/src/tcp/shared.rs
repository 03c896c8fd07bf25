//! What a rank and its readers have in common.

use std::time::Duration;

use super::frame::{self, FrameError, Subject};
use super::handshake::shortened;
use super::link::Link;
use crate::Deadline;
use crate::mailbox::Mailbox;

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

    fn heard_leave(&self, words: &[u8]) {
        if let Some((by, reason)) = words.split_first_chunk() {
            let reason = String::from_utf8_lossy(reason);
            self.mailbox
                .close(u32::from_le_bytes(*by) as usize, &reason);
        }
    }

    /// Ranks that do not listen cost the others no more than a moment.
    fn say_to_all(&self, subject: Subject, payload: &[u8]) {
        let deadline = Deadline::after(ALL_WORDS);
        for link in self.links.iter().flatten() {
            link.write_words(subject, payload, deadline.at_most(WORDS));
        }
    }

    /// Puts what rank `from` sends into the mailbox until it sends no more. It never waits for
    /// anybody to take it out, so that ranks that send to each other at once both get on.
    pub(super) fn read(&self, from: usize) {
        let Some(link) = &self.links[from] else {
            return;
        };
        let reason = match self.read_frames(from, link) {
            Ok(reason) => reason.to_owned(),
            Err(fault @ (FrameError::Io(_) | FrameError::Cut { .. })) => fault.to_string(),
            Err(fault) => {
                self.close(&format!("rank {from} sent a broken frame: {fault}"));
                link.shut();
                "it sent a broken frame".to_owned()
            }
        };
        self.mailbox.leave(from, &reason);
    }

    /// Why the stream ended, if it did so between two frames.
    fn read_frames(&self, from: usize, link: &Link) -> Result<&'static str, FrameError> {
        for sequence in 0.. {
            let buffer = |bytes| self.mailbox.buffer(bytes);
            let frame = frame::read(&mut &link.stream, sequence, self.limit, buffer)?;
            match frame {
                None => break,
                Some((Subject::Data(tag), payload)) => self.mailbox.push(from, tag, payload),
                Some((Subject::Close, reason)) => {
                    let reason = String::from_utf8_lossy(&reason);
                    self.mailbox.close(from, &reason);
                }
                Some((Subject::Leave, words)) => {
                    self.heard_leave(&words);
                    return Ok("it left the group");
                }
                Some((Subject::Store(code), _)) => return Err(FrameError::Subject(code)),
            }
        }
        Ok("its connection ended without a word")
    }
}
