//! Whether a process's number is still its own.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Whether a process's number is still its own: one that has ended keeps it until that is taken note
/// of, and then it may be another's.
#[derive(Clone, Default)]
pub(super) struct Alive(Arc<Mutex<bool>>);

impl Alive {
    /// Does something with the number, unless it is too late.
    pub(super) fn with(&self, act: impl FnOnce()) {
        let over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !*over {
            act();
        }
    }

    /// Waits for the end.
    pub(super) fn end(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let (id, seen) = (WaitId::Pid(Pid::from_child(child)), WaitIdOptions::EXITED);
        // Until then the lock is free.
        while let Err(rustix::io::Errno::INTR) = waitid(id.clone(), seen | WaitIdOptions::NOWAIT) {}
        let mut over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *over = true;
        child.wait()
    }
}
