//! `burn-virtual train`: a task on virtual nodes.

use burn::optim::Optimizer;
use burn_virtual::backend::Meter;
use burn_virtual::models::{Digit, Digits};
use burn_virtual::nodes::{RankMemory, Task, Trainer, VirtualNodes, WeightsHash};

use crate::args::{self, Model, TrainArgs};
use crate::backend::{Hardware, OnBackend};
use crate::error::RunError;
use crate::optimizer::{adam, adamw, default_rate, sgd};
use crate::placement::Placed;
use crate::tally::Tally;
use crate::task::{Cnn, Mlp};
use crate::train_report::TrainReport;
use crate::weights::Output;
use crate::{memory, output};

/// Trains and prints the result.
pub(crate) fn run(args: &TrainArgs) -> Result<(), RunError> {
    let (report, saved) = args.placing.kind()?.run(Train(args))?;
    // The result is worth having also where the weights could not be saved.
    output::print(&report, args.json)?;
    saved
}

/// The result, and whether the weights are where they were to be left.
type Trained = (TrainReport, Result<(), RunError>);

struct Train<'a>(&'a TrainArgs);

impl OnBackend for Train<'_> {
    type Output = Result<Trained, RunError>;

    fn run<B: Hardware>(self) -> Self::Output {
        match self.0.model {
            Model::DigitsCnn => with_optimizer::<B, _>(self.0, &Cnn),
            Model::DigitsMlp => with_optimizer::<B, _>(self.0, &Mlp),
        }
    }
}

fn with_optimizer<B: Hardware, T: Task<Item = Digit>>(
    args: &TrainArgs,
    task: &T,
) -> Result<Trained, RunError> {
    match args.optimizer {
        args::Optimizer::Adam => train::<B, T, _>(args, task, adam),
        args::Optimizer::Sgd => train::<B, T, _>(args, task, sgd),
        args::Optimizer::Adamw => train::<B, T, _>(args, task, adamw),
    }
}

fn train<B, T, O>(
    args: &TrainArgs,
    task: &T,
    optimizer: impl Fn() -> O,
) -> Result<Trained, RunError>
where
    B: Hardware,
    T: Task<Item = Digit>,
    O: Optimizer<T::Model<B>, B>,
{
    let digits = Digits::load()?;
    let devices = args.placing.on::<B>()?;
    let main = devices.first().cloned().unwrap_or_default();
    let count = memory::virtual_nodes::<B, _, _>(args, task, &optimizer, digits.train(), &main)?;
    let meter = Meter::new();
    let _listening = meter.listen();

    let settings = B::settle(VirtualNodes::new(count).seed(args.seed).devices(devices));
    let mut model = task.model::<B>(&main);
    let nodes = settings.clone().require_all_gradients().start(&mut model)?;
    // Whatever can be refused was: from here on, files are touched.
    let out = args.out.as_deref().map(Output::in_folder).transpose()?;
    let rate = args.lr.unwrap_or_else(|| default_rate(args.optimizer));
    let mut trainer = Trainer::new(nodes, model, optimizer(), rate);

    let mut tally = Tally::new(args, digits.train().len());
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
    let (nodes, model, _, _) = trainer.into_parts()?;
    let saved = out.map_or(Ok(()), |out| out.save(args.model, &model));
    let mut predictor = settings.predictor(&model)?;
    let accuracy = predictor.score_task::<B, T>(task, digits.held_out(), args.batch_size.get())?;
    let ranks = nodes.memory().iter().zip(predictor.memory());
    // What the optimizer made between steps is on the books of the thread's own meter.
    let peak = |(training, prediction): (&RankMemory, &RankMemory)| {
        training.peak.max(prediction.peak).max(meter.peak())
    };
    let peaks = ranks.map(peak).collect();
    let report = TrainReport {
        steps: tally.steps(),
        epochs: tally.epochs(),
        loss: tally.loss(),
        accuracy,
        weights_sha256: WeightsHash::of(&model)?.to_string(),
        samples_per_s,
        placed: Placed::new::<B>(&args.placing, nodes.placement(), nodes.probe(), peaks),
    };
    Ok((report, saved))
}
