//! What is read off a replica after its passes: gradients and statistics.

use burn::module::Param;
use burn::tensor::{Tensor, TensorPrimitive};
use burn_virtual_backend::Virtual;
use burn_virtual_plan::Partial;

use crate::inventory::{Frame, Inventory};
use crate::pass::Gradients;
use crate::walk::{Look, Replace};
use crate::{NodeError, VirtualAutodiff};

/// Copies the gradients of one replica into its leaf.
pub(crate) struct GradientCollector<'a, G> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) frame: &'a Frame,
    pub(crate) require_all: bool,
    pub(crate) gradients: G,
    pub(crate) leaf: &'a mut Partial,
}

impl<B: VirtualAutodiff, G: Gradients<B>> Look<B> for GradientCollector<'_, G> {
    type Error = NodeError;

    fn look<const D: usize>(
        &mut self,
        index: usize,
        param: &Param<Tensor<B, D>>,
    ) -> Result<(), NodeError> {
        let Some(segment) = self.frame.segment(index) else {
            return Ok(());
        };
        let path = || self.inventory.entries[index].path.clone();
        let Some(gradient) = self.gradients.remove(param) else {
            return if self.require_all {
                Err(NodeError::NoGradient { path: path() })
            } else {
                Ok(())
            };
        };
        let read = |reason: String| NodeError::Read {
            what: path(),
            reason,
        };
        let data = gradient
            .try_into_data()
            .map_err(|error| read(error.to_string()))?;
        let data = data.convert::<f32>();
        let values = data
            .as_slice::<f32>()
            .map_err(|error| read(format!("{error:?}")))?;
        Ok(self.leaf.set_segment(segment, values)?)
    }
}

/// Adds the running statistics of one replica, weighted by its samples, to its leaf.
pub(crate) struct StatisticCollector<'a> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) frame: &'a Frame,
    pub(crate) samples: usize,
    pub(crate) leaf: &'a mut Partial,
}

impl<B: Virtual> Look<B> for StatisticCollector<'_> {
    type Error = NodeError;

    fn look<const D: usize>(
        &mut self,
        index: usize,
        param: &Param<Tensor<B, D>>,
    ) -> Result<(), NodeError> {
        let Some((flag, first_sum)) = self.frame.statistic(index) else {
            return Ok(());
        };
        let primitive = param.val().into_primitive().tensor();
        if !B::is_marked(&primitive) {
            self.leaf.flags_mut().set(flag);
        }
        let tensor = Tensor::<B, D>::from_primitive(TensorPrimitive::Float(primitive));
        let data = tensor.try_into_data().map_err(|error| NodeError::Read {
            what: self.inventory.entries[index].path.clone(),
            reason: error.to_string(),
        })?;
        let sums = self.leaf.sums_mut()[first_sum..].iter_mut();
        for (sum, value) in sums.zip(data.iter::<f64>()) {
            *sum = value * self.samples as f64;
        }
        Ok(())
    }
}

/// Marks the statistics of a rank's master, so that those a replica left alone still have the mark.
pub(crate) struct StatisticMarker<'a>(pub(crate) &'a Frame);

impl<B: VirtualAutodiff> Replace<B> for StatisticMarker<'_> {
    fn replace<const D: usize>(
        &mut self,
        index: usize,
        param: Param<Tensor<B, D>>,
    ) -> Param<Tensor<B, D>> {
        if self.0.statistic(index).is_none() {
            return param;
        }
        param.map(|tensor| {
            let marked = B::InnerBackend::mark(tensor.inner().into_primitive().tensor());
            Tensor::from_inner(Tensor::from_primitive(TensorPrimitive::Float(marked)))
        })
    }
}
