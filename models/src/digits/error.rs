//! What can be wrong with the digits data set.

use std::io;

/// Why the digits data set could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DigitsError {
    /// The archive can't be unpacked.
    #[error("the digits archive can't be unpacked")]
    Archive(#[from] io::Error),
    /// A line has too few or too many columns.
    #[error("line {line}: expected {expected} columns, found {found}")]
    Columns {
        /// The line, from 1.
        line: usize,
        /// The columns of a sample.
        expected: usize,
        /// The columns of this line.
        found: usize,
    },
    /// A column holds something else than a whole number in its range.
    #[error("line {line}, column {column}: expected 0 to {max}, found {found:?}")]
    Value {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The largest number allowed in this column.
        max: u8,
        /// What stands there.
        found: String,
    },
}
