//! The forming of one group, as the store sees it.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::claims::{Claims, To, probe_differs};
use super::courier::{Courier, CourierError};
use super::door::Event;
use super::half_open::Answer;
use super::message::{Message, Phase};
use super::proof::random;
use super::refusals::Refusals;
use super::{Door, Job};
use crate::Deadline;

/// The shortest time between words about strangers: these may come as fast as they like.
const STRANGERS: Duration = Duration::from_millis(50);

/// Time for last words.
const LINGER: Duration = Duration::from_secs(1);

/// A rank that proved who it is.
struct Seat {
    courier: Courier,
    from: SocketAddr,
    probe: String,
    address: Option<String>,
    linked: bool,
}

pub(super) struct Meeting {
    job: Job,
    door: Door,
    seats: Vec<Option<Seat>>,
    phase: Phase,
    over: bool,
    refusals: Refusals,
    // Strangers that the ranks know of, and when they may hear of more.
    told: u64,
    quiet: Deadline,
    // Connections that have got their last message, until they have read it.
    leaving: Vec<(Courier, Deadline)>,
}

impl Meeting {
    pub(super) fn new(job: Job, door: Door) -> Self {
        Self {
            seats: (0..job.world).map(|_| None).collect(),
            job,
            door,
            phase: Phase::Gathering,
            over: false,
            refusals: Refusals::default(),
            told: 0,
            quiet: Deadline::after(Duration::ZERO),
            leaving: Vec::new(),
        }
    }

    /// Whether the group has formed.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Hears everybody once; true if somebody had something to say.
    pub(super) fn round(&mut self) -> bool {
        let heard = self.hear_all();
        let came = self.admit();
        self.leaving.retain_mut(|(courier, deadline)| {
            deadline.remaining().is_some() && courier.poll().is_ok()
        });
        if heard || came {
            self.advance();
        }
        self.tell_strangers();
        heard || self.door.moved()
    }

    /// The last round: whoever still waits is told that it is in vain.
    pub(super) fn end(mut self) {
        self.hear_all();
        if !self.over {
            let missing = self.missing();
            self.fail(None, missing, "the store was stopped");
        }
        let seats = self.seats.into_iter().flatten().map(|seat| seat.courier);
        let leaving = self.leaving.into_iter().map(|(courier, _)| courier);
        let deadline = Deadline::after(LINGER);
        seats
            .chain(leaving)
            .for_each(|mut courier| courier.finish(deadline));
    }

    fn hear_all(&mut self) -> bool {
        let mut heard = false;
        for rank in 0..self.seats.len() {
            while let Some(result) = self.hear(rank) {
                heard = true;
                self.act(rank, result);
            }
        }
        heard
    }

    fn hear(&mut self, rank: usize) -> Option<Result<Message, CourierError>> {
        let seat = self.seats[rank].as_mut()?;
        seat.courier.poll().transpose()
    }

    fn act(&mut self, rank: usize, heard: Result<Message, CourierError>) {
        let Some(seat) = &mut self.seats[rank] else {
            return;
        };
        match (heard, self.phase) {
            (Ok(Message::Register(address)), Phase::Gathering) => seat.address = Some(address),
            (Ok(Message::Linked), Phase::Linking) => seat.linked = true,
            (Ok(Message::GiveUp(missing, reason)), _) if !self.over => {
                self.dismiss(rank);
                self.fail(Some(rank), missing, &reason);
            }
            (Ok(message), _) => self.left(rank, &format!("unexpected message {message:?}")),
            (Err(fault), _) => self.left(rank, &fault.to_string()),
        }
    }

    /// A seat is free again; once ranks connect to each other that is too late.
    fn left(&mut self, rank: usize, reason: &str) {
        self.dismiss(rank);
        if self.phase == Phase::Linking && !self.over {
            self.fail(Some(rank), vec![], &format!("the store lost it: {reason}"));
        }
    }

    fn admit(&mut self) -> bool {
        let (job, over) = (&self.job, self.over);
        let mut taken: Vec<_> = self
            .seats
            .iter()
            .map(|seat| Some(seat.as_ref()?.from))
            .collect();
        let events = self.door.poll(&mut |claims, from| {
            let answer = answer(job, over, &taken, claims);
            if answer == Answer::Admit {
                taken[claims.rank] = Some(from);
            }
            answer
        });
        let came = !events.is_empty();
        for event in events {
            match event {
                Event::Admitted(stream, from, claims) => self.seat(stream, from, *claims),
                Event::Refused(note) => self.note(note),
                Event::Stranger(note) => self.refusals.stranger(note),
            }
        }
        came
    }

    fn seat(&mut self, stream: TcpStream, from: SocketAddr, claims: Claims) {
        let Ok(mut courier) = Courier::new(stream, self.job.world) else {
            return; // the connection is useless, and its end tells the rank so
        };
        for note in self.refusals.notes() {
            courier.say(&Message::Note(note.clone()));
        }
        let (strangers, last) = self.refusals.strangers();
        if strangers > 0 {
            courier.say(&Message::Strangers(strangers, last.to_owned()));
        }
        self.seats[claims.rank] = Some(Seat {
            courier,
            from,
            probe: claims.probe,
            address: None,
            linked: false,
        });
        self.check_probes();
    }

    /// Rank 0's bit probe counts, whoever came first: which ranks are refused depends on nothing
    /// else.
    fn check_probes(&mut self) {
        let Some(expected) = self.seats[0].as_ref().map(|seat| seat.probe.clone()) else {
            return;
        };
        for rank in 1..self.seats.len() {
            let Some(seat) = &mut self.seats[rank] else {
                continue;
            };
            if seat.probe == expected {
                continue;
            }
            let reason = probe_differs(&expected, &seat.probe);
            let note = format!("rank {rank} from {}: {reason}", seat.from);
            seat.courier.say(&Message::Refused(reason));
            self.dismiss(rank);
            self.note(note);
        }
    }

    fn note(&mut self, note: String) {
        if self.refusals.note(note.clone()) {
            self.say_to_all(&Message::Note(note));
        }
    }

    fn tell_strangers(&mut self) {
        let (count, last) = self.refusals.strangers();
        if self.over || count == self.told || self.quiet.remaining().is_some() {
            return;
        }
        let word = Message::Strangers(count, last.to_owned());
        self.say_to_all(&word);
        (self.told, self.quiet) = (count, Deadline::after(STRANGERS));
    }

    /// Tells all how far the forming is, and goes on to the next phase when all are that far.
    fn advance(&mut self) {
        if self.over {
            return;
        }
        let missing = self.missing();
        if !missing.is_empty() {
            let here = (0..self.seats.len()).filter(|rank| !missing.contains(rank));
            return self.say_to_all(&Message::Here(self.phase, here.collect()));
        }
        match self.phase {
            Phase::Gathering => self.send_roster(),
            Phase::Linking => {
                self.over = true;
                self.say_to_all(&Message::Go);
            }
        }
    }

    fn send_roster(&mut self) {
        let mut forming = [0; 16];
        if let Err(fault) = random(&mut forming) {
            return self.fail(None, vec![], &fault.to_string());
        }
        let seats = self.seats.iter().flatten();
        let addresses = seats.filter_map(|seat| seat.address.clone()).collect();
        self.phase = Phase::Linking;
        self.say_to_all(&Message::Roster(forming, addresses));
    }

    /// The ranks that are not as far as the phase asks.
    fn missing(&self) -> Vec<usize> {
        let done = |seat: &Seat| match self.phase {
            Phase::Gathering => seat.address.is_some(),
            Phase::Linking => seat.linked,
        };
        let seats = self.seats.iter().enumerate();
        let missing = seats.filter(|(_, seat)| !seat.as_ref().is_some_and(done));
        missing.map(|(rank, _)| rank).collect()
    }

    /// One rank's failure is everybody's; then ranks may come again.
    fn fail(&mut self, by: Option<usize>, missing: Vec<usize>, reason: &str) {
        self.say_to_all(&Message::Failed(by, missing, reason.to_owned()));
        (0..self.seats.len()).for_each(|rank| self.dismiss(rank));
        self.phase = Phase::Gathering;
        (self.refusals, self.told) = (Refusals::default(), 0);
    }

    fn dismiss(&mut self, rank: usize) {
        let deadline = Deadline::after(LINGER);
        let seat = self.seats[rank].take();
        self.leaving
            .extend(seat.map(|seat| (seat.courier, deadline)));
    }

    fn say_to_all(&mut self, message: &Message) {
        for seat in self.seats.iter_mut().flatten() {
            seat.courier.say(message);
        }
    }
}

/// Whether a rank that proved these claims may take its seat.
fn answer(job: &Job, over: bool, taken: &[Option<SocketAddr>], claims: &Claims) -> Answer {
    if claims.to != To::Store {
        return Answer::Refuse("expected a rank that registers: this is the store".to_owned());
    }
    if let Some(difference) = claims.difference(job) {
        return Answer::Refuse(difference);
    }
    if over {
        let epoch = job.epoch;
        return Answer::Refuse(format!("the group of epoch {epoch} has formed"));
    }
    match taken[claims.rank] {
        Some(from) => Answer::Refuse(format!("rank {} is already here, from {from}", claims.rank)),
        None => Answer::Admit,
    }
}
