//! What the launcher says of a job that did not succeed.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use humantime::format_rfc3339_millis;

use super::end::Fate;

/// Characters of a message that are shown.
const MESSAGE_CHARS: usize = 1000;

/// Why a job did not succeed: the cause first, and whose exit code counts.
#[derive(Debug)]
pub(crate) struct Report {
    lines: Vec<String>,
    exit_code: u8,
    patience: Duration,
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
    /// Of a job that succeeded, as far as is known; whoever reads it later is waited for so long.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            lines: Vec::new(),
            exit_code: 0,
            patience,
        }
    }

    /// Adds a reason, and the exit code that counts if it is the first.
    pub(super) fn add(&mut self, line: impl fmt::Display, exit_code: u8) {
        if self.lines.is_empty() {
            self.exit_code = exit_code;
        }
        self.lines.push(line.to_string());
    }

    pub(super) fn is_success(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn exit_code(&self) -> u8 {
        self.exit_code
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.lines.join("\nalso: "))
    }
}

impl Line {
    /// That of the process; 1 if it has none.
    pub(super) fn exit_code(&self) -> u8 {
        match self.fate {
            Fate::Code(code) => u8::try_from(code).unwrap_or(1),
            _ => 1,
        }
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
        let mut report = Report::new(Duration::ZERO);
        assert!(report.is_success());
        let lines = [
            line(5, Fate::Code(2), Some("error: no\nluck\u{1b}[31m\n")),
            line(3, Fate::Signal(9), None),
        ];
        for line in lines {
            report.add(&line, line.exit_code());
        }
        assert!(!report.is_success());
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
            assert_eq!(line(0, fate, None).exit_code(), 1);
        }
    }
}
