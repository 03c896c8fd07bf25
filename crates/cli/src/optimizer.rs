//! The supported optimizers.

use burn::module::AutodiffModule;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{
    Adam, AdamConfig, AdamW, AdamWConfig, GradientsParams, Optimizer as _, Sgd, SgdConfig,
};
use burn::tensor::backend::AutodiffBackend;

use crate::args;

/// One of the supported optimizers, with its state.
pub(crate) enum Optimizer<B: AutodiffBackend, M: AutodiffModule<B>> {
    Adam(OptimizerAdaptor<Adam, M, B>),
    Sgd(OptimizerAdaptor<Sgd<B::InnerBackend>, M, B>),
    AdamW(OptimizerAdaptor<AdamW, M, B>),
}

impl<B: AutodiffBackend, M: AutodiffModule<B>> Optimizer<B, M> {
    /// A fresh optimizer of a kind.
    pub(crate) fn new(kind: args::Optimizer) -> Self {
        match kind {
            args::Optimizer::Adam => Self::Adam(AdamConfig::new().init()),
            args::Optimizer::Sgd => {
                let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
                Self::Sgd(SgdConfig::new().with_momentum(Some(momentum)).init())
            }
            args::Optimizer::Adamw => Self::AdamW(AdamWConfig::new().init()),
        }
    }

    /// One update of the model.
    pub(crate) fn step(&mut self, rate: f64, model: M, gradients: GradientsParams) -> M {
        match self {
            Self::Adam(optimizer) => optimizer.step(rate, model, gradients),
            Self::Sgd(optimizer) => optimizer.step(rate, model, gradients),
            Self::AdamW(optimizer) => optimizer.step(rate, model, gradients),
        }
    }
}

/// The learning rate that suits an optimizer on the built-in jobs.
pub(crate) fn default_rate(kind: args::Optimizer) -> f64 {
    match kind {
        args::Optimizer::Adam | args::Optimizer::Adamw => 0.002,
        args::Optimizer::Sgd => 0.1,
    }
}
