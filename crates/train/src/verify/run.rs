//! One training of a verification.

use std::time::Instant;

use burn::module::{AutodiffModule, Module, ModuleVisitor, Param};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::Tensor;

use super::VerifySettings;
use crate::names::{PathStack, track_path};
use crate::{
    Session, StepOutput, Task, TaskBatcher, TrainError, VirtualAutodiff, VirtualNodes, WeightsHash,
};

/// What every training of a verification has in common.
pub(super) struct Job<'a, T: Task> {
    pub(super) task: &'a T,
    pub(super) items: &'a [T::Item],
    pub(super) held_out: &'a [T::Item],
    pub(super) settings: VerifySettings,
}

/// What a backend promises.
#[derive(Clone, Copy)]
pub(super) enum Exactness {
    /// The same bits on every placement and in every run.
    Bits,
    /// Values within a tolerance.
    Tolerance,
}

/// A training that is over, on the host.
pub(super) struct Trained {
    /// Per rank, the device.
    pub(super) devices: Vec<String>,
    /// Per rank, how many virtual nodes it ran.
    pub(super) shares: Vec<usize>,
    pub(super) initial: WeightsHash,
    pub(super) weights: WeightsHash,
    /// The loss of each step.
    pub(super) losses: Vec<f64>,
    /// The gradients of the first step, by module path, in module order.
    pub(super) gradients: Vec<(String, Vec<f32>)>,
    /// The fastest step.
    pub(super) step_seconds: f64,
}

impl Trained {
    /// Whether everything that is promised to be bit-identical is.
    pub(super) fn same_bits(&self, other: &Self) -> bool {
        let bits = |losses: &[f64]| losses.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>();
        self.initial == other.initial
            && self.weights == other.weights
            && bits(&self.losses) == bits(&other.losses)
    }
}

impl<T: Task> Job<'_, T> {
    /// Trains; returns the model as well.
    pub(super) fn train<B: VirtualAutodiff>(
        &self,
        devices: &[B::Device],
        shares: Option<Vec<usize>>,
        exactness: Exactness,
    ) -> Result<(Trained, T::Model<B>), TrainError> {
        let settings = &self.settings;
        settings.check()?;
        if self.items.is_empty() {
            return Err(TrainError::EmptyBatch);
        }
        let nodes = VirtualNodes {
            shares,
            ..self.nodes::<B>(devices, exactness)
        };
        let main = devices.first().cloned().unwrap_or_default();
        let mut model = self.task.model::<B>(&main);
        let mut session = nodes.start(&mut model)?;
        let initial = WeightsHash::of(&model)?;

        let mut curve = Curve::default();
        let mut optimizer = AdamConfig::new().init();
        let batches = self.items.chunks(settings.batch_size).cycle();
        for items in batches.take(settings.steps) {
            let start = Instant::now();
            let out = self.step(&mut session, &model, items)?;
            refuse_skipped(&out)?;
            if curve.losses.is_empty() {
                curve.gradients = read_gradients::<B, _>(&model, &out.grads)?;
            }
            curve.losses.push(out.loss);
            model = optimizer.step(settings.learning_rate, model, out.grads);
            curve.seconds.push(start.elapsed().as_secs_f64());
        }
        let trained = Trained {
            devices: devices.iter().map(|device| format!("{device:?}")).collect(),
            shares: session
                .placement()
                .shares()
                .map(|share| share.len())
                .collect(),
            initial,
            weights: WeightsHash::of(&model)?,
            step_seconds: curve.seconds.iter().copied().fold(f64::INFINITY, f64::min),
            losses: curve.losses,
            gradients: curve.gradients,
        };
        Ok((trained, model))
    }

    /// The mean score of a model on the held-out items, if there are any.
    pub(super) fn score<B: VirtualAutodiff>(
        &self,
        model: &T::Model<B>,
        device: &B::Device,
        exactness: Exactness,
    ) -> Result<Option<f64>, TrainError> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let nodes = self.nodes::<B>(std::slice::from_ref(device), exactness);
        let batch_size = self.settings.batch_size;
        let mut predictor = nodes.predictor(model)?;
        let score = predictor.score_task::<B, T>(self.task, self.held_out, batch_size)?;
        Ok(Some(score))
    }

    fn nodes<B: VirtualAutodiff>(
        &self,
        devices: &[B::Device],
        exactness: Exactness,
    ) -> VirtualNodes<Vec<B::Device>> {
        let nodes = VirtualNodes::new(self.settings.virtual_nodes)
            .seed(self.settings.seed)
            .devices(devices.iter().cloned());
        match exactness {
            Exactness::Bits => nodes,
            Exactness::Tolerance => nodes.allow_drift(),
        }
    }

    fn step<B: VirtualAutodiff>(
        &self,
        session: &mut Session<B>,
        model: &T::Model<B>,
        items: &[T::Item],
    ) -> Result<StepOutput, TrainError> {
        session.backward(model, items, &TaskBatcher(self.task), |model, micro| {
            self.task.loss::<B>(model, micro)
        })
    }
}

/// What the steps came to.
#[derive(Default)]
struct Curve {
    losses: Vec<f64>,
    gradients: Vec<(String, Vec<f32>)>,
    seconds: Vec<f64>,
}

/// A step that was skipped has nothing to compare.
fn refuse_skipped(out: &StepOutput) -> Result<(), TrainError> {
    match &out.skipped {
        None => Ok(()),
        Some(reason) => Err(TrainError::Skipped {
            what: "verifying a training",
            reason: reason.clone(),
        }),
    }
}

/// The gradients of a step by module path; none for a parameter that got none.
fn read_gradients<B: VirtualAutodiff, M: AutodiffModule<B>>(
    model: &M,
    gradients: &GradientsParams,
) -> Result<Vec<(String, Vec<f32>)>, TrainError> {
    let mut reader = Reader {
        gradients,
        path: PathStack::default(),
        read: Vec::new(),
        error: None,
    };
    Module::<B>::visit(model, &mut reader);
    reader.error.map_or(Ok(reader.read), Err)
}

struct Reader<'a> {
    gradients: &'a GradientsParams,
    path: PathStack,
    read: Vec<(String, Vec<f32>)>,
    error: Option<TrainError>,
}

impl<B: VirtualAutodiff> ModuleVisitor<B> for Reader<'_> {
    track_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let Some(gradient) = self.gradients.get::<B::InnerBackend, D>(param.id) else {
            return;
        };
        let device = gradient.device();
        match gradient.try_into_data() {
            Ok(data) => self
                .read
                .push((self.path.path(), data.iter::<f32>().collect())),
            Err(error) => {
                let error = TrainError::device(&device, error.to_string());
                self.error.get_or_insert(error);
            }
        }
    }
}
