//! The session behind a `Virtual` model, while burn-train has the model.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use burn_virtual_plan::Placement;

use crate::{RankMemory, Session, Skipped, TrainError, VirtualAutodiff};

/// Between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(1);

/// What became of the steps so far.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// Which virtual nodes each rank runs.
    pub placement: Placement,
    /// The steps that were applied.
    pub applied_steps: u64,
    /// The steps that were skipped.
    pub skipped_steps: u64,
    /// How many steps were applied before the last skipped one, and why it was skipped.
    pub last_skipped: Option<(u64, Skipped)>,
    /// As [`Session::memory`].
    pub memory: Vec<RankMemory>,
}

/// A handle on the session of a [`Virtual`](super::Virtual) model: to resize it between two batches
/// and to see what became of its steps.
///
/// User code that runs inside a step may look at the [`status`](Self::status), which is that of the
/// step before.
pub struct Handle<B: VirtualAutodiff>(Arc<Shared<B>>);

/// Two locks: the session's is held for a whole step, and user code runs under it.
struct Shared<B: VirtualAutodiff> {
    session: Mutex<Session<B>>,
    status: Mutex<Status>,
    /// How long to wait for the end of a step.
    patience: Duration,
    /// Calls of `resize` that wait: the next step lets them go first.
    waiting: AtomicUsize,
}

impl<B: VirtualAutodiff> Handle<B> {
    pub(super) fn new(session: Session<B>) -> Self {
        let status = Status {
            placement: session.placement().clone(),
            applied_steps: session.applied_steps(),
            skipped_steps: 0,
            last_skipped: None,
            memory: session.memory().to_vec(),
        };
        Self(Arc::new(Shared {
            patience: session.settings.first_timeout,
            session: Mutex::new(session),
            status: Mutex::new(status),
            waiting: AtomicUsize::new(0),
        }))
    }

    /// Moves the virtual nodes to other devices before the next batch: see [`Session::resize`]. Waits
    /// for the end of a step in flight, so it is not for code that runs inside one.
    ///
    /// # Errors
    /// As there, and [`TrainError::Busy`] if the step in flight doesn't end within
    /// [`VirtualNodes::first_timeout`](crate::VirtualNodes::first_timeout).
    pub fn resize(&self, devices: impl IntoIterator<Item = B::Device>) -> Result<(), TrainError> {
        // The caller's iterator runs first: a step waits for whoever is counted as waiting.
        let devices: Vec<_> = devices.into_iter().collect();
        self.0.waiting.fetch_add(1, Relaxed);
        let resized = self.with_session(|session| session.resize(devices));
        self.0.waiting.fetch_sub(1, Relaxed);
        resized?
    }

    /// Lets those who wait for the end of a step go first.
    pub(super) fn give_way(&self) {
        let start = Instant::now();
        while self.0.waiting.load(Relaxed) > 0 && start.elapsed() < self.0.patience {
            thread::sleep(PAUSE);
        }
    }

    /// What became of the steps so far.
    pub fn status(&self) -> Status {
        lock(&self.0.status).clone()
    }

    /// Uses the session, and brings the status up to date.
    pub(super) fn with_session<T>(
        &self,
        work: impl FnOnce(&mut Session<B>) -> T,
    ) -> Result<T, TrainError> {
        let mut session = self.wait()?;
        let result = work(&mut session);
        let mut status = lock(&self.0.status);
        status.placement = session.placement().clone();
        status.applied_steps = session.applied_steps();
        status.memory = session.memory().to_vec();
        Ok(result)
    }

    /// The session is whole also after a panic in a step, which changes it only at its end.
    fn wait(&self) -> Result<MutexGuard<'_, Session<B>>, TrainError> {
        let start = Instant::now();
        loop {
            match self.0.session.try_lock() {
                Ok(session) => return Ok(session),
                Err(TryLockError::Poisoned(session)) => return Ok(session.into_inner()),
                Err(TryLockError::WouldBlock) if start.elapsed() < self.0.patience => {
                    thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let waited = start.elapsed();
                    return Err(TrainError::Busy { waited });
                }
            }
        }
    }

    pub(super) fn count_skipped(&self, reason: Skipped) {
        let mut status = lock(&self.0.status);
        status.skipped_steps += 1;
        status.last_skipped = Some((status.applied_steps, reason));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: VirtualAutodiff> Clone for Handle<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: VirtualAutodiff> fmt::Debug for Handle<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.status()).finish()
    }
}
