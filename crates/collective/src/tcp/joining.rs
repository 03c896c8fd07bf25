//! The forming of a group, as a rank sees it that has reached the store.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::claims::{Claims, Forming, To, probe_differs};
use super::courier::Courier;
use super::door::{Door, Event};
use super::half_open::Answer;
use super::message::{Message, Phase};
use super::pace::Pace;
use super::refusals::Refusals;
use super::resolve::host_port;
use super::stall::Watch;
use super::{Awaited, JoinError, Settings};
use crate::Deadline;

/// The longest rest before looking again.
const REST: Duration = Duration::from_millis(2);

/// Time for last words to the store.
const LINGER: Duration = Duration::from_millis(100);

/// What came of connecting to this rank.
pub(super) type Dialed = (usize, Result<TcpStream, JoinError>);

/// Where all ranks are, in rank order.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    pub(super) forming: Forming,
    pub(super) addresses: Vec<String>,
}

pub(super) struct Joining<'a> {
    settings: &'a Settings,
    watch: &'a Watch<'a>,
    courier: Courier,
    door: Door,
    address: String,
    // Ranks that the store counts in this phase.
    here: Vec<usize>,
    // At the store, and at this rank's own door.
    there: Refusals,
    own: Refusals,
    roster: Option<Roster>,
    links: Vec<Option<TcpStream>>,
    unreached: Vec<Option<JoinError>>,
    formed: bool,
}

impl<'a> Joining<'a> {
    /// Waits for other ranks at `door`, and stays in touch with the store through `store`.
    pub(super) fn new(
        settings: &'a Settings,
        door: Door,
        store: TcpStream,
        watch: &'a Watch<'a>,
    ) -> Result<Self, JoinError> {
        let address = address(settings, &door, &store)?;
        let world = settings.job.world;
        let courier = Courier::new(store, world).map_err(|fault| JoinError::System {
            what: "the connection to the store",
            reason: fault.to_string(),
        })?;
        Ok(Self {
            settings,
            watch,
            courier,
            door,
            address,
            here: Vec::new(),
            there: Refusals::default(),
            own: Refusals::default(),
            roster: None,
            links: (0..world).map(|_| None).collect(),
            unreached: (0..world).map(|_| None).collect(),
            formed: false,
        })
    }

    /// Registers, and waits until all ranks have.
    pub(super) fn gather(&mut self) -> Result<Roster, JoinError> {
        self.courier.say(&Message::Register(self.address.clone()));
        self.wait(|_| Ok(false), |joining| joining.roster.clone())
    }

    /// Waits for the connections to all other ranks: those that come in, and those in `dialed`.
    pub(super) fn link(&mut self, dialed: &Receiver<Dialed>) -> Result<(), JoinError> {
        let own = self.settings.rank;
        self.wait(
            |joining| joining.take(dialed),
            |joining| {
                let links = joining.links.iter().enumerate();
                let mut others = links.filter(|(rank, _)| *rank != own);
                others.all(|(_, link)| link.is_some()).then_some(())
            },
        )
    }

    /// Waits until all ranks have all their connections.
    pub(super) fn wait_for_all(&mut self) -> Result<(), JoinError> {
        self.courier.say(&Message::Linked);
        self.wait(|_| Ok(false), |joining| joining.formed.then_some(()))
    }

    /// Adds to an error why ranks could not be reached, once nobody tries any more.
    pub(super) fn explain(&mut self, error: JoinError, dialed: &Receiver<Dialed>) -> JoinError {
        // Another fault came too late to be the reason.
        while self.take(dialed).is_err() {}
        let mut error = error;
        if let JoinError::Missing { reasons, .. } = &mut error {
            let unreached = self.unreached.iter().enumerate().rev();
            for (rank, fault) in unreached {
                if let Some(JoinError::Connect { addr, reason, .. }) = fault {
                    reasons.insert(0, format!("rank {rank} at {addr}: {reason}"));
                }
            }
        }
        error
    }

    pub(super) fn into_links(self) -> Vec<Option<TcpStream>> {
        self.links
    }

    /// Tells the store that this rank will not come, and why.
    pub(super) fn give_up(mut self, error: &JoinError) {
        let missing = match error {
            JoinError::Missing { missing, .. } => missing.clone(),
            _ => vec![],
        };
        self.courier
            .say(&Message::GiveUp(missing, error.to_string()));
        self.courier.finish(Deadline::after(LINGER));
    }

    fn wait<T>(
        &mut self,
        also: impl Fn(&mut Self) -> Result<bool, JoinError>,
        done: impl Fn(&Self) -> Option<T>,
    ) -> Result<T, JoinError> {
        let mut pace = Pace::new(REST);
        loop {
            let happened = [self.hear()?, self.admit(), also(self)?];
            if let Some(done) = done(self) {
                return Ok(done);
            }
            if self.watch.deadline().remaining().is_none() {
                return Err(self.late());
            }
            self.watch.look(|| self.awaited());
            pace.rest(happened.contains(&true));
        }
    }

    /// Takes in what the store says.
    fn hear(&mut self) -> Result<bool, JoinError> {
        let mut heard = false;
        // Nothing that comes after "all are there" concerns this rank.
        while !self.formed {
            match self.courier.poll() {
                Ok(None) => break,
                Ok(Some(message)) => self.act(message)?,
                Err(fault) => return Err(self.store_gone(&fault.to_string())),
            }
            heard = true;
        }
        Ok(heard)
    }

    fn act(&mut self, message: Message) -> Result<(), JoinError> {
        let rank = self.settings.rank;
        match message {
            Message::Here(phase, here) if phase == self.phase() => self.here = here,
            Message::Note(note) => drop(self.there.note(note)),
            Message::Strangers(count, last) => self.there.set_strangers(count, last),
            Message::Roster(forming, addresses) => {
                self.here.clear();
                self.roster = Some(Roster { forming, addresses });
            }
            Message::Go => self.formed = true,
            Message::Failed(Some(left), missing, reason) if missing.is_empty() => {
                return Err(JoinError::Left { rank, left, reason });
            }
            Message::Failed(None, missing, reason) if missing.is_empty() => {
                return Err(self.store_gone(&reason));
            }
            Message::Failed(by, missing, reason) => {
                // That ranks did not come needs no word of another one that waited for them, too.
                let tells = by.is_none() || self.roster.is_some();
                return Err(self.missing(missing, tells.then_some(reason)));
            }
            Message::Refused(reason) => {
                return Err(JoinError::Refused {
                    rank,
                    whom: "store".to_owned(),
                    addr: self.settings.store.clone(),
                    reason,
                });
            }
            other => return Err(self.store_gone(&format!("unexpected message {other:?}"))),
        }
        Ok(())
    }

    fn phase(&self) -> Phase {
        match self.roster {
            None => Phase::Gathering,
            Some(_) => Phase::Linking,
        }
    }

    /// Lets higher ranks of this forming in; true if anybody moved at the door.
    fn admit(&mut self) -> bool {
        let (settings, roster) = (self.settings, &self.roster);
        let events = self
            .door
            .poll(&mut |claims, _| answer(settings, roster.as_ref(), claims));
        for event in events {
            match event {
                // A rank connects again only if its first try broke off: the last one counts.
                Event::Admitted(stream, _, claims) => self.links[claims.rank] = Some(stream),
                Event::Refused(note) => drop(self.own.note(note)),
                Event::Stranger(note) => self.own.stranger(note),
            }
        }
        self.door.moved()
    }

    fn take(&mut self, dialed: &Receiver<Dialed>) -> Result<bool, JoinError> {
        let mut came = false;
        for (rank, result) in dialed.try_iter() {
            match result {
                Ok(stream) => self.links[rank] = Some(stream),
                // In vain until the deadline, which is this rank's as well: it lists all it misses.
                Err(fault @ JoinError::Connect { .. }) => self.unreached[rank] = Some(fault),
                Err(fault) => return Err(fault),
            }
            came = true;
        }
        Ok(came)
    }

    /// The ranks to which this one wants a connection and has none: nobody before the roster is there.
    fn unlinked(&self) -> Vec<usize> {
        let lacks_link = |rank: &usize| self.roster.is_some() && self.links[*rank].is_none();
        self.others().filter(lacks_link).collect()
    }

    /// The ranks that the store does not count in this phase.
    fn uncounted(&self) -> Vec<usize> {
        let lacks = |rank: &usize| !self.here.contains(rank);
        self.others().filter(lacks).collect()
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let own = self.settings.rank;
        (0..self.settings.job.world).filter(move |&rank| rank != own)
    }

    /// What to say meanwhile.
    fn awaited(&self) -> Option<Awaited> {
        let unlinked = self.unlinked();
        let missing = match unlinked.is_empty() {
            true => self.uncounted(),
            false => unlinked,
        };
        let ranks = 0..self.settings.job.world;
        let here = ranks.filter(|rank| !missing.contains(rank)).collect();
        (!missing.is_empty()).then_some(Awaited::Ranks { here, missing })
    }

    /// What to say at the deadline.
    fn late(&self) -> JoinError {
        let unlinked = self.unlinked();
        if !unlinked.is_empty() {
            return self.missing(unlinked, None);
        }
        let missing = self.uncounted();
        // A store that is alive counts this rank, and goes on when it misses none.
        if missing.is_empty() || !self.here.contains(&self.settings.rank) {
            return self.store_gone("no answer");
        }
        self.missing(missing, None)
    }

    fn missing(&self, missing: Vec<usize>, reason: Option<String>) -> JoinError {
        JoinError::Missing {
            rank: self.settings.rank,
            world: self.settings.job.world,
            missing,
            waited: self.watch.deadline().elapsed(),
            reasons: Vec::from_iter(reason),
            refused: self.there.list(&self.own),
        }
    }

    fn store_gone(&self, reason: &str) -> JoinError {
        let own = self.settings.rank;
        let ranks = 0..self.settings.job.world;
        let gathering = self.roster.is_none();
        let missing = ranks.filter(|rank| gathering && *rank != own && !self.here.contains(rank));
        JoinError::StoreGone {
            rank: own,
            addr: self.settings.store.clone(),
            reason: reason.to_owned(),
            missing: missing.collect(),
        }
    }
}

/// Whether a rank that proved these claims may connect.
fn answer(settings: &Settings, roster: Option<&Roster>, claims: &Claims) -> Answer {
    let own = settings.rank;
    if let Some(difference) = claims.difference(&settings.job) {
        return Answer::Refuse(difference);
    }
    if claims.probe != settings.probe {
        return Answer::Refuse(probe_differs(&settings.probe, &claims.probe));
    }
    let To::Rank(to, forming) = claims.to else {
        return Answer::Refuse(format!("expected the store, this is rank {own}"));
    };
    if to != own {
        return Answer::Refuse(format!("expected rank {to}, this is rank {own}"));
    }
    if claims.rank <= own {
        return Answer::Refuse(format!("expected a rank above {own}, got {}", claims.rank));
    }
    match roster {
        // The other has heard from the store first.
        None => Answer::Later,
        Some(roster) if roster.forming == forming => Answer::Admit,
        Some(_) => Answer::Refuse("another try to form the same epoch".to_owned()),
    }
}

/// What to tell the others.
fn address(settings: &Settings, door: &Door, store: &TcpStream) -> Result<String, JoinError> {
    let unknown = |fault: std::io::Error| JoinError::System {
        what: "this rank's own address",
        reason: fault.to_string(),
    };
    let bound = door.addr().map_err(unknown)?;
    if let Some(host) = &settings.advertise {
        return Ok(host_port(host, bound.port()));
    }
    if !bound.ip().is_unspecified() {
        return Ok(bound.to_string());
    }
    // Bound to all addresses: the store's side of this host is what others see.
    let from = store.local_addr().map_err(unknown)?.ip().to_canonical();
    // One of version 6 is open to version 4 as well.
    if bound.is_ipv4() && from.is_ipv6() {
        return Err(JoinError::Family {
            listens: bound,
            store: settings.store.clone(),
            from,
        });
    }
    Ok(SocketAddr::new(from, bound.port()).to_string())
}
