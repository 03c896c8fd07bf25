//! How a process ended, and which of several ends is the cause of the others.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::SystemTime;

use super::signals;
use crate::failure::Failure;

/// Bytes of an error file that are read.
const ERROR_BYTES: u64 = 1 << 20;

/// What the system says of the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Code(i32),
    Signal(i32),
    Unknown,
}

impl From<ExitStatus> for Fate {
    fn from(status: ExitStatus) -> Self {
        let code = status.code().map(Self::Code);
        code.or_else(|| status.signal().map(Self::Signal))
            .unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exit code {code}"),
            Self::Signal(signal) => formatter.write_str(&signals::name(*signal)),
            Self::Unknown => formatter.write_str("unknown end"),
        }
    }
}

/// The end of one process.
#[derive(Debug)]
pub(super) struct End {
    pub(super) rank: usize,
    /// When it told of its error, or else when it was seen to have ended.
    pub(super) time: SystemTime,
    pub(super) fate: Fate,
    /// What it told of its error.
    pub(super) failure: Option<Failure>,
}

impl End {
    /// With what the process left in its error file: anything, or nothing.
    pub(super) fn new(rank: usize, seen: SystemTime, fate: Fate, error_file: &Path) -> Self {
        let (failure, told) = read(error_file).unzip();
        Self {
            rank,
            time: told.map_or(seen, |told: SystemTime| told.min(seen)),
            fate,
            failure,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.fate != Fate::Code(0)
    }

    /// Whether it only heard of the failure of another rank.
    pub(super) fn is_consequence(&self) -> bool {
        self.failure
            .as_ref()
            .is_some_and(|failure| failure.consequence)
    }
}

/// The error that a process told of, and when. The file is the process's own: it may be of any kind
/// and size.
fn read(file: &Path) -> Option<(Failure, SystemTime)> {
    let is_file = fs::symlink_metadata(file).ok()?.is_file();
    let file = is_file.then(|| File::open(file).ok()).flatten()?;
    let mut bytes = Vec::new();
    (&file).take(ERROR_BYTES).read_to_end(&mut bytes).ok()?;
    let failure = serde_json::from_slice(&bytes).ok()?;
    Some((
        failure,
        file.metadata().and_then(|data| data.modified()).ok()?,
    ))
}

/// What the launcher did to stop its processes.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) began: SystemTime,
    /// The signals that it sent.
    pub(super) sent: Vec<i32>,
}

impl Stop {
    /// Whether a process ended because of it: later, and of nothing else that is known.
    fn caused(&self, end: &End) -> bool {
        let foreign = matches!(end.fate, Fate::Signal(signal) if !self.sent.contains(&signal));
        end.time >= self.began && !foreign
    }
}

/// The ends that are failures of their own, the earliest first: not those of processes that the
/// launcher stopped, nor of such as heard of another's failure. If there are none, what comes closest.
pub(super) fn causes<'a>(
    ends: impl IntoIterator<Item = &'a End>,
    stop: Option<&Stop>,
) -> Vec<&'a End> {
    let stopped = |end: &End| stop.is_some_and(|stop| stop.caused(end));
    let kind = |end: &End| (stopped(end), end.is_consequence());
    let failed = ends.into_iter().filter(|end| end.has_failed());
    let mut failed: Vec<_> = failed.collect();
    failed.sort_by_key(|end| (kind(end), end.time, end.rank));
    let own = failed.iter().filter(|end| kind(end) == (false, false));
    let own = own.count();
    failed.truncate(own.max(1));
    failed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn end(rank: usize, ms: u64, fate: Fate) -> End {
        End {
            rank,
            time: at(ms),
            fate,
            failure: None,
        }
    }

    fn heard(rank: usize, ms: u64) -> End {
        let failure = Failure {
            consequence: true,
            ..Failure::default()
        };
        End {
            failure: Some(failure),
            ..end(rank, ms, Fate::Code(1))
        }
    }

    fn ranks(ends: &[End], stop: Option<&Stop>) -> Vec<usize> {
        causes(ends, stop).iter().map(|end| end.rank).collect()
    }

    const TERM: Fate = Fate::Signal(15);

    fn stop(ms: u64) -> Stop {
        Stop {
            began: at(ms),
            sent: vec![15, 9],
        }
    }

    #[test]
    fn earliest_failure_is_the_cause() {
        let ends = [
            end(0, 9, Fate::Code(1)),
            end(1, 3, Fate::Code(0)),
            end(2, 5, Fate::Code(1)),
            end(3, 5, Fate::Signal(11)),
        ];
        assert_eq!(ranks(&ends, None), [2, 3, 0]);
        assert_eq!(ranks(&ends[1..2], None), [0; 0]);
    }

    #[test]
    fn those_that_heard_of_a_failure_are_not_the_cause() {
        let ends = [heard(0, 1), end(1, 5, Fate::Signal(9)), heard(2, 2)];
        assert_eq!(ranks(&ends, None), [1]);
        // If nobody else is known, the first that heard of it.
        assert_eq!(ranks(&[heard(0, 2), heard(2, 1)], None), [2]);
    }

    #[test]
    fn those_that_were_stopped_are_not_the_cause() {
        let stop = stop(4);
        let ends = [
            end(0, 4, TERM),
            end(1, 3, Fate::Code(1)),
            end(2, 5, Fate::Code(1)),
            end(3, 6, Fate::Signal(9)),
        ];
        assert_eq!(ranks(&ends, Some(&stop)), [1]);
        // A signal that the launcher did not send has another cause, and so has an end before the stop.
        let late = [heard(0, 3), end(1, 5, Fate::Signal(11)), end(2, 3, TERM)];
        assert_eq!(ranks(&late, Some(&stop)), [2, 1]);
    }

    #[test]
    fn some_failure_is_named_when_clocks_are_turned_back() {
        let ends = [end(0, 9, Fate::Code(1)), end(1, 8, TERM)];
        assert_eq!(ranks(&ends, Some(&stop(4))), [1]);
    }

    #[test]
    fn error_files_may_hold_anything() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("error.json");
        let of = || End::new(0, at(1), Fate::Code(1), &file).failure;
        assert_eq!(of(), None);
        for garbage in [&b""[..], b"{", b"\xff\0", b"[1]", b"{\"message\":7}"] {
            fs::write(&file, garbage).unwrap();
            assert_eq!(of(), None, "{garbage:?}");
        }
        fs::write(&file, vec![b' '; 3 << 20]).unwrap();
        assert_eq!(of(), None);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(of(), None);
        fs::remove_dir(&file).unwrap();
        fs::write(
            &file,
            r#"{"message":{"message":"no luck"},"consequence":true}"#,
        )
        .unwrap();
        let failure = of().unwrap();
        assert_eq!(failure.message.message, "no luck");
        assert!(failure.consequence);
    }
}
