//! `burn-virtual predict`: a trained model on the held-out digits.

use std::time::Instant;

use burn::module::AutodiffModule;
use burn_virtual::backend::Meter;
use burn_virtual::models::{Digit, Digits};
use burn_virtual::nodes::{Task, VirtualNodes};

use crate::args::{Model, PredictArgs};
use crate::backend::{self, B, DEVICE};
use crate::devices::{Device, check_count};
use crate::error::RunError;
use crate::output;
use crate::placement::{Placed, ranges};
use crate::predict_report::PredictReport;
use crate::resources::peak_rss_bytes;
use crate::task::{Cnn, Mlp};
use crate::weights;

/// Predicts and prints the result.
pub(crate) fn run(args: &PredictArgs) -> Result<(), RunError> {
    check_count(&args.placing.devices)?;
    let report = match args.model {
        Model::DigitsCnn => predict(args, &Cnn)?,
        Model::DigitsMlp => predict(args, &Mlp)?,
    };
    Ok(output::print(&report, args.json)?)
}

fn predict<T>(args: &PredictArgs, task: &T) -> Result<PredictReport, RunError>
where
    T: Task<Item = Digit, Prediction = u8>,
{
    let digits = Digits::load()?;
    let meter = Meter::new();
    let _listening = meter.listen();
    let mut model = task.model::<B>(&DEVICE);
    let weights = weights::load(args.model, &mut model, &args.weights)?;
    let mut predictor = VirtualNodes::new(args.virtual_nodes.get())
        .devices(args.placing.devices.iter().copied().map(Device::flex))
        .predictor(model.valid())?;
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
    Ok(PredictReport {
        samples: items.len(),
        accuracy: score / items.len() as f64,
        predictions,
        weights_sha256: weights.to_string(),
        samples_per_s: items.len() as f64 / seconds,
        placed: Placed {
            peak_tensor_bytes: predictor
                .memory()
                .iter()
                .map(|rank| rank.peak.max(meter.peak()))
                .collect(),
            peak_rss_bytes: peak_rss_bytes(),
            virtual_nodes: predictor.virtual_nodes(),
            placement: ranges(predictor.placement()),
            devices: args.placing.devices.iter().map(Device::to_string).collect(),
            backend: backend::NAME,
            probe: predictor.probe().to_string(),
        },
    })
}
