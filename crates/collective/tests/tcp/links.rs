//! Messages on connections that have formed.

use std::time::Duration;

use burn_virtual_collective::tcp::{Limits, Settings};
use burn_virtual_collective::{
    Algorithm, Deadline, Group, Operation, Options, Tag, TcpTransport, Transport, TransportError,
    tcp,
};

use super::help::{assert_contains, join_all, settings, store, within_limit};

const TAG: Tag = Tag {
    epoch: 0,
    sequence: 0,
    operation: Operation::AllReduce,
    part: 0,
};

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(8))
}

fn pair() -> [TcpTransport; 2] {
    let ends = tcp::group(2).unwrap();
    ends.try_into().unwrap()
}

#[test]
fn both_get_on_when_each_sends_much_before_it_receives() {
    // Far more than the system's buffers hold.
    const BYTES: usize = 48 << 20;
    within_limit(|| {
        let ranks = pair().map(|mut end| {
            std::thread::spawn(move || {
                let (own, other) = (end.rank(), 1 - end.rank());
                let [payload, expected] = [own, other].map(|rank| vec![rank as u8 + 1; BYTES]);
                let mut buffer = vec![];
                for part in 0..2 {
                    end.send(other, Tag { part, ..TAG }, &payload, soon())
                        .unwrap();
                }
                for part in 0..2 {
                    let tag = Tag { part, ..TAG };
                    end.receive(other, tag, &mut buffer, soon()).unwrap();
                    assert!(buffer == expected);
                }
                end
            })
        });
        for rank in ranks {
            rank.join().unwrap();
        }
    });
}

#[test]
fn all_ranks_send_to_all_before_any_receives() {
    within_limit(|| {
        let mut ends = tcp::group(4).unwrap();
        let others = |own| (0..4).filter(move |&rank| rank != own);
        for end in &mut ends {
            let own = end.rank();
            for to in others(own) {
                end.send(to, TAG, &[own as u8; 1 << 16], soon()).unwrap();
            }
        }
        for end in &mut ends {
            for from in others(end.rank()) {
                let mut buffer = vec![];
                end.receive(from, TAG, &mut buffer, soon()).unwrap();
                assert_eq!(buffer, [from as u8; 1 << 16]);
            }
        }
    });
}

#[test]
fn every_length_arrives_as_it_was() {
    within_limit(|| {
        let [mut one, mut other] = pair();
        let mut buffer = vec![];
        for (part, bytes) in (0..).zip([0, 1, 51, 52, 53, 4096, 1 << 20, (1 << 20) + 1, 7]) {
            let payload: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8).collect();
            let tag = Tag { part, ..TAG };
            one.send(1, tag, &payload, soon()).unwrap();
            other.receive(0, tag, &mut buffer, soon()).unwrap();
            assert!(buffer == payload, "{bytes} bytes");
        }
    });
}

#[test]
fn buffers_are_as_few_as_messages_on_the_way_when_sizes_alternate() {
    within_limit(|| {
        let [mut sender, mut receiver] = pair();
        let (mut buffer, mut seen) = (vec![], std::collections::HashSet::new());
        for sequence in 0..200 {
            let tag = Tag { sequence, ..TAG };
            let bytes = if sequence % 2 == 0 { 50_000 } else { 72 };
            sender.send(1, tag, &vec![1; bytes], soon()).unwrap();
            receiver.receive(0, tag, &mut buffer, soon()).unwrap();
            seen.insert((buffer.as_ptr(), buffer.capacity()));
        }
        // Two places, either of which may have grown once.
        assert!(seen.len() <= 4, "{} buffers", seen.len());
    });
}

#[test]
fn receive_ends_at_its_deadline_when_the_other_sends_nothing() {
    within_limit(|| {
        let [mut one, _other] = pair();
        let short = Deadline::after(Duration::from_millis(100));
        let fault = one.receive(1, TAG, &mut vec![], short).unwrap_err();
        assert!(
            matches!(fault, TransportError::Timeout { from: 1, .. }),
            "{fault}"
        );
    });
}

/// Runs `body` on both ranks of a group whose messages have at most `bytes` bytes.
fn with_limit<T: Send + 'static>(
    bytes: u64,
    body: impl Fn(&mut Group) -> T + Clone + Send + 'static,
) -> Vec<T> {
    within_limit(move || {
        let store = store(2);
        let joined = join_all((0..2).map(|rank| Settings {
            limits: Limits {
                message: bytes,
                ..Limits::default()
            },
            ..settings(&store, rank, 2)
        }));
        let ranks: Vec<_> = joined
            .into_iter()
            .map(|joined| {
                let (transport, body) = (joined.unwrap(), body.clone());
                let options = Options::default();
                std::thread::spawn(move || body(&mut Group::new(Box::new(transport), options)))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn vectors_are_split_when_they_are_longer_than_a_message_may_be_case_23() {
    let sums = with_limit(300_000, |group| {
        let mut values = vec![group.rank() as f32 + 1.0; 1_000_000];
        group.sum(Algorithm::Ring, &mut values).unwrap();
        group.sum(Algorithm::HalvingDoubling, &mut values).unwrap();
        values.iter().all(|value| *value == 6.0)
    });
    assert_eq!(sums, [true; 2]);
}

#[test]
fn every_rank_reads_size_and_limit_when_a_message_is_too_long_case_23() {
    let errors = with_limit(100_000, |group| {
        let mut values = vec![1.0_f32; 200_000];
        group
            .sum(Algorithm::Ring, &mut values)
            .unwrap_err()
            .to_string()
    });
    for error in errors {
        assert_contains(&error, &["bytes", "100000"]);
    }
}
