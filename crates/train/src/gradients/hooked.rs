//! With `overlap`, gradients come from Burn's hook: each is taken on the thread of the backward
//! pass as soon as it is finished, deep layers first.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use burn::module::{AutodiffModule, ModuleMapper, Param};
use burn::tensor::backend::distributed::DistributedParamId;
use burn::tensor::{Tensor, TensorPrimitive};
use burn_virtual_backend::{GradientHook, hook};

use crate::VirtualAutodiff;
use crate::pass::Gradients;

type Finished = HashMap<DistributedParamId, Box<dyn Any + Send>>;

/// The gradients that the hook took, and the container that the backward pass returned.
pub(crate) struct Taken<B: VirtualAutodiff> {
    finished: Finished,
    returned: B::Gradients,
}

/// Marks the trained leaves of a replica for the hook. The mark holds for one backward pass.
pub(crate) fn marked<B: VirtualAutodiff, M: AutodiffModule<B>>(replica: M) -> M {
    replica.map(&mut Marker)
}

/// Runs the backward pass with the hook on.
pub(crate) fn backward<B: VirtualAutodiff>(sum: Tensor<B, 1>) -> Taken<B> {
    let finished = Rc::new(RefCell::new(Finished::new()));
    let hooked = hook(Box::new(Collector(finished.clone())));
    let returned = sum.backward();
    drop(hooked);
    Taken {
        finished: finished.take(),
        returned,
    }
}

impl<B: VirtualAutodiff> Gradients<B> for Taken<B> {
    /// The mark for the hook is gone after the first backward pass on a leaf. A loss that runs one
    /// of its own (for adversarial inputs, say) leaves its gradients to the container.
    fn remove<const D: usize>(
        &mut self,
        param: &Param<Tensor<B, D>>,
    ) -> Option<Tensor<B::InnerBackend, D>> {
        let returned = param.grad_remove(&mut self.returned);
        let finished = self
            .finished
            .remove(&DistributedParamId::from(param.id.val()));
        match finished.map(<Box<dyn Any + Send>>::downcast) {
            Some(Ok(gradient)) => Some(Tensor::from_primitive(TensorPrimitive::Float(*gradient))),
            _ => returned,
        }
    }
}

struct Collector(Rc<RefCell<Finished>>);

impl GradientHook for Collector {
    fn ready(&mut self, parameter: DistributedParamId, gradient: Box<dyn Any + Send>) {
        self.0.borrow_mut().insert(parameter, gradient);
    }
}

struct Marker;

impl<B: VirtualAutodiff> ModuleMapper<B> for Marker {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        if !param.is_require_grad() {
            return param;
        }
        let id = DistributedParamId::from(param.id.val());
        param.map(|tensor| tensor.set_distributed(id))
    }
}
