//! The supported optimizers.

use burn::module::AutodiffModule;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, AdamWConfig, Optimizer, SgdConfig};
use burn::tensor::backend::AutodiffBackend;

use crate::args;

/// Adam, as Burn configures it.
pub(crate) fn adam<B: AutodiffBackend, M: AutodiffModule<B>>() -> impl Optimizer<M, B> {
    AdamConfig::new().init()
}

/// Adam with decoupled weight decay, as Burn configures it.
pub(crate) fn adamw<B: AutodiffBackend, M: AutodiffModule<B>>() -> impl Optimizer<M, B> {
    AdamWConfig::new().init()
}

/// Gradient descent with momentum 0.9.
pub(crate) fn sgd<B: AutodiffBackend, M: AutodiffModule<B>>() -> impl Optimizer<M, B> {
    let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
    SgdConfig::new().with_momentum(Some(momentum)).init()
}

/// The learning rate that suits an optimizer on the built-in tasks.
pub(crate) fn default_rate(kind: args::Optimizer) -> f64 {
    match kind {
        args::Optimizer::Adam | args::Optimizer::Adamw => 0.002,
        args::Optimizer::Sgd => 0.1,
    }
}
