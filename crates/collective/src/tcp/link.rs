//! The connection to one other rank.

use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use super::frame::{Assembler, BYTES, Header, Subject};
use super::timed::is_wait;
use super::turn::Turn;
use crate::Deadline;

/// The longest wait of a writer before it looks whether the group was closed meanwhile.
const SLICE: Duration = Duration::from_millis(20);

/// Bytes that a copy costs nothing of.
const SHORT: usize = 64;

pub(super) struct Link {
    pub(super) stream: TcpStream,
    writer: Mutex<Writer>,
    /// Held by whoever reads; none once the stream has ended.
    incoming: Mutex<Option<Assembler>>,
    pub(super) turn: Turn,
}

#[derive(Debug, Default)]
struct Writer {
    sequence: u64,
    cut: Option<Cut>,
    // Why nothing more can be written: the end of the last frame is missing, or the stream failed.
    broken: Option<String>,
}

/// A frame of which only the beginning was written by its deadline.
#[derive(Debug)]
struct Cut {
    subject: Subject,
    header: [u8; BYTES],
    written: usize,
    // The payload, where that is short: then anybody can write the rest of the frame.
    payload: Option<Vec<u8>>,
}

/// Why a frame was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The deadline passed, or somebody called it off, after this many bytes of so many.
    Late { written: u64, bytes: u64 },
    /// The connection is of no use any more.
    Broken(String),
}

impl Link {
    /// For messages of at most `limit` bytes.
    pub(super) fn new(stream: TcpStream, limit: u64) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        // The reader waits for as long as the connection lasts; those who wait for it don't.
        stream.set_read_timeout(None)?;
        Ok(Self {
            stream,
            writer: Mutex::default(),
            incoming: Mutex::new(Some(Assembler::new(0, limit))),
            turn: Turn::default(),
        })
    }

    /// What came of a frame, once nobody else reads.
    pub(super) fn incoming(&self) -> MutexGuard<'_, Option<Assembler>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What came of a frame, if nobody reads.
    pub(super) fn try_incoming(&self) -> Option<MutexGuard<'_, Option<Assembler>>> {
        match self.incoming.try_lock() {
            Ok(incoming) => Some(incoming),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Writes a frame. Gives up at the deadline, or when the other side takes nothing and
    /// `called_off` is true; the same frame can be written again then, and goes on where it stopped.
    pub(super) fn write(
        &self,
        subject: Subject,
        payload: &[u8],
        deadline: Deadline,
        called_off: impl Fn() -> bool,
    ) -> Result<(), WriteError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_with(writer, subject, payload, deadline, called_off)
    }

    /// As [`Link::write`], for a few words to a rank that may not listen: waits for another writer
    /// no longer than for anything else.
    pub(super) fn write_words(&self, subject: Subject, payload: &[u8], deadline: Deadline) {
        let writer = loop {
            match self.writer.try_lock() {
                Ok(writer) => break writer,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => match deadline.slice(SLICE / 10) {
                    Some(rest) => thread::sleep(rest),
                    None => return,
                },
            }
        };
        // In vain if it is gone or does not listen.
        let _ = self.write_with(writer, subject, payload, deadline, || false);
    }

    /// Ends both directions, which ends the reader as well.
    pub(super) fn shut(&self) {
        // Fails only if the other end did so before.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn write_with(
        &self,
        mut writer: MutexGuard<'_, Writer>,
        subject: Subject,
        payload: &[u8],
        deadline: Deadline,
        called_off: impl Fn() -> bool,
    ) -> Result<(), WriteError> {
        if let Some(broken) = &writer.broken {
            return Err(WriteError::Broken(broken.clone()));
        }
        self.finish_other(&mut writer, subject, payload, deadline, &called_off)?;
        let header = Header::new(subject, writer.sequence, payload).encode();
        let frame = (subject, &header, payload);
        self.write_frame(&mut writer, frame, deadline, &called_off)
    }

    /// Writes what is left of a frame that was cut, unless it is the one of `subject` and `payload`:
    /// that would be written twice.
    fn finish_other(
        &self,
        writer: &mut Writer,
        subject: Subject,
        payload: &[u8],
        deadline: Deadline,
        called_off: &impl Fn() -> bool,
    ) -> Result<(), WriteError> {
        let Some(cut) = &writer.cut else {
            return Ok(());
        };
        let frame = Header::new(subject, writer.sequence, payload);
        if cut.header == frame.encode() {
            return Ok(());
        }
        // A notice can wait: it neither breaks off what is on the way, nor finishes what its sender
        // will send again.
        if is_notice(subject) && !is_notice(cut.subject) {
            let (written, bytes) = (0, BYTES as u64 + frame.length);
            return Err(WriteError::Late { written, bytes });
        }
        let (subject, header) = (cut.subject, cut.header);
        match cut.payload.clone() {
            Some(rest) => self.write_frame(writer, (subject, &header, &rest), deadline, called_off),
            None => Err(self.give_up(writer, "a message to it was cut short".to_owned())),
        }
    }

    /// What the other end still gets makes no sense; what it has sent can be read.
    fn give_up(&self, writer: &mut Writer, reason: String) -> WriteError {
        writer.broken = Some(reason.clone());
        let _ = self.stream.shutdown(Shutdown::Write);
        WriteError::Broken(reason)
    }

    /// Writes a frame, or what is left of it.
    fn write_frame(
        &self,
        writer: &mut Writer,
        (subject, header, payload): (Subject, &[u8; BYTES], &[u8]),
        deadline: Deadline,
        called_off: &impl Fn() -> bool,
    ) -> Result<(), WriteError> {
        let begun = writer.cut.as_ref().map_or(0, |cut| cut.written);
        match self.write_parts(header, payload, begun, deadline, called_off) {
            Ok(()) => {
                writer.sequence += 1;
                writer.cut = None;
                Ok(())
            }
            Err(WriteError::Late { written, bytes }) => {
                writer.cut = (written > 0).then_some(Cut {
                    subject,
                    header: *header,
                    written: written as usize,
                    payload: (payload.len() <= SHORT).then(|| payload.to_vec()),
                });
                Err(WriteError::Late { written, bytes })
            }
            Err(WriteError::Broken(reason)) => Err(self.give_up(writer, reason)),
        }
    }

    /// Header and payload in one call of the system where it takes them, from byte `begun` on:
    /// neither is copied.
    fn write_parts(
        &self,
        header: &[u8],
        payload: &[u8],
        begun: usize,
        deadline: Deadline,
        called_off: &impl Fn() -> bool,
    ) -> Result<(), WriteError> {
        let broken = |fault: io::Error| WriteError::Broken(fault.to_string());
        let bytes = header.len() + payload.len();
        let mut written = begun;
        while written < bytes {
            let late = WriteError::Late {
                written: written as u64,
                bytes: bytes as u64,
            };
            let Some(slice) = deadline.slice(SLICE) else {
                return Err(late);
            };
            self.stream.set_write_timeout(Some(slice)).map_err(broken)?;
            let parts = [
                IoSlice::new(&header[written.min(header.len())..]),
                IoSlice::new(&payload[written.saturating_sub(header.len())..]),
            ];
            match (&self.stream).write_vectored(&parts) {
                Ok(0) => return Err(broken(io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(fault) if is_wait(&fault) && called_off() => return Err(late),
                Err(fault) if is_wait(&fault) => {}
                Err(fault) => return Err(broken(fault)),
            }
        }
        Ok(())
    }
}

fn is_notice(subject: Subject) -> bool {
    matches!(subject, Subject::Data(tag) if tag.is_notice())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::frame;
    use super::*;
    use crate::tag::NOTICE;
    use crate::{Operation, Tag};

    fn data(part: u32) -> Subject {
        Subject::Data(Tag {
            epoch: 0,
            sequence: 4,
            operation: Operation::Ring,
            part,
        })
    }

    fn pair() -> (Link, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let limit = Some(Duration::from_secs(8));
        other.set_read_timeout(limit).unwrap();
        (Link::new(own, 100).unwrap(), other)
    }

    /// Writes the beginning of a frame, as if its deadline had passed then.
    fn cut(link: &Link, written: usize, subject: Subject, payload: &[u8]) {
        let mut writer = link.writer.lock().unwrap();
        let header = Header::new(subject, writer.sequence, payload).encode();
        let frame = [&header[..], payload].concat();
        (&link.stream).write_all(&frame[..written]).unwrap();
        writer.cut = Some(Cut {
            subject,
            header,
            written,
            payload: Some(payload.to_vec()),
        });
    }

    fn write(link: &Link, subject: Subject, payload: &[u8]) -> Result<(), WriteError> {
        let soon = Deadline::after(Duration::from_secs(8));
        link.write(subject, payload, soon, || false)
    }

    fn next(other: &mut TcpStream, sequence: u64) -> (Subject, Vec<u8>) {
        let frame = frame::read(other, sequence, 100, |_| vec![]);
        frame.unwrap().unwrap()
    }

    #[test]
    fn short_frame_is_finished_first_when_it_was_cut() {
        let (link, mut other) = pair();
        for (written, sequence) in [(20, 0), (BYTES + 1, 2)] {
            cut(&link, written, Subject::Leave, b"in 3");
            write(&link, Subject::Close, b"done").unwrap();
            let first = (Subject::Leave, b"in 3".to_vec());
            assert_eq!(next(&mut other, sequence), first);
            let second = (Subject::Close, b"done".to_vec());
            assert_eq!(next(&mut other, sequence + 1), second);
        }
    }

    #[test]
    fn short_frame_is_sent_once_when_it_was_cut_and_is_repeated() {
        let (link, mut other) = pair();
        for (written, sequence) in [(20, 0), (BYTES + 1, 2)] {
            cut(&link, written, data(1), b"sums");
            // A notice finishes it no more than it comes between.
            let late = write(&link, data(NOTICE), b"on 3").unwrap_err();
            assert!(matches!(late, WriteError::Late { written: 0, .. }));
            write(&link, data(1), b"sums").unwrap();
            write(&link, data(2), b"more").unwrap();
            assert_eq!(next(&mut other, sequence), (data(1), b"sums".to_vec()));
            assert_eq!(next(&mut other, sequence + 1), (data(2), b"more".to_vec()));
        }
    }

    #[test]
    fn notice_that_was_cut_is_finished_by_the_next_one() {
        let (link, mut other) = pair();
        cut(&link, 20, data(NOTICE), b"on 3");
        write(&link, data(NOTICE), b"on 4").unwrap();
        assert_eq!(next(&mut other, 0), (data(NOTICE), b"on 3".to_vec()));
        assert_eq!(next(&mut other, 1), (data(NOTICE), b"on 4".to_vec()));
    }
}
