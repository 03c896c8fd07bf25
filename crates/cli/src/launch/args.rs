//! The command line of `launch`, in torchrun's words.

use std::env::VarError;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread::available_parallelism;
use std::time::Duration;

use burn_virtual::distributed::tcp::{Job, JoinError, Token};

use super::LaunchError;
use super::output::Output;
use super::redirect::Redirect;
use super::settings::{Settings, TOKEN};
use super::signals::{self, Signal};
use crate::args::{MOST_DEVICES, ranks, seconds};

/// Where nodes meet if nobody says otherwise; a lone node takes a port that is free.
const PORT: u16 = 29_500;

/// `burn-virtual launch`.
#[derive(Debug, clap::Args)]
pub(crate) struct LaunchArgs {
    /// Processes on this node; `auto` or `cpu` for as many as it has cores.
    ///
    /// Several share the cores: the environment variable RAYON_NUM_THREADS, where it isn't set, gives
    /// each its share as the threads of CPU backends. That changes no bit of a result.
    #[arg(
        long,
        alias = "nproc_per_node",
        default_value = "1",
        value_name = "N|auto"
    )]
    nproc_per_node: Processes,

    /// Nodes of the job: `launch` runs once on each. Several need the same token, in the environment
    /// variable BURN_VIRTUAL_TOKEN.
    #[arg(long, default_value = "1", value_name = "N", value_parser = ranks)]
    nnodes: usize,

    /// Which of the nodes this is.
    #[arg(long, alias = "node_rank", default_value_t = 0, value_name = "N")]
    node_rank: usize,

    /// Address of node 0, where ranks meet.
    #[arg(long, alias = "master_addr", default_value_t = Ipv4Addr::LOCALHOST.to_string(), value_name = "HOST")]
    master_addr: String,

    /// Port of node 0, where ranks meet; 0 for any that is free [default: 0, with several nodes 29500].
    #[arg(long, alias = "master_port", value_name = "PORT")]
    master_port: Option<u16>,

    /// Name of the job [default: random, with several nodes burn-virtual].
    #[arg(long, alias = "rdzv_id", value_name = "ID", value_parser = run_id)]
    rdzv_id: Option<String>,

    /// Keep each rank's output and errors in this folder, in ID/attempt_0/LOCAL-RANK; without -r and
    /// -t all of it, and show it as well.
    #[arg(long, alias = "log_dir", value_name = "DIR")]
    log_dir: Option<PathBuf>,

    /// What goes to --log-dir and isn't shown: 0 nothing, 1 stdout, 2 stderr, 3 both; for all ranks, or
    /// as LOCAL-RANK:VALUE,..
    #[arg(
        short,
        long,
        default_value = "0",
        value_name = "0..3",
        requires = "log_dir"
    )]
    redirects: Redirect,

    /// What goes to --log-dir and is shown as well; values as for --redirects.
    #[arg(short, long, value_name = "0..3", requires = "log_dir")]
    tee: Option<Redirect>,

    /// Show the output of these local ranks only.
    #[arg(
        long,
        alias = "local_ranks_filter",
        value_delimiter = ',',
        value_name = "RANKS"
    )]
    local_ranks_filter: Vec<usize>,

    /// Signals that are passed on to all processes and end the job.
    #[arg(
        long,
        alias = "signals_to_handle",
        value_delimiter = ',',
        default_values_t = signals::HANDLED,
        value_name = "SIGNALS"
    )]
    signals_to_handle: Vec<Signal>,

    /// Time between asking the processes to stop and killing them.
    #[arg(long, alias = "kill_after", default_value = "5", value_name = "SECONDS", value_parser = seconds)]
    kill_after: Duration,

    /// Run this program instead of burn-virtual.
    #[arg(long, value_name = "FILE")]
    program: Option<OsString>,

    /// What each process is started with: `train --virtual-nodes 8`, say.
    #[arg(last = true, required_unless_present = "program", value_name = "ARGS")]
    words: Vec<OsString>,
}

impl LaunchArgs {
    /// What this command line and the environment ask for.
    pub(super) fn settings(&self) -> Result<Settings, LaunchError> {
        if self.node_rank >= self.nnodes {
            return Err(LaunchError::NodeRank {
                nodes: self.nnodes,
                got: self.node_rank,
            });
        }
        let several = self.nnodes > 1;
        let port = self.master_port.unwrap_or(if several { PORT } else { 0 });
        if several && port == 0 {
            return Err(LaunchError::Port);
        }
        let local_world = self.nproc_per_node.count();
        if self.nnodes * local_world > MOST_DEVICES {
            return Err(LaunchError::World {
                nodes: self.nnodes,
                processes: local_world,
            });
        }
        Ok(Settings {
            program: self.program.clone(),
            words: self.words.clone(),
            nodes: self.nnodes,
            node: self.node_rank,
            local_world,
            host: self.master_addr.clone(),
            port,
            run_id: self.run_id()?,
            token: token(several)?,
            kill_after: self.kill_after,
            signals: self.signals_to_handle.clone(),
            output: self.output(local_world)?,
        })
    }

    fn run_id(&self) -> Result<String, LaunchError> {
        Ok(match &self.rdzv_id {
            Some(id) => id.clone(),
            None if self.nnodes > 1 => Job::new(1).id,
            None => super::settings::random_id()?,
        })
    }

    fn output(&self, local_world: usize) -> Result<Output, LaunchError> {
        let check = |flag, ranks: Vec<usize>| {
            let out = ranks.into_iter().find(|&rank| rank >= local_world);
            out.map_or(Ok(()), |got| {
                Err(LaunchError::LocalRank {
                    flag,
                    got,
                    processes: local_world,
                })
            })
        };
        let tee = self.tee.iter().flat_map(Redirect::ranks);
        check("--redirects", self.redirects.ranks().collect())?;
        check("--tee", tee.collect())?;
        check("--local-ranks-filter", self.local_ranks_filter.clone())?;
        let neither = self.tee.is_none() && self.redirects == Redirect::default();
        let tee = match &self.tee {
            Some(tee) => tee.clone(),
            None if neither && self.log_dir.is_some() => Redirect::both(),
            None => Redirect::default(),
        };
        Ok(Output {
            log_dir: self.log_dir.clone(),
            redirects: self.redirects.clone(),
            tee,
            filter: self.local_ranks_filter.clone(),
            hold_result: self.words.iter().any(|word| word == "--json"),
            only_result: false,
        })
    }
}

/// The job's secret.
fn token(needed: bool) -> Result<Token, LaunchError> {
    match std::env::var(TOKEN) {
        Ok(text) => Token::new(text).map_err(LaunchError::Token),
        Err(VarError::NotUnicode(_)) => Err(LaunchError::TokenText),
        Err(VarError::NotPresent) if needed => Err(LaunchError::NoToken),
        Err(VarError::NotPresent) => Ok(Token::random()?),
    }
}

/// How many processes.
#[derive(Clone, Copy, Debug)]
enum Processes {
    Count(usize),
    Cores,
}

impl Processes {
    fn count(self) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Cores => cores().min(MOST_DEVICES),
        }
    }
}

impl FromStr for Processes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" | "cpu" => Ok(Self::Cores),
            _ => ranks(text)
                .map(Self::Count)
                .map_err(|expected| format!("{expected}, auto or cpu")),
        }
    }
}

/// Processors that this process may use.
pub(super) fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// It names a folder, and travels when ranks meet.
fn run_id(text: &str) -> Result<String, String> {
    let is_name = !matches!(text, "" | "." | "..") && !text.contains('/');
    if is_name && text.len() <= 200 && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("expected the name of a file, of at most 200 bytes".to_owned())
    }
}

impl From<JoinError> for LaunchError {
    fn from(error: JoinError) -> Self {
        Self::Store(error)
    }
}
