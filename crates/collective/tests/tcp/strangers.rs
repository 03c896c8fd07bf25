//! Connections that are none of the job's: they keep no group from forming, and nothing grows with
//! what they say.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use burn_virtual_collective::tcp::{Job, Limits, Store, Token};

use super::help::{LIMIT, assert_contains, listener_at, store, within_limit};
use super::rank::Rank;

/// Connections that one process holds: fewer than the file descriptors that it has on any system.
const EACH: usize = 500;

/// Processes of strangers at each door, all of which hold their connections when the last rank comes:
/// 1,000 connections, of which a door keeps few.
const PROCESSES: usize = 2;

/// What a stranger says.
#[derive(Clone, Copy)]
pub(crate) enum Words {
    /// Nothing.
    Silence,
    /// Bytes that nobody has chosen.
    Noise,
    /// The first message of a handshake, and no more.
    Hello,
}

impl Words {
    const ALL: [(&str, Self); 3] = [
        ("silence", Self::Silence),
        ("noise", Self::Noise),
        ("hello", Self::Hello),
    ];

    pub(crate) fn of(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.unwrap().1
    }

    fn bytes(self, seed: usize) -> Vec<u8> {
        match self {
            Self::Silence => vec![],
            Self::Noise => noise(seed),
            Self::Hello => [&b"BVTH\x01\0\0\0"[..], &[1; 32]].concat(),
        }
    }
}

fn noise(seed: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    let byte = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        (state >> 33) as u8
    };
    (0..seed % 700 + 1).map(byte).collect()
}

fn connect(at: SocketAddr) -> std::io::Result<TcpStream> {
    TcpStream::connect_timeout(&at, LIMIT)
}

/// Connections that say these words and stay, as many as come about.
pub(crate) fn strangers(words: Words, count: usize, at: SocketAddr) -> Vec<TcpStream> {
    let stranger = |seed| {
        let mut stream = connect(at).ok()?;
        // In vain if it is hung up on meanwhile.
        let _ = stream.write_all(&words.bytes(seed));
        Some(stream)
    };
    (0..count).filter_map(stranger).collect()
}

/// The most bytes that any of them was sent.
pub(crate) fn most_heard(strangers: &mut [TcpStream]) -> usize {
    let heard = |stream: &mut TcpStream| {
        let mut bytes = vec![];
        stream.set_nonblocking(true).unwrap();
        let _ = stream.read_to_end(&mut bytes); // what there is, then that it would have to wait
        bytes.len()
    };
    strangers.iter_mut().map(heard).max().unwrap_or(0)
}

/// A rank in a process that waits at `store`, for as long as it takes, with a port at `bind`.
fn waiting(store: &Store, rank: usize, bind: &str) -> Rank {
    let mut process = Rank::start();
    process.tell("wait 60");
    process.tell(&format!("bind {bind}"));
    process.tell(&format!("join launcher {} {rank} 3", store.addr()));
    process
}

/// A process of strangers at each door.
fn crowd(words: &str, doors: &[SocketAddr]) -> Vec<Rank> {
    let at = |door| {
        let mut process = Rank::start();
        process.tell(&format!("strangers {words} {EACH} {door}"));
        process
    };
    doors.iter().map(at).collect()
}

/// A group of three forms, and sums, among strangers at the store and at the ranks' own doors, who are
/// told nothing but what a challenge is. More of them come with the last rank.
fn assert_forms(words: &str, net: u8, challenge: usize) {
    let binds = [1, 2, 3].map(|host| format!("127.{net}.0.{host}"));
    let store = store(3);
    let mut ranks = [0, 1]
        .map(|rank| waiting(&store, rank, &binds[rank]))
        .into_iter()
        .collect::<Vec<_>>();
    let mut doors = vec![store.addr()];
    doors.extend(binds[..2].iter().filter_map(|bind| listener_at(bind)));

    let mut strangers: Vec<Rank> = (0..PROCESSES).flat_map(|_| crowd(words, &doors)).collect();
    for process in &strangers {
        assert_eq!(process.hear(), format!("connected {EACH}"));
    }
    strangers.extend(crowd(words, &doors));
    ranks.push(waiting(&store, 2, &binds[2]));
    for rank in &mut ranks {
        assert_eq!(rank.hear(), "joined");
        rank.tell("reduce");
    }
    for rank in &ranks {
        assert_eq!(rank.hear(), "sum 6");
    }

    for process in &strangers[PROCESSES * doors.len()..] {
        // Doors close behind the last rank.
        assert_contains(&process.hear(), &["connected "]);
    }
    for process in &mut strangers {
        process.tell("heard");
        let heard = process.hear();
        let most: usize = heard.strip_prefix("heard ").unwrap().parse().unwrap();
        assert!(most <= challenge, "{heard} bytes");
    }
}

#[test]
fn group_forms_while_strangers_send_noise() {
    assert_forms("noise", 91, 0);
}

#[test]
fn group_forms_while_strangers_say_nothing() {
    assert_forms("silence", 92, 0);
}

#[test]
fn group_forms_while_strangers_say_hello_and_no_more() {
    assert_forms("hello", 93, 40);
}

#[test]
fn stranger_is_hung_up_on_when_it_sends_noise_or_nothing() {
    within_limit(|| {
        let limits = Limits {
            handshake: Duration::from_millis(200),
            ..Limits::default()
        };
        let (job, token) = (Job::new(2), Token::default());
        let store = Store::bind("127.0.0.1:0", &job, &token, &limits).unwrap();
        assert_hung_up(connect(store.addr()).unwrap());
        let mut loud = connect(store.addr()).unwrap();
        loud.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert_hung_up(loud);
        let mut long = connect(store.addr()).unwrap();
        // A hello that holds, and then more than any message of a handshake.
        long.write_all(b"BVTH\x01\0\0\0").unwrap();
        let _ = long.write_all(&[0; 100_000]);
        let mut answer = [0; 40];
        if long.read_exact(&mut answer).is_ok() {
            assert_eq!(&answer[..4], b"BVTH");
        }
        assert_hung_up(long);
    });
}

/// Reads to the end, which comes.
fn assert_hung_up(mut stream: TcpStream) {
    stream
        .set_read_timeout(Some(Duration::from_secs(8)))
        .unwrap();
    let mut rest = vec![];
    let read = stream.read_to_end(&mut rest);
    let reset = |fault: &std::io::Error| fault.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(
        read.as_ref().is_ok() || read.as_ref().is_err_and(reset),
        "{read:?}"
    );
    assert!(rest.len() <= 600);
}
