//! Training and predicting a [`Task`].

use burn::lr_scheduler::LrScheduler;
use burn::module::{AutodiffModule, Module};
use burn::optim::Optimizer;
use burn_virtual_backend::Virtual;

use crate::predictor::check_batch_size;
use crate::{
    Predictor, StepReport, Task, TaskBatcher, TrainError, Trainer, ValidModel, VirtualAutodiff,
};

impl<B, M, O, S> Trainer<B, M, O, S>
where
    B: VirtualAutodiff,
    O: Optimizer<M, B>,
    S: LrScheduler,
    M: AutodiffModule<B>,
{
    /// One step of a task: see [`step`](Self::step).
    ///
    /// # Errors
    /// As there.
    pub fn step_task<T>(&mut self, task: &T, items: &[T::Item]) -> Result<StepReport, TrainError>
    where
        T: Task<Model<B> = M>,
    {
        self.step(items, &TaskBatcher(task), |model, micro| {
            task.loss::<B>(model, micro)
        })
    }
}

impl<V: Virtual, M: Module<V>> Predictor<V, M> {
    /// What the model of a task says of each item, in order: one batch, as
    /// [`predict`](Self::predict).
    ///
    /// # Errors
    /// As there.
    pub fn predict_task<B, T>(
        &mut self,
        task: &T,
        items: &[T::Item],
    ) -> Result<Vec<T::Prediction>, TrainError>
    where
        B: VirtualAutodiff<InnerBackend = V>,
        T: Task,
        T::Model<B>: AutodiffModule<B, InnerModule = M>,
    {
        self.predict(
            items,
            &TaskBatcher(task),
            |model: &ValidModel<T, B>, micro| task.predict::<B>(model, micro),
        )
    }

    /// The mean score of a task over `items`, `batch_size` at a time. The scores are added in the
    /// order of the items.
    ///
    /// # Errors
    /// As [`predict_task`](Self::predict_task); [`TrainError::EmptyBatch`] for no items,
    /// [`TrainError::Setting`] for a batch size of 0.
    pub fn score_task<B, T>(
        &mut self,
        task: &T,
        items: &[T::Item],
        batch_size: usize,
    ) -> Result<f64, TrainError>
    where
        B: VirtualAutodiff<InnerBackend = V>,
        T: Task,
        T::Model<B>: AutodiffModule<B, InnerModule = M>,
    {
        if items.is_empty() {
            return Err(TrainError::EmptyBatch);
        }
        check_batch_size(batch_size)?;
        let mut total = 0.0;
        for batch in items.chunks(batch_size) {
            let predictions = self.predict_task::<B, T>(task, batch)?;
            let scores = batch.iter().zip(&predictions);
            total += scores
                .map(|(item, prediction)| task.score(item, prediction))
                .sum::<f64>();
        }
        Ok(total / items.len() as f64)
    }
}
