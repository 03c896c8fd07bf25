//! Messages that are lent in memory: read where they lie, or copied when nobody comes in time.
#![allow(clippy::unwrap_used)] // helpers of tests, outside the test functions

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use burn_virtual_collective::{
    Deadline, MemoryTransport, Operation, Sent, Tag, Transport, TransportError, memory,
};

fn tag(part: u32) -> Tag {
    Tag {
        epoch: 0,
        sequence: 0,
        operation: Operation::Ring,
        part,
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(8))
}

fn pair() -> [MemoryTransport; 2] {
    memory::group(2).try_into().unwrap()
}

/// Lends from rank 0 to rank 1.
fn lend(from: &MemoryTransport, part: u32, payload: &[u8], mut meanwhile: impl FnMut()) {
    let lender = from.lender().unwrap();
    lender.lend(1, tag(part), payload, &mut meanwhile).unwrap();
}

/// What rank 1 gets from rank 0, and where that lay if it was read there.
fn receive(
    end: &mut MemoryTransport,
    part: u32,
) -> Result<(Vec<u8>, Option<usize>), TransportError> {
    let (mut buffer, mut read) = (vec![], None);
    end.receive_or_read(0, tag(part), &mut buffer, soon(), &mut |bytes| {
        read = Some((bytes.to_vec(), Some(bytes.as_ptr().addr())));
    })?;
    Ok(read.unwrap_or((buffer, None)))
}

#[test]
fn lent_message_is_read_where_it_lies() {
    let [lender, mut reader] = pair();
    let payload = vec![1, 2, 3];
    let mut got = None;
    lend(&lender, 0, &payload, || got = Some(receive(&mut reader, 0)));
    assert_eq!(
        got,
        Some(Ok((payload.clone(), Some(payload.as_ptr().addr()))))
    );
    assert_eq!(
        lender.sent(),
        Sent {
            messages: 1,
            bytes: 3
        }
    );
}

#[test]
fn receiver_gets_a_copy_when_it_comes_late() {
    let [lender, mut reader] = pair();
    let mut payload = vec![1, 2, 3];
    lend(&lender, 0, &payload, || {});
    payload.fill(0);
    lend(&lender, 1, &payload, || {});
    assert_eq!(receive(&mut reader, 0), Ok((vec![1, 2, 3], None)));
    assert_eq!(receive(&mut reader, 1), Ok((vec![0, 0, 0], None)));
    assert_eq!(
        lender.sent(),
        Sent {
            messages: 2,
            bytes: 6
        }
    );
}

#[test]
fn lent_message_is_received_as_any_other() {
    let [lender, mut reader] = pair();
    let mut buffer = Vec::with_capacity(10);
    buffer.push(9);
    let at = buffer.as_ptr();
    lend(&lender, 0, &[1, 2], || {
        reader.receive(0, tag(0), &mut buffer, soon()).unwrap();
    });
    assert_eq!((&buffer[..], buffer.as_ptr()), (&[1, 2][..], at));
}

#[test]
fn message_is_sent_when_another_is_lent() {
    let [lender, mut reader] = pair();
    let mut got = vec![];
    lend(&lender, 0, &[1], || {
        let mut ran = 0;
        lend(&lender, 1, &[2], || ran += 1);
        assert_eq!(ran, 1);
        got = vec![
            receive(&mut reader, 1).unwrap().0,
            receive(&mut reader, 0).unwrap().0,
        ];
    });
    assert_eq!(got, [[2], [1]]);
}

#[test]
fn stale_message_is_dropped_while_it_is_lent() {
    let [lender, mut reader] = pair();
    let later = Tag {
        sequence: 1,
        ..tag(0)
    };
    lend(&lender, 0, &[1], || {
        let now = Deadline::after(Duration::ZERO);
        let fault = reader.receive(0, later, &mut vec![], now).unwrap_err();
        assert!(
            matches!(fault, TransportError::Timeout { from: 0, .. }),
            "{fault}"
        );
    });
    assert_eq!(reader.stale(), 1);
    lend(&lender, 1, &[2], || {});
}

#[test]
fn lending_is_refused_when_there_is_no_such_rank() {
    let [lender, _reader] = pair();
    for to in [0, 2] {
        let mut ran = false;
        let refused = lender
            .lender()
            .unwrap()
            .lend(to, tag(0), &[1], &mut || ran = true);
        assert!(matches!(
            refused,
            Err(TransportError::NoLink { rank: 0, .. })
        ));
        assert!(!ran);
    }
    assert_eq!(lender.sent(), Sent::default());
}

#[test]
fn lender_goes_on_when_the_receiver_is_gone() {
    let [lender, reader] = pair();
    let mut reader = Some(reader);
    lend(&lender, 0, &[1], || drop(reader.take()));
    lend(&lender, 1, &[2], || {});
}

#[test]
fn lent_message_is_still_received_when_the_group_is_closed_meanwhile() {
    let [mut lender, mut reader] = pair();
    lend(&lender, 0, &[1], || reader.close("enough"));
    assert_eq!(receive(&mut reader, 0), Ok((vec![1], None)));
    assert!(matches!(
        receive(&mut reader, 1),
        Err(TransportError::Closed { by: 1, .. })
    ));
    lender.close("late");
}

#[test]
fn receiver_hears_of_it_when_the_lender_panics() {
    let [lender, mut reader] = pair();
    let panicked = thread::spawn(move || lend(&lender, 0, &[1], || panic!("in a call"))).join();
    assert!(panicked.is_err());
    let fault = receive(&mut reader, 0).unwrap_err().to_string();
    assert!(fault.contains("it panicked"), "{fault}");
}

#[test]
fn lender_goes_on_when_the_receiver_panics_while_it_reads() {
    let [lender, mut reader] = pair();
    lend(&lender, 0, &[1], || {
        let read = catch_unwind(AssertUnwindSafe(|| {
            reader.receive_or_read(0, tag(0), &mut vec![], soon(), &mut |_| {
                panic!("while it reads")
            })
        }));
        assert!(read.is_err());
    });
    lend(&lender, 1, &[2], || {
        assert_eq!(receive(&mut reader, 1).unwrap().0, [2]);
    });
}

#[test]
fn every_message_is_as_it_was_sent_however_lenders_and_readers_meet() {
    const ROUNDS: u32 = if cfg!(miri) { 20 } else { 2000 };
    let ends = memory::group(2);
    thread::scope(|scope| {
        for mut end in ends {
            scope.spawn(move || {
                let (own, other) = (end.rank(), 1 - end.rank());
                let lender = end.lender().unwrap();
                let mut payload = vec![0; 1000];
                for part in 0..ROUNDS {
                    payload.fill((part as u8).wrapping_mul(3).wrapping_add(own as u8));
                    let expected =
                        vec![(part as u8).wrapping_mul(3).wrapping_add(other as u8); 1000];
                    let mut buffer = vec![];
                    let mut meanwhile = || {
                        let mut read = None;
                        let was_read = end.receive_or_read(
                            other,
                            tag(part),
                            &mut buffer,
                            soon(),
                            &mut |bytes| {
                                read = Some(bytes == expected);
                            },
                        );
                        assert!(if was_read.unwrap() {
                            read.unwrap()
                        } else {
                            buffer == expected
                        });
                    };
                    lender
                        .lend(other, tag(part), &payload, &mut meanwhile)
                        .unwrap();
                }
            });
        }
    });
}
