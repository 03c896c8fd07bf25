//! Ranks that are threads of this process.

use std::panic::resume_unwind;
use std::thread::{self, Builder};

use burn_virtual::distributed::memory;

use super::job::Job;
use super::{BenchError, rank};
use crate::error::RunError;

/// For each iteration, the seconds of the rank that took longest.
pub(super) fn measure(job: &Job) -> Result<Vec<f64>, RunError> {
    thread::scope(|scope| {
        let started: Vec<_> = memory::group(job.placement.ranks())
            .into_iter()
            .map(|transport| {
                let measure = move || rank::measure(job, Box::new(transport));
                Builder::new().spawn_scoped(scope, measure)
            })
            .collect();
        let ended: Vec<_> = started
            .into_iter()
            .map(|thread| match thread.map(|thread| thread.join()) {
                Ok(Ok(seconds)) => seconds,
                Ok(Err(panic)) => resume_unwind(panic),
                Err(error) => Err(BenchError::Thread(error).into()),
            })
            .collect();
        cause_or_first(ended)
    })
}

/// All ranks have the same figures; of several errors, the one that the others only heard of.
fn cause_or_first(ended: Vec<Result<Vec<f64>, RunError>>) -> Result<Vec<f64>, RunError> {
    let mut seconds = Vec::new();
    let mut errors = Vec::new();
    for ended in ended {
        match ended {
            Ok(of_rank) => seconds = of_rank,
            Err(error) => errors.push(error),
        }
    }
    errors.sort_by_key(RunError::is_consequence);
    errors.into_iter().next().map_or(Ok(seconds), Err)
}
