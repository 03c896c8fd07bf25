//! The launcher's own stdout and stderr.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::LaunchError;
use super::redirect::Which;

/// Both outputs under one lock: they may be one terminal, and lines are not to mix. Written without a
/// buffer, line by line; what nobody reads any more is dropped.
pub(super) struct Console {
    outputs: Mutex<[Option<File>; 2]>,
}

impl Console {
    pub(super) fn open() -> Result<Self, LaunchError> {
        let file = |output: &dyn AsFd| output.as_fd().try_clone_to_owned().map(File::from);
        let outputs =
            file(&io::stdout()).and_then(|out| Ok([Some(out), Some(file(&io::stderr())?)]));
        let outputs = outputs.map_err(|source| LaunchError::System {
            what: "stdout and stderr",
            source,
        })?;
        Ok(Self {
            outputs: Mutex::new(outputs),
        })
    }

    /// Writes `bytes`, a line with its end.
    pub(super) fn write(&self, which: Which, bytes: &[u8]) {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let output = &mut outputs[which as usize];
        if let Some(file) = output
            && write_all(file, bytes).is_err()
        {
            *output = None;
        }
    }
}

/// Others who share the file may have made it one that does not wait: this one does.
fn write_all(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
