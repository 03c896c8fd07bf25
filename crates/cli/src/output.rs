//! Results on stdout: one JSON object for scripts, or a table for people.

use std::io::{self, Write};

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
