//! Results of the calls, as host data: one function for each kind of result.
#![allow(
    clippy::extra_unused_type_parameters,
    reason = "the table calls every one of them with the backend"
)]

use core::fmt::Debug;

use burn_backend::ops::{
    DeformConv2dBackward, MaxPool1dBackward, MaxPool1dWithIndices, MaxPool2dBackward,
    MaxPool2dWithIndices, TransactionPrimitiveData,
};
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor, QuantizedTensor};
use burn_backend::{
    Backend, DType, ExecutionError, Shape, TensorData, TensorMetadata, TensorPrimitive,
};
use burn_std::future::block_on;

use crate::common::{read_bool, read_float, read_int, read_quantized};

/// A part of a result.
pub(crate) enum Value {
    Data(TensorData),
    /// What a primitive says of itself.
    Meta(DType, Shape, usize),
    Text(String),
}

impl Debug for Value {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Data(data) if data.dtype.is_float() => {
                f.debug_list().entries(data.iter::<f64>()).finish()
            }
            Self::Data(data) => f.debug_list().entries(data.as_bytes()).finish(),
            Self::Meta(dtype, shape, rank) => write!(f, "{dtype:?} {shape:?} {rank}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

type Values = Vec<Value>;
type Read = Result<TensorData, ExecutionError>;

/// The primitive's own idea of itself, and its values.
fn parts(metadata: &impl TensorMetadata, data: impl FnOnce() -> TensorData) -> Values {
    let mut values = meta(metadata);
    values.push(Value::Data(data()));
    values
}

fn meta(tensor: &impl TensorMetadata) -> Values {
    vec![Value::Meta(tensor.dtype(), tensor.shape(), tensor.rank())]
}

pub(crate) fn float<T: Backend>(tensor: FloatTensor<T>) -> Values {
    parts(&tensor.clone(), || read_float::<T>(tensor))
}

pub(crate) fn int<T: Backend>(tensor: IntTensor<T>) -> Values {
    parts(&tensor.clone(), || read_int::<T>(tensor))
}

pub(crate) fn bool<T: Backend>(tensor: BoolTensor<T>) -> Values {
    parts(&tensor.clone(), || read_bool::<T>(tensor))
}

pub(crate) fn quantized<T: Backend>(tensor: QuantizedTensor<T>) -> Values {
    parts(&tensor.clone(), || read_quantized::<T>(tensor))
}

/// A float or a quantized tensor, as the result says.
pub(crate) fn either<T: Backend>(tensor: TensorPrimitive<T>) -> Values {
    let (kind, values) = match tensor {
        TensorPrimitive::Float(tensor) => ("float", float::<T>(tensor)),
        TensorPrimitive::QFloat(tensor) => ("quantized", quantized::<T>(tensor)),
    };
    let kind = Value::Text(kind.into());
    core::iter::once(kind).chain(values).collect()
}

fn both(mut first: Values, second: Values) -> Values {
    first.extend(second);
    first
}

pub(crate) fn two_floats<T: Backend>((a, b): (FloatTensor<T>, FloatTensor<T>)) -> Values {
    both(float::<T>(a), float::<T>(b))
}

pub(crate) fn float_int<T: Backend>((a, b): (FloatTensor<T>, IntTensor<T>)) -> Values {
    both(float::<T>(a), int::<T>(b))
}

pub(crate) fn two_ints<T: Backend>((a, b): (IntTensor<T>, IntTensor<T>)) -> Values {
    both(int::<T>(a), int::<T>(b))
}

pub(crate) fn quantized_int<T: Backend>((a, b): (QuantizedTensor<T>, IntTensor<T>)) -> Values {
    both(quantized::<T>(a), int::<T>(b))
}

/// Dtype and shape of a tensor whose values are not defined.
pub(crate) fn float_meta<T: Backend>(tensor: FloatTensor<T>) -> Values {
    meta(&tensor)
}

/// Dtype and shape of a tensor whose values are not defined.
pub(crate) fn int_meta<T: Backend>(tensor: IntTensor<T>) -> Values {
    meta(&tensor)
}

/// Dtype and shape of a tensor whose values are not defined.
pub(crate) fn bool_meta<T: Backend>(tensor: BoolTensor<T>) -> Values {
    meta(&tensor)
}

pub(crate) fn plain<T: Backend>(value: impl Debug) -> Values {
    vec![Value::Text(format!("{value:?}"))]
}

pub(crate) fn data<T: Backend>(read: impl Future<Output = Read>) -> Values {
    vec![Value::Data(block_on(read).unwrap())]
}

pub(crate) fn int_later<T: Backend>(tensor: impl Future<Output = IntTensor<T>>) -> Values {
    int::<T>(block_on(tensor))
}

pub(crate) fn pooled1<T: Backend>(result: MaxPool1dWithIndices<T>) -> Values {
    both(float::<T>(result.output), int::<T>(result.indices))
}

pub(crate) fn pooled2<T: Backend>(result: MaxPool2dWithIndices<T>) -> Values {
    both(float::<T>(result.output), int::<T>(result.indices))
}

pub(crate) fn unpooled1<T: Backend>(result: MaxPool1dBackward<T>) -> Values {
    float::<T>(result.x_grad)
}

pub(crate) fn unpooled2<T: Backend>(result: MaxPool2dBackward<T>) -> Values {
    float::<T>(result.x_grad)
}

pub(crate) fn deformed<T: Backend>(result: DeformConv2dBackward<T>) -> Values {
    let absent = format!(
        "{:?}",
        (result.mask_grad.is_none(), result.bias_grad.is_none())
    );
    [result.x_grad, result.offset_grad, result.weight_grad]
        .into_iter()
        .chain(result.mask_grad)
        .chain(result.bias_grad)
        .flat_map(|tensor| float::<T>(tensor))
        .chain([Value::Text(absent)])
        .collect()
}

pub(crate) fn transaction<T: Backend>(
    result: impl Future<Output = Result<TransactionPrimitiveData, ExecutionError>>,
) -> Values {
    let result = block_on(result).unwrap();
    let counts = [
        result.read_floats.len(),
        result.read_qfloats.len(),
        result.read_ints.len(),
        result.read_bools.len(),
    ];
    result
        .read_floats
        .into_iter()
        .chain(result.read_qfloats)
        .chain(result.read_ints)
        .chain(result.read_bools)
        .map(Value::Data)
        .chain([Value::Text(format!("{counts:?}"))])
        .collect()
}
