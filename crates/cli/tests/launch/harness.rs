//! A launch of shell scripts, as a test sees it.

use std::process::{Command, Output};

pub(crate) use crate::common::running::{Running, send, until};
use crate::common::{command, text};

/// The command that launches a script.
pub(crate) fn launch(flags: &str, script: &str) -> Command {
    let mut command = command(&format!("launch {flags} --program /bin/sh -- -c"));
    command.arg(script);
    command
}

/// What a launch of a script comes to.
#[track_caller]
pub(crate) fn run(flags: &str, script: &str) -> Output {
    Running::start(&mut launch(flags, script)).finish()
}

/// The exit code, stdout and stderr of a launch.
#[track_caller]
pub(crate) fn result(flags: &str, script: &str) -> (i32, String, String) {
    parts(&run(flags, script))
}

pub(crate) fn parts(output: &Output) -> (i32, String, String) {
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}

/// The lines of a text, sorted: ranks come in any order.
pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Fails unless the processes end, by the numbers that end these lines.
#[track_caller]
pub(crate) fn assert_end(lines: &[String]) {
    for line in lines {
        let pid = line.rsplit(' ').next().unwrap();
        assert!(pid.parse::<u32>().is_ok(), "{line}");
        until(&format!("the end of {pid}"), || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            // Dead, and perhaps still to be noticed by whoever takes care of orphans.
            let state = stat.map(|stat| stat.rsplit(") ").next().unwrap().chars().next());
            matches!(state, Err(_) | Ok(Some('Z' | 'X'))).then_some(())
        });
    }
}
