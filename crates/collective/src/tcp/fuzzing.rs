//! What a fuzzer calls: the parsers of what strangers, and links that went wrong, may send. Each
//! function takes any bytes and panics where a parser is wrong. No part of the API: it is there in
//! this crate's own tests, and with `--cfg fuzzing`, which cargo-fuzz sets (see `fuzz/README.md`).

use burn_virtual_plan::{Layout, Partial};

use super::claims::{self, Claims};
use super::frame::{self, BYTES, Header, Subject};
use super::handshake::{self, HELLO_BYTES, PROVEN_BYTES};
use super::message::Message;
use super::proof::{Key, NONCE_BYTES, Nonces};
use super::token::Token;
use crate::roll::Wait;
use crate::{header, wire};

/// Bytes that the payload of a frame may have here.
const LIMIT: u64 = 4096;

/// Ranks of a group here.
const WORLD: usize = 7;

/// Frames of a connection: the bytes as they are, and again with right magics, numbers and checksums,
/// so that what these would keep out is reached, too.
pub fn frame(bytes: &[u8]) {
    read_frames(bytes);
    let mut mended = bytes.to_vec();
    mend(&mut mended);
    read_frames(&mended);
}

fn read_frames(bytes: &[u8]) {
    let mut rest = bytes;
    for sequence in 0.. {
        let before = rest;
        let buffer = |asked: usize| {
            assert!(asked as u64 <= LIMIT, "{asked} bytes asked for");
            Vec::new()
        };
        let Ok(Some((subject, payload))) = frame::read(&mut rest, sequence, LIMIT, buffer) else {
            return;
        };
        let read = &before[..before.len() - rest.len()];
        assert_eq!(&read[BYTES..], payload, "another payload than was sent");
        let written = Header::new(subject, sequence, &payload).encode();
        let again = Header::decode(&written, sequence, LIMIT).map(|header| header.subject);
        assert!(
            matches!(again, Ok(again) if again == subject),
            "{subject:?} became {again:?}"
        );
        if let Subject::Store(code) = subject {
            read_message(code, &payload);
        }
    }
}

/// Makes frame after frame right, as far as the bytes and their lengths go.
fn mend(bytes: &mut [u8]) {
    let mut rest = bytes;
    for sequence in 0_u64.. {
        let Some((header, behind)) = rest.split_first_chunk_mut::<BYTES>() else {
            return;
        };
        let mut length = [0; 8];
        length.copy_from_slice(&header[16..24]);
        let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        header[..4].copy_from_slice(b"BVTF");
        header[24..32].copy_from_slice(&sequence.to_le_bytes());
        let payload = behind.split_at_mut_checked(length);
        if let Some((payload, _)) = &payload {
            header[12..16].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        }
        let checksum = crc32fast::hash(&header[..48]);
        header[48..].copy_from_slice(&checksum.to_le_bytes());
        let Some((_, behind)) = payload else { return };
        rest = behind;
    }
}

/// A message between a rank and the store: its code in the first byte, then its payload.
pub fn message(bytes: &[u8]) {
    if let Some((&code, payload)) = bytes.split_first() {
        read_message(code, payload);
    }
}

fn read_message(code: u8, payload: &[u8]) {
    let Ok(message) = Message::decode(code, payload) else {
        return;
    };
    // Texts are mended when read and cut when written; what was written once stays as it is.
    let written = message.encode();
    let again = Message::decode(written.0, &written.1);
    let again = again.map(|again| again.encode());
    assert_eq!(again, Ok(written), "{message:?}");
}

/// What travels in a handshake: the front of the bytes as a hello, as claims, and as claims or a
/// verdict with a proof. As they are, and with the proof that only who has the token can make.
pub fn handshake(bytes: &[u8]) {
    let key = Key::new(&Token::default());
    let nonces = Nonces {
        dialer: [1; NONCE_BYTES],
        listener: [2; NONCE_BYTES],
    };
    if let Ok(nonce) = handshake::decode_hello(&front::<HELLO_BYTES>(bytes)) {
        let written = handshake::encode_hello(&nonce);
        assert_eq!(handshake::decode_hello(&written), Ok(nonce));
    }

    let claimed = front::<{ claims::BYTES }>(bytes);
    if let Ok(claims) = Claims::decode(&claimed) {
        assert_eq!(Claims::decode(&claims.encode()), Ok(claims));
    }

    let proven = front::<PROVEN_BYTES>(bytes);
    let claims = handshake::decode_proof(&key, &nonces, &proven);
    assert_eq!(claims, None, "claims without a proof");
    let verdict = handshake::decode_verdict(&key, &nonces, &claimed, &proven);
    assert!(
        matches!(verdict, Err(handshake::Fault::Token)),
        "a verdict without a proof"
    );

    let proven = handshake::encode_proof(&key, &nonces, &claimed);
    let claims = handshake::decode_proof(&key, &nonces, &proven);
    assert_eq!(claims, Some(claimed));
    let mut proven = proven;
    let proof = key.listener(&nonces, &claimed, &claimed);
    proven[claims::BYTES..].copy_from_slice(&proof);
    let verdict = handshake::decode_verdict(&key, &nonces, &claimed, &proven);
    assert_eq!(verdict.is_ok(), claimed[0] == 1, "{verdict:?}");
}

/// The first bytes, filled up with zeros.
fn front<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut front = [0; N];
    let taken = bytes.len().min(N);
    front[..taken].copy_from_slice(&bytes[..taken]);
    front
}

/// The first message of a collective: its header, a shape if it says so, then a sum of 6 values in 3
/// segments. And a notice.
pub fn call(bytes: &[u8]) {
    if let Some(wait) = Wait::decode(bytes, WORLD) {
        assert!(wait.on < WORLD);
        assert_eq!(wait.encode(), bytes);
    }
    let Ok((header, body)) = header::Header::decode(bytes) else {
        return;
    };
    let Ok((shape, mut body)) = header.split_shape(body) else {
        return;
    };
    if let Some(shape) = shape {
        let mut written = Vec::new();
        shape.encode(&mut written);
        assert!(bytes[header::BYTES..].starts_with(&written));
    }
    let mut written = Vec::new();
    header.encode(&mut written);
    assert_eq!(
        written,
        bytes[..header::BYTES],
        "another header than was sent"
    );

    let layout = Layout::new([3, 1, 2], 1, 70);
    let mut beside = Partial::empty(&layout.slice(0..0));
    let mut room = wire::Aligned::default();
    if wire::read_beside(&mut body, &mut beside) == Ok(true)
        && let Ok(values) = wire::take_values::<f32>(&mut body, layout.elements(), &mut room)
    {
        assert_eq!(values.len(), layout.elements());
        assert_eq!(wire::finish(body).is_ok(), body.is_empty());
    }
}

#[cfg(test)]
mod tests;
