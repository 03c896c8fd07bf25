//! One virtual node's turn: a fresh replica, forward, backward, and its leaf of the tree.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::AutodiffModule;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn_virtual_backend::{Scope, enter};
use burn_virtual_plan::Partial;

use crate::collect::{GradientCollector, StatisticCollector, StatisticMarker};
use crate::gradients::{self, Taken};
use crate::inventory::{Frame, Inventory};
use crate::memory::NodeMemory;
use crate::{IntoLossSum, LossSum, NodeError, SplitBatch, VirtualAutodiff, walk};

/// What every virtual node of a step shares.
pub(crate) struct StepJob<'a, S, F> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) frame: &'a Frame,
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) batch: &'a S,
    pub(crate) loss: &'a F,
    pub(crate) require_all_gradients: bool,
}

/// A rank's own copy of the model: what its virtual nodes make their replicas from.
///
/// Its running statistics are its own and marked, so that a replica shows which of them it changed.
/// Replicas are made of the autodiff model by way of `valid`: a clone of the inner model would have
/// forgotten which parameters are trained.
pub(crate) struct Master<B: VirtualAutodiff, M> {
    model: M,
    device: B::Device,
}

impl<B: VirtualAutodiff, M: AutodiffModule<B>> Master<B, M> {
    pub(crate) fn new(model: &M, device: &B::Device, frame: &Frame) -> Self {
        let mut own = M::from_inner(model.valid());
        if own.devices().iter().any(|held| held != device) {
            own = own.fork(device);
        }
        if frame.has_statistics() {
            own = walk::replace(own, &mut StatisticMarker(frame));
        }
        Self {
            model: own,
            device: device.clone(),
        }
    }

    /// Runs one virtual node and fills its leaf. `range` is not empty.
    pub(crate) fn run<S, F, L>(
        &self,
        job: &StepJob<'_, S, F>,
        node: usize,
        range: Range<usize>,
        mut leaf: Partial,
        memory: &mut NodeMemory,
    ) -> Result<Partial, NodeError>
    where
        S: SplitBatch<B>,
        F: Fn(&M, S::Micro) -> L,
        L: IntoLossSum<B>,
    {
        let _scope = enter(Scope::Node {
            seed: job.seed,
            step: job.step,
            node: node as u64,
        });
        let samples = range.len();
        guarded(|| self.passes(job, range, samples, &mut leaf, memory))?;
        if !job.frame.is_finite(&leaf) {
            leaf.flags_mut().set(job.frame.not_finite(node));
        }
        Ok(leaf)
    }

    fn passes<S, F, L>(
        &self,
        job: &StepJob<'_, S, F>,
        range: Range<usize>,
        samples: usize,
        leaf: &mut Partial,
        memory: &mut NodeMemory,
    ) -> Result<(), NodeError>
    where
        S: SplitBatch<B>,
        F: Fn(&M, S::Micro) -> L,
        L: IntoLossSum<B>,
    {
        memory.start();
        let replica = gradients::marked::<B, M>(M::from_inner(self.model.valid()));
        let micro = job.batch.micro(range, &self.device);
        let LossSum { sum, weight } = (job.loss)(&replica, micro).into_loss_sum()?;
        memory.after_forward();
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(NodeError::Weight(weight));
        }
        leaf.sums_mut()[Frame::SAMPLES] = samples as f64;
        if weight > 0.0 {
            leaf.sums_mut()[Frame::LOSS] = scalar(&sum)?;
            leaf.sums_mut()[Frame::WEIGHT] = weight;
            let taken = gradients::backward(sum);
            memory.after_backward(job.frame.gradient_bytes());
            self.take_gradients(job, &replica, taken, leaf)?;
        }
        self.take_statistics(job, &replica, samples, leaf)
    }

    fn take_gradients<S, F>(
        &self,
        job: &StepJob<'_, S, F>,
        replica: &M,
        taken: Taken<B>,
        leaf: &mut Partial,
    ) -> Result<(), NodeError> {
        let mut collector = GradientCollector {
            inventory: job.inventory,
            frame: job.frame,
            require_all: job.require_all_gradients,
            taken,
            leaf,
        };
        walk::look(replica, &mut collector)?;
        Ok(())
    }

    fn take_statistics<S, F>(
        &self,
        job: &StepJob<'_, S, F>,
        replica: &M,
        samples: usize,
        leaf: &mut Partial,
    ) -> Result<(), NodeError> {
        if !job.frame.has_statistics() {
            return Ok(());
        }
        let mut collector = StatisticCollector {
            inventory: job.inventory,
            frame: job.frame,
            samples,
            leaf,
        };
        // `valid` folds what the forward pass left pending in the replica's own statistics.
        walk::look(&replica.valid(), &mut collector)?;
        Ok(())
    }
}

/// Runs user code; a panic becomes an error that carries its text.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, NodeError>) -> Result<T, NodeError> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(NodeError::Panicked(message(&*panic))))
}

fn scalar<B: Backend>(sum: &Tensor<B, 1>) -> Result<f64, NodeError> {
    let read = |reason: String| NodeError::Read {
        what: "the loss".to_owned(),
        reason,
    };
    let data = sum
        .clone()
        .try_into_data()
        .map_err(|error| read(error.to_string()))?;
    let mut values = data.iter::<f64>();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(read(format!(
            "expected 1 value, got {}",
            data.num_elements()
        ))),
    }
}

pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned())
}
