//! The launcher's own stdout and stderr.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::LaunchError;
use super::redirect::Which;

/// Both outputs under one lock: they may be one terminal, and lines are not to mix. Written without a
/// buffer, line by line; what nobody reads any more is dropped.
pub(super) struct Console {
    outputs: Mutex<[Option<File>; 2]>,
    lost: AtomicBool,
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
            lost: AtomicBool::new(false),
        })
    }

    /// Whether output was lost though somebody wanted it.
    pub(super) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Says on stderr that output is lost from here on.
    pub(super) fn lose(&self, what: impl fmt::Display, error: &io::Error) {
        self.lost.store(true, Ordering::Release);
        let warning = format!("warning: {what} ends here: {error}\n");
        self.write(Which::Stderr, warning.as_bytes());
    }

    /// Writes `bytes`, a line with its end.
    pub(super) fn write(&self, which: Which, bytes: &[u8]) {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let output = &mut outputs[which as usize];
        if let Some(file) = output
            && let Err(error) = write_all(file, bytes)
        {
            *output = None;
            drop(outputs);
            // Anything else but that nobody reads any more: the disk is full, say.
            if error.kind() != ErrorKind::BrokenPipe {
                self.lose(which.name(), &error);
            }
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
