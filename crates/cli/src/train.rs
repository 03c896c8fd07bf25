//! `burn-virtual train`: a plain Burn loop whose batched forward and backward runs on virtual nodes.

use std::io::Write;
use std::num::NonZeroUsize;
use std::time::Instant;

use burn::backend::Autodiff;
use burn::module::AutodiffModule;
use burn_flex::{Flex, FlexDevice};
use burn_virtual::backend::{Meter, VirtualBackend};
use burn_virtual::models::{Digits, DigitsError, ZeroBatchSize};
use burn_virtual::nodes::{Skipped, TrainError, VirtualNodes, WeightsHash};
use burn_virtual::plan::PlanError;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Model, TrainArgs};
use crate::complain;
use crate::devices::Device;
use crate::optimizer::{Optimizer, default_rate};
use crate::report::TrainReport;
use crate::resources::peak_rss_bytes;
use crate::task::{self, Classifier};

type B = Autodiff<VirtualBackend<Flex>>;

const DEFAULT_EPOCHS: usize = 12;

/// A run whose loss stays NaN will not recover: it ends after this many skipped steps in a row.
const MOST_SKIPPED_IN_A_ROW: usize = 10;

/// Each device is a thread here, with a queue to each other one.
const MOST_DEVICES: usize = 256;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Data(#[from] DigitsError),
    #[error(transparent)]
    BatchSize(#[from] ZeroBatchSize),
    #[error(
        "the last {steps} steps up to step {last} were skipped: {reason}; a lower --lr may help"
    )]
    Skipping {
        steps: usize,
        last: usize,
        reason: Skipped,
    },
    #[error("--devices: expected at most {MOST_DEVICES} devices, got {0}")]
    Devices(usize),
    #[error("writing the result: {0}")]
    Output(#[from] std::io::Error),
}

impl RunError {
    /// 2 where the command line asked for what cannot be, 1 otherwise.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Devices(_) | Self::Train(TrainError::Plan(PlanError::TooManyRanks { .. })) => 2,
            _ => 1,
        }
    }
}

/// Trains and prints the result.
pub(crate) fn run(args: &TrainArgs) -> Result<(), RunError> {
    if args.devices.len() > MOST_DEVICES {
        return Err(RunError::Devices(args.devices.len()));
    }
    let report = match args.model {
        Model::DigitsCnn => train(args, task::digits_cnn::<B>)?,
        Model::DigitsMlp => train(args, task::digits_mlp::<B>)?,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        report.print_json(&mut out)?;
    } else {
        report.print_text(&mut out)?;
    }
    Ok(out.flush()?)
}

fn train<M>(args: &TrainArgs, init: fn(&FlexDevice) -> M) -> Result<TrainReport, RunError>
where
    M: AutodiffModule<B> + Classifier<B>,
    M::InnerModule: Classifier<VirtualBackend<Flex>>,
{
    let digits = Digits::load()?;
    let meter = Meter::new();
    let _listening = meter.listen();

    let mut model = init(&FlexDevice);
    let mut optimizer = Optimizer::new(args.optimizer);
    let mut nodes = VirtualNodes::new(args.virtual_nodes.get())
        .seed(args.seed)
        .devices(args.devices.iter().copied().map(Device::flex))
        .require_all_gradients()
        .start(&mut model)?;

    let rate = args.lr.unwrap_or_else(|| default_rate(args.optimizer));
    let mut tally = Tally::new(args, digits.train().len());
    let mut epoch = 0;
    while !tally.is_done() {
        tally.start_epoch();
        for items in digits
            .epoch(args.seed, epoch)
            .batches(args.batch_size.get())?
        {
            let out = task::step(&mut nodes, &model, items)?;
            model = optimizer.step(rate, model, out.grads);
            tally.count(items.len(), out.loss, out.weight, out.skipped)?;
            if tally.is_done() {
                break;
            }
        }
        epoch += 1;
    }
    tally.progress.finish_and_clear();
    tally.check_last_step()?;
    Ok(TrainReport {
        steps: tally.steps,
        epochs: tally.steps / tally.batches_per_epoch,
        loss: tally.loss / tally.weight,
        samples_per_s: tally.samples as f64 / tally.start.elapsed().as_secs_f64(),
        // What the optimizer made between steps is on the books of the thread's own meter.
        peak_tensor_bytes: nodes
            .memory()
            .iter()
            .map(|rank| rank.peak.max(meter.peak()))
            .collect(),
        peak_rss_bytes: peak_rss_bytes(),
        accuracy: task::accuracy(&mut nodes, &model, digits.held_out())?,
        weights_sha256: WeightsHash::of(&model)?.to_string(),
        virtual_nodes: nodes.virtual_nodes(),
        placement: nodes
            .placement()
            .shares()
            .map(|share| [share.start, share.end - 1])
            .collect(),
        devices: args.devices.iter().map(Device::to_string).collect(),
        backend: "flex".to_owned(),
        probe: nodes.probe().to_string(),
    })
}

/// Counts what was trained, and decides when it is enough.
struct Tally {
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
    progress: ProgressBar,
}

impl Tally {
    fn new(args: &TrainArgs, samples: usize) -> Self {
        let batches_per_epoch = samples.div_ceil(args.batch_size.get());
        let epochs = args.epochs.map_or(DEFAULT_EPOCHS, NonZeroUsize::get);
        let last_step = args
            .steps
            .map_or(epochs.saturating_mul(batches_per_epoch), NonZeroUsize::get);
        Self {
            batches_per_epoch,
            last_step,
            steps: 0,
            skipped: Vec::new(),
            samples: 0,
            loss: 0.0,
            weight: 0.0,
            start: Instant::now(),
            progress: progress(last_step),
        }
    }

    fn start_epoch(&mut self) {
        (self.loss, self.weight) = (0.0, 0.0);
    }

    fn count(
        &mut self,
        samples: usize,
        loss: f64,
        weight: f64,
        skipped: Option<Skipped>,
    ) -> Result<(), RunError> {
        self.steps += 1;
        self.samples += samples;
        self.progress.inc(1);
        match skipped {
            None => {
                self.skipped.clear();
                self.loss += loss * weight;
                self.weight += weight;
                self.progress.set_message(format!("loss {loss:.4}"));
                Ok(())
            }
            Some(reason) => {
                let step = self.steps;
                let warning = format!("warning: step {step} was skipped: {reason}");
                self.progress.suspend(|| complain(&warning));
                self.skipped.push(reason);
                if self.skipped.len() < MOST_SKIPPED_IN_A_ROW {
                    return Ok(());
                }
                self.check_last_step()
            }
        }
    }

    fn is_done(&self) -> bool {
        self.steps == self.last_step
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

fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} steps, {msg}, {eta} left") {
        Ok(style) => bar.with_style(style),
        // Only a malformed template gets here; the plain bar will do.
        Err(_) => bar,
    }
}
