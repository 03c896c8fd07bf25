//! What tests of forming need.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use burn_virtual_collective::tcp::{
    Host, Job, JoinError, Limits, Settings, Store, TcpTransport, Token, join,
};
use burn_virtual_collective::{Group, Options};

/// No test may hang: this is when it fails instead.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// The result of `body`, if it has one before the limit.
pub(crate) fn within_limit<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(body()));
    receiver.recv_timeout(LIMIT).expect("it hangs or panicked")
}

/// A store on a free port, for the first epoch of the default job.
pub(crate) fn store(world: usize) -> Store {
    let (job, limits) = (Job::new(world), Limits::default());
    Store::bind("127.0.0.1:0", &job, &Token::default(), &limits).unwrap()
}

/// A rank that meets others at `store`, for 2 seconds.
pub(crate) fn settings(store: &Store, rank: usize, world: usize) -> Settings {
    Settings {
        host: Host::Launcher,
        timeout: Duration::from_secs(2),
        ..Settings::new(store.addr().to_string(), rank, world)
    }
}

pub(crate) type Joined = Result<TcpTransport, JoinError>;

/// Begins to join; the result comes through the channel.
pub(crate) fn start(settings: Settings) -> mpsc::Receiver<Joined> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(join(&settings)));
    receiver
}

#[track_caller]
pub(crate) fn result(joining: &mpsc::Receiver<Joined>) -> Joined {
    joining.recv_timeout(LIMIT).expect("a rank hangs")
}

/// The first result of any, which is taken out.
pub(crate) fn first_result(joining: &mut Vec<mpsc::Receiver<Joined>>) -> Joined {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        for index in 0..joining.len() {
            if let Ok(joined) = joining[index].try_recv() {
                joining.remove(index);
                return joined;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("all ranks hang");
}

/// Joins by all settings at once.
pub(crate) fn join_all(settings: impl IntoIterator<Item = Settings>) -> Vec<Joined> {
    let joining: Vec<_> = settings.into_iter().map(start).collect();
    joining.iter().map(result).collect()
}

/// The text of why a rank did not join.
#[track_caller]
pub(crate) fn refusal(joined: Joined) -> String {
    joined.expect_err("an error").to_string()
}

#[track_caller]
pub(crate) fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
}

/// Fails unless the ranks make up a group that works.
#[track_caller]
pub(crate) fn assert_works(joined: Vec<Joined>) {
    let ranks: Vec<_> = joined
        .into_iter()
        .map(|joined| {
            let mut group = Group::new(Box::new(joined.expect("a rank")), Options::default());
            thread::spawn(move || {
                let mut bytes = vec![group.rank() as u8; 3];
                group.broadcast(group.world() - 1, &mut bytes).unwrap();
                group.barrier().unwrap();
                (bytes, group.world())
            })
        })
        .collect();
    for rank in ranks {
        let (bytes, world) = rank.join().unwrap();
        assert_eq!(bytes, [world as u8 - 1; 3]);
    }
}

/// An address that nobody listens at. It is none that the system gives to those who ask for any
/// port, and processes count from different ones: no other test takes it meanwhile.
pub(crate) fn free_address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const EACH: u16 = 90;
    let first = 12_000 + (std::process::id() % 200) as u16 * EACH;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % EACH;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener.local_addr().unwrap().to_string();
        }
    }
}

/// Where somebody listens at `ip` (version 4), as soon as somebody does. None where the system does not
/// say so.
pub(crate) fn listener_at(ip: &str) -> Option<SocketAddr> {
    let ip: Ipv4Addr = ip.parse().unwrap();
    let begin = format!("{:08X}:", u32::from_ne_bytes(ip.octets()));
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        // Columns: number, local address, remote one, state. Listening is state 0A.
        let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
        let local = |line: &str| -> Option<u16> {
            let mut columns = line.split_whitespace().skip(1);
            let port = columns.next()?.strip_prefix(&begin)?;
            let listens = columns.nth(1)? == "0A";
            listens.then(|| u16::from_str_radix(port, 16).ok())?
        };
        if let Some(port) = table.lines().find_map(local) {
            return Some(SocketAddr::from((ip, port)));
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("nobody listens at {ip}");
}
