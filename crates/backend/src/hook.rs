//! Burn's per-parameter gradient hook (feature `overlap`).
//!
//! `burn-autodiff` reports each marked parameter's gradient on the thread that called `backward`,
//! before it returns, deep layers first. The calls land in the thread's [`GradientHook`]; a hook
//! must not wait, since the backward pass of every other rank of the process waits for it.

use core::any::Any;
use core::marker::PhantomData;

use burn_backend::Backend;
use burn_backend::DeviceId;
use burn_backend::distributed::{
    CollectiveTensor, DistributedBackend, DistributedConfig, DistributedParamId, DistributedParams,
    ReduceOperation, TensorRef,
};
use burn_backend::tensor::{Device, FloatTensor};

use crate::VirtualBackend;
use crate::context::CONTEXT;

/// Takes gradients as the backward pass on this thread finishes them.
pub trait GradientHook {
    /// The gradient of one parameter is complete. `gradient` is a
    /// `FloatTensor<VirtualBackend<B>>` of the backend that runs on this thread.
    fn ready(&mut self, parameter: DistributedParamId, gradient: Box<dyn Any + Send>);
}

/// Takes the hook off this thread, when dropped.
#[must_use = "the hook is taken off when this is dropped"]
pub struct Hooked {
    before: Option<Box<dyn GradientHook>>,
    // Thread-local state is restored on the thread that hooked.
    not_send: PhantomData<*const ()>,
}

impl Drop for Hooked {
    fn drop(&mut self) {
        CONTEXT.with(|context| context.hook.replace(self.before.take()));
    }
}

/// Puts a hook on this thread until the guard is dropped.
pub fn hook(hook: Box<dyn GradientHook>) -> Hooked {
    let before = CONTEXT.with(|context| context.hook.replace(Some(hook)));
    Hooked {
        before,
        not_send: PhantomData,
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend> DistributedBackend for VirtualBackend<B> {
    // Burn's own server would collect the gradients of all threads in one process-wide map: the
    // hook of the thread takes its place, so there is nothing to start, register or close.
    fn start_communication_server(_devices: &[Device<Self>], _config: DistributedConfig) {}

    fn close_communication_server(_device: &Device<Self>) {}

    fn register_sync_parameters(_device: &Device<Self>, _parameters: Vec<DistributedParams>) {}

    fn submit_sync_collective(_device: &Device<Self>) {}

    fn submit_gradient_sync(tensor: TensorRef<Self>, parameter: DistributedParams) {
        // The hook is off the thread while it runs: it may hook or train itself.
        let Some(mut hook) = CONTEXT.with(|context| context.hook.take()) else {
            return;
        };
        // Safety: burn-autodiff calls this on the thread that owns the gradient and does not touch
        // it before the call returns.
        let gradient = unsafe { Self::float_from_ref(&tensor) };
        hook.ready(parameter.param_id, Box::new(gradient));
        CONTEXT.with(|context| context.hook.replace(Some(hook)));
    }

    // A lone device: the sum and the mean over it are the tensor itself.
    fn all_reduce(
        tensor: FloatTensor<Self>,
        _operation: ReduceOperation,
        _devices: Vec<DeviceId>,
    ) -> CollectiveTensor<Self> {
        CollectiveTensor::new(tensor)
    }

    fn sync_collective(_device: &Device<Self>) {}

    unsafe fn comm_device(tensor: &TensorRef<Self>) -> Device<Self> {
        // Safety: the caller promises that nobody changes the tensor meanwhile.
        let tensor = unsafe { &*tensor.0 };
        <Self as burn_backend::ops::FloatTensorOps<Self>>::float_device(tensor)
    }

    unsafe fn float_from_ref(tensor: &TensorRef<Self>) -> FloatTensor<Self> {
        // Safety: the caller promises that nobody changes the tensor meanwhile.
        unsafe { (*tensor.0).clone() }
    }
}
