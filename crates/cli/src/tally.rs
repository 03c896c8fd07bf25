//! How far a training run is.

use std::num::NonZeroUsize;
use std::time::Instant;

use burn_virtual::nodes::{Skipped, StepReport};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::TrainArgs;
use crate::complain;
use crate::error::RunError;

const DEFAULT_EPOCHS: usize = 12;

/// A run whose loss stays NaN will not recover: it ends after this many skipped steps in a row.
const MOST_SKIPPED_IN_A_ROW: usize = 10;

/// Counts what was trained, and decides when it is enough.
pub(crate) struct Tally {
    batches_per_epoch: usize,
    last_step: usize,
    steps: usize,
    /// The reasons of the steps that were skipped since the last applied one.
    skipped: Vec<Skipped>,
    samples: usize,
    /// Loss and weight sums of this epoch.
    loss: f64,
    weight: f64,
    start: Instant,
    speaks: bool,
    progress: ProgressBar,
}

impl Tally {
    /// Of a training set of `samples`; silent unless it `speaks`.
    pub(crate) fn new(args: &TrainArgs, samples: usize, speaks: bool) -> Self {
        let batches_per_epoch = batches_per_epoch(args, samples);
        let last_step = last_step(args, samples);
        Self {
            batches_per_epoch,
            last_step,
            steps: 0,
            skipped: Vec::new(),
            samples: 0,
            loss: 0.0,
            weight: 0.0,
            start: Instant::now(),
            speaks,
            progress: if speaks {
                progress(last_step)
            } else {
                ProgressBar::hidden()
            },
        }
    }

    /// The loss that is reported is that of an epoch.
    pub(crate) fn start_epoch(&mut self) {
        (self.loss, self.weight) = (0.0, 0.0);
    }

    /// Counts a step on `samples`.
    pub(crate) fn count(&mut self, samples: usize, step: StepReport) -> Result<(), RunError> {
        self.steps += 1;
        self.samples += samples;
        self.progress.inc(1);
        match step.skipped {
            None => {
                self.skipped.clear();
                self.loss += step.loss * step.weight;
                self.weight += step.weight;
                self.progress.set_message(format!("loss {:.4}", step.loss));
                Ok(())
            }
            Some(reason) => {
                let number = self.steps;
                let warning = format!("warning: step {number} was skipped: {reason}");
                if self.speaks {
                    self.progress.suspend(|| complain(&warning));
                }
                self.skipped.push(reason);
                if self.skipped.len() < MOST_SKIPPED_IN_A_ROW {
                    return Ok(());
                }
                self.check_last_step()
            }
        }
    }

    /// Whether all steps were taken.
    pub(crate) fn is_done(&self) -> bool {
        self.steps == self.last_step
    }

    /// Ends the run: the samples a second.
    pub(crate) fn finish(&self) -> Result<f64, RunError> {
        let seconds = self.start.elapsed().as_secs_f64();
        self.progress.finish_and_clear();
        self.check_last_step()?;
        Ok(self.samples as f64 / seconds)
    }

    /// Steps taken, skipped ones included.
    pub(crate) fn steps(&self) -> usize {
        self.steps
    }

    /// Whole passes over the training data.
    pub(crate) fn epochs(&self) -> usize {
        self.steps / self.batches_per_epoch
    }

    /// The mean loss of the applied steps of this epoch.
    pub(crate) fn loss(&self) -> f64 {
        self.loss / self.weight
    }

    /// A run must not end on steps that were skipped: its loss would be none.
    fn check_last_step(&self) -> Result<(), RunError> {
        match self.skipped.last() {
            None => Ok(()),
            Some(reason) => Err(RunError::Skipping {
                steps: self.skipped.len(),
                last: self.steps,
                reason: reason.clone(),
            }),
        }
    }
}

fn batches_per_epoch(args: &TrainArgs, samples: usize) -> usize {
    samples.div_ceil(args.batch_size.get())
}

/// The step after which training on `samples` ends.
pub(crate) fn last_step(args: &TrainArgs, samples: usize) -> usize {
    let epochs = args.epochs.map_or(DEFAULT_EPOCHS, NonZeroUsize::get);
    let whole = epochs.saturating_mul(batches_per_epoch(args, samples));
    args.steps.map_or(whole, NonZeroUsize::get)
}

fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} steps, {msg}, {eta} left") {
        Ok(style) => bar.with_style(style),
        // Only a malformed template gets here; the plain bar will do.
        Err(_) => bar,
    }
}
