//! Tells the launcher why this process failed: the words on stderr are for people.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use serde::{Deserialize, Serialize};

use crate::output::complain;

/// The variable that names the file, as torchrun has it.
pub(crate) const VARIABLE: &str = "TORCHELASTIC_ERROR_FILE";

/// What a process failed of: torchrun's layout, and one field more.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) message: Message,
    /// Whether it only heard of the failure of another rank.
    #[serde(default)]
    pub(crate) consequence: bool,
}

/// Text and time.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) message: String,
    #[serde(rename = "extraInfo", default)]
    pub(crate) extra: Extra,
}

/// What else is known.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extra {
    /// Seconds since 1970, as text.
    #[serde(default)]
    pub(crate) timestamp: String,
}

/// Writes the file that the launcher asked for, if one did.
pub(crate) fn record(message: &str, consequence: bool) {
    let Some(file) = env::var_os(VARIABLE) else {
        return;
    };
    let file = Path::new(&file);
    if let Err(error) = write(file, message, consequence) {
        let file = file.display();
        complain(&format!("warning: {VARIABLE} {file}: {error}"));
    }
}

fn write(file: &Path, message: &str, consequence: bool) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let failure = Failure {
        message: Message {
            message: message.to_owned(),
            extra: Extra {
                timestamp: now.unwrap_or_default().as_secs().to_string(),
            },
        },
        consequence,
    };
    fs::write(file, serde_json::to_string(&failure)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("error.json");
        write(&file, "no \"luck\"", true).unwrap();
        let read: Failure = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(
            (&*read.message.message, read.consequence),
            ("no \"luck\"", true)
        );
        assert!(read.message.extra.timestamp.parse::<u64>().is_ok());
    }
}
