//! The validation side of a `Virtual` model.

use std::fmt;

use burn::data::dataloader::batcher::Batcher;
use burn::module::{Devices, HasAutodiffModule, Module, ModuleMapper, ModuleVisitor};
use burn::train::InferenceStep;

use super::JoinOutput;
use super::output::joined;
use super::virtual_model::Nodes;
use crate::pass::check_weight;
use crate::{Session, TrainError, VirtualAutodiff};

/// A [`Virtual`](super::Virtual) model without autodiff: its `InferenceStep` runs once per virtual
/// node. As a module, and as a record, it is the wrapped model.
pub struct VirtualValid<B: VirtualAutodiff, M, T, I> {
    model: M,
    nodes: Nodes<B, T, I>,
}

impl<B: VirtualAutodiff, M, T, I> VirtualValid<B, M, T, I> {
    pub(super) fn new(model: M, nodes: Nodes<B, T, I>) -> Self {
        Self { model, nodes }
    }

    pub(super) fn into_parts(self) -> (M, Nodes<B, T, I>) {
        (self.model, self.nodes)
    }

    /// The wrapped model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The wrapped model, with nothing around it any more.
    pub fn into_model(self) -> M {
        self.model
    }
}

impl<B, M, T, I> VirtualValid<B, M, T, I>
where
    B: VirtualAutodiff,
    M: Module<B::InnerBackend> + HasAutodiffModule<B> + InferenceStep<Output: JoinOutput>,
    T: Batcher<B::InnerBackend, I, M::Input>,
    I: Clone + Sync,
{
    /// The step, or why there is none.
    ///
    /// # Errors
    /// As [`Predictor::predict`](crate::Predictor::predict).
    pub fn try_step(&self, items: &[I]) -> Result<M::Output, TrainError> {
        let batch = self.nodes.weighted(items);
        let step = |model: &M, (weight, micro): (f64, M::Input)| (weight, model.step(micro));
        let forward = |session: &mut Session<B>| {
            let parts = session.forward(&self.model, &batch, &step)?;
            Ok::<_, TrainError>((session.applied_steps(), parts))
        };
        let (applied, parts) = self.nodes.handle.with_session(forward)??;
        for (weight, _) in &parts {
            let refused = |source| TrainError::Join {
                step: applied,
                source,
            };
            check_weight(*weight).map_err(refused)?;
        }
        joined(applied, parts)
    }
}

impl<B, M, T, I> InferenceStep for VirtualValid<B, M, T, I>
where
    B: VirtualAutodiff,
    M: Module<B::InnerBackend> + HasAutodiffModule<B> + InferenceStep<Output: JoinOutput>,
    T: Batcher<B::InnerBackend, I, M::Input>,
    I: Clone + Send + Sync + 'static,
{
    type Input = Vec<I>;
    type Output = M::Output;

    /// # Panics
    /// With the text of the [`TrainError`], as the training step does.
    fn step(&self, items: Vec<I>) -> M::Output {
        self.try_step(&items)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

impl<B, M, T, I> Module<B::InnerBackend> for VirtualValid<B, M, T, I>
where
    B: VirtualAutodiff,
    M: Module<B::InnerBackend>,
    T: Send + Sync,
{
    type Record = M::Record;

    fn collect_devices(&self, devices: Devices<B::InnerBackend>) -> Devices<B::InnerBackend> {
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

    fn visit<V: ModuleVisitor<B::InnerBackend>>(&self, visitor: &mut V) {
        self.model.visit(visitor);
    }

    fn map<V: ModuleMapper<B::InnerBackend>>(self, mapper: &mut V) -> Self {
        let model = self.model.map(mapper);
        Self { model, ..self }
    }

    fn load_record(self, record: M::Record) -> Self {
        let model = self.model.load_record(record);
        Self { model, ..self }
    }

    fn into_record(self) -> M::Record {
        self.model.into_record()
    }
}

impl<B: VirtualAutodiff, M: Clone, T, I> Clone for VirtualValid<B, M, T, I> {
    fn clone(&self) -> Self {
        Self {
            model: self.model.clone(),
            nodes: self.nodes.clone(),
        }
    }
}

impl<B: VirtualAutodiff, M: fmt::Debug, T, I> fmt::Debug for VirtualValid<B, M, T, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualValid")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// As the model.
impl<B: VirtualAutodiff, M: fmt::Display, T, I> fmt::Display for VirtualValid<B, M, T, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.model.fmt(f)
    }
}
