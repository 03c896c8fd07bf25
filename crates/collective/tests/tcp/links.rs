//! Messages on connections that have formed.

use std::time::Duration;

use burn_virtual_collective::{
    Deadline, Operation, Tag, TcpTransport, Transport, TransportError, tcp,
};

use super::help::within_limit;

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
                let payload = vec![own as u8 + 1; BYTES];
                let mut buffer = vec![];
                for part in 0..2 {
                    end.send(other, Tag { part, ..TAG }, &payload, soon())
                        .unwrap();
                }
                for part in 0..2 {
                    let tag = Tag { part, ..TAG };
                    end.receive(other, tag, &mut buffer, soon()).unwrap();
                    assert!(buffer.len() == BYTES);
                    assert!(buffer.iter().all(|&byte| byte == other as u8 + 1));
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
