//! The built-in jobs, as the training loop sees them.

use burn::module::AutodiffModule;
use burn::tensor::backend::Backend;
use burn::tensor::{ElementConversion, Tensor};
use burn_virtual::models::{
    Digit, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, DigitsMlp, DigitsMlpConfig,
};
use burn_virtual::nodes::{
    LossError, LossSum, Session, StepOutput, TrainError, VirtualAutodiff, cross_entropy_sum,
};

/// A classifier of the digits: what differs between the built-in models.
pub(crate) trait Classifier<B: Backend> {
    /// Images of shape `[batch, 8, 8]` to logits of shape `[batch, 10]`.
    fn classify(&self, images: Tensor<B, 3>) -> Tensor<B, 2>;
}

impl<B: Backend> Classifier<B> for DigitsCnn<B> {
    fn classify(&self, images: Tensor<B, 3>) -> Tensor<B, 2> {
        self.forward(images)
    }
}

impl<B: Backend> Classifier<B> for DigitsMlp<B> {
    fn classify(&self, images: Tensor<B, 3>) -> Tensor<B, 2> {
        self.forward(images)
    }
}

/// The convolutional model, with parameters still to be drawn.
pub(crate) fn digits_cnn<B: Backend>(device: &B::Device) -> DigitsCnn<B> {
    DigitsCnnConfig::new().init(device)
}

/// The fully connected model, with parameters still to be drawn.
pub(crate) fn digits_mlp<B: Backend>(device: &B::Device) -> DigitsMlp<B> {
    DigitsMlpConfig::new().init(device)
}

/// One step on one global batch.
pub(crate) fn step<B, M>(
    nodes: &mut Session<B>,
    model: &M,
    items: &[Digit],
) -> Result<StepOutput, TrainError>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B> + Classifier<B>,
{
    nodes.backward(model, items, &DigitsBatcher, loss::<B, M>)
}

fn loss<B: Backend, M: Classifier<B>>(
    model: &M,
    micro: DigitsBatch<B>,
) -> Result<LossSum<B>, LossError> {
    cross_entropy_sum(model.classify(micro.images), micro.targets)
}

/// The share of `items` that the model names right.
pub(crate) fn accuracy<B, M>(
    nodes: &mut Session<B>,
    model: &M,
    items: &[Digit],
) -> Result<f64, TrainError>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B>,
    M::InnerModule: Classifier<B::InnerBackend>,
{
    let [right] = nodes.evaluate(model, items, &DigitsBatcher, |model, micro| {
        [right(model, micro)]
    })?;
    Ok(right / items.len() as f64)
}

fn right<B: Backend, M: Classifier<B>>(model: &M, micro: DigitsBatch<B>) -> f64 {
    let [count] = micro.targets.dims();
    let named = model.classify(micro.images).argmax(1).reshape([count]);
    named.equal(micro.targets).int().sum().into_scalar().elem()
}
