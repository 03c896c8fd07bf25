use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::super::claims::To;
use super::super::dial::Dial;
use super::super::settings::Job;
use super::*;

fn door(half_open: usize, handshake: Duration) -> (Door, SocketAddr) {
    let limits = Limits {
        half_open,
        handshake,
        ..Limits::default()
    };
    let deadline = Deadline::after(Duration::from_secs(5));
    let door = Door::open("127.0.0.1:0", &Token::default(), &limits, deadline).unwrap();
    let addr = door.addr().unwrap();
    (door, addr)
}

/// Goes round until something happens or the limit of a test has passed.
fn event(door: &mut Door, mut admit: impl FnMut(&Claims) -> Answer) -> Event {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if let Some(event) = door.poll(&mut |claims, _| admit(claims)).pop() {
            return event;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("nothing happened at the door");
}

fn dial(addr: SocketAddr, token: Token) -> thread::JoinHandle<Result<TcpStream, JoinError>> {
    thread::spawn(move || {
        Dial {
            key: &Key::new(&token),
            claims: &Claims {
                to: To::Store,
                rank: 1,
                job: Job::new(2),
                probe: String::new(),
            },
            limits: &Limits::default(),
            whom: "store",
            at: &addr.to_string(),
            deadline: Deadline::after(Duration::from_secs(8)),
            cancelled: &AtomicBool::new(false),
            failed: &|_| {},
        }
        .run()
    })
}

#[test]
fn rank_comes_in_past_more_strangers_than_are_kept() {
    let (mut door, addr) = door(8, Duration::from_secs(60));
    let silent: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(addr).unwrap())
        .collect();
    let rank = dial(addr, Token::default());
    let Event::Admitted(_, from, claims) = event(&mut door, |_| Answer::Admit) else {
        panic!("expected the rank");
    };
    assert_eq!(claims.rank, 1);
    assert_eq!(rank.join().unwrap().unwrap().local_addr().unwrap(), from);
    assert!(door.half_open.len() <= 8);
    drop(silent);
}

#[test]
fn one_that_has_spoken_is_kept_when_strangers_push() {
    let (mut door, addr) = door(4, Duration::from_secs(60));
    let mut spoken = TcpStream::connect(addr).unwrap();
    spoken
        .write_all(&super::super::handshake::encode_hello(&[7; 32]))
        .unwrap();
    let mut challenge = [0; 40];
    spoken.set_nonblocking(true).unwrap();
    while spoken.read(&mut challenge).is_err() {
        door.poll(&mut |_, _| Answer::Admit);
    }
    let pushing: Vec<_> = (0..50).map(|_| TcpStream::connect(addr).unwrap()).collect();
    for _ in 0..20 {
        door.poll(&mut |_, _| Answer::Admit);
    }
    assert_eq!(door.half_open[0].from, spoken.local_addr().unwrap());
    assert!(door.half_open.len() <= 4);
    drop(pushing);
}

#[test]
fn silent_connection_is_dropped_when_its_time_is_up() {
    let (mut door, addr) = door(8, Duration::from_millis(50));
    let mut silent = TcpStream::connect(addr).unwrap();
    silent.set_nonblocking(true).unwrap();
    let start = Instant::now();
    let ended = loop {
        door.poll(&mut |_, _| Answer::Admit);
        match silent.read(&mut [0]) {
            Ok(bytes) => break bytes == 0,
            Err(_) if start.elapsed() > Duration::from_secs(10) => break false,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    };
    assert!(ended);
}

#[test]
fn nothing_of_the_claims_is_looked_at_when_the_token_is_another() {
    let (mut door, addr) = door(8, Duration::from_secs(5));
    let rank = dial(addr, Token::new("another token than here").unwrap());
    let refused = event(&mut door, |_| panic!("claims without a proof"));
    assert!(matches!(refused, Event::Stranger(note) if note.contains("token")));
    let error = rank.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::Token { rank: 1, .. }), "{error}");
}

#[test]
fn answer_waits_until_it_is_known() {
    let (mut door, addr) = door(8, Duration::from_secs(5));
    let rank = dial(addr, Token::default());
    let mut asked = 0;
    let admitted = event(&mut door, |_| {
        asked += 1;
        if asked < 5 {
            Answer::Later
        } else {
            Answer::Admit
        }
    });
    assert!(matches!(admitted, Event::Admitted(..)));
    rank.join().unwrap().unwrap();
}

#[test]
fn both_read_why_when_a_rank_is_refused() {
    let (mut door, addr) = door(8, Duration::from_secs(5));
    let rank = dial(addr, Token::default());
    let long = "ä".repeat(600);
    let refused = event(&mut door, |_| Answer::Refuse(long.clone()));
    assert!(matches!(refused, Event::Refused(note) if note.contains(&long)));
    let error = rank.join().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("refused by store") && error.contains("äää"),
        "{error}"
    );
}
