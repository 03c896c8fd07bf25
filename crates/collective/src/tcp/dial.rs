//! Reaching a listener of the job: every address of its host, again and again until the deadline.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::claims::Claims;
use super::handshake::{self, Fault};
use super::proof::Key;
use super::resolve::resolve;
use super::timed::{Timed, TimedError};
use super::{JoinError, Limits};
use crate::Deadline;

/// Rests between tries: the listener may not be up yet.
const FIRST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(200);

/// One try to connect: a system that has too many connections to take over says nothing, and another
/// try is sooner than its own.
const CONNECT: Duration = Duration::from_secs(1);

/// Whom to reach, and as what.
pub(super) struct Dial<'a> {
    pub(super) key: &'a Key,
    pub(super) claims: &'a Claims,
    pub(super) limits: &'a Limits,
    /// For errors.
    pub(super) whom: &'a str,
    /// `host:port`.
    pub(super) at: &'a str,
    pub(super) deadline: Deadline,
    pub(super) cancelled: &'a AtomicBool,
    /// Called after each round of tries in vain, with the last fault that says something.
    pub(super) failed: &'a dyn Fn(&TimedError),
}

impl Dial<'_> {
    /// A connection on which both ends have proved the token and the other end has admitted this one.
    pub(super) fn run(&self) -> Result<TcpStream, JoinError> {
        let addresses = resolve(self.at, self.deadline)?;
        let mut rest = FIRST_REST;
        let mut last = TimedError::Late;
        loop {
            match self.try_all(&addresses) {
                Ok(stream) => return Ok(stream),
                // That the time is up says less than what went wrong before.
                Err(Fault::Broken(TimedError::Late | TimedError::Cancelled)) => {}
                Err(Fault::Broken(fault)) => last = fault,
                Err(fault) => return Err(self.error(fault)),
            }
            (self.failed)(&last);
            let called_off = self.cancelled.load(Ordering::Relaxed);
            match self.deadline.slice(rest) {
                Some(rest) if !called_off => thread::sleep(rest),
                _ => return Err(self.error(Fault::Broken(last))),
            }
            rest = (rest * 2).min(LONGEST_REST);
        }
    }

    /// Tries each address once. Who has the token and refuses has the last word; else the fault that
    /// another try will not mend counts most: something may listen at one address of a host, and the
    /// job at another.
    fn try_all(&self, addresses: &[SocketAddr]) -> Result<TcpStream, Fault> {
        let mut worst = None;
        for (tried, address) in addresses.iter().enumerate() {
            let left = self.deadline.remaining().unwrap_or_default();
            // One address that does not answer must leave time for the others.
            let share = left / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            let share = share.min(self.limits.handshake);
            match self.try_one(address, self.deadline.at_most(share)) {
                Ok(stream) => return Ok(stream),
                Err(refused @ Fault::Refused(_)) => return Err(refused),
                Err(broken @ Fault::Broken(_)) => {
                    worst.get_or_insert(broken);
                }
                Err(other) => worst = Some(other),
            }
        }
        Err(worst.unwrap_or(Fault::Broken(TimedError::Late)))
    }

    fn try_one(&self, address: &SocketAddr, deadline: Deadline) -> Result<TcpStream, Fault> {
        let left = deadline.slice(CONNECT).ok_or(TimedError::Late)?;
        let stream = TcpStream::connect_timeout(address, left).map_err(TimedError::Io)?;
        stream.set_nodelay(true).map_err(TimedError::Io)?;
        let timed = Timed {
            stream: &stream,
            deadline,
            cancelled: self.cancelled,
        };
        handshake::dial(&timed, self.key, self.claims)?;
        Ok(stream)
    }

    fn error(&self, fault: Fault) -> JoinError {
        let (rank, whom, addr) = (self.claims.rank, self.whom.to_owned(), self.at.to_owned());
        match fault {
            Fault::Broken(fault) => JoinError::Connect {
                rank,
                whom,
                addr,
                waited: self.deadline.elapsed(),
                reason: fault.to_string(),
            },
            Fault::Foreign(got) => JoinError::Foreign {
                rank,
                whom,
                addr,
                got,
            },
            Fault::Token => JoinError::Token { rank, whom, addr },
            Fault::Refused(reason) => JoinError::Refused {
                rank,
                whom,
                addr,
                reason,
            },
        }
    }
}
