//! The decorator itself.

use burn_backend::tensor::{BoolElem, Device, FloatElem, IntElem};
use burn_backend::{Backend, BackendTypes, DType, DTypeUsageSet, ExecutionError, TensorData};
use core::marker::PhantomData;

use crate::{VirtualTensor, context};

/// Any Burn backend `B`, with random streams, sums and means that do not depend on the hardware.
///
/// Used in the place of `B`: `Autodiff<VirtualBackend<Flex>>`. By itself it splits nothing: a
/// batched call through it runs whole. Splitting a batch over virtual nodes is the work of
/// `burn-virtual-train`.
///
/// ```
/// use burn_backend::Backend;
/// use burn_virtual_backend::VirtualBackend;
///
/// type B = VirtualBackend<burn_flex::Flex>;
/// assert_eq!(B::name(&Default::default()), "virtual<flex>");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualBackend<B>(PhantomData<B>);

impl<B: Backend> BackendTypes for VirtualBackend<B> {
    type Device = Device<B>;
    type FloatTensorPrimitive = VirtualTensor<B::FloatTensorPrimitive>;
    type FloatElem = FloatElem<B>;
    type IntTensorPrimitive = VirtualTensor<B::IntTensorPrimitive>;
    type IntElem = IntElem<B>;
    type BoolTensorPrimitive = VirtualTensor<B::BoolTensorPrimitive>;
    type BoolElem = BoolElem<B>;
    type QuantizedTensorPrimitive = VirtualTensor<B::QuantizedTensorPrimitive>;
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend> Backend for VirtualBackend<B> {
    fn ad_enabled(device: &Self::Device) -> bool {
        B::ad_enabled(device)
    }

    fn memory_persistent_allocations<
        Output: Send,
        Input: Send,
        Func: Fn(Input) -> Output + Send,
    >(
        device: &Self::Device,
        input: Input,
        func: Func,
    ) -> Output {
        B::memory_persistent_allocations(device, input, func)
    }

    fn memory_cleanup(device: &Self::Device) {
        B::memory_cleanup(device);
    }

    fn name(device: &Self::Device) -> String {
        format!("virtual<{}>", B::name(device))
    }

    /// Seeds the random stream of this thread; the inner backend's own generator, which is shared
    /// by the whole process, is left alone.
    fn seed(_device: &Self::Device, seed: u64) {
        context::seed(seed);
    }

    fn sync(device: &Self::Device) -> Result<(), ExecutionError> {
        B::sync(device)
    }

    fn staging<'a, Iter>(data: Iter, device: &Self::Device)
    where
        Iter: Iterator<Item = &'a mut TensorData>,
    {
        B::staging(data, device);
    }

    fn supports_dtype(device: &Self::Device, dtype: DType) -> bool {
        B::supports_dtype(device, dtype)
    }

    fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet {
        B::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        B::device_count(type_id)
    }
}

/// What a [`VirtualBackend`] can tell about its tensors beyond Burn's [`Backend`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no `VirtualBackend`",
    note = "wrap the inner backend, as in `Autodiff<VirtualBackend<Flex>>`"
)]
pub trait Virtual: Backend {
    /// The backend that does the work.
    type Inner: Backend<Device = Self::Device>;

    /// Marks a float tensor: its clones keep the mark, results of operations do not have it, so a
    /// marked tensor is known to be unchanged without comparing it.
    fn mark(tensor: Self::FloatTensorPrimitive) -> Self::FloatTensorPrimitive;

    /// Whether the tensor is a clone of one that was [marked](Self::mark).
    fn is_marked(tensor: &Self::FloatTensorPrimitive) -> bool;
}

impl<B: Backend> Virtual for VirtualBackend<B> {
    type Inner = B;

    fn mark(tensor: Self::FloatTensorPrimitive) -> Self::FloatTensorPrimitive {
        tensor.marked()
    }

    fn is_marked(tensor: &Self::FloatTensorPrimitive) -> bool {
        tensor.is_marked()
    }
}
