//! What a rank must know to join, as plain data.

use std::time::Duration;

use super::{JoinError, OnStall, Token};

/// Bytes that a job's id or a bit probe may have.
const NAME_BYTES: usize = 200;

/// What all ranks of a forming agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Name of the job, at most 200 bytes; keeps ranks of another one out.
    pub id: String,
    /// Number of ranks.
    pub world: usize,
    /// Generation of the group: grows each time it is formed anew.
    pub epoch: u64,
}

impl Job {
    /// The first epoch of a job without a name of its own.
    pub fn new(world: usize) -> Self {
        Self {
            id: "burn-virtual".to_owned(),
            world,
            epoch: 0,
        }
    }

    pub(super) fn check(&self) -> Result<(), JoinError> {
        check_name("job id", &self.id)?;
        // Ranks travel as 32-bit numbers.
        let fits = self.world > 0 && u32::try_from(self.world).is_ok();
        fits.then_some(())
            .ok_or(JoinError::World { world: self.world })
    }
}

/// Who runs the store where ranks meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Host {
    /// Rank 0 does, while the group forms.
    #[default]
    Rank0,
    /// Somebody else does: see [`super::Store`].
    Launcher,
}

/// What is bounded, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in one message, 1 GiB by default; all ranks need the same.
    pub message: u64,
    /// Connections that have proved nothing yet. Past it the oldest is dropped.
    pub half_open: usize,
    /// Time for one handshake.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 1 << 30,
            half_open: 128,
            handshake: Duration::from_secs(5),
        }
    }
}

/// How one rank joins a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What all ranks agree on.
    pub job: Job,
    /// This rank, in `0..world`.
    pub rank: usize,
    /// The bit probe of this rank's device, at most 200 bytes. All ranks must bring the same; whoever
    /// allows drift gives all of them the same text instead.
    pub probe: String,
    /// The job's secret.
    pub token: Token,
    /// Where the store is, as `host:port`; see [`super::host_port`].
    pub store: String,
    /// Who runs the store.
    pub host: Host,
    /// Name or address of this host that other ranks connect to. By default this follows from how the
    /// store is reached: loopback where that is, else all addresses of the same family. Any address
    /// but loopback needs a token that was given.
    pub bind: Option<String>,
    /// What to tell the others instead of the bound address, if they reach this host by another name.
    pub advertise: Option<String>,
    /// The longest that forming the group may take.
    pub timeout: Duration,
    /// When forming takes longer than this, a [`super::Stall`] says who is missing, and again each time
    /// that it has taken so much longer: 10 s by default, [`Duration::MAX`] for never.
    pub stall: Duration,
    /// What is done with that: by default, a line on stderr.
    pub on_stall: OnStall,
    /// What is bounded.
    pub limits: Limits,
}

impl Settings {
    /// The defaults for a rank of a world that meets at `store`.
    pub fn new(store: impl Into<String>, rank: usize, world: usize) -> Self {
        Self {
            job: Job::new(world),
            rank,
            probe: String::new(),
            token: Token::default(),
            store: store.into(),
            host: Host::default(),
            bind: None,
            advertise: None,
            timeout: Duration::from_secs(60),
            stall: Duration::from_secs(10),
            on_stall: OnStall::default(),
            limits: Limits::default(),
        }
    }

    pub(super) fn check(&self) -> Result<(), JoinError> {
        self.job.check()?;
        check_name("bit probe", &self.probe)?;
        let (rank, world) = (self.rank, self.job.world);
        if rank >= world {
            return Err(JoinError::Rank { rank, world });
        }
        Ok(())
    }
}

fn check_name(what: &'static str, name: &str) -> Result<(), JoinError> {
    if name.len() > NAME_BYTES {
        return Err(JoinError::Name {
            what,
            limit: NAME_BYTES,
            got: name.len(),
        });
    }
    Ok(())
}
