//! A multilayer perceptron for the digits data set.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, Relu};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// Pixels of an image, rows times columns.
const PIXELS: usize = 8 * 8;

/// The sizes of a [`DigitsMlp`].
#[derive(Config, Debug, PartialEq)]
pub struct DigitsMlpConfig {
    /// The classes told apart: the width of the output.
    #[config(default = 10)]
    pub num_classes: usize,
    /// The widths of the two hidden layers, from the input on.
    #[config(default = "[128, 64]")]
    pub hidden: [usize; 2],
    /// The probability that a hidden value is dropped in training, 0 to 1.
    #[config(default = 0.1)]
    pub dropout: f64,
}

/// Two hidden layers with ReLU and dropout: 64-128-64-10, 17,226 parameters, unless
/// configured otherwise.
///
/// The smallest model with every mechanism but running statistics; for tests that need many steps.
#[derive(Module, Debug)]
pub struct DigitsMlp<B: Backend> {
    input: Linear<B>,
    hidden: Linear<B>,
    output: Linear<B>,
    relu: Relu,
    dropout: Dropout,
}

impl DigitsMlpConfig {
    /// A model on `device`; its weights are drawn from the backend's random stream at first use.
    ///
    /// # Panics
    ///
    /// When `dropout` is not within 0 to 1.
    pub fn init<B: Backend>(&self, device: &B::Device) -> DigitsMlp<B> {
        let [first, second] = self.hidden;
        DigitsMlp {
            input: LinearConfig::new(PIXELS, first).init(device),
            hidden: LinearConfig::new(first, second).init(device),
            output: LinearConfig::new(second, self.num_classes).init(device),
            relu: Relu::new(),
            dropout: DropoutConfig::new(self.dropout).init(),
        }
    }
}

impl<B: Backend> DigitsMlp<B> {
    /// The logits of each image: from `[batch, 8, 8]` to `[batch, num_classes]`.
    pub fn forward(&self, images: Tensor<B, 3>) -> Tensor<B, 2> {
        let [batch, rows, columns] = images.dims();
        let x = images.reshape([batch, rows * columns]);
        let x = self.activate(self.input.forward(x));
        let x = self.activate(self.hidden.forward(x));
        self.output.forward(x)
    }

    fn activate(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        self.dropout.forward(self.relu.forward(x))
    }
}
