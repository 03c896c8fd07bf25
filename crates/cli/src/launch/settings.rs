//! What is to be launched, as plain data.

use std::ffi::OsString;
use std::time::Duration;

use burn_virtual::distributed::tcp::{Job, JoinError, Token};

use super::output::Output;
use super::signals::{self, Signal};

/// The variable of the job's secret: where the launcher looks for one, and where its children find it.
pub(super) const TOKEN: &str = "BURN_VIRTUAL_TOKEN";

/// Time that processes have to stop in, where nobody says otherwise.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// The processes of one node of a job.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The program; this one if there is none.
    pub(super) program: Option<OsString>,
    /// What each process is started with.
    pub(super) words: Vec<OsString>,
    /// Nodes of the job.
    pub(super) nodes: usize,
    /// This node.
    pub(super) node: usize,
    /// Processes on this node.
    pub(super) local_world: usize,
    /// Where ranks meet: node 0.
    pub(super) host: String,
    /// The port there; 0 for any that is free.
    pub(super) port: u16,
    /// Name of the job.
    pub(super) run_id: String,
    /// Secret of the job.
    pub(super) token: Token,
    /// Time between asking processes to stop and killing them.
    pub(super) kill_after: Duration,
    /// Signals that are passed on and end the job.
    pub(super) signals: Vec<Signal>,
    /// Where the output of the processes goes.
    pub(super) output: Output,
}

impl Settings {
    /// `local_world` processes of this program on this host; of their stdout only rank 0's is shown, as
    /// it is.
    pub(crate) fn quiet(local_world: usize, words: Vec<OsString>) -> Result<Self, JoinError> {
        Ok(Self {
            program: None,
            words,
            nodes: 1,
            node: 0,
            local_world,
            host: "127.0.0.1".to_owned(),
            port: 0,
            run_id: random_id()?,
            token: Token::random()?,
            kill_after: KILL_AFTER,
            signals: signals::HANDLED.to_vec(),
            output: Output {
                only_result: true,
                ..Output::default()
            },
        })
    }

    /// Ranks of the job.
    pub(super) fn world(&self) -> usize {
        self.nodes * self.local_world
    }

    /// The rank of a local rank.
    pub(super) fn rank(&self, local_rank: usize) -> usize {
        self.node * self.local_world + local_rank
    }

    /// The job as ranks meet for it.
    pub(super) fn job(&self) -> Job {
        let mut job = Job::new(self.world());
        job.id.clone_from(&self.run_id);
        job
    }
}

/// A name that no other job has.
pub(super) fn random_id() -> Result<String, JoinError> {
    Ok(Token::random()?.expose().chars().take(16).collect())
}
