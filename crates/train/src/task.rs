//! A model with its data and its loss, for code that runs on more than one backend.

use burn::data::dataloader::batcher::Batcher;
use burn::module::AutodiffModule;
use burn::tensor::backend::{AutodiffBackend, Backend};

use crate::{LossError, LossSum};

/// A training task: what stays the same while backends, devices and placements change.
///
/// Where one backend will do, a task isn't needed: closures for [`Session::backward`] are shorter.
///
/// [`Session::backward`]: crate::Session::backward
///
/// ```
/// use burn::backend::Autodiff;
/// use burn::nn::{Linear, LinearConfig};
/// use burn::optim::SgdConfig;
/// use burn::tensor::backend::{AutodiffBackend, Backend};
/// use burn::tensor::{Tensor, TensorData};
/// use burn_flex::{Flex, FlexDevice};
/// use burn_virtual_backend::VirtualBackend;
/// use burn_virtual_train::*;
///
/// /// Learns to double a number.
/// struct Double;
///
/// impl Task for Double {
///     type Item = f32;
///     type Prediction = f32;
///     type Model<B: AutodiffBackend> = Linear<B>;
///     type Batch<B: Backend> = Tensor<B, 2>;
///
///     fn model<B: AutodiffBackend>(&self, device: &B::Device) -> Linear<B> {
///         LinearConfig::new(1, 1).init(device)
///     }
///
///     fn batch<B: Backend>(&self, items: Vec<f32>, device: &B::Device) -> Tensor<B, 2> {
///         let rows = items.len();
///         Tensor::from_data(TensorData::new(items, [rows, 1]), device)
///     }
///
///     fn loss<B: AutodiffBackend>(
///         &self,
///         model: &Linear<B>,
///         batch: Tensor<B, 2>,
///     ) -> Result<LossSum<B>, LossError> {
///         squared_error_sum(model.forward(batch.clone()), batch.mul_scalar(2))
///     }
///
///     fn predict<B: AutodiffBackend>(
///         &self,
///         model: &ValidModel<Self, B>,
///         batch: Tensor<B::InnerBackend, 2>,
///     ) -> Vec<f32> {
///         model.forward(batch).into_data().iter().collect()
///     }
///
///     fn score(&self, item: &f32, prediction: &f32) -> f64 {
///         f64::from((prediction - 2.0 * item).abs() < 0.1)
///     }
/// }
///
/// type B = Autodiff<VirtualBackend<Flex>>;
///
/// let items = [0.5, 1.0, -1.0, 2.0];
/// let mut model = Double.model::<B>(&FlexDevice);
/// let nodes = VirtualNodes::new(4).start(&mut model)?;
/// let mut trainer = Trainer::new(nodes, model, SgdConfig::new().init(), 0.1);
/// for _ in 0..50 {
///     trainer.step_task(&Double, &items)?;
/// }
///
/// let mut predictor = VirtualNodes::new(4).predictor(trainer.model()?)?;
/// assert_eq!(predictor.score_task::<B, _>(&Double, &items, 64)?, 1.0);
/// # Ok::<(), TrainError>(())
/// ```
pub trait Task: Sync {
    /// One sample, on the host, with what the loss needs.
    type Item: Clone + Sync;
    /// What the model says of one sample, on the host.
    type Prediction: Send;
    /// The model.
    type Model<B: AutodiffBackend>: AutodiffModule<B>;
    /// Samples on a device.
    type Batch<B: Backend>;

    /// The model, with parameters still to be drawn.
    fn model<B: AutodiffBackend>(&self, device: &B::Device) -> Self::Model<B>;

    /// Puts samples on a device, in the order given. `items` is not empty.
    fn batch<B: Backend>(&self, items: Vec<Self::Item>, device: &B::Device) -> Self::Batch<B>;

    /// The loss of one micro-batch.
    ///
    /// # Errors
    /// As the loss says.
    fn loss<B: AutodiffBackend>(
        &self,
        model: &Self::Model<B>,
        batch: Self::Batch<B>,
    ) -> Result<LossSum<B>, LossError>;

    /// What the model, without autodiff, says of each sample of a micro-batch, in order.
    fn predict<B: AutodiffBackend>(
        &self,
        model: &ValidModel<Self, B>,
        batch: Self::Batch<B::InnerBackend>,
    ) -> Vec<Self::Prediction>;

    /// How good a prediction is: 1 for right and 0 for wrong, say.
    fn score(&self, item: &Self::Item, prediction: &Self::Prediction) -> f64;
}

/// The model of a task without autodiff.
pub type ValidModel<T, B> = <<T as Task>::Model<B> as AutodiffModule<B>>::InnerModule;

/// The batcher of a task.
#[derive(Debug)]
pub struct TaskBatcher<'a, T>(pub &'a T);

impl<B: Backend, T: Task> Batcher<B, T::Item, T::Batch<B>> for TaskBatcher<'_, T> {
    fn batch(&self, items: Vec<T::Item>, device: &B::Device) -> T::Batch<B> {
        self.0.batch::<B>(items, device)
    }
}
