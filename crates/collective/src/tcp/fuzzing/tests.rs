//! A bounded run of what the fuzzer runs without end.

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::claims::To;
use super::super::message::Phase;
use super::super::settings::Job;
use super::*;
use crate::Operation;
use crate::shape::Shape;

/// Records as they should be.
fn frames() -> Vec<Vec<u8>> {
    let tag = crate::Tag {
        epoch: 1,
        sequence: u64::MAX,
        operation: Operation::AllReduce,
        part: 7,
    };
    let frames = [
        (Subject::Data(tag), &b"values"[..]),
        (Subject::Store(22), b""),
        (Subject::Close, b"a reason"),
        (Subject::Leave, b"\x01\0\0\0because"),
    ];
    let encoded = (0..)
        .zip(frames)
        .map(|(sequence, (subject, payload))| {
            [&Header::new(subject, sequence, payload).encode(), payload].concat()
        })
        .collect::<Vec<_>>();
    vec![encoded.concat(), encoded[0].clone()]
}

fn messages() -> Vec<Vec<u8>> {
    let text = || "rank 3 from [::1]:9: äöü".to_owned();
    let messages = [
        Message::Register(text()),
        Message::GiveUp(vec![3, 4], text()),
        Message::Here(Phase::Linking, vec![0, 2]),
        Message::Roster([9; 16], vec![text(), text()]),
        Message::Go,
        Message::Failed(None, vec![0, 1], text()),
        Message::Refused("ä".repeat(1000)),
        Message::Strangers(u64::MAX, "ä".repeat(1000)),
    ];
    let encoded = messages.map(|message| {
        let (code, payload) = message.encode();
        [&[code][..], &payload].concat()
    });
    encoded.to_vec()
}

fn records() -> Vec<Vec<u8>> {
    let claims = Claims {
        to: To::Rank(1, [7; 16]),
        rank: 3,
        job: Job::new(4),
        probe: "93ac".to_owned(),
    };
    let verdict = [&[2, 5, 0][..], b"no ha"].concat();
    let hello = handshake::encode_hello(&[5; NONCE_BYTES]);
    vec![hello.to_vec(), claims.encode().to_vec(), verdict]
}

fn calls() -> Vec<Vec<u8>> {
    let layout = Layout::new([3, 1, 2], 1, 70);
    let mut sum = Partial::empty(&layout);
    sum.set_segment(0, &[1.0, f32::NAN, -0.0]).unwrap();
    let shape = Shape::new(&[2, 3]);
    let calls = [(Some(&sum), None), (Some(&sum), Some(&shape)), (None, None)];
    let encode = |(sum, shape): (Option<&Partial>, Option<&Shape>)| {
        let mut bytes = vec![];
        let header = header::Header::barrier().with_shape(shape);
        header.encode(&mut bytes);
        if let Some(shape) = shape {
            shape.encode(&mut bytes);
        }
        wire::write_sum(&mut bytes, sum, &(0..6));
        bytes
    };
    let notice = Wait { on: 3, met: true }.encode();
    calls
        .into_iter()
        .map(encode)
        .chain([notice.to_vec()])
        .collect()
}

/// What may happen to a record.
#[derive(Clone, Debug)]
enum Harm {
    Cut(Index),
    Flip(Index, u8),
    /// A length, or something else, of 2, 4 or 8 bytes is as large as can be, or nearly.
    Huge(Index, usize, u8),
    Insert(Index, Vec<u8>),
}

fn harm() -> impl Strategy<Value = Harm> {
    let index = any::<Index>;
    prop_oneof![
        index().prop_map(Harm::Cut),
        (index(), 0..8_u8).prop_map(|(at, bit)| Harm::Flip(at, 1 << bit)),
        (index(), 1..4_u32, any::<u8>()).prop_map(|(at, log, last)| Harm::Huge(at, 1 << log, last)),
        (index(), prop::collection::vec(any::<u8>(), 1..20))
            .prop_map(|(at, b)| Harm::Insert(at, b)),
    ]
}

impl Harm {
    fn done_to(self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Flip(at, bits) => {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
            Self::Huge(at, size, last) => {
                let at = at.index(bytes.len());
                let end = bytes.len().min(at + size);
                bytes[at..end].fill(0xff);
                bytes[end - 1] = last;
            }
            Self::Insert(at, more) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, more);
            }
        }
    }
}

/// One of these, after a few mishaps.
fn harmed(whole: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let harms = prop::collection::vec(harm(), 0..4);
    (prop::sample::select(whole), harms).prop_map(|(mut bytes, harms)| {
        harms.into_iter().for_each(|harm| harm.done_to(&mut bytes));
        bytes
    })
}

proptest! {
    #[test]
    fn nothing_panics_on_noise(noise in prop::collection::vec(any::<u8>(), 0..700)) {
        frame(&noise);
        message(&noise);
        handshake(&noise);
        call(&noise);
    }

    #[test]
    fn nothing_panics_on_harmed_frames(bytes in harmed(frames())) {
        frame(&bytes);
    }

    #[test]
    fn nothing_panics_on_harmed_messages(bytes in harmed(messages())) {
        message(&bytes);
    }

    #[test]
    fn nothing_panics_on_harmed_handshakes(bytes in harmed(records())) {
        handshake(&bytes);
    }

    #[test]
    fn nothing_panics_on_harmed_calls(bytes in harmed(calls())) {
        call(&bytes);
    }
}

/// Each number in a message in turn is larger than all that follows it could be.
#[test]
fn lengths_that_are_not_true_ask_for_no_memory() {
    for whole in messages() {
        for at in 1..whole.len().saturating_sub(3) {
            let mut bytes = whole.clone();
            bytes[at..at + 4].fill(0xff);
            message(&bytes);
            if let Ok(Message::Here(_, ranks) | Message::GiveUp(ranks, _)) =
                Message::decode(bytes[0], &bytes[1..])
            {
                assert!(ranks.capacity() <= bytes.len());
            }
        }
    }
    let huge = [&[19, 0][..], &u32::MAX.to_le_bytes(), &[0; 40]].concat();
    assert_eq!(
        Message::decode(huge[0], &huge[1..]),
        Err("message is cut short".to_owned())
    );
}
