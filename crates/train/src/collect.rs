//! What is read off a replica after its passes: gradients and statistics, in module order.

use burn::module::{ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorPrimitive};
use burn_virtual_backend::Virtual;
use burn_virtual_plan::Partial;

use crate::gradients::Taken;
use crate::inventory::{Frame, Inventory};
use crate::{NodeError, VirtualAutodiff};

/// Copies the gradients of one replica into its leaf.
pub(crate) struct GradientCollector<'a, B: VirtualAutodiff> {
    inventory: &'a Inventory,
    frame: &'a Frame,
    require_all: bool,
    taken: Taken<B>,
    leaf: &'a mut Partial,
    next: usize,
    error: Option<NodeError>,
}

impl<'a, B: VirtualAutodiff> GradientCollector<'a, B> {
    pub(crate) fn new(
        inventory: &'a Inventory,
        frame: &'a Frame,
        require_all: bool,
        taken: Taken<B>,
        leaf: &'a mut Partial,
    ) -> Self {
        Self {
            inventory,
            frame,
            require_all,
            taken,
            leaf,
            next: 0,
            error: None,
        }
    }

    pub(crate) fn finish(self) -> Result<(), NodeError> {
        self.error.map_or(Ok(()), Err)
    }

    fn take<const D: usize>(
        &mut self,
        entry: usize,
        segment: usize,
        param: &Param<Tensor<B, D>>,
    ) -> Result<(), NodeError> {
        let path = || self.inventory.entries[entry].path.clone();
        let Some(gradient) = self.taken.remove(param) else {
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
            .map_err(|error| read(error.to_string()))?
            .convert::<f32>();
        let values = data
            .as_slice::<f32>()
            .map_err(|error| read(format!("{error:?}")))?;
        Ok(self.leaf.set_segment(segment, values)?)
    }
}

impl<B: VirtualAutodiff> ModuleVisitor<B> for GradientCollector<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let entry = self.next;
        self.next += 1;
        if let Some(segment) = self.frame.segment(entry)
            && let Err(error) = self.take(entry, segment, param)
        {
            self.error.get_or_insert(error);
        }
    }
}

/// Adds the running statistics of one replica, weighted by its samples, to its leaf.
pub(crate) struct StatisticCollector<'a> {
    inventory: &'a Inventory,
    frame: &'a Frame,
    samples: f64,
    leaf: &'a mut Partial,
    next: usize,
    error: Option<NodeError>,
}

impl<'a> StatisticCollector<'a> {
    pub(crate) fn new(
        inventory: &'a Inventory,
        frame: &'a Frame,
        samples: usize,
        leaf: &'a mut Partial,
    ) -> Self {
        Self {
            inventory,
            frame,
            samples: samples as f64,
            leaf,
            next: 0,
            error: None,
        }
    }

    pub(crate) fn finish(self) -> Result<(), NodeError> {
        self.error.map_or(Ok(()), Err)
    }

    fn take<B: Virtual, const D: usize>(
        &mut self,
        entry: usize,
        (flag, first_sum): (usize, usize),
        tensor: Tensor<B, D>,
    ) -> Result<(), NodeError> {
        let read = |reason: String| {
            let what = self.inventory.entries[entry].path.clone();
            NodeError::Read { what, reason }
        };
        let primitive = tensor.into_primitive().tensor();
        if !B::is_marked(&primitive) {
            self.leaf.flags_mut().set(flag);
        }
        let tensor = Tensor::<B, D>::from_primitive(TensorPrimitive::Float(primitive));
        let data = tensor
            .try_into_data()
            .map_err(|error| read(error.to_string()))?;
        let sums = self.leaf.sums_mut()[first_sum..].iter_mut();
        for (sum, value) in sums.zip(data.iter::<f64>()) {
            *sum = value * self.samples;
        }
        Ok(())
    }
}

impl<B: Virtual> ModuleVisitor<B> for StatisticCollector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let entry = self.next;
        self.next += 1;
        if let Some(place) = self.frame.statistic(entry)
            && let Err(error) = self.take(entry, place, param.val())
        {
            self.error.get_or_insert(error);
        }
    }
}

/// Marks the statistics of a rank's master, so that those a replica left alone still have the mark.
pub(crate) struct StatisticMarker<'a> {
    inventory: &'a Inventory,
    next: usize,
}

impl<'a> StatisticMarker<'a> {
    pub(crate) fn new(inventory: &'a Inventory) -> Self {
        Self { inventory, next: 0 }
    }
}

impl<B: VirtualAutodiff> ModuleMapper<B> for StatisticMarker<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let entry = self.next;
        self.next += 1;
        if !self.inventory.entries[entry].statistic {
            return param;
        }
        param.map(|tensor| {
            let marked = B::InnerBackend::mark(tensor.inner().into_primitive().tensor());
            Tensor::from_inner(Tensor::from_primitive(TensorPrimitive::Float(marked)))
        })
    }
}
