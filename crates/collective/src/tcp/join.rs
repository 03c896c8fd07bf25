//! A rank's way into a group: it meets the others at the store, then connects to each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, Scope};

use super::claims::{Claims, To};
use super::dial::Dial;
use super::joining::{Dialed, Joining, Roster};
use super::listen::beyond_loopback;
use super::proof::Key;
use super::resolve::resolve;
use super::settings::Host;
use super::stall::Watch;
use super::timed::TimedError;
use super::{Awaited, Door, JoinError, Settings, Store, TcpTransport, host_port};
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
    check_token(settings, deadline)?;
    let store = host(settings)?;
    let watch = Watch::new(settings, deadline);
    let links = Way {
        settings,
        key: Key::new(&settings.token),
        deadline,
    }
    .go(&watch)?;
    drop(store); // after this rank's last words to it
    TcpTransport::start(settings.rank, links, settings.limits.message)
}

/// Refuses at once what a rank would be refused only when it has reached the store: see [`Way::follow`].
fn check_token(settings: &Settings, deadline: Deadline) -> Result<(), JoinError> {
    if settings.token.is_given() || settings.bind.is_some() {
        return Ok(());
    }
    let store = settings.store.clone();
    match beyond_loopback(&settings.token, &resolve(&store, deadline)?) {
        Some(ip) => Err(JoinError::StoreNeedsToken { store, ip }),
        None => Ok(()),
    }
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
    fn go(&self, watch: &Watch<'_>) -> Result<Vec<Option<TcpStream>>, JoinError> {
        let settings = self.settings;
        let bind = settings.bind.as_ref();
        let door = bind.map(|host| self.open(host)).transpose()?;
        let whom = match settings.host {
            Host::Rank0 => "store of rank 0",
            Host::Launcher => "store",
        };
        let never = AtomicBool::new(false);
        let stalled = |reason: &TimedError| {
            watch.look(|| {
                Some(Awaited::Store {
                    addr: settings.store.clone(),
                    reason: reason.to_string(),
                })
            });
        };
        let stream = self.dial(To::Store, whom, &settings.store, &never, &stalled)?;
        let door = door.map_or_else(|| self.follow(&stream), Ok)?;
        let mut joining = Joining::new(settings, door, stream, watch)?;
        match self.connect(&mut joining) {
            Ok(()) => Ok(joining.into_links()),
            Err(error) => {
                joining.give_up(&error);
                Err(error)
            }
        }
    }

    /// A port for other ranks.
    fn open(&self, host: &str) -> Result<Door, JoinError> {
        let (at, settings) = (host_port(host, 0), self.settings);
        Door::open(&at, &settings.token, &settings.limits, self.deadline)
    }

    /// A port for other ranks, which reach this one in the same way as it reached the store: what name
    /// that has, and of which family its addresses are, does not matter.
    fn follow(&self, store: &TcpStream) -> Result<Door, JoinError> {
        let own = store.local_addr().map_err(|fault| JoinError::System {
            what: "this rank's own address",
            reason: fault.to_string(),
        })?;
        let all = match own.ip().to_canonical() {
            ip if ip.is_loopback() => ip,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.open(&all.to_string())
    }

    /// Connects to lower ranks, and lets higher ones connect: in a thread for each lower one, so that
    /// none waits for another, and it is known of each why it cannot be reached.
    fn connect(&self, joining: &mut Joining<'_>) -> Result<(), JoinError> {
        let roster = joining.gather()?;
        let (sender, receiver) = mpsc::channel();
        let called_off = AtomicBool::new(false);
        let linked = thread::scope(|scope| {
            let dialing = self.dial_lower(scope, &roster, &sender, &called_off);
            let linked = dialing.and_then(|()| joining.link(&receiver));
            called_off.store(true, Ordering::Relaxed);
            linked
        });
        linked.map_err(|error| joining.explain(error, &receiver))?;
        joining.wait_for_all()
    }

    fn dial_lower<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        roster: &'scope Roster,
        sender: &Sender<Dialed>,
        called_off: &'scope AtomicBool,
    ) -> Result<(), JoinError> {
        for (rank, at) in roster.addresses.iter().enumerate().take(self.settings.rank) {
            let sender = sender.clone();
            let dial = move || {
                let to = To::Rank(rank, roster.forming);
                let result = self.dial(to, &format!("rank {rank}"), at, called_off, &|_| {});
                // Nobody listens any more where another rank's failure came first.
                let _ = sender.send((rank, result));
            };
            let dialer = thread::Builder::new().name(format!("dial rank {rank}"));
            let spawned = dialer.spawn_scoped(scope, dial);
            spawned.map_err(|fault| JoinError::System {
                what: "a thread to connect to another rank",
                reason: fault.to_string(),
            })?;
        }
        Ok(())
    }

    fn dial(
        &self,
        to: To,
        whom: &str,
        at: &str,
        cancelled: &AtomicBool,
        failed: &dyn Fn(&TimedError),
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
            failed,
        }
        .run()
    }
}
