//! What the launcher says of processes that failed.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use humantime::format_rfc3339_millis;

use super::end::Fate;

/// Characters of a message that are shown.
const MESSAGE_CHARS: usize = 1000;

/// The processes that failed by themselves, the earliest first.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) first: Line,
    pub(super) others: Vec<Line>,
}

/// One process that failed.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) rank: usize,
    pub(super) local_rank: usize,
    pub(super) pid: u32,
    pub(super) time: SystemTime,
    pub(super) fate: Fate,
    pub(super) message: Option<String>,
    pub(super) log: Option<PathBuf>,
}

impl Report {
    /// That of the process that failed first; 1 if it has none.
    pub(super) fn exit_code(&self) -> u8 {
        match self.first.fate {
            Fate::Code(code) => u8::try_from(code).unwrap_or(1),
            _ => 1,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.first)?;
        let mut others = self.others.iter();
        others.try_for_each(|line| write!(formatter, "\nalso: {line}"))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rank,
            local_rank,
            pid,
            fate,
            ..
        } = self;
        let time = format_rfc3339_millis(self.time);
        write!(
            formatter,
            "rank {rank} failed at {time} (local rank {local_rank}, pid {pid}, {fate})"
        )?;
        if let Some(message) = &self.message {
            write!(formatter, ": {}", one_line(message))?;
        }
        if let Some(log) = &self.log {
            write!(formatter, "; log: {}", log.display())?;
        }
        Ok(())
    }
}

/// A message of any process on one line.
fn one_line(message: &str) -> String {
    let message = message.trim();
    let message = message.strip_prefix("error:").unwrap_or(message).trim();
    let printable = |char: char| if char.is_control() { ' ' } else { char };
    message.chars().map(printable).take(MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line(rank: usize, fate: Fate, message: Option<&str>) -> Line {
        Line {
            rank,
            local_rank: 1,
            pid: 4711,
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(951_782_400_042),
            fate,
            message: message.map(str::to_owned),
            log: message.map(|_| PathBuf::from("logs/stderr.log")),
        }
    }

    #[test]
    fn report_names_when_who_how_and_why() {
        let report = Report {
            first: line(5, Fate::Code(2), Some("error: no\nluck\u{1b}[31m\n")),
            others: vec![line(3, Fate::Signal(9), None)],
        };
        let time = "2000-02-29T00:00:00.042Z";
        let expected = format!(
            "rank 5 failed at {time} (local rank 1, pid 4711, exit code 2): no luck [31m; log: logs/stderr.log\n\
             also: rank 3 failed at {time} (local rank 1, pid 4711, SIGKILL)"
        );
        assert_eq!(report.to_string(), expected);
        assert_eq!(report.exit_code(), 2);
        assert_eq!(one_line(&"x".repeat(5000)).len(), MESSAGE_CHARS);
    }

    #[test]
    fn exit_code_is_1_when_there_is_none() {
        for fate in [Fate::Signal(9), Fate::Code(-1), Fate::Unknown] {
            let first = line(0, fate, None);
            let others = Vec::new();
            assert_eq!(Report { first, others }.exit_code(), 1);
        }
    }
}
