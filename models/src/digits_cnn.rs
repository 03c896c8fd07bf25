//! A convolutional network for the digits data set.

use burn::config::Config;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d, Relu,
};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// Rows, and columns, of an image once it is pooled by 2.
const POOLED: usize = 4;

/// The sizes of a [`DigitsCnn`].
#[derive(Config, Debug, PartialEq)]
pub struct DigitsCnnConfig {
    /// The classes told apart: the width of the output.
    #[config(default = 10)]
    pub num_classes: usize,
    /// The channels of the two convolutions, from the input on.
    #[config(default = "[16, 32]")]
    pub channels: [usize; 2],
    /// The width of the hidden layer between the convolutions and the output.
    #[config(default = 64)]
    pub hidden: usize,
    /// The probability that an input of a linear layer is dropped in training, 0 to 1.
    #[config(default = 0.25)]
    pub dropout: f64,
}

/// Two 3x3 convolutions, each with batch norm and ReLU, a max pool by 2 between them, and two
/// linear layers: 38,426 parameters unless configured otherwise.
///
/// The pool comes before the second convolution, not after: a quarter of the pixels halves the
/// time of a step, for less than half a point of accuracy.
///
/// Small and quick, with one of each thing that is hard to share among virtual nodes: running
/// statistics (batch norm) and random masks (dropout).
#[derive(Module, Debug)]
pub struct DigitsCnn<B: Backend> {
    conv1: Conv2d<B>,
    norm1: BatchNorm<B>,
    conv2: Conv2d<B>,
    norm2: BatchNorm<B>,
    pool: MaxPool2d,
    hidden: Linear<B>,
    output: Linear<B>,
    relu: Relu,
    dropout: Dropout,
}

impl DigitsCnnConfig {
    /// A model on `device`; its weights are drawn from the backend's random stream at first use.
    ///
    /// # Panics
    ///
    /// When `dropout` is not within 0 to 1.
    pub fn init<B: Backend>(&self, device: &B::Device) -> DigitsCnn<B> {
        let [first, second] = self.channels;
        let features = second * POOLED * POOLED;
        DigitsCnn {
            conv1: convolution(1, first, device),
            norm1: BatchNormConfig::new(first).init(device),
            conv2: convolution(first, second, device),
            norm2: BatchNormConfig::new(second).init(device),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            hidden: LinearConfig::new(features, self.hidden).init(device),
            output: LinearConfig::new(self.hidden, self.num_classes).init(device),
            relu: Relu::new(),
            dropout: DropoutConfig::new(self.dropout).init(),
        }
    }
}

/// A 3x3 convolution that keeps rows and columns.
///
/// It has no bias: batch norm follows and takes any constant away again, so that a bias would have
/// a true gradient of zero, and what is computed for it would be rounding noise.
fn convolution<B: Backend>(from: usize, to: usize, device: &B::Device) -> Conv2d<B> {
    Conv2dConfig::new([from, to], [3, 3])
        .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
        .with_bias(false)
        .init(device)
}

impl<B: Backend> DigitsCnn<B> {
    /// The logits of each image: from `[batch, 8, 8]` to `[batch, num_classes]`.
    pub fn forward(&self, images: Tensor<B, 3>) -> Tensor<B, 2> {
        let x = images.unsqueeze_dim(1);
        let x = self.relu.forward(self.norm1.forward(self.conv1.forward(x)));
        let x = self.pool.forward(x);
        let x = self.relu.forward(self.norm2.forward(self.conv2.forward(x)));
        let x: Tensor<B, 2> = x.flatten(1, 3);
        let x = self
            .relu
            .forward(self.hidden.forward(self.dropout.forward(x)));
        self.output.forward(self.dropout.forward(x))
    }
}
