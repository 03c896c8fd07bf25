//! A backend with a fault: a decorator on the tables that `VirtualBackend` is made of.

use std::any::Any;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Range;

use burn::tensor::backend::{Backend, BackendTypes, DTypeUsageSet, ExecutionError};
use burn::tensor::ops::{
    ActivationOps, AttentionModuleOptions, BoolElem, BoolTensor, BoolTensorOps, ConvOptions,
    ConvTransposeOptions, DeformConv2dBackward, DeformConvOptions, Device, FloatElem, FloatTensor,
    FloatTensorOps, GridSampleOptions, IntElem, IntTensor, IntTensorOps, InterpolateOptions,
    MaxPool1dBackward, MaxPool1dWithIndices, MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps,
    QTensorOps, QuantizedTensor, TransactionOps, TransactionPrimitive, TransactionPrimitiveData,
    UnfoldOptions,
};
use burn::tensor::quantization::{QuantScheme, QuantizationParametersPrimitive};
use burn::tensor::{
    BoolDType, DType, Distribution, FloatDType, IndexingUpdateOp, IntDType, Scalar, Shape, Slice,
    TensorData, TensorPrimitive,
};
use burn_virtual_backend::{
    activation_ops, bool_ops, float_ops, int_ops, module_ops, quantized_ops,
};

use crate::convert::convert;

/// What is wrong with a backend: the result of one operation, by a thousandth.
pub(crate) trait Fault: Clone + Debug + Default + Send + Sync + 'static {
    /// The operation, by its name in Burn's traits; it gives one float tensor.
    const OP: &'static str;

    /// Whether this call of it is wrong.
    fn strikes() -> bool {
        true
    }
}

/// Faults in every call of an operation.
macro_rules! faults {
    ($($name:ident: $op:literal;)*) => {
        $(
            #[derive(Clone, Debug, Default)]
            struct $name;

            impl crate::broken::Fault for $name {
                const OP: &'static str = $op;
            }
        )*
    };
}
pub(crate) use faults;

/// `B` with the fault `F`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Broken<B, F>(PhantomData<(B, F)>);

fn damaged<B: Backend, F: Fault, R: 'static>(op: &str, mut result: R) -> R {
    if op == F::OP && F::strikes() {
        let result: &mut dyn Any = &mut result;
        let tensor: &mut FloatTensor<B> = result.downcast_mut().unwrap();
        *tensor = B::float_mul_scalar(tensor.clone(), 1.001.into());
    }
    result
}

/// Writes one delegating method per signature.
macro_rules! delegate {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        $(
            fn $name($($arg: $ty),*) -> $ret {
                let result = B::$name($(convert($arg)),*);
                convert(damaged::<B, F, _>(stringify!($name), result))
            }
        )*
    };
}

impl<B: Backend, F: Fault> BackendTypes for Broken<B, F> {
    type Device = Device<B>;
    type FloatTensorPrimitive = FloatTensor<B>;
    type FloatElem = FloatElem<B>;
    type IntTensorPrimitive = IntTensor<B>;
    type IntElem = IntElem<B>;
    type BoolTensorPrimitive = BoolTensor<B>;
    type BoolElem = BoolElem<B>;
    type QuantizedTensorPrimitive = QuantizedTensor<B>;
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend, F: Fault> Backend for Broken<B, F> {
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
        format!("broken<{}>", B::name(device))
    }

    fn seed(device: &Self::Device, seed: u64) {
        B::seed(device, seed);
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

#[deny(clippy::missing_trait_methods)]
impl<B: Backend, F: Fault> ActivationOps<Self> for Broken<B, F> {
    activation_ops!(delegate);
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend, F: Fault> BoolTensorOps<Self> for Broken<B, F> {
    bool_ops!(delegate);

    fn bool_into_data(
        tensor: BoolTensor<Self>,
    ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send {
        B::bool_into_data(tensor)
    }

    fn bool_argwhere(
        tensor: BoolTensor<Self>,
        out_dtype: IntDType,
    ) -> impl Future<Output = IntTensor<Self>> + 'static + Send {
        B::bool_argwhere(tensor, out_dtype)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend, F: Fault> FloatTensorOps<Self> for Broken<B, F> {
    float_ops!(delegate);

    // Those that `VirtualBackend` does more with than to hand them over.
    delegate! {
        fn float_random(shape: Shape, distribution: Distribution, device: &Device<Self>, dtype: FloatDType) -> FloatTensor<Self>;
        fn float_to_device(tensor: FloatTensor<Self>, device: &Device<Self>) -> FloatTensor<Self>;
        fn float_detach(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_set_require_grad(tensor: FloatTensor<Self>, require_grad: bool) -> FloatTensor<Self>;
        fn float_is_require_grad(tensor: &FloatTensor<Self>) -> bool;
        fn float_recip(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_sum(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_mean(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_sum_dim(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_mean_dim(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
    }

    fn float_into_data(
        tensor: FloatTensor<Self>,
    ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send {
        B::float_into_data(tensor)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend, F: Fault> IntTensorOps<Self> for Broken<B, F> {
    int_ops!(delegate);

    delegate! {
        fn int_random(shape: Shape, distribution: Distribution, device: &Device<Self>, dtype: IntDType) -> IntTensor<Self>;
    }

    fn int_into_data(
        tensor: IntTensor<Self>,
    ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send {
        B::int_into_data(tensor)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend, F: Fault> ModuleOps<Self> for Broken<B, F> {
    module_ops!(delegate);

    delegate! {
        fn has_ctc_loss_backward() -> bool;
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend, F: Fault> QTensorOps<Self> for Broken<B, F> {
    quantized_ops!(delegate);

    delegate! {
        fn q_detach(tensor: QuantizedTensor<Self>) -> QuantizedTensor<Self>;
        fn q_set_require_grad(tensor: QuantizedTensor<Self>, require_grad: bool) -> QuantizedTensor<Self>;
        fn q_is_require_grad(tensor: &QuantizedTensor<Self>) -> bool;
        fn quantize(tensor: FloatTensor<Self>, scheme: &QuantScheme, qparams: QuantizationParametersPrimitive<Self>) -> QuantizedTensor<Self>;
        fn quantize_dynamic(tensor: FloatTensor<Self>, scheme: &QuantScheme) -> QuantizedTensor<Self>;
    }

    fn q_into_data(
        tensor: QuantizedTensor<Self>,
    ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send {
        B::q_into_data(tensor)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend, F: Fault> TransactionOps<Self> for Broken<B, F> {
    fn tr_execute(
        transaction: TransactionPrimitive<Self>,
    ) -> impl Future<Output = Result<TransactionPrimitiveData, ExecutionError>> + Send {
        B::tr_execute(TransactionPrimitive::new(
            transaction.read_floats,
            transaction.read_qfloats,
            transaction.read_ints,
            transaction.read_bools,
        ))
    }
}
