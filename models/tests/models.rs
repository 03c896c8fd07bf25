//! Shapes and sizes of the models.

use burn::module::Module;
use burn::tensor::Tensor;
use burn_flex::Flex;
use burn_virtual_models::{DigitsCnn, DigitsCnnConfig, DigitsMlp, DigitsMlpConfig};

const BATCHES: [usize; 4] = [1, 7, 8, 64];

fn images(batch: usize) -> Tensor<Flex, 3> {
    Tensor::ones([batch, 8, 8], &Default::default())
}

#[test]
fn mlp_gives_logits_for_every_batch_size() {
    let model: DigitsMlp<Flex> = DigitsMlpConfig::new().init(&Default::default());
    for batch in BATCHES {
        assert_eq!(model.forward(images(batch)).dims(), [batch, 10]);
    }
}

#[test]
fn cnn_gives_logits_for_every_batch_size() {
    let model: DigitsCnn<Flex> = DigitsCnnConfig::new().init(&Default::default());
    for batch in BATCHES {
        assert_eq!(model.forward(images(batch)).dims(), [batch, 10]);
    }
}

#[test]
fn configs_set_the_sizes() {
    let device = Default::default();
    let mlp: DigitsMlp<Flex> = DigitsMlpConfig::new()
        .with_num_classes(3)
        .with_hidden([16, 8])
        .init(&device);
    assert_eq!(mlp.forward(images(5)).dims(), [5, 3]);

    let cnn: DigitsCnn<Flex> = DigitsCnnConfig::new()
        .with_num_classes(3)
        .with_channels([4, 6])
        .with_hidden(8)
        .init(&device);
    assert_eq!(cnn.forward(images(5)).dims(), [5, 3]);
}

#[test]
fn parameter_counts_are_as_documented() {
    let device = Default::default();
    let mlp: DigitsMlp<Flex> = DigitsMlpConfig::new().init(&device);
    assert_eq!(mlp.num_params(), 17_226);
    let cnn: DigitsCnn<Flex> = DigitsCnnConfig::new().init(&device);
    assert_eq!(cnn.num_params(), 38_426);
}

#[test]
fn forward_without_gradients_drops_nothing() {
    let device = Default::default();
    let mlp: DigitsMlp<Flex> = DigitsMlpConfig::new().with_dropout(0.9).init(&device);
    let once = mlp.forward(images(2)).to_data();
    once.assert_eq(&mlp.forward(images(2)).to_data(), true);

    let cnn: DigitsCnn<Flex> = DigitsCnnConfig::new().with_dropout(0.9).init(&device);
    let once = cnn.forward(images(2)).to_data();
    once.assert_eq(&cnn.forward(images(2)).to_data(), true);
}
