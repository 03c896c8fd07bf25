//! Results on stdout: one JSON object for scripts, or a table for people.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Serialize;

/// A result that can be printed both ways.
pub(crate) trait Report: Serialize {
    /// What people read.
    fn text(&self) -> String;
}

/// Lines of a table.
pub(crate) type Rows = Vec<(&'static str, String)>;

/// A table as text.
pub(crate) fn table(rows: Rows) -> String {
    let line = |(name, value)| format!("{name:<18} {value}\n");
    rows.into_iter().map(line).collect()
}

/// Prints a result: with `json`, as one object on one line.
pub(crate) fn print(report: &impl Report, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(report)?)?;
    } else {
        write!(out, "{}", report.text())?;
    }
    out.flush()
}

/// One line on stderr; that nobody can read it any more is no reason to fail.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The same, where somebody who could read it, but doesn't, is waited for no longer than `patience`.
pub(crate) fn complain_within(line: String, patience: Duration) {
    let (done, written) = mpsc::channel();
    let write = move || {
        complain(&line);
        let _ = done.send(());
    };
    if thread::Builder::new().spawn(write).is_ok() {
        let _ = written.recv_timeout(patience);
    }
}
