//! `burn-virtual predict`: a trained model on the held-out digits.

use std::time::Instant;

use burn_virtual::backend::Meter;
use burn_virtual::models::{Digit, Digits};
use burn_virtual::nodes::{Task, VirtualNodes};

use crate::args::{Model, PredictArgs};
use crate::backend::{Hardware, OnBackend};
use crate::error::RunError;
use crate::output;
use crate::placement::Placed;
use crate::predict_report::PredictReport;
use crate::process::Process;
use crate::task::{Cnn, Mlp};
use crate::weights;

/// Predicts and prints the result.
pub(crate) fn run(args: &PredictArgs) -> Result<(), RunError> {
    Process::check_alone("predict")?;
    let report = args.placing.kind()?.run(Predict(args))?;
    Ok(output::print(&report, args.json)?)
}

struct Predict<'a>(&'a PredictArgs);

impl OnBackend for Predict<'_> {
    type Output = Result<PredictReport, RunError>;

    fn run<B: Hardware>(self) -> Self::Output {
        match self.0.model {
            Model::DigitsCnn => predict::<B, _>(self.0, &Cnn),
            Model::DigitsMlp => predict::<B, _>(self.0, &Mlp),
        }
    }
}

fn predict<B, T>(args: &PredictArgs, task: &T) -> Result<PredictReport, RunError>
where
    B: Hardware,
    T: Task<Item = Digit, Prediction = u8>,
{
    let digits = Digits::load()?;
    let devices = args.placing.on::<B>()?;
    let meter = Meter::new();
    let _listening = meter.listen();
    let mut model = task.model::<B>(&devices.first().cloned().unwrap_or_default());
    let weights = weights::load(args.model, &mut model, &args.weights)?;
    let settings = VirtualNodes::new(args.virtual_nodes.get()).devices(devices);
    let mut predictor = B::settle(settings).predictor(&model)?;
    drop(model);

    let items = digits.held_out();
    let start = Instant::now();
    let mut predictions = Vec::with_capacity(items.len());
    for batch in items.chunks(args.batch_size.get()) {
        predictions.extend(predictor.predict_task::<B, T>(task, batch)?);
    }
    let seconds = start.elapsed().as_secs_f64();
    let scores = items.iter().zip(&predictions);
    let score: f64 = scores
        .map(|(item, prediction)| task.score(item, prediction))
        .sum();
    let ranks = predictor.memory().iter();
    let peaks = ranks.map(|rank| rank.peak.max(meter.peak())).collect();
    Ok(PredictReport {
        samples: items.len(),
        accuracy: score / items.len() as f64,
        predictions,
        weights_sha256: weights.to_string(),
        samples_per_s: items.len() as f64 / seconds,
        placed: Placed::new::<B>(
            &args.placing,
            predictor.placement(),
            predictor.probe(),
            peaks,
        ),
    })
}
