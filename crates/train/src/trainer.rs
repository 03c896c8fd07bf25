//! A session with its model, optimizer and learning rate: one call a step.

use burn::data::dataloader::batcher::Batcher;
use burn::lr_scheduler::LrScheduler;
use burn::module::AutodiffModule;
use burn::optim::Optimizer;

use crate::batch::Items;
use crate::{IntoLossSum, Session, Skipped, SplitBatch, StepOutput, TrainError, VirtualAutodiff};

/// What a step of a [`Trainer`] came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepReport {
    /// As in [`StepOutput::loss`].
    pub loss: f64,
    /// As in [`StepOutput::weight`].
    pub weight: f64,
    /// As in [`StepOutput::norm`].
    pub norm: f64,
    /// The learning rate of the update; none where the step was skipped.
    pub learning_rate: Option<f64>,
    /// Why nothing was applied, if so.
    pub skipped: Option<Skipped>,
    /// As in [`StepOutput::seconds`].
    pub seconds: Vec<f64>,
}

/// Holds what a training loop holds: the model, its optimizer and the schedule of the learning
/// rate.
///
/// The schedule is stepped once per applied update, whatever the number of virtual nodes or ranks:
/// a skipped step uses no rate up. A plain number is a schedule that stays where it is.
///
/// ```
/// use burn::backend::Autodiff;
/// use burn::nn::{Linear, LinearConfig};
/// use burn::optim::SgdConfig;
/// use burn::tensor::Tensor;
/// use burn_flex::{Flex, FlexDevice};
/// use burn_virtual_backend::VirtualBackend;
/// use burn_virtual_train::{Trainer, VirtualNodes, squared_error_sum};
///
/// type B = Autodiff<VirtualBackend<Flex>>;
///
/// let mut model: Linear<B> = LinearConfig::new(2, 1).init(&FlexDevice);
/// let nodes = VirtualNodes::new(4).clip_norm(1.0).start(&mut model)?;
/// let mut trainer = Trainer::new(nodes, model, SgdConfig::new().init(), 0.1);
///
/// let batch = (Tensor::<B, 2>::ones([10, 2], &FlexDevice), Tensor::<B, 2>::ones([10, 1], &FlexDevice));
/// let first = trainer.step_batch(&batch, |model, (inputs, targets)| {
///     squared_error_sum(model.forward(inputs), targets)
/// })?;
/// assert_eq!(first.learning_rate, Some(0.1));
/// # Ok::<(), burn_virtual_train::TrainError>(())
/// ```
#[derive(Debug)]
pub struct Trainer<B: VirtualAutodiff, M, O, S> {
    nodes: Session<B>,
    /// Away only while the optimizer makes the next one of it.
    model: Option<M>,
    optimizer: O,
    schedule: S,
}

impl<B, M, O, S> Trainer<B, M, O, S>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B>,
    O: Optimizer<M, B>,
    S: LrScheduler,
{
    /// Takes over a session, the model it was started with, an optimizer and a schedule.
    pub fn new(nodes: Session<B>, model: M, optimizer: O, schedule: S) -> Self {
        Self {
            nodes,
            model: Some(model),
            optimizer,
            schedule,
        }
    }

    /// One step on a slice of items: see [`Session::backward`].
    ///
    /// # Errors
    /// As there; nothing is applied then.
    pub fn step<I, T, Micro, F, L>(
        &mut self,
        items: &[I],
        batcher: &T,
        loss: F,
    ) -> Result<StepReport, TrainError>
    where
        I: Clone + Sync,
        T: Batcher<B, I, Micro>,
        F: Fn(&M, Micro) -> L + Sync,
        L: IntoLossSum<B>,
    {
        self.step_batch(&Items::new(items, batcher), loss)
    }

    /// One step on a batch that is ready: see [`Session::backward_batch`].
    ///
    /// # Errors
    /// As there; nothing is applied then.
    pub fn step_batch<Batch, F, L>(
        &mut self,
        batch: &Batch,
        loss: F,
    ) -> Result<StepReport, TrainError>
    where
        Batch: SplitBatch<B>,
        F: Fn(&M, Batch::Micro) -> L + Sync,
        L: IntoLossSum<B>,
    {
        let model = self.model.as_ref().ok_or(TrainError::ModelLost)?;
        // A skipped step uses no rate up, so the schedule moves on with the model.
        let mut schedule = self.schedule.clone();
        let rate = check_rate(schedule.step())?;
        let StepOutput {
            grads,
            loss,
            weight,
            norm,
            seconds,
            skipped,
        } = self.nodes.backward_batch(model, batch, loss)?;
        let learning_rate = skipped.is_none().then_some(rate);
        if let Some(rate) = learning_rate {
            self.schedule = schedule;
            self.model = self
                .model
                .take()
                .map(|model| self.optimizer.step(rate, model, grads));
        }
        Ok(StepReport {
            loss,
            weight,
            norm,
            learning_rate,
            skipped,
            seconds,
        })
    }

    /// Scores the model as it is now: see [`Session::evaluate`].
    ///
    /// # Errors
    /// As there, and [`TrainError::ModelLost`].
    pub fn evaluate<I, T, Micro, F, const N: usize>(
        &mut self,
        items: &[I],
        batcher: &T,
        score: F,
    ) -> Result<[f64; N], TrainError>
    where
        M::InnerModule: Send,
        I: Clone + Sync,
        T: Batcher<B::InnerBackend, I, Micro>,
        F: Fn(&M::InnerModule, Micro) -> [f64; N] + Sync,
    {
        self.evaluate_batch(&Items::new(items, batcher), score)
    }

    /// [`evaluate`](Self::evaluate) on a batch that is ready: see [`Session::evaluate_batch`].
    ///
    /// # Errors
    /// As there, and [`TrainError::ModelLost`].
    pub fn evaluate_batch<Batch, F, const N: usize>(
        &mut self,
        batch: &Batch,
        score: F,
    ) -> Result<[f64; N], TrainError>
    where
        M::InnerModule: Send,
        Batch: SplitBatch<B::InnerBackend>,
        F: Fn(&M::InnerModule, Batch::Micro) -> [f64; N] + Sync,
    {
        let model = self.model.as_ref().ok_or(TrainError::ModelLost)?;
        self.nodes.evaluate_batch(model, batch, score)
    }

    /// Changes the model by something other than a step: loading a record, say, or freezing a layer.
    /// Its parameters are named again, as by [`Session::adopt`].
    ///
    /// # Errors
    /// As there, and [`TrainError::ModelLost`]; the trainer then keeps the model that it had.
    pub fn map_model(&mut self, change: impl FnOnce(M) -> M) -> Result<(), TrainError> {
        // Not a clone: that would share its running statistics with the model that is kept.
        let mut changed = change(M::from_inner(self.valid()?));
        self.nodes.adopt(&mut changed)?;
        self.model = Some(changed);
        Ok(())
    }

    /// The model as it is now.
    ///
    /// # Errors
    /// [`TrainError::ModelLost`] if the optimizer panicked in an earlier step.
    pub fn model(&self) -> Result<&M, TrainError> {
        self.model.as_ref().ok_or(TrainError::ModelLost)
    }

    /// The model as it is now, without autodiff.
    ///
    /// # Errors
    /// As [`model`](Self::model).
    pub fn valid(&self) -> Result<M::InnerModule, TrainError> {
        Ok(self.model()?.valid())
    }

    /// The session, to look at or to resize.
    pub fn nodes(&mut self) -> &mut Session<B> {
        &mut self.nodes
    }

    /// The optimizer.
    pub fn optimizer(&self) -> &O {
        &self.optimizer
    }

    /// Gives back what it took over.
    ///
    /// # Errors
    /// [`TrainError::ModelLost`] if the optimizer panicked in an earlier step.
    pub fn into_parts(self) -> Result<(Session<B>, M, O, S), TrainError> {
        let model = self.model.ok_or(TrainError::ModelLost)?;
        Ok((self.nodes, model, self.optimizer, self.schedule))
    }
}

/// An infinite rate makes every weight infinite, or none at all.
fn check_rate(rate: f64) -> Result<f64, TrainError> {
    if (rate as f32).is_finite() {
        return Ok(rate);
    }
    Err(TrainError::Setting {
        what: "learning rate",
        expected: "a finite number, in single precision",
        got: rate.to_string(),
    })
}
