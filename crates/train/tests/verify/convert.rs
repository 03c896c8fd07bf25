//! Values that name their backend, from a decorator's to the inner backend's and back.

use burn::tensor::TensorPrimitive;
use burn::tensor::backend::Backend;
use burn::tensor::ops::{
    DeformConv2dBackward, MaxPool1dBackward, MaxPool1dWithIndices, MaxPool2dBackward,
    MaxPool2dWithIndices,
};
use burn::tensor::quantization::QuantizationParametersPrimitive;

use crate::broken::{Broken, Fault};

/// To the other backend's type: the primitives in it are the same.
pub(crate) trait Convert<T> {
    fn convert(self) -> T;
}

pub(crate) fn convert<T, U>(value: T) -> U
where
    T: Convert<U>,
{
    value.convert()
}

impl<T> Convert<T> for T {
    fn convert(self) -> T {
        self
    }
}

impl<B: Backend, F: Fault> Convert<TensorPrimitive<B>> for TensorPrimitive<Broken<B, F>> {
    fn convert(self) -> TensorPrimitive<B> {
        match self {
            Self::Float(tensor) => TensorPrimitive::Float(tensor),
            Self::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    }
}

impl<B: Backend, F: Fault> Convert<TensorPrimitive<Broken<B, F>>> for TensorPrimitive<B> {
    fn convert(self) -> TensorPrimitive<Broken<B, F>> {
        match self {
            Self::Float(tensor) => TensorPrimitive::Float(tensor),
            Self::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    }
}

impl<B: Backend, F: Fault> Convert<QuantizationParametersPrimitive<B>>
    for QuantizationParametersPrimitive<Broken<B, F>>
{
    fn convert(self) -> QuantizationParametersPrimitive<B> {
        QuantizationParametersPrimitive {
            scales: self.scales,
        }
    }
}

/// Results of several tensors.
macro_rules! results {
    ($($name:ident { $($field:ident),* })*) => {
        $(impl<B: Backend, F: Fault> Convert<$name<Broken<B, F>>> for $name<B> {
            fn convert(self) -> $name<Broken<B, F>> {
                $name { $($field: self.$field),* }
            }
        })*
    };
}
results! {
    DeformConv2dBackward { x_grad, offset_grad, weight_grad, mask_grad, bias_grad }
    MaxPool1dBackward { x_grad }
    MaxPool1dWithIndices { output, indices }
    MaxPool2dBackward { x_grad }
    MaxPool2dWithIndices { output, indices }
}
