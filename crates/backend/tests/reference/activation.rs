//! Activation functions.

use crate::array::{Array, log_softmax, softmax};
use crate::{mask, rows, signed};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn gelu(x: f64) -> f64 {
    x * (1.0 + libm::erf(x / 2.0_f64.sqrt())) / 2.0
}

fn gelu_approximate(x: f64) -> f64 {
    let inner = (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    x * (1.0 + inner.tanh()) / 2.0
}

/// Dropout of one half: what is kept counts twice.
fn kept() -> Array {
    mask(&[5, 7]).map(|kept| kept * 2.0)
}

rows! { B, x, a;
    "relu" ELEMENTWISE [signed([5, 7])] a[0].map(|x| x.max(0.0)) => burn_tensor::activation::relu(x.f::<2>(0));
    "leaky_relu" ELEMENTWISE [signed([5, 7])] a[0].map(|x| x.max(0.1 * x)) => burn_tensor::activation::leaky_relu(x.f::<2>(0), 0.1);
    "prelu" ELEMENTWISE [signed([2, 3, 5]), signed([3])]
        a[0].zip(&a[1].reshaped(&[1, 3, 1]), |x, slope| if x > 0.0 { x } else { slope * x })
        => burn_tensor::activation::prelu(x.f::<3>(0), x.f::<1>(1));
    "gelu" ELEMENTWISE [signed([5, 7])] a[0].map(gelu) => burn_tensor::activation::gelu(x.f::<2>(0));
    "gelu_approximate" ELEMENTWISE [signed([5, 7])] a[0].map(gelu_approximate) => burn_tensor::activation::gelu_approximate(x.f::<2>(0));
    "sigmoid" ELEMENTWISE [signed([5, 7])] a[0].map(sigmoid) => burn_tensor::activation::sigmoid(x.f::<2>(0));
    "log_sigmoid" ELEMENTWISE [signed([5, 7])] a[0].map(|x| sigmoid(x).ln()) => burn_tensor::activation::log_sigmoid(x.f::<2>(0));
    "silu" ELEMENTWISE [signed([5, 7])] a[0].map(|x| x * sigmoid(x)) => burn_tensor::activation::silu(x.f::<2>(0));
    "softplus" ELEMENTWISE [signed([5, 7])] a[0].map(|x| x.exp().ln_1p()) => burn_tensor::activation::softplus(x.f::<2>(0), 1.0);
    "tanh" ELEMENTWISE [signed([5, 7])] a[0].map(f64::tanh) => burn_tensor::activation::tanh(x.f::<2>(0));
    "softmax along the last dimension" ELEMENTWISE [signed([4, 10])] a[0].lines(1, softmax) => burn_tensor::activation::softmax(x.f::<2>(0), 1);
    "softmax along a middle dimension" ELEMENTWISE [signed([2, 5, 7])] a[0].lines(1, softmax) => burn_tensor::activation::softmax(x.f::<3>(0), 1);
    "log_softmax along the last dimension" ELEMENTWISE [signed([4, 10])] a[0].lines(1, log_softmax) => burn_tensor::activation::log_softmax(x.f::<2>(0), 1);
    "log_softmax along the first dimension" ELEMENTWISE [signed([5, 7])] a[0].lines(0, log_softmax) => burn_tensor::activation::log_softmax(x.f::<2>(0), 0);
    "dropout with a given mask" ELEMENTWISE [signed([5, 7])] a[0].zip(&kept(), |x, kept| x * kept) => x.f::<2>(0) * x.constant(&kept());
}
