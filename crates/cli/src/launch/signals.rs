//! Signals by name, and those that come to the launcher.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;

use super::LaunchError;
use super::supervisor::Event;

/// A signal that ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(i32);

/// Those that are passed on where nobody says otherwise.
pub(super) const HANDLED: [Signal; 4] = [
    Signal(SIGTERM),
    Signal(SIGINT),
    Signal(SIGHUP),
    Signal(SIGQUIT),
];

impl Signal {
    pub(super) fn number(self) -> i32 {
        self.0
    }

    /// The exit code of a process that ends because of it, as shells have it.
    pub(super) fn exit_code(self) -> u8 {
        128 + self.0 as u8 // of the signals that can be had here the largest is 31
    }
}

impl FromStr for Signal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2].map(Self);
        let text = text.trim();
        let found = known.into_iter().find(|signal| signal.to_string() == text);
        found.ok_or_else(|| {
            let names = known.map(|signal| signal.to_string());
            format!("expected one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&name(self.0))
    }
}

/// Its name where it has one.
pub(super) fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// Sends each of `handled` that comes to the supervisor. After it has finished its work, they end
/// this process: it may still be waiting for somebody to read its output.
pub(super) fn listen(handled: &[Signal], events: Sender<Event>) -> Result<(), LaunchError> {
    let ignored = ignored();
    let is_ignored = |signal: &Signal| ignored >> (signal.number() - 1) & 1 == 1;
    let heard = handled.iter().filter(|signal| !is_ignored(signal));
    let refused = |source| LaunchError::System {
        what: "signals",
        source,
    };
    let mut signals = Signals::new(heard.map(|signal| signal.number())).map_err(refused)?;
    // Whoever started this process may have ignored it: then ends of processes could not be seen.
    signal_hook::flag::register(SIGCHLD, Arc::default()).map_err(refused)?;
    super::thread("signals", move || {
        for signal in signals.forever().map(Signal) {
            if events.send(Event::Signal(signal)).is_err() {
                std::process::exit(signal.exit_code().into());
            }
        }
    })?;
    Ok(())
}

/// The signals that this process was started to ignore, bit by bit: `nohup` means what it says. None
/// where the system doesn't tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_names_and_codes() {
        for (text, code) in [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129)] {
            let signal: Signal = text.parse().unwrap();
            assert_eq!(
                (signal.to_string(), signal.exit_code()),
                (text.into(), code)
            );
        }
        for text in ["SIGKILL", "TERM", "15", ""] {
            assert!(text.parse::<Signal>().is_err(), "{text}");
        }
        assert_eq!((name(9), name(99)), ("SIGKILL".into(), "signal 99".into()));
    }
}
