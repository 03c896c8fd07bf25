//! One virtual node's turn: a fresh replica, forward, backward, and its leaf of the tree.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::{AutodiffModule, Module};
use burn::tensor::backend::Backend;
use burn_virtual_backend::{Scope, enter};
use burn_virtual_plan::{Partial, kernel};

use crate::collect::{Arriving, GradientCollector, Reading, StatisticCollector, StatisticMarker};
use crate::inventory::{Frame, Inventory};
use crate::memory::NodeMemory;
use crate::pass::{Gradients, Pass, Passed};
use crate::{NodeError, SplitBatch, VirtualAutodiff, walk};

/// What every virtual node of a step shares.
pub(crate) struct StepJob<'a, S, P> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) frame: &'a Frame,
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) batch: &'a S,
    pub(crate) pass: &'a P,
    pub(crate) require_all_gradients: bool,
}

/// A virtual node's turn that is over.
#[cfg_attr(
    not(feature = "burn-train"),
    expect(dead_code, reason = "only a model's own step has an output")
)]
pub(crate) struct Done<O> {
    pub(crate) weight: f64,
    pub(crate) output: O,
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
        let mut own = M::from_inner(on_device(model.valid(), device));
        if frame.has_statistics() {
            own = walk::replace(own, &mut StatisticMarker(frame));
        }
        Self {
            model: own,
            device: device.clone(),
        }
    }

    /// Runs one virtual node, and asks its device for what its leaf is made of. `range` is not empty.
    pub(crate) fn run<'a, S, P>(
        &self,
        job: &StepJob<'a, S, P>,
        node: usize,
        range: Range<usize>,
        leaf: Partial,
        memory: &mut NodeMemory,
    ) -> Result<Running<'a, P::Output>, NodeError>
    where
        S: SplitBatch<B>,
        P: Pass<B, M, S::Micro>,
    {
        let _scope = enter(Scope::Node {
            seed: job.seed,
            step: job.step,
            node: node as u64,
        });
        guarded(|| self.passes(job, node, range, leaf, memory))
    }

    fn passes<'a, S, P>(
        &self,
        job: &StepJob<'a, S, P>,
        node: usize,
        range: Range<usize>,
        mut leaf: Partial,
        memory: &mut NodeMemory,
    ) -> Result<Running<'a, P::Output>, NodeError>
    where
        S: SplitBatch<B>,
        P: Pass<B, M, S::Micro>,
    {
        let samples = range.len();
        memory.start();
        let replica = job.pass.prepare(M::from_inner(self.model.valid()));
        let micro = job.batch.micro(range, &self.device);
        let Passed {
            loss,
            weight,
            gradients,
            of_mean,
            output,
        } = job.pass.run(&replica, micro, memory)?;
        memory.after_backward(job.frame.gradient_bytes());
        leaf.sums_mut()[Frame::SAMPLES] = samples as f64;
        let mut reading = Reading::new();
        if let Some(gradients) = gradients {
            leaf.sums_mut()[Frame::WEIGHT] = weight;
            loss.into_iter().for_each(|loss| reading.loss(loss));
            take_gradients(job, &replica, gradients, &mut reading)?;
        }
        if job.frame.has_statistics() {
            // `valid` folds what the forward pass left pending in the replica's own statistics.
            let Ok(_) = walk::look(
                &replica.valid(),
                &mut StatisticCollector {
                    frame: job.frame,
                    leaf: &mut leaf,
                    reading: &mut reading,
                },
            );
        }
        Ok(Running {
            frame: job.frame,
            node,
            samples,
            // The tree adds sums.
            scale: of_mean.then_some(weight),
            leaf,
            arriving: reading.start(),
            done: Done { weight, output },
        })
    }
}

fn take_gradients<B, M, S, P, G>(
    job: &StepJob<'_, S, P>,
    replica: &M,
    gradients: G,
    reading: &mut Reading<B::InnerBackend>,
) -> Result<(), NodeError>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B>,
    G: Gradients<B>,
{
    let mut collector = GradientCollector::<B, G> {
        inventory: job.inventory,
        frame: job.frame,
        require_all: job.require_all_gradients,
        gradients,
        reading,
    };
    walk::look(replica, &mut collector)?;
    Ok(())
}

/// A virtual node whose work was handed over to its device.
pub(crate) struct Running<'a, O> {
    frame: &'a Frame,
    node: usize,
    samples: usize,
    scale: Option<f64>,
    leaf: Partial,
    arriving: Arriving,
    done: Done<O>,
}

impl<O> Running<'_, O> {
    /// Whether there is nothing to wait for.
    pub(crate) fn is_over(&self) -> bool {
        self.arriving.is_here()
    }

    /// Waits for its values and puts them into its leaf; returns it with the output of the pass.
    pub(crate) fn finish(mut self) -> Result<(Partial, Done<O>), NodeError> {
        guarded(|| self.arriving.fill(&mut self.leaf, self.samples))?;
        if let Some(weight) = self.scale {
            kernel::scale(self.leaf.values_mut(), weight);
        }
        if !self.frame.is_finite(&self.leaf) {
            self.leaf.flags_mut().set(self.frame.not_finite(self.node));
        }
        Ok((self.leaf, self.done))
    }
}

/// Moves a model without autodiff to a device, if it isn't there: else the same tensors will do.
pub(crate) fn on_device<B: Backend, M: Module<B>>(model: M, device: &B::Device) -> M {
    if model.devices().iter().all(|held| held == device) {
        model
    } else {
        model.to_device(device)
    }
}

/// Runs user code; a panic becomes an error that carries its text.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, NodeError>) -> Result<T, NodeError> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(NodeError::Panicked(message(&*panic))))
}

pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned())
}
