//! How a process of a launch begins: as this program, which ties it to the launcher and becomes the
//! program that was asked for.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

#[cfg(target_os = "linux")]
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::process::{getpid, getppid};

use super::LaunchError;

/// The subcommand; not for people.
const NAME: &str = "tether";

/// `burn-virtual tether`.
#[derive(Debug, clap::Args)]
pub(crate) struct TetherArgs {
    /// The launcher.
    #[arg(long)]
    parent: i32,

    /// The program and its arguments.
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// The command line, up to the arguments of `program`.
pub(super) fn words(program: &OsStr) -> [OsString; 5] {
    let own = getpid().as_raw_nonzero().to_string();
    [
        NAME.into(),
        "--parent".into(),
        own.into(),
        "--".into(),
        program.to_owned(),
    ]
}

/// Becomes the program; returns only if it can't.
pub(crate) fn run(args: &TetherArgs) -> Result<(), LaunchError> {
    // The kernel's last word where a launcher has no chance to stop its processes. It holds for the
    // thread that started this process: the launcher's main one.
    #[cfg(target_os = "linux")]
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| LaunchError::System {
        what: "the signal at the launcher's end",
        source: error.into(),
    })?;
    // It may have ended before.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(args.parent) {
        return Err(LaunchError::Orphan);
    }
    let mut words = args.words.iter();
    let program = words.next().cloned().unwrap_or_default();
    let source = Command::new(&program).args(words).exec();
    Err(LaunchError::Start { program, source })
}
