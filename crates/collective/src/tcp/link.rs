//! The connection to one other rank.

use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use super::frame::{BYTES, Header, Subject};
use super::timed::is_wait;
use crate::Deadline;

/// The longest wait of a writer before it looks whether the group was closed meanwhile.
const SLICE: Duration = Duration::from_millis(20);

pub(super) struct Link {
    pub(super) stream: TcpStream,
    writer: Mutex<Writer>,
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
    header: [u8; BYTES],
    written: usize,
    // Without a payload, so that anybody can write the rest of it.
    is_bare: bool,
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
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        // The reader waits for as long as the connection lasts; those who wait for it don't.
        stream.set_read_timeout(None)?;
        Ok(Self {
            stream,
            writer: Mutex::default(),
        })
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
        if let Some(Cut { header, .. }) = writer.cut.as_ref().filter(|cut| cut.is_bare) {
            let header = *header;
            self.write_frame(&mut writer, &header, &[], deadline, &called_off)?;
        }
        let header = Header::new(subject, writer.sequence, payload).encode();
        match &writer.cut {
            Some(cut) if cut.header != header => match subject {
                // What can wait does not break off what is on the way.
                Subject::Data(tag) if tag.is_notice() => Err(WriteError::Late {
                    written: 0,
                    bytes: BYTES as u64,
                }),
                _ => Err(self.give_up(&mut writer, "a message to it was cut short".to_owned())),
            },
            _ => self.write_frame(&mut writer, &header, payload, deadline, &called_off),
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
        header: &[u8; BYTES],
        payload: &[u8],
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
                    header: *header,
                    written: written as usize,
                    is_bare: payload.is_empty(),
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
