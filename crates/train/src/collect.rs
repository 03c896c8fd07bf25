//! What is read off a replica after its passes: gradients and statistics.

use std::convert::Infallible;

use burn::module::Param;
use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Tensor, TensorData, TensorPrimitive};
use burn_virtual_backend::Virtual;
use burn_virtual_plan::Partial;

use crate::download::Download;
use crate::inventory::{Frame, Inventory};
use crate::pass::Gradients;
use crate::walk::{Look, Replace};
use crate::{NodeError, VirtualAutodiff};

/// What is to be read off one replica, and where in its leaf it goes.
pub(crate) struct Reading<B: Backend> {
    slots: Vec<Slot>,
    tensors: Vec<FloatTensor<B>>,
}

/// A place in a leaf.
enum Slot {
    /// The loss.
    Loss,
    /// The gradient of the parameter that has this segment.
    Gradient { segment: usize },
    /// A running statistic, weighted by the samples: from this sum on.
    Statistic { first_sum: usize },
}

impl<B: Backend> Reading<B> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            tensors: Vec::new(),
        }
    }

    /// Reads the loss, a single value.
    pub(crate) fn loss(&mut self, loss: Tensor<B, 1>) {
        self.add(Slot::Loss, loss.into_primitive().tensor());
    }

    fn add(&mut self, slot: Slot, tensor: FloatTensor<B>) {
        self.slots.push(slot);
        self.tensors.push(tensor);
    }

    /// Asks the device for all of it.
    pub(crate) fn start(self) -> Arriving {
        Arriving {
            slots: self.slots,
            download: Download::start::<B>(self.tensors),
        }
    }
}

/// What is read off one replica, on its way.
pub(crate) struct Arriving {
    slots: Vec<Slot>,
    download: Download,
}

impl Arriving {
    /// Whether there is nothing to wait for.
    pub(crate) fn is_here(&self) -> bool {
        self.download.is_here()
    }

    /// Waits for it and puts it into the leaf.
    pub(crate) fn fill(self, leaf: &mut Partial, samples: usize) -> Result<(), NodeError> {
        let failed = |reason| NodeError::Read {
            what: "its loss, gradients and statistics".to_owned(),
            reason,
        };
        let values = self.download.finish().map_err(failed)?;
        if values.len() != self.slots.len() {
            let (expected, got) = (self.slots.len(), values.len());
            return Err(failed(format!("expected {expected} tensors, got {got}")));
        }
        for (slot, data) in self.slots.into_iter().zip(values) {
            slot.fill(data, leaf, samples)?;
        }
        Ok(())
    }
}

impl Slot {
    fn fill(self, data: TensorData, leaf: &mut Partial, samples: usize) -> Result<(), NodeError> {
        match self {
            Self::Loss => leaf.sums_mut()[Frame::LOSS] = data.iter::<f64>().sum(),
            Self::Gradient { segment } => {
                let data = data.convert::<f32>();
                let values = data.as_slice::<f32>().map_err(|error| NodeError::Read {
                    what: "a gradient".to_owned(),
                    reason: format!("{error:?}"),
                })?;
                leaf.set_segment(segment, values)?;
            }
            Self::Statistic { first_sum } => {
                let sums = leaf.sums_mut()[first_sum..].iter_mut();
                for (sum, value) in sums.zip(data.iter::<f64>()) {
                    *sum = value * samples as f64;
                }
            }
        }
        Ok(())
    }
}

/// Takes the gradients of one replica.
pub(crate) struct GradientCollector<'a, B: VirtualAutodiff, G> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) frame: &'a Frame,
    pub(crate) require_all: bool,
    pub(crate) gradients: G,
    pub(crate) reading: &'a mut Reading<B::InnerBackend>,
}

impl<B: VirtualAutodiff, G: Gradients<B>> Look<B> for GradientCollector<'_, B, G> {
    type Error = NodeError;

    fn look<const D: usize>(
        &mut self,
        index: usize,
        param: &Param<Tensor<B, D>>,
    ) -> Result<(), NodeError> {
        let Some(segment) = self.frame.segment(index) else {
            return Ok(());
        };
        match self.gradients.remove(param) {
            Some(gradient) => {
                let gradient = gradient.into_primitive().tensor();
                self.reading.add(Slot::Gradient { segment }, gradient);
                Ok(())
            }
            None if self.require_all => Err(NodeError::NoGradient {
                path: self.inventory.entries[index].path.clone(),
            }),
            None => Ok(()),
        }
    }
}

/// Takes the running statistics of one replica, and notes which of them it changed.
pub(crate) struct StatisticCollector<'a, B: Backend> {
    pub(crate) frame: &'a Frame,
    pub(crate) leaf: &'a mut Partial,
    pub(crate) reading: &'a mut Reading<B>,
}

impl<B: Virtual> Look<B> for StatisticCollector<'_, B> {
    type Error = Infallible;

    fn look<const D: usize>(
        &mut self,
        index: usize,
        param: &Param<Tensor<B, D>>,
    ) -> Result<(), Infallible> {
        if let Some((flag, first_sum)) = self.frame.statistic(index) {
            let statistic = param.val().into_primitive().tensor();
            if !B::is_marked(&statistic) {
                self.leaf.flags_mut().set(flag);
            }
            self.reading.add(Slot::Statistic { first_sum }, statistic);
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
