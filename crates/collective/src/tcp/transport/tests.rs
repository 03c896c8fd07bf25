use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use super::super::frame::{self, Header};
use super::*;
use crate::tag::NOTICE;
use crate::{CollectiveError, Group, OnStall, Operation, Options, Stall};

const TAG: Tag = Tag {
    epoch: 0,
    sequence: 4,
    operation: Operation::AllReduce,
    part: 1,
};

/// Bytes that a message may have here.
const LIMIT: u64 = 1 << 28;

/// More than the system's buffers hold, so that a rank that does not read stops a send.
const MUCH: usize = 64 << 20;

fn after(millis: u64) -> Deadline {
    Deadline::after(Duration::from_millis(millis))
}

/// No test may hang: this is when it fails instead.
fn within_limit<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(body()));
    receiver
        .recv_timeout(Duration::from_secs(10))
        .expect("it hangs or panicked")
}

/// Rank 0 of a world, and the bare other ends of its connections.
fn rank_0(world: usize) -> (TcpTransport, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || {
        let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (own, listener.accept().unwrap().0)
    };
    let (own, others): (Vec<_>, Vec<_>) = (1..world).map(|_| connect()).unzip();
    let streams = std::iter::once(None).chain(own.into_iter().map(Some));
    (
        TcpTransport::start(0, streams.collect(), LIMIT).unwrap(),
        others,
    )
}

fn encoded(subject: Subject, sequence: u64, payload: &[u8]) -> Vec<u8> {
    [&Header::new(subject, sequence, payload).encode(), payload].concat()
}

/// The subject and payload of the next frame that rank 0 sent.
fn next(stream: &mut TcpStream, sequence: u64) -> Option<(Subject, Vec<u8>)> {
    frame::read(stream, sequence, LIMIT, |_| vec![]).unwrap()
}

fn receive(transport: &mut TcpTransport, deadline: Deadline) -> Result<Vec<u8>, String> {
    let mut buffer = vec![];
    let received = transport.receive(1, TAG, &mut buffer, deadline);
    received.map(|()| buffer).map_err(|fault| fault.to_string())
}

#[test]
fn all_ranks_read_which_rank_sent_what_when_it_is_no_frame() {
    let frame = encoded(Subject::Data(TAG), 0, b"sum");
    let with = |at: usize, flip: u8| {
        let mut bytes = frame.clone();
        bytes[at] ^= flip;
        bytes
    };
    let cases = [
        (
            b"HTTP/1.1 400 Bad Request, and on and on for a while".to_vec(),
            "magic",
        ),
        (vec![0; 1000], "magic"),
        (with(53, 1), "payload of frame 0: expected checksum"),
        (with(20, 1), "header of frame 0: expected checksum"),
        (
            encoded(Subject::Data(TAG), 1, b"sum"),
            "expected frame 0, got frame 1",
        ),
        (encoded(Subject::Store(16), 0, b""), "unknown subject 16"),
        (
            encoded(Subject::Leave, 0, b"\x03\0\0\0why"),
            "leave: expected the rank below 3 that closed the group, got 3",
        ),
        (
            encoded(Subject::Leave, 0, b"\0\0"),
            "or a rank in 4 bytes and a reason, got 2 bytes",
        ),
    ];
    for (mut bytes, text) in cases {
        bytes.resize(bytes.len().max(frame::BYTES), 0);
        within_limit(move || {
            let (mut rank_0, mut others) = rank_0(3);
            others[0].write_all(&bytes).unwrap();
            let error = receive(&mut rank_0, after(8000)).unwrap_err();
            for part in ["closed by rank 0: rank 1 sent a broken frame", text] {
                assert!(error.contains(part), "{error}");
            }
            let (subject, reason) = next(&mut others[1], 0).unwrap();
            assert_eq!(subject, Subject::Close);
            let reason = String::from_utf8(reason).unwrap();
            assert!(
                reason.contains("rank 1") && reason.contains(text),
                "{reason}"
            );
        });
    }
}

#[test]
fn frame_refused_before_it_is_there_when_it_is_longer_than_allowed() {
    within_limit(|| {
        let (mut rank_0, mut others) = rank_0(2);
        let mut header = Header::new(Subject::Data(TAG), 0, &[]);
        header.length = u64::MAX;
        others[0].write_all(&header.encode()).unwrap();
        let error = receive(&mut rank_0, after(8000)).unwrap_err();
        assert!(error.contains("expected at most 268435456"), "{error}");
    });
}

#[test]
fn message_refused_when_it_is_longer_than_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut rank_0 = TcpTransport::start(0, vec![None, Some(stream)], 3).unwrap();
    rank_0.send(1, TAG, &[0; 3], after(8000)).unwrap();
    let (to, bytes, limit) = (1, 4, 3);
    let refused = rank_0.send(1, TAG, &[0; 4], after(8000));
    assert_eq!(refused, Err(TransportError::TooLong { to, bytes, limit }));
}

#[test]
fn what_came_is_received_before_the_end_is_told() {
    for (last, reason) in [
        (
            encoded(Subject::Leave, 1, &[]),
            "rank 1 is gone: it left the group",
        ),
        (
            encoded(Subject::Leave, 1, b"\x00\0\0\0no data"),
            "closed by rank 0: no data",
        ),
        (
            vec![],
            "rank 1 is gone: its connection ended without a word",
        ),
        (
            encoded(Subject::Close, 1, b"no data")[..57].to_vec(),
            "rank 1 is gone: the connection ended 57 bytes into 59 of frame 1",
        ),
        (
            encoded(Subject::Close, 1, b"no data"),
            "closed by rank 1: no data",
        ),
    ] {
        within_limit(move || {
            let (mut rank_0, mut others) = rank_0(2);
            let frame = encoded(Subject::Data(TAG), 0, b"sum");
            others[0].write_all(&[frame, last].concat()).unwrap();
            others.clear();
            assert_eq!(receive(&mut rank_0, after(8000)), Ok(b"sum".to_vec()));
            assert_eq!(receive(&mut rank_0, after(8000)), Err(reason.to_owned()));
        });
    }
}

#[test]
fn send_ends_at_its_deadline_when_the_other_rank_reads_nothing() {
    within_limit(|| {
        let (mut rank_0, mut others) = rank_0(3);
        let much = vec![0; MUCH];
        let fault = rank_0.send(1, TAG, &much, after(1000)).unwrap_err();
        let stuck = matches!(fault, TransportError::Stuck { to: 1, written, .. } if written > 0);
        assert!(stuck, "{fault}");
        // Half a message is on the way: nothing can follow it.
        let fault = rank_0.send(1, TAG, &[0], after(200)).unwrap_err();
        assert!(fault.to_string().contains("cut short"), "{fault}");
        // The others are told all the same.
        rank_0.close("rank 1 is stuck");
        let close = next(&mut others[1], 0).unwrap();
        assert_eq!(close, (Subject::Close, b"rank 1 is stuck".to_vec()));
        drop(rank_0);
        assert_eq!(next(&mut others[1], 1).unwrap().0, Subject::Leave);
    });
}

#[test]
fn send_does_not_begin_when_its_deadline_has_passed() {
    let (mut rank_0, mut others) = rank_0(2);
    let fault = rank_0.send(1, TAG, b"late", after(0)).unwrap_err();
    assert!(
        matches!(fault, TransportError::Stuck { written: 0, .. }),
        "{fault}"
    );
    rank_0.send(1, TAG, b"sum", after(8000)).unwrap();
    assert_eq!(
        next(&mut others[0], 0),
        Some((Subject::Data(TAG), b"sum".to_vec()))
    );
    assert_eq!(rank_0.sent().messages, 1);
}

#[test]
fn send_ends_when_the_group_is_closed_meanwhile() {
    within_limit(|| {
        let (mut rank_0, mut others) = rank_0(3);
        let mut closer = others.remove(1);
        let close = encoded(Subject::Close, 0, b"enough");
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            closer.write_all(&close).unwrap();
            let _ = closer.read(&mut [0]); // stays until the group is gone
        });
        let fault = rank_0
            .send(1, TAG, &vec![0; MUCH], after(60_000))
            .unwrap_err();
        let reason = "enough".to_owned();
        assert_eq!(fault, TransportError::Closed { by: 2, reason });
    });
}

#[test]
fn send_tells_how_the_other_rank_left() {
    within_limit(|| {
        let (mut rank_0, mut others) = rank_0(2);
        let words = [
            encoded(Subject::Close, 0, b"virtual node 3 failed"),
            encoded(Subject::Leave, 1, &[]),
        ];
        others[0].write_all(&words.concat()).unwrap();
        others.clear();
        // The first may be written before the end is known here.
        let fault = (0..100).find_map(|_| {
            thread::sleep(Duration::from_millis(10));
            rank_0.send(1, TAG, b"sum", after(8000)).err()
        });
        let reason = "virtual node 3 failed".to_owned();
        assert_eq!(fault, Some(TransportError::Closed { by: 1, reason }));
    });
}

#[test]
fn dropping_ends_when_the_other_ranks_do_not_listen() {
    within_limit(|| {
        let (mut rank_0, others) = rank_0(4);
        for to in 1..4 {
            rank_0.send(to, TAG, &vec![0; MUCH], after(50)).unwrap_err();
        }
        drop(rank_0);
        drop(others);
    });
}

#[test]
fn sending_goes_on_when_the_group_is_closed_and_the_other_rank_listens() {
    within_limit(|| {
        let (mut rank_0, mut others) = rank_0(3);
        others[1]
            .write_all(&encoded(Subject::Close, 0, b"done"))
            .unwrap();
        receive(&mut rank_0, after(8000)).unwrap_err();
        // Rank 1 may lack just this to finish what rank 2 has finished.
        rank_0.send(1, TAG, b"sum", after(8000)).unwrap();
        assert_eq!(
            next(&mut others[0], 0),
            Some((Subject::Data(TAG), b"sum".to_vec()))
        );
    });
}

#[test]
fn rank_that_leaves_says_why_when_the_group_was_closed_by_another() {
    within_limit(|| {
        let (mut rank_0, mut others) = rank_0(3);
        let close = encoded(Subject::Close, 0, b"no data");
        others[1].write_all(&close).unwrap();
        receive(&mut rank_0, after(8000)).unwrap_err();
        drop(rank_0);
        let words = b"\x02\0\0\0no data".to_vec();
        assert_eq!(next(&mut others[0], 0), Some((Subject::Leave, words)));
    });
}

#[test]
fn send_goes_on_where_it_stopped_when_it_is_repeated() {
    within_limit(|| {
        let (mut rank_0, mut others) = rank_0(2);
        // Not one value: what is sent twice or left out would not show.
        let mut much = (0..251_u8).collect::<Vec<_>>().repeat(MUCH.div_ceil(251));
        much.truncate(MUCH);
        let notice = Tag {
            part: NOTICE,
            ..TAG
        };
        let fault = rank_0.send(1, TAG, &much, after(200)).unwrap_err();
        let is_begun = |fault: &TransportError| matches!(fault, TransportError::Stuck { written, .. } if *written > 0);
        assert!(is_begun(&fault), "{fault}");
        // A notice waits until it is through; nothing else may come between.
        let fault = rank_0.send(1, notice, b"in 3", after(50)).unwrap_err();
        assert!(!is_begun(&fault), "{fault}");
        assert!(matches!(fault, TransportError::Stuck { to: 1, .. }));
        let fault = rank_0.send(1, TAG, &much, after(50)).unwrap_err();
        assert!(is_begun(&fault), "{fault}");
        let (mut stream, expected) = (others.remove(0), much.clone());
        let reader = thread::spawn(move || {
            (
                next(&mut stream, 0) == Some((Subject::Data(TAG), expected)),
                next(&mut stream, 1),
                next(&mut stream, 2),
            )
        });
        rank_0.send(1, TAG, &much, after(8000)).unwrap();
        rank_0.send(1, notice, b"in 3", after(8000)).unwrap();
        rank_0.send(1, TAG, b"sum", after(8000)).unwrap();
        let notice = Some((Subject::Data(notice), b"in 3".to_vec()));
        let last = Some((Subject::Data(TAG), b"sum".to_vec()));
        assert_eq!(reader.join().unwrap(), (true, notice, last));
        let (messages, bytes) = (2, MUCH as u64 + 3);
        assert_eq!(rank_0.sent(), Sent { messages, bytes });
    });
}

/// What rank 0 of three reports, and how its broadcast of so much ends, if the others read nothing.
fn stuck_broadcast() -> (Vec<Stall>, CollectiveError, Vec<TcpStream>) {
    let (rank_0, others) = rank_0(3);
    let (sender, reports) = mpsc::channel();
    let options = Options {
        first_timeout: Duration::from_secs(1),
        stall: Duration::from_millis(200),
        on_stall: OnStall::call(move |stall| sender.send(stall.clone()).unwrap()),
        ..Options::default()
    };
    let mut group = Group::new(Box::new(rank_0), options);
    let error = group.broadcast(0, &mut vec![0; MUCH]).unwrap_err();
    (reports.try_iter().collect(), error, others)
}

#[test]
fn collective_times_out_and_reports_when_a_rank_takes_nothing() {
    within_limit(|| {
        let (reports, error, mut others) = stuck_broadcast();
        assert!(
            matches!(&error, CollectiveError::Timeout { missing, .. } if *missing == [1, 2]),
            "{error}"
        );
        assert!(reports.len() >= 2);
        for report in reports {
            let text = report.to_string();
            let end = " s; here: 0; missing: 1, 2";
            assert!(
                text.starts_with("rank 0: broadcast, call 0: waiting for "),
                "{text}"
            );
            assert!(text.ends_with(end), "{text}");
        }
        // Rank 1 is stuck; rank 2 was told so.
        let (notice, wait) = next(&mut others[1], 0).unwrap();
        assert!(matches!(notice, Subject::Data(tag) if tag.is_notice()));
        assert_eq!(wait, [1, 0, 0, 0, 0, 0, 0, 0]);
        let (close, reason) = next(&mut others[1], 1).unwrap();
        assert_eq!(close, Subject::Close);
        assert!(
            String::from_utf8(reason)
                .unwrap()
                .contains("no message from rank 1, rank 2")
        );
    });
}
