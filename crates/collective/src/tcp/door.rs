//! Where connections come in. One thread goes round all that have proved nothing yet, so that no
//! number of them, and nothing that they do or leave undone, keeps the others waiting.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::claims::Claims;
use super::half_open::{Answer, HalfOpen, Step};
use super::listen::listen;
use super::proof::Key;
use super::{JoinError, Limits, Token};
use crate::Deadline;

/// What happened at the door.
#[derive(Debug)]
pub(super) enum Event {
    /// A connection that proved the token and was admitted. It does not block.
    Admitted(TcpStream, SocketAddr, Box<Claims>),
    /// Somebody with the token was refused: who, and why.
    Refused(String),
    /// The same of somebody who did not prove the token.
    Stranger(String),
}

/// A listener and its half-open connections, oldest first.
pub(super) struct Door {
    listener: TcpListener,
    key: Key,
    limits: Limits,
    half_open: Vec<HalfOpen>,
    moved: bool,
}

impl Door {
    pub(super) fn open(
        at: &str,
        token: &Token,
        limits: &Limits,
        deadline: Deadline,
    ) -> Result<Self, JoinError> {
        Ok(Self {
            listener: listen(at, token, deadline)?,
            key: Key::new(token),
            limits: limits.clone(),
            half_open: Vec::new(),
            moved: false,
        })
    }

    pub(super) fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Goes round once without waiting. `admit` answers claims that were proved.
    pub(super) fn poll(
        &mut self,
        admit: &mut dyn FnMut(&Claims, SocketAddr) -> Answer,
    ) -> Vec<Event> {
        self.moved = self.accept();
        let mut events = Vec::new();
        for mut connection in std::mem::take(&mut self.half_open) {
            let silent = connection.is_silent();
            match connection.step(&self.key, admit) {
                Step::Waiting => {
                    self.moved |= silent && !connection.is_silent();
                    self.half_open.push(connection);
                }
                Step::Gone => {}
                Step::Stranger(note) => events.push(Event::Stranger(note)),
                Step::Refused(note) => events.push(Event::Refused(note)),
                Step::Admitted(claims) => {
                    let (stream, from) = (connection.stream, connection.from);
                    events.push(Event::Admitted(stream, from, claims));
                }
            }
        }
        self.moved |= !events.is_empty();
        events
    }

    /// Whether the last round changed anything, so that the next one should not wait: the system
    /// keeps few connections that nobody has taken over, and turns honest ones away past that.
    pub(super) fn moved(&self) -> bool {
        self.moved
    }

    /// Takes as many connections over as may be half-open; the rest wait for the next round. Errors
    /// end the round: they are the connection's, or pass when others have gone. True if any came.
    fn accept(&mut self) -> bool {
        let limit = self.limits.half_open.max(1);
        for round in 0..limit {
            let (stream, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(fault) => {
                    if !super::timed::is_wait(&fault) {
                        self.make_room(self.half_open.len()); // it may be that no descriptor is left
                    }
                    return round > 0;
                }
            };
            if stream.set_nonblocking(true).is_ok() && stream.set_nodelay(true).is_ok() {
                self.make_room(limit);
                let deadline = Deadline::after(self.limits.handshake);
                self.half_open.push(HalfOpen::new(stream, from, deadline));
            }
        }
        true
    }

    /// Drops connections until there are fewer than `limit`: the oldest that has said nothing, else
    /// the oldest. An honest one takes milliseconds, so it is young or has spoken.
    fn make_room(&mut self, limit: usize) {
        while self.half_open.len() >= limit.max(1) {
            let silent = self.half_open.iter().position(HalfOpen::is_silent);
            self.half_open.remove(silent.unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests;
