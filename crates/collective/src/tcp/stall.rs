//! Word of a group that takes long to form.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use super::Settings;
use super::error::list;
use crate::Deadline;
use crate::stall::{Reporter, seconds};

/// A rank that has waited for its group for longer than [`Settings::stall`].
///
/// ```
/// use std::time::Duration;
///
/// use burn_virtual_collective::tcp::{Awaited, Stall};
///
/// let stall = Stall {
///     rank: 0,
///     world: 2,
///     waited: Duration::from_secs(10),
///     awaited: Awaited::Ranks {
///         here: vec![0],
///         missing: vec![1],
///     },
/// };
/// assert_eq!(
///     stall.to_string(),
///     "rank 0: waiting for 10 s to form a group of 2; here: 0; missing: 1"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// This rank.
    pub rank: usize,
    /// Ranks in the group.
    pub world: usize,
    /// Time since this rank began to join.
    pub waited: Duration,
    /// What it waits for.
    pub awaited: Awaited,
}

/// What a rank waits for that joins a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The store, where it would learn who is there.
    Store {
        /// The address, `host:port`.
        addr: String,
        /// How the last try to reach it ended.
        reason: String,
    },
    /// Ranks that have not come, or to which there is no connection yet.
    Ranks {
        /// Those that are there. This rank is one of them.
        here: Vec<usize>,
        /// Those that are waited for. Never none.
        missing: Vec<usize>,
    },
}

impl fmt::Display for Stall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, world, .. } = self;
        let waited = seconds(self.waited);
        write!(
            formatter,
            "rank {rank}: waiting for {waited} to form a group of {world}; "
        )?;
        match &self.awaited {
            Awaited::Store { addr, reason } => {
                write!(formatter, "no store at {addr}: {reason}")
            }
            Awaited::Ranks { here, missing } => {
                let (here, missing) = (list(here), list(missing));
                write!(formatter, "here: {here}; missing: {missing}")
            }
        }
    }
}

/// What is done with a [`Stall`]: by default, a line on stderr.
pub type OnStall = Reporter<Stall>;

/// Looks whether it is time to say something.
pub(super) struct Watch<'a> {
    settings: &'a Settings,
    deadline: Deadline,
    report_at: Cell<Duration>,
}

impl<'a> Watch<'a> {
    /// The time counts from when the deadline was set.
    pub(super) fn new(settings: &'a Settings, deadline: Deadline) -> Self {
        Self {
            settings,
            deadline,
            report_at: Cell::new(settings.stall),
        }
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Reports what is waited for, if there is anything and it is time.
    pub(super) fn look(&self, awaited: impl FnOnce() -> Option<Awaited>) {
        let waited = self.deadline.elapsed();
        if waited < self.report_at.get() {
            return;
        }
        let Some(awaited) = awaited() else {
            return;
        };
        self.report_at
            .set(waited.saturating_add(self.settings.stall));
        self.settings.on_stall.report(&Stall {
            rank: self.settings.rank,
            world: self.settings.job.world,
            waited,
            awaited,
        });
    }
}
