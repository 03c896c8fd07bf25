//! The built-in tasks: the digits, with one of two models.

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn_virtual::models::{
    Digit, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, DigitsMlp, DigitsMlpConfig,
};
use burn_virtual::nodes::{LossError, LossSum, Task, ValidModel, cross_entropy_sum};

/// Digits by convolutions, batch normalisation and dropout.
pub(crate) struct Cnn;

/// Digits by two hidden layers and dropout.
pub(crate) struct Mlp;

/// What the tasks have in common; `forward` of either model takes images `[batch, 8, 8]` to logits
/// `[batch, 10]`.
macro_rules! digits {
    ($($task:ident: $model:ident, $config:ident;)*) => {
        $(impl Task for $task {
            type Item = Digit;
            /// The digit that the model sees.
            type Prediction = u8;
            type Model<B: AutodiffBackend> = $model<B>;
            type Batch<B: Backend> = DigitsBatch<B>;

            fn model<B: AutodiffBackend>(&self, device: &B::Device) -> $model<B> {
                $config::new().init(device)
            }

            fn batch<B: Backend>(&self, items: Vec<Digit>, device: &B::Device) -> DigitsBatch<B> {
                DigitsBatcher.batch(items, device)
            }

            fn loss<B: AutodiffBackend>(
                &self,
                model: &$model<B>,
                batch: DigitsBatch<B>,
            ) -> Result<LossSum<B>, LossError> {
                cross_entropy_sum(model.forward(batch.images), batch.targets)
            }

            fn predict<B: AutodiffBackend>(
                &self,
                model: &ValidModel<Self, B>,
                batch: DigitsBatch<B::InnerBackend>,
            ) -> Vec<u8> {
                most_likely(model.forward(batch.images))
            }

            fn score(&self, item: &Digit, prediction: &u8) -> f64 {
                f64::from(item.label == *prediction)
            }
        })*
    };
}
digits! {
    Cnn: DigitsCnn, DigitsCnnConfig;
    Mlp: DigitsMlp, DigitsMlpConfig;
}

fn most_likely<B: Backend>(logits: Tensor<B, 2>) -> Vec<u8> {
    logits.argmax(1).into_data().iter().collect()
}
