//! Results on stdout: one JSON object for scripts, or a table for people.

use std::io::{self, Write};

use serde::Serialize;

/// A result that can be printed both ways.
pub(crate) trait Report: Serialize {
    /// The lines of the table.
    fn rows(&self) -> Vec<(&'static str, String)>;
}

/// Prints a result: with `json`, as one object on one line.
pub(crate) fn print(report: &impl Report, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(report)?)?;
    } else {
        for (name, value) in report.rows() {
            writeln!(out, "{name:<18} {value}")?;
        }
    }
    out.flush()
}
