//! Training steps of the digits CNN: what loops by hand are made of, and the step on virtual nodes.

use burn::backend::Autodiff;
use burn::data::dataloader::batcher::Batcher;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use burn_flex::Flex;
use burn_virtual::backend::VirtualBackend;
use burn_virtual::models::{
    Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, DigitsError,
};
use burn_virtual::nodes::{TrainError, VirtualAutodiff, VirtualNodes, cross_entropy_sum};

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

/// A training step by hand, on the whole batch, without a session. Each call is one step.
pub(crate) fn by_hand<B: AutodiffBackend>(items: &[Digit], device: &B::Device) -> impl FnMut() {
    let mut optim = AdamConfig::new().init();
    let mut trained = Some(model::<B>(device));
    move || {
        trained = trained.take().map(|model| {
            let gradients = mean_loss(&model, items, device).backward();
            let gradients = GradientsParams::from_grads(gradients, &model);
            optim.step(LEARNING_RATE, model, gradients)
        });
        finish::<B>(device);
    }
}

/// A training step through a session of `count` virtual nodes on one device. Each call is one step.
///
/// # Errors
/// Where the session can't start.
///
/// # Panics
/// Where a step fails: there is nothing to measure then.
pub(crate) fn on_virtual_nodes<B: VirtualAutodiff>(
    count: usize,
    items: &[Digit],
    device: &B::Device,
) -> Result<impl FnMut(), TrainError> {
    let mut optim = AdamConfig::new().init();
    let mut model = model::<B>(device);
    let mut nodes = VirtualNodes::new(count)
        .seed(SEED)
        .devices([device.clone()])
        .start(&mut model)?;
    let mut trained = Some(model);
    Ok(move || {
        trained = trained.take().map(|model| {
            let step = nodes.backward(
                &model,
                items,
                &DigitsBatcher,
                |model: &DigitsCnn<B>, micro: DigitsBatch<B>| {
                    cross_entropy_sum(model.forward(micro.images), micro.targets)
                },
            );
            match step {
                Ok(out) => optim.step(LEARNING_RATE, model, out.grads),
                Err(error) => panic!("{error}"),
            }
        });
        finish::<B>(device);
    })
}

/// Waits until the device has done what it was given: a GPU works behind the host's back.
fn finish<B: AutodiffBackend>(device: &B::Device) {
    if let Err(error) = B::sync(device) {
        panic!("{error}");
    }
}
