//! Training steps of the digits CNN: what loops by hand are made of, and the step on virtual nodes.

use burn::backend::Autodiff;
use burn::data::dataloader::batcher::Batcher;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, Optimizer};
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use burn_flex::{Flex, FlexDevice};
use burn_virtual::backend::VirtualBackend;
use burn_virtual::models::{
    Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, DigitsError,
};
use burn_virtual::nodes::{TrainError, VirtualNodes, cross_entropy_sum};

/// What virtual nodes train on.
pub(crate) type Virtual = Autodiff<VirtualBackend<Flex>>;

pub(crate) const SEED: u64 = 42;
pub(crate) const LEARNING_RATE: f64 = 0.002;

/// The first digits of an epoch.
pub(crate) fn digits(count: usize) -> Result<Vec<Digit>, DigitsError> {
    let epoch = Digits::load()?.epoch(SEED, 0);
    Ok(epoch.items().iter().take(count).cloned().collect())
}

/// A model whose weights and dropout masks are drawn from the seed.
pub(crate) fn model<B: AutodiffBackend>(device: &B::Device) -> DigitsCnn<B> {
    B::seed(device, SEED);
    DigitsCnnConfig::new().init(device)
}

/// The mean cross entropy of a batch, as plain Burn has it.
pub(crate) fn mean_loss<B: AutodiffBackend>(
    model: &DigitsCnn<B>,
    items: &[Digit],
    device: &B::Device,
) -> Tensor<B, 1> {
    let batch: DigitsBatch<B> = DigitsBatcher.batch(items.to_vec(), device);
    let loss = CrossEntropyLossConfig::new().init(device);
    loss.forward(model.forward(batch.images), batch.targets)
}

/// A training step through a session of `count` virtual nodes on one device. Each call is one step.
///
/// # Errors
/// Where the session can't start.
///
/// # Panics
/// Where a step fails: there is nothing to measure then.
pub(crate) fn on_virtual_nodes(count: usize, items: &[Digit]) -> Result<impl FnMut(), TrainError> {
    let device = FlexDevice;
    let mut optim = AdamConfig::new().init();
    let mut model = model::<Virtual>(&device);
    let mut nodes = VirtualNodes::new(count)
        .seed(SEED)
        .devices([device])
        .start(&mut model)?;
    let mut trained = Some(model);
    Ok(move || {
        trained = trained.take().map(|model| {
            let step = nodes.backward(
                &model,
                items,
                &DigitsBatcher,
                |model: &DigitsCnn<Virtual>, micro: DigitsBatch<Virtual>| {
                    cross_entropy_sum(model.forward(micro.images), micro.targets)
                },
            );
            match step {
                Ok(out) => optim.step(LEARNING_RATE, model, out.grads),
                Err(error) => panic!("{error}"),
            }
        });
    })
}
