//! Connections that are none of the job's: they keep no group from forming, and nothing grows with
//! what they say.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use burn_virtual_collective::tcp::{Job, Limits, Settings, Store, Token};

use super::help::{assert_works, result, settings, start, store, within_limit};

/// Fewer than the issue of a real flood; the bound of half-open connections is passed twice over.
const STRANGERS: usize = 300;

fn connect(at: SocketAddr) -> Option<TcpStream> {
    TcpStream::connect_timeout(&at, Duration::from_secs(5)).ok()
}

/// Bytes that nobody has chosen.
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

/// A group of three forms while `disturb` has the store's address, before, during and after.
fn assert_forms(disturb: impl Fn(SocketAddr) -> Vec<TcpStream> + Clone + Send + 'static) {
    within_limit(move || {
        let store = store(3);
        let at = store.addr();
        let patient = |rank| Settings {
            timeout: Duration::from_secs(9),
            ..settings(&store, rank, 3)
        };
        let first = start(patient(0));
        let before = disturb(at);
        let meanwhile = {
            let disturb = disturb.clone();
            thread::spawn(move || disturb(at))
        };
        let others = [1, 2].map(|rank| start(patient(rank)));
        let [one, two] = others.map(|joining| result(&joining));
        assert_works(vec![result(&first), one, two]);
        drop((before, meanwhile.join().unwrap()));
    });
}

#[test]
fn group_forms_while_strangers_send_noise() {
    assert_forms(|at| {
        let strangers = (0..STRANGERS).filter_map(|seed| {
            let mut stranger = connect(at)?;
            let _ = stranger.write_all(&noise(seed));
            Some(stranger)
        });
        strangers.collect()
    });
}

#[test]
fn group_forms_while_strangers_say_nothing() {
    assert_forms(|at| (0..STRANGERS).filter_map(|_| connect(at)).collect());
}

#[test]
fn group_forms_while_strangers_say_hello_and_no_more() {
    assert_forms(|at| {
        let strangers = (0..STRANGERS).filter_map(|_| {
            let mut stranger = connect(at)?;
            let _ = stranger.write_all(b"BVTH\x01\0\0\0");
            let _ = stranger.write_all(&[1; 32]);
            Some(stranger)
        });
        strangers.collect()
    });
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
