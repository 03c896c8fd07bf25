//! What a job needs on a device, found out before it starts.

use burn::data::dataloader::batcher::Batcher;
use burn::module::AutodiffModule;
use burn::optim::Optimizer;
use burn_virtual_backend::Meter;
use burn_virtual_plan::Need;

use crate::{IntoLossSum, Task, TaskBatcher, TrainError, Trainer, VirtualAutodiff, VirtualNodes};

/// Measures what one virtual node with the micro-batch `items` needs on `device`, by the live-bytes
/// meter: makes a model and runs two steps of one virtual node (the second with the optimizer's
/// state), then throws everything away. No other job is touched.
///
/// Where items differ in size (sequences of any length, say), `items` have to be the heaviest that a
/// virtual node can get.
///
/// With [`fewest_virtual_nodes`](burn_virtual_plan::fewest_virtual_nodes) it answers how many
/// virtual nodes a batch has to be split over to fit a limit:
///
/// ```
/// use burn::backend::Autodiff;
/// use burn::data::dataloader::batcher::Batcher;
/// use burn::nn::{Linear, LinearConfig};
/// use burn::optim::AdamConfig;
/// use burn::tensor::backend::Backend;
/// use burn::tensor::{Tensor, TensorData};
/// use burn_flex::{Flex, FlexDevice};
/// use burn_virtual_backend::VirtualBackend;
/// use burn_virtual_plan::fewest_virtual_nodes;
/// use burn_virtual_train::{measure_step, squared_error_sum};
///
/// type B = Autodiff<VirtualBackend<Flex>>;
///
/// struct Rows;
/// impl<B: Backend> Batcher<B, [f32; 64], Tensor<B, 2>> for Rows {
///     fn batch(&self, items: Vec<[f32; 64]>, device: &B::Device) -> Tensor<B, 2> {
///         Tensor::from_data(TensorData::new(items.concat(), [items.len(), 64]), device)
///     }
/// }
///
/// let items = vec![[1.0; 64]; 1024];
/// let measure = |samples: usize| {
///     let init = |device: &FlexDevice| LinearConfig::new(64, 64).init(device);
///     let loss = |model: &Linear<B>, rows: Tensor<B, 2>| {
///         squared_error_sum(model.forward(rows.clone()), rows)
///     };
///     measure_step(&FlexDevice, init, AdamConfig::new().init(), &items[..samples], &Rows, loss)
/// };
/// let whole = measure(1024)?;
/// let fit = fewest_virtual_nodes(1024, 400_000, measure).map_err(|error| error.to_string())?;
/// assert!(whole.peak() > 400_000 && fit.need <= 400_000);
/// assert!(fit.virtual_nodes > 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Session::backward`](crate::Session::backward), and [`TrainError::Skipped`] where such a step
/// would be skipped: it would say nothing of one that isn't.
pub fn measure_step<B, M, O, I, T, Micro, F, L>(
    device: &B::Device,
    init: impl FnOnce(&B::Device) -> M,
    optimizer: O,
    items: &[I],
    batcher: &T,
    loss: F,
) -> Result<Need, TrainError>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B>,
    O: Optimizer<M, B>,
    I: Clone + Sync,
    T: Batcher<B, I, Micro>,
    F: Fn(&M, Micro) -> L + Sync,
    L: IntoLossSum<B>,
{
    let meter = Meter::new();
    let _listening = meter.listen();
    let mut model = init(device);
    // Two of them: on a device that works behind the host's back, the gradient of one is still there
    // while the next one runs. Bytes are the same, whatever the bits.
    let items = [items, items].concat();
    let nodes = VirtualNodes::new(2)
        .devices([device.clone()])
        .allow_drift()
        .start(&mut model)?;
    // A rate of 0: nothing that is measured depends on it, and no step can go astray.
    let mut trainer = Trainer::new(nodes, model, optimizer, 0.0);
    for _ in 0..2 {
        let report = trainer.step(&items, batcher, &loss)?;
        if let Some(reason) = report.skipped {
            let what = "measuring a micro-batch";
            return Err(TrainError::Skipped { what, reason });
        }
    }
    Ok(Need {
        fixed: meter.peak(),
        step: trainer
            .nodes()
            .memory()
            .iter()
            .map(|rank| rank.peak)
            .max()
            .unwrap_or_default(),
    })
}

/// [`measure_step`] for a task.
///
/// # Errors
/// As there.
pub fn measure_task<B, T, O>(
    task: &T,
    device: &B::Device,
    optimizer: O,
    items: &[T::Item],
) -> Result<Need, TrainError>
where
    B: VirtualAutodiff,
    T: Task,
    O: Optimizer<T::Model<B>, B>,
{
    let init = |device: &B::Device| task.model::<B>(device);
    let loss = |model: &T::Model<B>, micro| task.loss::<B>(model, micro);
    measure_step::<B, _, _, _, _, _, _, _>(device, init, optimizer, items, &TaskBatcher(task), loss)
}
