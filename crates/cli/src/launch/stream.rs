//! One output of one process, on its way to the launcher's own and to a log file.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};

use super::LaunchError;
use super::console::Console;
use super::lines::Lines;
use super::patience::Patience;
use super::redirect::Which;

/// A longer line is shown in parts.
const LINE_BYTES: usize = 64 << 10;

/// The result is one line, and comes whole.
const RESULT_BYTES: usize = 16 << 20;

/// How often a silent process is asked whether the job is over.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Where an output goes.
pub(super) struct Route {
    pub(super) which: Which,
    /// The rank that it comes from.
    pub(super) rank: usize,
    /// The log file, and its path.
    pub(super) file: Option<(File, PathBuf)>,
    /// What lines begin with where they are shown; none where they aren't.
    pub(super) prefix: Option<String>,
    /// Whether its last line is the result.
    pub(super) hold: bool,
}

/// What is left of an output that is over.
#[derive(Default)]
pub(super) struct Tail {
    /// The result, without its end of line.
    pub(super) result: Option<Vec<u8>>,
    /// The last line that tells of an error.
    pub(super) error: Option<String>,
}

/// The thread that carries an output.
pub(super) struct Stream(JoinHandle<Tail>);

impl Stream {
    /// Carries what comes out of `pipe` until it ends, or the job is `over`: then what is in it is the
    /// last, for a process that has left its group may keep it open for ever, silent or not.
    pub(super) fn start(
        pipe: impl Read + AsFd + Send + 'static,
        route: Route,
        console: Arc<Console>,
        over: Arc<AtomicBool>,
    ) -> Result<Self, LaunchError> {
        let carrier = Carrier {
            route,
            console,
            tail: Tail::default(),
        };
        super::thread("output", move || carrier.carry(pipe, &over)).map(Self)
    }

    /// Waits for the end, as long as there is patience for it.
    pub(super) fn finish(self, patience: &mut Patience<'_>) -> Tail {
        patience.finish(self.0).unwrap_or_default()
    }
}

struct Carrier {
    route: Route,
    console: Arc<Console>,
    tail: Tail,
}

impl Carrier {
    fn carry(mut self, mut pipe: impl Read + AsFd, over: &AtomicBool) -> Tail {
        let limit = if self.route.hold {
            RESULT_BYTES
        } else {
            LINE_BYTES
        };
        let mut lines = Lines::new(limit);
        let mut buffer = vec![0; LINE_BYTES];
        while !over.load(Ordering::Acquire) {
            if !is_silent(&pipe) && !self.pass(&mut pipe, &mut lines, &mut buffer) {
                break;
            }
        }
        let left = ioctl_fionread(&pipe).unwrap_or_default();
        let mut rest = pipe.take(left);
        while self.pass(&mut rest, &mut lines, &mut buffer) {}
        lines.finish(&mut |line| self.take(line));
        self.tail
    }

    /// Carries what there is; says whether there may be more.
    fn pass(&mut self, pipe: &mut impl Read, lines: &mut Lines, buffer: &mut [u8]) -> bool {
        match pipe.read(buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.log(&buffer[..count]);
                lines.feed(&buffer[..count], &mut |line| self.take(line));
                true
            }
            Err(error) => error.kind() == ErrorKind::Interrupted,
        }
    }

    fn log(&mut self, bytes: &[u8]) {
        let Some((file, path)) = &mut self.route.file else {
            return;
        };
        if let Err(error) = file.write_all(bytes) {
            let what = format!("rank {}: log file {}", self.route.rank, path.display());
            self.console.lose(what, &error);
            self.route.file = None;
        }
    }

    fn take(&mut self, line: &[u8]) {
        if self.route.which == Which::Stderr && line.starts_with(b"error:") {
            self.tail.error = Some(String::from_utf8_lossy(line).into_owned());
        }
        if !self.route.hold {
            return self.show(line);
        }
        if let Some(last) = self.tail.result.replace(line.to_vec()) {
            self.show(&last);
        }
    }

    fn show(&self, line: &[u8]) {
        if let Some(prefix) = &self.route.prefix {
            self.console
                .write(self.route.which, &[prefix.as_bytes(), line, b"\n"].concat());
        }
    }
}

/// Whether nothing came, nor the end, for a while.
fn is_silent(pipe: &impl AsFd) -> bool {
    let mut ends = [PollFd::new(pipe, PollFlags::IN)];
    matches!(poll(&mut ends, Some(&LOOK)), Ok(0) | Err(Errno::INTR))
}
