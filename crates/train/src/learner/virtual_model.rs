//! A model for burn-train whose batches are split over virtual nodes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Devices, Module, ModuleMapper, ModuleVisitor};
use burn::train::{TrainOutput, TrainStep};

use super::handle::Handle;
use super::items::WeightedItems;
use super::output::joined;
use super::step_pass::StepPass;
use super::{JoinOutput, VirtualValid};
use crate::batch::Items;
use crate::replica::Done;
use crate::{Session, TrainError, VirtualAutodiff};

/// A model whose `TrainStep` and `InferenceStep` run once per virtual node: see the
/// [module](super).
///
/// `T` is the model's batcher, `I` its items. As a module it is the wrapped model: same parameters,
/// same paths. Its record also holds the number of applied steps, so that random numbers go on from
/// a checkpoint where they were.
pub struct Virtual<B: VirtualAutodiff, M, T, I> {
    model: M,
    nodes: Nodes<B, T, I>,
    /// What went wrong where there was no way to say so.
    failure: Arc<Mutex<Option<TrainError>>>,
}

/// What a [`Virtual`] model is besides the model; the same for all its copies.
pub(super) struct Nodes<B: VirtualAutodiff, T, I> {
    pub(super) handle: Handle<B>,
    pub(super) batcher: Arc<T>,
    pub(super) weight: fn(&[I]) -> f64,
}

impl<B: VirtualAutodiff, M: AutodiffModule<B>, T, I> Virtual<B, M, T, I> {
    /// Takes over a session, the model it was started with, and the model's batcher.
    pub fn new(nodes: Session<B>, model: M, batcher: T) -> Self {
        let nodes = Nodes {
            handle: Handle::new(nodes),
            batcher: Arc::new(batcher),
            weight: |items| items.len() as f64,
        };
        Self {
            model,
            nodes,
            failure: Arc::default(),
        }
    }

    /// The divisor that the mean loss of a micro-batch with these items used, if it isn't their
    /// number: the number of tokens that are no padding, say. Finite and at least 0; a virtual node
    /// of weight 0 adds nothing.
    pub fn with_weight(mut self, weight: fn(&[I]) -> f64) -> Self {
        self.nodes.weight = weight;
        self
    }

    /// A handle on the session, to keep while burn-train has the model.
    pub fn handle(&self) -> Handle<B> {
        self.nodes.handle.clone()
    }

    /// The wrapped model.
    pub fn model(&self) -> &M {
        &self.model
    }
}

impl<B, M, T, I> Virtual<B, M, T, I>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B> + TrainStep<Output: JoinOutput>,
    T: Batcher<B, I, M::Input>,
    I: Clone + Sync,
{
    /// The step, or why there is none: what `TrainStep::step` has no way to say.
    ///
    /// # Errors
    /// As [`Session::backward`]; [`TrainError::Join`] where the outputs don't fit together;
    /// [`TrainError::Busy`] from inside another step. Nothing is applied then.
    pub fn try_step(&self, items: &[I]) -> Result<TrainOutput<M::Output>, TrainError> {
        if let Some(error) = self
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            return Err(error);
        }
        self.nodes.handle.give_way();
        let batch = self.nodes.weighted(items);
        let step = |session: &mut Session<B>| {
            session.step(
                &self.model,
                &batch,
                &StepPass,
                |step, done: Vec<Done<_>>| {
                    joined(
                        step,
                        done.into_iter().map(|done| (done.weight, done.output)),
                    )
                },
            )
        };
        let (output, item) = self.nodes.handle.with_session(step)??;
        if let Some(reason) = output.skipped {
            self.nodes.handle.count_skipped(reason);
        }
        Ok(TrainOutput {
            grads: output.grads,
            item,
        })
    }
}

impl<B, M, T, I> TrainStep for Virtual<B, M, T, I>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B> + TrainStep<Output: JoinOutput>,
    T: Batcher<B, I, M::Input>,
    I: Clone + Send + Sync + 'static,
{
    type Input = Vec<I>;
    type Output = M::Output;

    /// # Panics
    /// With the text of the [`TrainError`], as burn-train has no other way to end a training: where
    /// the model or its batcher panicked, in which virtual node, at which step. See
    /// [`try_step`](Self::try_step).
    fn step(&self, items: Vec<I>) -> TrainOutput<M::Output> {
        self.try_step(&items)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

impl<B: VirtualAutodiff, M: Module<B>, T, I> Module<B> for Virtual<B, M, T, I>
where
    T: Send + Sync,
{
    /// The model's record, and the applied steps.
    type Record = (M::Record, u64);

    fn collect_devices(&self, devices: Devices<B>) -> Devices<B> {
        self.model.collect_devices(devices)
    }

    fn fork(self, device: &B::Device) -> Self {
        let model = self.model.fork(device);
        Self { model, ..self }
    }

    fn to_device(self, device: &B::Device) -> Self {
        let model = self.model.to_device(device);
        Self { model, ..self }
    }

    fn visit<V: ModuleVisitor<B>>(&self, visitor: &mut V) {
        self.model.visit(visitor);
    }

    fn map<V: ModuleMapper<B>>(self, mapper: &mut V) -> Self {
        let model = self.model.map(mapper);
        Self { model, ..self }
    }

    /// Burn loses the parameters' ids on the way: they get those of their paths again. If they can't,
    /// the next step says why. The count of applied steps, which all copies share, is the record's.
    fn load_record(self, (model, applied): Self::Record) -> Self {
        let mut model = self.model.load_record(model);
        let adopted = self.nodes.handle.with_session(|session| {
            session.adopt(&mut model)?;
            session.applied = applied;
            Ok(())
        });
        let failure = adopted.and_then(|adopted| adopted).err();
        Self {
            model,
            nodes: self.nodes.clone(),
            failure: Arc::new(Mutex::new(failure)),
        }
    }

    fn into_record(self) -> Self::Record {
        let applied = self.nodes.handle.status().applied_steps;
        (self.model.into_record(), applied)
    }
}

impl<B, M, T, I> AutodiffModule<B> for Virtual<B, M, T, I>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B>,
    T: Send + Sync,
{
    type InnerModule = VirtualValid<B, M::InnerModule, T, I>;

    fn valid(&self) -> Self::InnerModule {
        VirtualValid::new(self.model.valid(), self.nodes.clone())
    }

    fn from_inner(module: Self::InnerModule) -> Self {
        let (model, nodes) = module.into_parts();
        Self {
            model: M::from_inner(model),
            nodes,
            failure: Arc::default(),
        }
    }
}

impl<B: VirtualAutodiff, M: Clone, T, I> Clone for Virtual<B, M, T, I> {
    fn clone(&self) -> Self {
        Self {
            model: self.model.clone(),
            nodes: self.nodes.clone(),
            failure: Arc::clone(&self.failure),
        }
    }
}

impl<B: VirtualAutodiff, T, I> Nodes<B, T, I> {
    /// A batch of items, to be split.
    pub(super) fn weighted<'a, O>(&'a self, items: &'a [I]) -> WeightedItems<'a, I, T, O> {
        WeightedItems {
            items: Items::new(items, &self.batcher),
            weight: self.weight,
        }
    }
}

impl<B: VirtualAutodiff, T, I> Clone for Nodes<B, T, I> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
            batcher: Arc::clone(&self.batcher),
            weight: self.weight,
        }
    }
}

impl<B: VirtualAutodiff, M: fmt::Debug, T, I> fmt::Debug for Virtual<B, M, T, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Virtual")
            .field("model", &self.model)
            .field("nodes", &self.nodes.handle)
            .finish_non_exhaustive()
    }
}

/// As the model.
impl<B: VirtualAutodiff, M: fmt::Display, T, I> fmt::Display for Virtual<B, M, T, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.model.fmt(f)
    }
}
