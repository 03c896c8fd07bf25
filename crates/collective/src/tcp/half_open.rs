//! A connection that has proved nothing yet, as the listener sees it: a fixed buffer and no thread.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::claims::{self, Claims};
use super::handshake::{
    HELLO_BYTES, MAGIC, PROVEN_BYTES, Verdict, decode_hello, decode_proof, encode_hello,
    encode_verdict,
};
use super::proof::{Key, Nonces, random};
use super::timed::is_wait;
use crate::Deadline;

/// What the listener says to claims that were proved.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Admit,
    /// It cannot say yet, and is to be asked again.
    Later,
    Refuse(String),
}

/// What became of a half-open connection.
#[derive(Debug)]
pub(super) enum Step {
    Waiting,
    /// It broke off, or was none of this program's.
    Gone,
    /// It spoke the protocol, and did not prove the token.
    Stranger(String),
    /// It proved the token, and something else is wrong.
    Refused(String),
    Admitted(Box<Claims>),
}

/// What is still to come. The order is that in which connections are given up when there are too
/// many: strangers that say nothing come first.
#[derive(Debug)]
enum State {
    Hello,
    Proof,
    Proven(Box<Claims>),
}

pub(super) struct HalfOpen {
    pub(super) stream: TcpStream,
    pub(super) from: SocketAddr,
    pub(super) deadline: Deadline,
    nonces: Nonces,
    buffer: [u8; PROVEN_BYTES],
    filled: usize,
    state: State,
}

/// How far a fixed number of bytes has come in.
enum Fill {
    All,
    Some,
    Ended,
}

impl HalfOpen {
    /// Takes a connection over; `stream` must not block.
    pub(super) fn new(stream: TcpStream, from: SocketAddr, deadline: Deadline) -> Self {
        Self {
            stream,
            from,
            deadline,
            nonces: Nonces::default(),
            buffer: [0; PROVEN_BYTES],
            filled: 0,
            state: State::Hello,
        }
    }

    /// Whether it has said as much as hello.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.state, State::Hello)
    }

    /// Goes on as far as it can without waiting.
    pub(super) fn step(
        &mut self,
        key: &Key,
        admit: &mut dyn FnMut(&Claims, SocketAddr) -> Answer,
    ) -> Step {
        if self.deadline.remaining().is_none() {
            return Step::Gone;
        }
        if matches!(self.state, State::Hello) {
            match self.fill(HELLO_BYTES) {
                Fill::All => {}
                Fill::Some if self.may_be_hello() => return Step::Waiting,
                Fill::Some | Fill::Ended => return Step::Gone,
            }
            if let Err(step) = self.challenge() {
                return step;
            }
        }
        if matches!(self.state, State::Proof) {
            match self.fill(PROVEN_BYTES) {
                Fill::All => {}
                Fill::Some => return Step::Waiting,
                Fill::Ended => return Step::Gone,
            }
            if let Err(step) = self.check(key) {
                return step;
            }
        }
        self.answer(key, admit)
    }

    /// Noise is known as such by its first bytes.
    fn may_be_hello(&self) -> bool {
        let known = self.filled.min(MAGIC.len());
        self.buffer[..known] == MAGIC[..known]
    }

    /// Answers a hello by a challenge; to one of another version, too, so that it learns which this
    /// is.
    fn challenge(&mut self) -> Result<(), Step> {
        let mut hello = [0; HELLO_BYTES];
        hello.copy_from_slice(&self.buffer[..HELLO_BYTES]);
        if !self.may_be_hello() || random(&mut self.nonces.listener).is_err() {
            return Err(Step::Gone);
        }
        self.say(&encode_hello(&self.nonces.listener))?;
        self.nonces.dialer = decode_hello(&hello).map_err(|reason| self.stranger(&reason))?;
        (self.state, self.filled) = (State::Proof, 0);
        Ok(())
    }

    /// Nothing of the claims is looked at before the proof holds.
    fn check(&mut self, key: &Key) -> Result<(), Step> {
        let Some(bytes) = decode_proof(key, &self.nonces, &self.buffer) else {
            let verdict = encode_verdict(key, &self.nonces, &[0; claims::BYTES], &Verdict::NoProof);
            self.say(&verdict)?;
            return Err(self.stranger("token: no proof of it"));
        };
        let claims = Claims::decode(&bytes).map_err(|reason| self.refused(None, &reason))?;
        self.state = State::Proven(Box::new(claims));
        Ok(())
    }

    fn answer(&mut self, key: &Key, admit: &mut dyn FnMut(&Claims, SocketAddr) -> Answer) -> Step {
        let State::Proven(claims) = &self.state else {
            return Step::Waiting;
        };
        let claims = claims.clone();
        let verdict = match admit(&claims, self.from) {
            Answer::Later => return Step::Waiting,
            Answer::Admit => Verdict::Admitted,
            Answer::Refuse(reason) => Verdict::Refused(reason),
        };
        let mut bytes = [0; claims::BYTES];
        bytes.copy_from_slice(&self.buffer[..claims::BYTES]);
        if let Err(step) = self.say(&encode_verdict(key, &self.nonces, &bytes, &verdict)) {
            return step;
        }
        match verdict {
            Verdict::Refused(reason) => self.refused(Some(claims.rank), &reason),
            _ => Step::Admitted(claims),
        }
    }

    /// Reads until `bytes` are there or no more are. Never more: what follows is not the
    /// handshake's.
    fn fill(&mut self, bytes: usize) -> Fill {
        while self.filled < bytes {
            match self.stream.read(&mut self.buffer[self.filled..bytes]) {
                Ok(0) => return Fill::Ended,
                Ok(more) => self.filled += more,
                Err(fault) if is_wait(&fault) => return Fill::Some,
                Err(_) => return Fill::Ended,
            }
        }
        Fill::All
    }

    /// These few bytes fit in the buffer of any connection; one where they don't is not worth a wait.
    fn say(&mut self, bytes: &[u8]) -> Result<(), Step> {
        match self.stream.write(bytes) {
            Ok(written) if written == bytes.len() => Ok(()),
            _ => Err(Step::Gone),
        }
    }

    fn stranger(&self, reason: &str) -> Step {
        Step::Stranger(format!("{}: {reason}", self.from))
    }

    fn refused(&self, rank: Option<usize>, reason: &str) -> Step {
        let from = self.from;
        Step::Refused(match rank {
            Some(rank) => format!("rank {rank} from {from}: {reason}"),
            None => format!("{from}: {reason}"),
        })
    }
}
