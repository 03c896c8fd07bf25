//! The root of the tree: the one division, and whatever decides about the step.
//!
//! All of it is computed from the flat combined vector, in fixed order, by the same host code on
//! every rank: norm, finiteness, loss. Never by a tensor sum of the backend.

use std::convert::Infallible;

use burn::module::{AutodiffModule, Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use burn_virtual_plan::{Partial, kernel};

use crate::VirtualNodes;
use crate::inventory::Frame;
use crate::walk::{self, Look, Replace};

/// Why a step was skipped: nothing is applied, on any rank.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// No virtual node had an item of weight above 0.
    NoItems,
    /// The loss, a gradient or a new running statistic is NaN or infinite.
    NotFinite {
        /// The virtual nodes whose own values are; none where only the sum overflowed.
        nodes: Vec<usize>,
    },
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoItems => f.write_str("no items"),
            Self::NotFinite { nodes } if nodes.is_empty() => f.write_str("the sum is not finite"),
            Self::NotFinite { nodes } => write!(f, "not finite in virtual nodes {nodes:?}"),
        }
    }
}

/// A combined step, divided.
pub(crate) struct Root<'a> {
    frame: &'a Frame,
    partial: Option<Partial>,
    pub(crate) loss: f64,
    pub(crate) weight: f64,
    pub(crate) norm: f64,
    pub(crate) skipped: Option<Skipped>,
}

impl<'a> Root<'a> {
    pub(crate) fn new(
        frame: &'a Frame,
        combined: Option<Partial>,
        settings: &VirtualNodes<impl Sized>,
    ) -> Self {
        let weight = combined
            .as_ref()
            .map_or(0.0, |partial| partial.sums()[Frame::WEIGHT]);
        let mut root = Self {
            frame,
            partial: combined,
            loss: f64::NAN,
            weight,
            norm: 0.0,
            skipped: None,
        };
        match &mut root.partial {
            Some(partial) if weight > 0.0 => {
                kernel::divide(partial.values_mut(), weight);
                frame.narrow(partial);
                root.loss = partial.sums()[Frame::LOSS] / weight;
                root.norm = kernel::norm(partial.values());
                let finite =
                    weight.is_finite() && root.loss.is_finite() && frame.is_finite(partial);
                root.skipped = (!finite).then(|| not_finite(frame, partial, settings.count));
                if let Some(limit) = settings.clip_norm.filter(|limit| root.norm > *limit) {
                    kernel::scale(partial.values_mut(), limit / root.norm);
                    frame.narrow(partial);
                }
            }
            _ => root.skipped = Some(Skipped::NoItems),
        }
        root
    }

    /// The gradients as tensors on the devices of the model's parameters; none of a skipped step.
    pub(crate) fn gradients<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        model: &M,
    ) -> GradientsParams {
        let mut gradients = GradientsParams::new();
        if let (Some(partial), None) = (&self.partial, &self.skipped) {
            let mut uploader = Uploader {
                frame: self.frame,
                partial,
                gradients: &mut gradients,
            };
            let Ok(_) = walk::look(model, &mut uploader);
        }
        gradients
    }

    /// Writes the statistics that some virtual node changed into the model, in place: the clone
    /// shares them with it. Statistics of a skipped step are left as they are.
    pub(crate) fn apply_statistics<B: Backend, M: Module<B>>(&self, model: &M) {
        if let (Some(partial), None) = (&self.partial, &self.skipped)
            && self.frame.has_statistics()
        {
            let mut setter = StatisticSetter {
                frame: self.frame,
                partial,
            };
            let _shared = walk::replace(model.clone(), &mut setter);
        }
    }
}

fn not_finite(frame: &Frame, partial: &Partial, virtual_nodes: usize) -> Skipped {
    let flagged = |node: &usize| partial.flags().get(frame.not_finite(*node));
    Skipped::NotFinite {
        nodes: (0..virtual_nodes).filter(flagged).collect(),
    }
}

struct Uploader<'a> {
    frame: &'a Frame,
    partial: &'a Partial,
    gradients: &'a mut GradientsParams,
}

impl<B: AutodiffBackend> Look<B> for Uploader<'_> {
    type Error = Infallible;

    fn look<const D: usize>(
        &mut self,
        index: usize,
        param: &Param<Tensor<B, D>>,
    ) -> Result<(), Infallible> {
        let segment = self.frame.segment(index);
        // An absent parameter gets no gradient at all: an optimizer would still move one of zero.
        if let Some(values) = segment.and_then(|segment| self.partial.segment(segment)) {
            let data = TensorData::new(values.to_vec(), param.shape()).convert_dtype(param.dtype());
            let options = (&param.device(), param.dtype());
            let gradient = Tensor::<B::InnerBackend, D>::from_data(data, options);
            self.gradients.register(param.id, gradient);
        }
        Ok(())
    }
}

struct StatisticSetter<'a> {
    frame: &'a Frame,
    partial: &'a Partial,
}

impl<B: Backend> Replace<B> for StatisticSetter<'_> {
    fn replace<const D: usize>(
        &mut self,
        index: usize,
        param: Param<Tensor<B, D>>,
    ) -> Param<Tensor<B, D>> {
        match self.frame.statistic(index) {
            Some((flag, first_sum)) if self.partial.flags().get(flag) => {
                let samples = self.partial.sums()[Frame::SAMPLES];
                let shape = param.shape();
                let sums = &self.partial.sums()[first_sum..][..shape.num_elements()];
                let means: Vec<f64> = sums.iter().map(|sum| sum / samples).collect();
                let data = TensorData::new(means, shape).convert_dtype(param.dtype());
                let options = (&param.device(), param.dtype());
                let value = Tensor::from_data(data, options);
                param.map(|_| value)
            }
            _ => param,
        }
    }
}
