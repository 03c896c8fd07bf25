//! `burn-virtual train`: a task on virtual nodes, in this process or as one of several.

use burn::optim::Optimizer;
use burn_virtual::backend::Meter;
use burn_virtual::distributed::Reduce;
use burn_virtual::models::{Digit, Digits};
use burn_virtual::nodes::{RankMemory, Session, Task, Trainer, VirtualNodes};

use crate::args::{self, Model, TrainArgs};
use crate::backend::{Hardware, OnBackend};
use crate::error::RunError;
use crate::optimizer::{adam, adamw, default_rate, sgd};
use crate::output::complain;
use crate::placement::Placed;
use crate::process::{Devices, Process};
use crate::tally::{Tally, last_step};
use crate::task::{Cnn, Mlp};
use crate::train_report::TrainReport;
use crate::weights::Output;
use crate::{memory, output};

/// Trains and prints the result.
pub(crate) fn run(args: &TrainArgs) -> Result<(), RunError> {
    let process = Process::read()?;
    let devices = process.devices(&args.placing)?;
    let kind = devices.everywhere.kind()?;
    let job = Job {
        args,
        process: &process,
        devices: &devices,
    };
    if process.speaks() && args.reduce != Reduce::Ordered {
        complain("note: bits depend on the placement; they don't with --reduce ordered");
    }
    let Some((report, saved)) = kind.run(job)? else {
        return Ok(());
    };
    // The result is worth having also where the weights could not be saved.
    output::print(&report, args.json)?;
    saved
}

/// The result, and whether the weights are where they were to be left. The first rank has it: the
/// others have the same weights.
type Trained = Option<(TrainReport, Result<(), RunError>)>;

/// What is asked for, and who does it.
#[derive(Clone, Copy)]
struct Job<'a> {
    args: &'a TrainArgs,
    process: &'a Process,
    devices: &'a Devices,
}

impl OnBackend for Job<'_> {
    type Output = Result<Trained, RunError>;

    fn run<B: Hardware>(self) -> Self::Output {
        match self.args.model {
            Model::DigitsCnn => with_optimizer::<B, _>(self, &Cnn),
            Model::DigitsMlp => with_optimizer::<B, _>(self, &Mlp),
        }
    }
}

fn with_optimizer<B: Hardware, T: Task<Item = Digit>>(
    job: Job<'_>,
    task: &T,
) -> Result<Trained, RunError> {
    match job.args.optimizer {
        args::Optimizer::Adam => train::<B, T, _>(job, task, adam),
        args::Optimizer::Sgd => train::<B, T, _>(job, task, sgd),
        args::Optimizer::Adamw => train::<B, T, _>(job, task, adamw),
    }
}

fn train<B, T, O>(job: Job<'_>, task: &T, optimizer: impl Fn() -> O) -> Result<Trained, RunError>
where
    B: Hardware,
    T: Task<Item = Digit>,
    O: Optimizer<T::Model<B>, B>,
{
    let Job {
        args,
        process,
        devices: Devices { here, everywhere },
    } = job;
    let digits = Digits::load()?;
    let devices = here.on::<B>()?;
    let main = devices.first().cloned().unwrap_or_default();
    let ranks = everywhere.devices.len();
    let count =
        memory::virtual_nodes::<B, _, _>(args, task, &optimizer, digits.train(), &main, ranks)?;
    let meter = Meter::new();
    let _listening = meter.listen();

    let settings = settings::<B>(args, count).devices(devices);
    let mut model = task.model::<B>(&main);
    let rate = args.lr.unwrap_or_else(|| default_rate(args.optimizer));
    let samples = digits.train().len();
    let nodes = settings.clone().require_all_gradients();
    let nodes = nodes
        .agree_on("model", format!("{:?}", args.model))
        .agree_on("batch size", args.batch_size)
        .agree_on("number of steps", last_step(args, samples))
        .agree_on("optimizer", format!("{:?}", args.optimizer))
        .agree_on("learning rate", rate);
    let nodes = process.start::<B, _>(nodes, &mut model, &args.waiting)?;
    // Whatever can be refused was: from here on, files are touched.
    let out = args.out.as_deref().filter(|_| process.speaks());
    let out = out.map(Output::in_folder).transpose()?;
    let mut trainer = Trainer::new(nodes, model, optimizer(), rate);
    let mut tally = Tally::new(args, samples, process.speaks());
    let mut epoch = 0;
    while !tally.is_done() {
        tally.start_epoch();
        for items in digits
            .epoch(args.seed, epoch)
            .batches(args.batch_size.get())?
        {
            let step = trainer.step_task(task, items)?;
            tally.count(items.len(), step)?;
            if tally.is_done() {
                break;
            }
        }
        epoch += 1;
    }
    let samples_per_s = tally.finish()?;
    let (mut nodes, model, _, _) = trainer.into_parts()?;
    let weights_sha256 = nodes.common_weights(&model)?.to_string();
    let mut peaks = peaks(&mut nodes, &meter)?;
    if !process.speaks() {
        return Ok(None);
    }
    let saved = out.map_or(Ok(()), |out| out.save(args.model, &model));
    let mut predictor = settings.predictor(&model)?;
    let accuracy = predictor.score_task::<B, T>(task, digits.held_out(), args.batch_size.get())?;
    for (peak, prediction) in peaks[process.rank()..].iter_mut().zip(predictor.memory()) {
        *peak = prediction.peak.max(meter.peak()).max(*peak);
    }
    let report = TrainReport {
        steps: tally.steps(),
        epochs: tally.epochs(),
        loss: tally.loss(),
        accuracy,
        weights_sha256,
        samples_per_s,
        placed: Placed::new::<B>(everywhere, nodes.placement(), nodes.probe(), peaks),
    };
    Ok(Some((report, saved)))
}

/// The settings of a job of `count` virtual nodes.
fn settings<B: Hardware>(args: &TrainArgs, count: usize) -> VirtualNodes {
    let waiting = &args.waiting;
    let settings = VirtualNodes::new(count)
        .seed(args.seed)
        .reduce(args.reduce)
        .timeout(waiting.timeout)
        .first_timeout(waiting.first_timeout)
        .stall_after(waiting.stall_after);
    B::settle(match args.allow_drift {
        true => settings.allow_drift(),
        false => settings,
    })
}

/// The peak of live tensor bytes of every rank of the job.
fn peaks<B: Hardware>(nodes: &mut Session<B>, meter: &Meter) -> Result<Vec<usize>, RunError> {
    // What the optimizer made between steps is on the books of the thread's own meter.
    let peak = |rank: &RankMemory| rank.peak.max(meter.peak()) as u64;
    let ranks = nodes.memory().iter();
    let own = ranks
        .map(|rank| peak(rank).to_le_bytes().to_vec())
        .collect();
    let all = nodes.gather(own)?.into_iter().enumerate();
    let peak = |(rank, bytes): (usize, Vec<u8>)| match <[u8; 8]>::try_from(&*bytes) {
        Ok(peak) => Ok(u64::from_le_bytes(peak) as usize),
        Err(_) => Err(RunError::Peak {
            rank,
            got: bytes.len(),
        }),
    };
    all.map(peak).collect()
}
