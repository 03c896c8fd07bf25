use std::cell::Cell;

use proptest::prelude::*;

use super::*;

const LIMIT: u64 = 4096;

fn subjects() -> impl Strategy<Value = Subject> {
    let tag = (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(epoch, sequence, part)| {
        Subject::Data(Tag {
            epoch,
            sequence,
            operation: Operation::AllReduce,
            part,
        })
    });
    prop_oneof![
        tag,
        Just(Subject::Close),
        Just(Subject::Leave),
        (STORE..=u8::MAX).prop_map(Subject::Store),
    ]
}

fn payloads() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

fn encoded(subject: Subject, sequence: u64, payload: &[u8]) -> Vec<u8> {
    let header = Header::new(subject, sequence, payload).encode();
    [&header, payload].concat()
}

type Decoded = Result<Option<(Subject, Vec<u8>)>, FrameError>;

/// The result, and the memory asked for.
fn decoded(mut bytes: &[u8], sequence: u64) -> (Decoded, usize) {
    let asked = Cell::new(0);
    let result = read(&mut bytes, sequence, LIMIT, |bytes| {
        asked.set(bytes);
        Vec::new()
    });
    (result, asked.get())
}

proptest! {
    #[test]
    fn frames_round_trip(frames in prop::collection::vec((subjects(), payloads()), 0..5)) {
        let stream: Vec<u8> = (0..)
            .zip(&frames)
            .flat_map(|(sequence, (subject, payload))| encoded(*subject, sequence, payload))
            .collect();
        let mut rest = &stream[..];
        for (sequence, (subject, payload)) in (0..).zip(&frames) {
            let got = read(&mut rest, sequence, LIMIT, |_| Vec::new()).unwrap();
            prop_assert_eq!(got, Some((*subject, payload.clone())));
        }
        prop_assert!(read(&mut rest, frames.len() as u64, LIMIT, |_| Vec::new()).unwrap().is_none());
    }

    #[test]
    fn frame_refused_when_any_byte_differs(
        subject in subjects(),
        sequence: u64,
        payload in payloads(),
        at: prop::sample::Index,
        flip in 1..=u8::MAX,
    ) {
        let mut bytes = encoded(subject, sequence, &payload);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let (result, asked) = decoded(&bytes, sequence);
        prop_assert!(result.is_err(), "byte {}", at);
        prop_assert!(asked <= payload.len());
    }

    #[test]
    fn frame_refused_when_cut_anywhere(
        subject in subjects(),
        payload in payloads(),
        at: prop::sample::Index,
    ) {
        let bytes = encoded(subject, 7, &payload);
        let at = at.index(bytes.len());
        let (result, _) = decoded(&bytes[..at], 7);
        match at {
            0 => prop_assert!(result.unwrap().is_none()),
            _ => {
                let cut = matches!(result, Err(FrameError::Cut { .. }));
                prop_assert!(cut);
            }
        }
    }

    #[test]
    fn noise_is_no_frame_and_asks_for_no_memory(
        noise in prop::collection::vec(any::<u8>(), 1..200),
        magic: bool,
    ) {
        let mut noise = noise;
        if magic && noise.len() >= 4 {
            noise[..4].copy_from_slice(&MAGIC);
        }
        let (result, asked) = decoded(&noise, 0);
        prop_assert!(result.is_err());
        prop_assert_eq!(asked, 0);
    }
}

/// A frame with right checksums whose header has other bytes at `offset`.
fn altered(offset: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = encoded(Subject::Close, 3, b"reason");
    bytes[offset..offset + with.len()].copy_from_slice(with);
    let checksum = crc32fast::hash(&bytes[..48]);
    bytes[48..BYTES].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn refusal_says_what_was_expected_when_a_field_is_out_of_range() {
    let cases: [(usize, &[u8], &str); 6] = [
        (0, b"HTTP", "expected magic"),
        (4, &[9], "unknown subject 9"),
        (4, &[DATA, 0], "unknown operation code 0"),
        (24, &[4], "expected frame 3, got frame 4"),
        (
            16,
            &u64::MAX.to_le_bytes(),
            "18446744073709551615 bytes: expected at most 4096",
        ),
        (16, &[5], "payload of frame 3: expected checksum"),
    ];
    for (offset, with, text) in cases {
        let (result, asked) = decoded(&altered(offset, with), 3);
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        assert!(asked <= 5, "{text}");
    }
}

#[test]
fn payload_goes_to_the_buffer_given_when_it_fits() {
    let payload = vec![7; 3_000_000];
    let bytes = encoded(Subject::Leave, 0, &payload);
    let buffer = Vec::with_capacity(payload.len());
    let place = buffer.as_ptr();
    let read = read(&mut &bytes[..], 0, 1 << 30, |_| buffer).unwrap();
    let (_, got) = read.unwrap();
    assert_eq!((got.as_ptr(), got), (place, payload));
}
