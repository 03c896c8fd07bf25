//! The session behind a `Virtual` model, while burn-train has the model.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn_virtual_plan::Placement;

use crate::{RankMemory, Session, Skipped, TrainError, VirtualAutodiff};

/// What all copies of a [`Virtual`](super::Virtual) model share.
pub(super) struct Shared<B: VirtualAutodiff> {
    pub(super) session: Session<B>,
    pub(super) skipped: Vec<(u64, Skipped)>,
}

/// A handle on the session of a [`Virtual`](super::Virtual) model: to resize it between two batches,
/// from another thread, and to see what became of its steps.
pub struct Handle<B: VirtualAutodiff>(Arc<Mutex<Shared<B>>>);

impl<B: VirtualAutodiff> Handle<B> {
    pub(super) fn new(session: Session<B>) -> Self {
        let skipped = Vec::new();
        Self(Arc::new(Mutex::new(Shared { session, skipped })))
    }

    /// The session is whole also after a panic in a step, which changes it only at its end.
    pub(super) fn lock(&self) -> MutexGuard<'_, Shared<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the virtual nodes to other devices before the next batch: see [`Session::resize`].
    ///
    /// # Errors
    /// As there.
    pub fn resize(&self, devices: impl IntoIterator<Item = B::Device>) -> Result<(), TrainError> {
        self.lock().session.resize(devices)
    }

    /// Which virtual nodes each rank runs.
    pub fn placement(&self) -> Placement {
        self.lock().session.placement().clone()
    }

    /// The steps that were applied.
    pub fn applied_steps(&self) -> u64 {
        self.lock().session.applied_steps()
    }

    /// The steps that were skipped: how many were applied before each, and why it was.
    pub fn skipped(&self) -> Vec<(u64, Skipped)> {
        self.lock().skipped.clone()
    }

    /// As [`Session::memory`].
    pub fn memory(&self) -> Vec<RankMemory> {
        self.lock().session.memory().to_vec()
    }
}

impl<B: VirtualAutodiff> Clone for Handle<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: VirtualAutodiff> fmt::Debug for Handle<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.lock().session).finish()
    }
}
