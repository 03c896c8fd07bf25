//! Where ranks meet: a thread that hears from all of them and waits for none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::meeting::Meeting;
use super::pace::Pace;
use super::{Door, Job, JoinError, Limits, Token};
use crate::Deadline;

/// The longest rest while ranks come in, and after.
const BUSY: Duration = Duration::from_millis(2);
const IDLE: Duration = Duration::from_millis(20);

/// The store of one epoch of a job. It lives until it is dropped: in a launcher as long as the
/// epoch, in rank 0 until the group has formed. If ranks still wait then, they get an error.
///
/// For the next epoch, bind another.
#[derive(Debug)]
pub struct Store {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// Opens a store for `job` at `at`, which is `host:port`; with port 0 at one that is free.
    ///
    /// # Errors
    /// The address cannot be listened at, or is not loopback and the token was not given.
    pub fn bind(at: &str, job: &Job, token: &Token, limits: &Limits) -> Result<Self, JoinError> {
        job.check()?;
        let door = Door::open(at, token, limits, Deadline::after(limits.handshake))?;
        let addr = door.addr().map_err(|source| JoinError::Bind {
            addr: at.to_owned(),
            source,
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let (meeting, stopped) = (Meeting::new(job.clone(), door), stop.clone());
        let thread = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || serve(meeting, &stopped))
            .map_err(|fault| JoinError::System {
                what: "a thread for the store",
                reason: fault.to_string(),
            })?;
        Ok(Self {
            addr,
            stop,
            thread: Some(thread),
        })
    }

    /// The address that it listens at.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

fn serve(mut meeting: Meeting, stopped: &AtomicBool) {
    let (mut busy, mut idle) = (Pace::new(BUSY), Pace::new(IDLE));
    while !stopped.load(Ordering::Relaxed) {
        let happened = meeting.round();
        let pace = if meeting.is_over() {
            &mut idle
        } else {
            &mut busy
        };
        pace.rest(happened);
    }
    meeting.end();
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported there; here nothing depends on it any more.
            let _ = thread.join();
        }
    }
}
