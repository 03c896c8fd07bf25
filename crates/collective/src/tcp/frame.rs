//! Frames: what every byte after the handshake is part of. Writing and reading stand side by side.

use std::io;

use crate::{Operation, Tag};

const MAGIC: [u8; 4] = *b"BVTF";

/// Size of an encoded header.
pub(super) const BYTES: usize = 52;

/// Bytes read before they are added to the checksum: few enough to be in the cache still.
const CHUNK: usize = 256 << 10;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A message of a collective.
    Data(Tag),
    /// The reason for which the sender closed the group.
    Close,
    /// The sender leaves, and this is its last frame: nothing, or who closed the group (a rank in 4
    /// bytes) and why.
    Leave,
    /// A message between a rank and the store, by its code.
    Store(u8),
}

const DATA: u8 = 1;
const CLOSE: u8 = 2;
const LEAVE: u8 = 3;
/// Codes from here on are the store's.
const STORE: u8 = 16;

/// The header of a frame.
///
/// On the wire, little-endian, 52 bytes:
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | magic `BVTF` |
/// | 4 | 1 | subject: 1 data, 2 close, 3 leave, from 16 on the store's |
/// | 5 | 1 | data: operation code |
/// | 6 | 2 | 0 |
/// | 8 | 4 | data: part of the call |
/// | 12 | 4 | CRC-32 of the payload |
/// | 16 | 8 | length of the payload |
/// | 24 | 8 | number of the frame on this connection and in this direction, from 0 |
/// | 32 | 8 | data: epoch |
/// | 40 | 8 | data: number of the call in the epoch |
/// | 48 | 4 | CRC-32 of the 48 bytes before |
///
/// The header has a checksum of its own, since its length is believed before the payload is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) subject: Subject,
    pub(super) sequence: u64,
    pub(super) length: u64,
    checksum: u32,
}

/// What a reader refuses.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the connection ended {got} bytes into {of} of frame {sequence}")]
    Cut { sequence: u64, got: usize, of: u64 },
    #[error("expected magic {MAGIC:?}, got {0:?}")]
    Magic([u8; 4]),
    #[error("header of frame {sequence}: expected checksum {expected:08x}, got {got:08x}")]
    HeaderChecksum {
        sequence: u64,
        expected: u32,
        got: u32,
    },
    #[error("leave: expected no words, or a rank in 4 bytes and a reason, got {0} bytes")]
    ShortLeave(usize),
    #[error("leave: expected the rank below {world} that closed the group, got {by}")]
    Closer { by: usize, world: usize },
    #[error("unknown subject {0} of a frame")]
    Subject(u8),
    #[error("unknown operation code {0}")]
    Operation(u8),
    #[error("expected frame {expected}, got frame {got}")]
    Sequence { expected: u64, got: u64 },
    #[error("frame {sequence} of {length} bytes: expected at most {limit}")]
    Length {
        sequence: u64,
        length: u64,
        limit: u64,
    },
    #[error("frame {sequence} of {length} bytes: no memory for it")]
    Memory { sequence: u64, length: u64 },
    #[error("payload of frame {sequence}: expected checksum {expected:08x}, got {got:08x}")]
    Checksum {
        sequence: u64,
        expected: u32,
        got: u32,
    },
}

impl Header {
    pub(super) fn new(subject: Subject, sequence: u64, payload: &[u8]) -> Self {
        Self {
            subject,
            sequence,
            length: payload.len() as u64,
            checksum: crc32fast::hash(payload),
        }
    }

    pub(super) fn encode(&self) -> [u8; BYTES] {
        let (code, operation, tag) = match self.subject {
            Subject::Data(tag) => (DATA, tag.operation.code(), Some(tag)),
            Subject::Close => (CLOSE, 0, None),
            Subject::Leave => (LEAVE, 0, None),
            Subject::Store(code) => (code, 0, None),
        };
        let (part, epoch, call) = tag.map_or((0, 0, 0), |tag| (tag.part, tag.epoch, tag.sequence));
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&[code, operation]);
        bytes[8..12].copy_from_slice(&part.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&epoch.to_le_bytes());
        bytes[40..48].copy_from_slice(&call.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..48]);
        bytes[48..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header of frame `sequence`, whose payload may have `limit` bytes.
    pub(super) fn decode(
        bytes: &[u8; BYTES],
        sequence: u64,
        limit: u64,
    ) -> Result<Self, FrameError> {
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        let (expected, got) = (crc32fast::hash(&bytes[..48]), u32_at(bytes, 48));
        if got != expected {
            return Err(FrameError::HeaderChecksum {
                sequence,
                expected,
                got,
            });
        }
        let subject = match bytes[4] {
            DATA => Subject::Data(Tag {
                epoch: u64_at(bytes, 32),
                sequence: u64_at(bytes, 40),
                operation: Operation::from_code(bytes[5]).ok_or(FrameError::Operation(bytes[5]))?,
                part: u32_at(bytes, 8),
            }),
            CLOSE => Subject::Close,
            LEAVE => Subject::Leave,
            code if code >= STORE => Subject::Store(code),
            code => return Err(FrameError::Subject(code)),
        };
        let (length, got) = (u64_at(bytes, 16), u64_at(bytes, 24));
        if got != sequence {
            let expected = sequence;
            return Err(FrameError::Sequence { expected, got });
        }
        if length > limit {
            return Err(FrameError::Length {
                sequence,
                length,
                limit,
            });
        }
        Ok(Self {
            subject,
            sequence,
            length,
            checksum: u32_at(bytes, 12),
        })
    }

    /// Compares the payload's checksum with the one that the header holds.
    pub(super) fn check(&self, got: u32) -> Result<(), FrameError> {
        if got != self.checksum {
            return Err(FrameError::Checksum {
                sequence: self.sequence,
                expected: self.checksum,
                got,
            });
        }
        Ok(())
    }
}

/// Reads frame `sequence` as it comes, its payload into what `buffer` gives for that many bytes.
/// `None` if the stream ended before it.
#[cfg(any(test, fuzzing))]
pub(super) fn read(
    input: &mut impl io::Read,
    sequence: u64,
    limit: u64,
    buffer: impl FnOnce(usize) -> Vec<u8>,
) -> Result<Option<(Subject, Vec<u8>)>, FrameError> {
    match Assembler::new(sequence, limit).read(input, buffer)? {
        Read::Frame(subject, payload) => Ok(Some((subject, payload))),
        Read::End => Ok(None),
        Read::NotYet => Err(io::Error::from(io::ErrorKind::WouldBlock).into()),
    }
}

/// What there is to read.
pub(super) enum Read {
    /// A whole frame.
    Frame(Subject, Vec<u8>),
    /// The stream has no more bytes yet: what came of a frame is kept.
    NotYet,
    /// The stream ended between two frames.
    End,
}

/// Puts frames together from a stream that may give a few bytes at a time.
pub(super) struct Assembler {
    /// Number of the frame that comes.
    sequence: u64,
    limit: u64,
    header: [u8; BYTES],
    /// Bytes that have come, of the header or of the payload.
    got: usize,
    payload: Option<Payload>,
}

/// A payload that is being read, and how far its checksum is.
struct Payload {
    header: Header,
    bytes: usize,
    buffer: Vec<u8>,
    checksum: crc32fast::Hasher,
}

impl Assembler {
    pub(super) fn new(sequence: u64, limit: u64) -> Self {
        Self {
            sequence,
            limit,
            header: [0; BYTES],
            got: 0,
            payload: None,
        }
    }

    /// Reads until a frame is complete or the stream gives nothing more; payloads are read into what
    /// `buffer` gives for so many bytes, whatever that holds.
    pub(super) fn read(
        &mut self,
        input: &mut impl io::Read,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Read, FrameError> {
        let mut buffer = Some(buffer);
        loop {
            let room = match &mut self.payload {
                None => &mut self.header[self.got..],
                Some(payload) => payload.room(self.got),
            };
            if !room.is_empty() {
                match input.read(room) {
                    Ok(0) => return self.end(),
                    Ok(more) => self.take(more),
                    Err(fault) if fault.kind() == io::ErrorKind::Interrupted => continue,
                    Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Read::NotYet);
                    }
                    Err(fault) => return Err(fault.into()),
                }
            }
            if let Some(frame) = self.complete(&mut buffer)? {
                return Ok(frame);
            }
        }
    }

    fn take(&mut self, more: usize) {
        if let Some(payload) = &mut self.payload {
            let came = &payload.buffer[self.got..self.got + more];
            payload.checksum.update(came); // while it is in the cache
        }
        self.got += more;
    }

    /// Goes on to the payload once the header is there, and to the next frame once that is.
    fn complete(
        &mut self,
        buffer: &mut Option<impl FnOnce(usize) -> Vec<u8>>,
    ) -> Result<Option<Read>, FrameError> {
        match self.payload.take() {
            None if self.got == BYTES => {
                let header = Header::decode(&self.header, self.sequence, self.limit)?;
                self.payload = Some(Payload::new(header, buffer)?);
                self.got = 0;
                Ok(None)
            }
            Some(payload) if self.got == payload.bytes => {
                self.sequence += 1;
                self.got = 0;
                payload.finish().map(Some)
            }
            unfinished => {
                self.payload = unfinished;
                Ok(None)
            }
        }
    }

    /// What it means that the stream ended here.
    fn end(&self) -> Result<Read, FrameError> {
        let header = self.payload.as_ref().map(|payload| &payload.header);
        let (got, of) = match header {
            None if self.got == 0 => return Ok(Read::End),
            None => (self.got, BYTES as u64),
            Some(header) => (BYTES + self.got, BYTES as u64 + header.length),
        };
        Err(FrameError::Cut {
            sequence: self.sequence,
            got,
            of,
        })
    }
}

impl Payload {
    fn new(
        header: Header,
        buffer: &mut Option<impl FnOnce(usize) -> Vec<u8>>,
    ) -> Result<Self, FrameError> {
        let (sequence, length) = (header.sequence, header.length);
        let no_memory = || FrameError::Memory { sequence, length };
        let bytes = usize::try_from(length).map_err(|_| no_memory())?;
        // One frame at a time, so one payload.
        let mut buffer = buffer.take().map_or_else(Vec::new, |buffer| buffer(bytes));
        let more = bytes.saturating_sub(buffer.len());
        buffer.try_reserve_exact(more).map_err(|_| no_memory())?;
        Ok(Self {
            header,
            bytes,
            buffer,
            checksum: crc32fast::Hasher::new(),
        })
    }

    /// Where the next bytes go. A buffer that held as many before is not filled with zeros again.
    fn room(&mut self, got: usize) -> &mut [u8] {
        let end = self.bytes.min(got + CHUNK);
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        &mut self.buffer[got..end]
    }

    fn finish(mut self) -> Result<Read, FrameError> {
        self.header.check(self.checksum.finalize())?;
        self.buffer.truncate(self.bytes);
        Ok(Read::Frame(self.header.subject, self.buffer))
    }
}

fn u32_at(bytes: &[u8; BYTES], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8; BYTES], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
