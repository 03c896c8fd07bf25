//! Why a launch failed.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use burn_virtual::distributed::tcp::JoinError;

use super::report::Report;
use super::settings::TOKEN;
use crate::args::MOST_DEVICES;

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("--node-rank: expected a node below --nnodes {nodes}, got {got}")]
    NodeRank { nodes: usize, got: usize },
    #[error(
        "--nnodes {nodes}, --nproc-per-node {processes}: expected at most {MOST_DEVICES} processes in all, got {}",
        nodes * processes
    )]
    World { nodes: usize, processes: usize },
    #[error("--master-port: expected a port that all nodes know, got 0")]
    Port,
    #[error("{flag}: expected local ranks below {processes}, got {got}")]
    LocalRank {
        flag: &'static str,
        processes: usize,
        got: usize,
    },
    #[error("several nodes need the same token in the environment variable {TOKEN}, got none")]
    NoToken,
    #[error("environment variable {TOKEN}: expected text in UTF-8, got other bytes")]
    TokenText,
    #[error("environment variable {TOKEN}: {0}")]
    Token(JoinError),
    #[error(transparent)]
    Store(JoinError),
    #[error("--log-dir {path}: {source}")]
    LogDir { path: PathBuf, source: io::Error },
    #[error("--log-dir {path}: there are logs already; choose another --log-dir or --rdzv-id")]
    LogsThere { path: PathBuf },
    #[error("cannot start {}: {source}", program.display())]
    Start {
        program: OsString,
        source: io::Error,
    },
    #[error("the launcher is gone")]
    Orphan,
    #[error("{what}: {source}")]
    System {
        what: &'static str,
        source: io::Error,
    },
    #[error("{0}")]
    Failed(Box<Report>),
    #[error("writing the result: {0}")]
    Result(io::Error),
}

impl LaunchError {
    /// 2 where the command line or the environment contradicts itself, 128 + n after a signal, that of
    /// the process that failed first, 1 otherwise.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NodeRank { .. }
            | Self::World { .. }
            | Self::Port
            | Self::LocalRank { .. }
            | Self::NoToken
            | Self::TokenText
            | Self::Token(_) => 2,
            Self::Failed(report) => report.exit_code(),
            _ => 1,
        }
    }

    /// How long to wait for somebody who reads it; none if it doesn't say.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self {
            Self::Failed(report) => Some(report.patience()),
            _ => None,
        }
    }
}
