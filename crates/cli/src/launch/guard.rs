//! A process beside the launcher that outlives it by a moment: if the launcher ends without having
//! stopped its processes, this one does, and removes its temporary folder.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::LaunchError;

/// The subcommand; not for people.
const NAME: &str = "guard";

/// How often a folder that something may still be written to is tried to be removed.
const TRIES: usize = 100;

/// The time between.
const PAUSE: Duration = Duration::from_millis(10);

/// `burn-virtual guard`.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// What is to be removed.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// The guard, as its launcher sees it.
pub(super) struct Guard {
    child: Child,
    orders: Option<ChildStdin>,
    groups: HashSet<Pid>,
}

impl Guard {
    /// Starts one, in a process group of its own: signals for the launcher are not for it. If the
    /// launcher can't, it removes `folder`.
    pub(super) fn start(folder: Option<&Path>) -> Result<Self, LaunchError> {
        let folder = folder.into_iter();
        let words = folder.flat_map(|path| [OsStr::new("--folder"), path.as_os_str()]);
        let command = std::env::current_exe().and_then(|own| {
            Command::new(own)
                .arg(NAME)
                .args(words)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
        });
        let mut child = command.map_err(|source| LaunchError::System {
            what: "a process that guards the others",
            source,
        })?;
        let orders = child.stdin.take();
        Ok(Self {
            child,
            orders,
            groups: HashSet::new(),
        })
    }

    /// Puts a process group under its guard.
    pub(super) fn take(&mut self, group: Pid) {
        if self.groups.insert(group) {
            self.tell('+', group);
        }
    }

    /// The process group is gone: its number may soon be another's.
    pub(super) fn leave(&mut self, group: Pid) {
        if self.groups.remove(&group) {
            self.tell('-', group);
        }
    }

    fn tell(&mut self, order: char, group: Pid) {
        if let Some(orders) = &mut self.orders {
            // A guard that somebody killed is missed only if the launcher is killed, too.
            let _ = writeln!(orders, "{order}{}", group.as_raw_nonzero());
        }
    }
}

impl Drop for Guard {
    /// The launcher has stopped its processes by itself.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hears of process groups until the launcher is gone, and kills those that are left.
pub(crate) fn run(args: &GuardArgs) {
    let mut groups = HashSet::new();
    for order in io::stdin().lock().lines().map_while(Result::ok) {
        let (taken, group) = order.split_at_checked(1).unwrap_or_default();
        // Group 1 would be every process of the system.
        let group = group.parse().ok().filter(|group| *group > 1);
        match (taken, group.and_then(Pid::from_raw)) {
            ("+", Some(group)) => groups.insert(group),
            ("-", Some(group)) => groups.remove(&group),
            _ => continue,
        };
    }
    for group in groups {
        // Nobody there any more, or nobody whom it may kill.
        let _ = kill_process_group(group, Signal::KILL);
    }
    if let Some(folder) = &args.folder {
        remove(folder);
    }
}

/// What was killed takes a moment to end, and may still put something there.
fn remove(folder: &Path) {
    for _ in 0..TRIES {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => thread::sleep(PAUSE),
            _ => return,
        }
    }
}
