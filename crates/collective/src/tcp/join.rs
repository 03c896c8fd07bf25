//! A rank's way into a group: it meets the others at the store, then connects to each.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::claims::{Claims, To};
use super::dial::Dial;
use super::joining::{Joining, Link, Roster};
use super::proof::Key;
use super::settings::Host;
use super::{Door, JoinError, Settings, Store, TcpTransport, host_port};
use crate::Deadline;

/// Joins a group and returns when all its ranks have. On an error of one, all get one.
///
/// # Errors
/// Some rank is missing at the deadline, or left; this rank is refused; the store cannot be
/// reached, or this rank's own ports not be had.
pub fn join(settings: &Settings) -> Result<TcpTransport, JoinError> {
    settings.check()?;
    let deadline = Deadline::after(settings.timeout);
    if settings.job.world == 1 {
        return TcpTransport::start(0, vec![None], settings.limits.message);
    }
    let store = host(settings)?;
    let links = Way {
        settings,
        key: Key::new(&settings.token),
        deadline,
    }
    .go()?;
    drop(store); // after this rank's last words to it
    TcpTransport::start(settings.rank, links, settings.limits.message)
}

/// The store, if this rank is to run it.
fn host(settings: &Settings) -> Result<Option<Store>, JoinError> {
    if settings.host != Host::Rank0 {
        return Ok(None);
    }
    let port = settings.store.rsplit_once(':').map(|(_, port)| port);
    if port == Some("0") {
        let addr = settings.store.clone();
        return Err(JoinError::Port { addr });
    }
    let bind = || {
        let (job, token) = (&settings.job, &settings.token);
        Store::bind(&settings.store, job, token, &settings.limits)
    };
    (settings.rank == 0).then(bind).transpose()
}

struct Way<'a> {
    settings: &'a Settings,
    key: Key,
    deadline: Deadline,
}

impl Way<'_> {
    /// The connections to all other ranks, by rank.
    fn go(&self) -> Result<Vec<Option<TcpStream>>, JoinError> {
        let settings = self.settings;
        let at = host_port(&settings.bind, 0);
        let door = Door::open(&at, &settings.token, &settings.limits, self.deadline)?;
        let whom = match settings.host {
            Host::Rank0 => "store of rank 0",
            Host::Launcher => "store",
        };
        let never = AtomicBool::new(false);
        let stream = self.dial(To::Store, whom, &settings.store, &never)?;
        let mut joining = Joining::new(settings, door, stream, self.deadline)?;
        match self.connect(&mut joining) {
            Ok(()) => Ok(joining.into_links()),
            Err(error) => {
                joining.give_up(&error);
                Err(error)
            }
        }
    }

    /// Connects to lower ranks, and lets higher ones connect: in two threads, so that neither waits
    /// for the other.
    fn connect(&self, joining: &mut Joining<'_>) -> Result<(), JoinError> {
        let roster = joining.gather()?;
        let (sender, receiver) = mpsc::channel();
        let called_off = AtomicBool::new(false);
        thread::scope(|scope| {
            let dialer = thread::Builder::new().name("dialer".to_owned());
            dialer
                .spawn_scoped(scope, || self.dial_lower(&roster, &sender, &called_off))
                .map_err(|fault| JoinError::System {
                    what: "a thread to connect to other ranks",
                    reason: fault.to_string(),
                })?;
            let linked = joining.link(&receiver);
            called_off.store(true, Ordering::Relaxed);
            linked
        })?;
        joining.wait_for_all()
    }

    fn dial_lower(
        &self,
        roster: &Roster,
        sender: &Sender<Result<Link, JoinError>>,
        called_off: &AtomicBool,
    ) {
        for (rank, at) in roster.addresses.iter().enumerate().take(self.settings.rank) {
            let to = To::Rank(rank, roster.forming);
            let result = self.dial(to, &format!("rank {rank}"), at, called_off);
            let failed = result.is_err();
            let received = sender.send(result.map(|stream| (rank, stream)));
            if failed || received.is_err() {
                return;
            }
        }
    }

    fn dial(
        &self,
        to: To,
        whom: &str,
        at: &str,
        cancelled: &AtomicBool,
    ) -> Result<TcpStream, JoinError> {
        Dial {
            key: &self.key,
            claims: &Claims {
                to,
                rank: self.settings.rank,
                job: self.settings.job.clone(),
                probe: self.settings.probe.clone(),
            },
            limits: &self.settings.limits,
            whom,
            at,
            deadline: self.deadline,
            cancelled,
        }
        .run()
    }
}
