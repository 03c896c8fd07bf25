//! What can be wrong with a file of weights.

use std::io;
use std::path::{Path, PathBuf};

use crate::{TrainError, WeightsHash};

/// How many paths a message names before it counts the others.
const NAMED: usize = 3;

/// Why weights could not be saved or loaded. What was there before, the old file or the model's own
/// weights, is still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file could not be opened or read.
    #[error("reading `{path}`: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The file could not be written, or not put in its place.
    #[error("writing `{path}`: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Not a safetensors file, or a damaged one.
    #[error("`{path}` is no safetensors file: {reason}")]
    NotSafetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// The file ends before its tensors do.
    #[error("`{path}` is truncated: expected at least {expected} bytes, got {got}")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that its beginning announces.
        expected: u64,
        /// Bytes that it has.
        got: u64,
    },

    /// A header of a size that none has. Text files look like that.
    #[error(
        "`{path}` is no safetensors file, or has too large a header: expected at most {limit} bytes, got {got}"
    )]
    HeaderTooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes a header may have.
        limit: u64,
        /// Bytes of this one.
        got: u64,
    },

    /// The file has other tensors than the model.
    #[error(
        "`{path}` does not have the tensors of this model: missing {}; not in the model {}",
        listed(missing),
        listed(unexpected)
    )]
    Tensors {
        /// The file.
        path: PathBuf,
        /// Module paths that only the model has.
        missing: Vec<String>,
        /// Names that only the file has.
        unexpected: Vec<String>,
    },

    /// A tensor has another shape than the model's.
    #[error("`{path}`: tensor `{tensor}` has shape {got:?}, expected {expected:?}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The module path.
        tensor: String,
        /// The shape in the model.
        expected: Vec<usize>,
        /// The shape in the file.
        got: Vec<usize>,
    },

    /// A tensor has another type than the model's.
    #[error("`{path}`: tensor `{tensor}` is of type {got}, expected {expected}")]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The module path.
        tensor: String,
        /// The type in the model.
        expected: String,
        /// The type in the file.
        got: String,
    },

    /// A bool that is neither.
    #[error("`{path}`: tensor `{tensor}` has a bool of value {got}, expected 0 or 1")]
    NotBool {
        /// The file.
        path: PathBuf,
        /// The module path.
        tensor: String,
        /// The value.
        got: u8,
    },

    /// The values are not those that were saved.
    #[error(
        "`{path}` is damaged: expected weights of SHA-256 {}, got {got}",
        shown(expected)
    )]
    Hash {
        /// The file.
        path: PathBuf,
        /// The hash that its metadata says.
        expected: String,
        /// The hash of its tensors.
        got: WeightsHash,
    },

    /// A tensor that a file has no type for.
    #[error("`{path}`: tensor `{tensor}` is quantized, which can't be saved")]
    Quantized {
        /// The file.
        path: PathBuf,
        /// The module path.
        tensor: String,
    },

    /// Metadata under a key that the file needs for itself.
    #[error("`{path}`: the metadata key \"{key}\" is the file's own")]
    Reserved {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
    },

    /// The model could not be read, or does not tell its tensors apart.
    #[error("`{path}`: {source}")]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with the model.
        source: Box<TrainError>,
    },
}

impl WeightsError {
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Read { path, source }
    }

    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Write { path, source }
    }

    pub(super) fn model(path: &Path, source: TrainError) -> Self {
        let (path, source) = (path.to_owned(), Box::new(source));
        Self::Model { path, source }
    }

    pub(super) fn not_safetensors(path: &Path, reason: impl ToString) -> Self {
        let (path, reason) = (path.to_owned(), reason.to_string());
        Self::NotSafetensors { path, reason }
    }
}

/// A text from a file, for a terminal: not too long, and without control characters.
fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    let escaped = text.escape_debug();
    let mut shown: String = escaped.clone().take(LONGEST).collect();
    if escaped.count() > LONGEST {
        shown.push_str("...");
    }
    shown
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let named: Vec<_> = names
        .iter()
        .take(NAMED)
        .map(|name| format!("`{}`", shown(name)))
        .collect();
    match names.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
