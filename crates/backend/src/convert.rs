//! The two conversions that the delegation table is made of: ours to the inner backend's
//! ([`Peel`]) and back ([`Wrap`]). Plain values pass through.

use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward,
    DeformConvOptions, GridSampleOptions, InterpolateOptions, MaxPool1dBackward,
    MaxPool1dWithIndices, MaxPool2dBackward, MaxPool2dWithIndices, UnfoldOptions,
};
use burn_backend::quantization::QuantizationParametersPrimitive;
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    Backend, BoolDType, DeviceOps, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
    TensorMetadata, TensorPrimitive,
};
use core::ops::Range;

use crate::{VirtualBackend, VirtualTensor};

/// From a type of the decorator to the inner backend's.
pub(crate) trait Peel {
    type Inner;
    fn peel(self) -> Self::Inner;
}

/// From a type `I` of the inner backend to the decorator's.
pub(crate) trait Wrap<I> {
    fn wrap(inner: I) -> Self;
}

#[inline(always)]
pub(crate) fn peel<T: Peel>(value: T) -> T::Inner {
    value.peel()
}

#[inline(always)]
pub(crate) fn wrap<I, T: Wrap<I>>(inner: I) -> T {
    T::wrap(inner)
}

impl<P: TensorMetadata> Peel for VirtualTensor<P> {
    type Inner = P;
    #[inline(always)]
    fn peel(self) -> P {
        self.into_inner()
    }
}

impl<'a, P: TensorMetadata> Peel for &'a VirtualTensor<P> {
    type Inner = &'a P;
    #[inline(always)]
    fn peel(self) -> &'a P {
        self.inner()
    }
}

impl<'a, D: DeviceOps> Peel for &'a D {
    type Inner = &'a D;
    #[inline(always)]
    fn peel(self) -> &'a D {
        self
    }
}

impl<P: TensorMetadata> Peel for Vec<VirtualTensor<P>> {
    type Inner = Vec<P>;
    fn peel(self) -> Vec<P> {
        self.into_iter().map(VirtualTensor::into_inner).collect()
    }
}

impl<P: TensorMetadata> Peel for Option<VirtualTensor<P>> {
    type Inner = Option<P>;
    #[inline(always)]
    fn peel(self) -> Option<P> {
        self.map(VirtualTensor::into_inner)
    }
}

impl<B: Backend> Peel for TensorPrimitive<VirtualBackend<B>> {
    type Inner = TensorPrimitive<B>;
    fn peel(self) -> TensorPrimitive<B> {
        match self {
            Self::Float(tensor) => TensorPrimitive::Float(tensor.into_inner()),
            Self::QFloat(tensor) => TensorPrimitive::QFloat(tensor.into_inner()),
        }
    }
}

impl<B: Backend> Peel for QuantizationParametersPrimitive<VirtualBackend<B>> {
    type Inner = QuantizationParametersPrimitive<B>;
    fn peel(self) -> Self::Inner {
        QuantizationParametersPrimitive {
            scales: self.scales.into_inner(),
        }
    }
}

impl<P: TensorMetadata> Wrap<P> for VirtualTensor<P> {
    #[inline(always)]
    fn wrap(inner: P) -> Self {
        Self::new(inner)
    }
}

impl<P: TensorMetadata, Q: TensorMetadata> Wrap<(P, Q)> for (VirtualTensor<P>, VirtualTensor<Q>) {
    fn wrap((first, second): (P, Q)) -> Self {
        (VirtualTensor::new(first), VirtualTensor::new(second))
    }
}

impl<D: DeviceOps> Wrap<D> for D {
    #[inline(always)]
    fn wrap(inner: D) -> Self {
        inner
    }
}

impl<B: Backend> Wrap<TensorPrimitive<B>> for TensorPrimitive<VirtualBackend<B>> {
    fn wrap(inner: TensorPrimitive<B>) -> Self {
        match inner {
            TensorPrimitive::Float(tensor) => Self::Float(wrap(tensor)),
            TensorPrimitive::QFloat(tensor) => Self::QFloat(wrap(tensor)),
        }
    }
}

impl<B: Backend> Wrap<DeformConv2dBackward<B>> for DeformConv2dBackward<VirtualBackend<B>> {
    fn wrap(inner: DeformConv2dBackward<B>) -> Self {
        Self {
            x_grad: wrap(inner.x_grad),
            offset_grad: wrap(inner.offset_grad),
            weight_grad: wrap(inner.weight_grad),
            mask_grad: inner.mask_grad.map(wrap),
            bias_grad: inner.bias_grad.map(wrap),
        }
    }
}

/// A result that is one tensor with a name.
macro_rules! wrap_struct {
    ($($name:ident { $($field:ident),* })*) => {
        $(impl<B: Backend> Wrap<$name<B>> for $name<VirtualBackend<B>> {
            fn wrap(inner: $name<B>) -> Self {
                Self { $($field: wrap(inner.$field)),* }
            }
        })*
    };
}
wrap_struct! {
    MaxPool1dBackward { x_grad }
    MaxPool1dWithIndices { output, indices }
    MaxPool2dBackward { x_grad }
    MaxPool2dWithIndices { output, indices }
}

/// Values that are the same on both sides.
macro_rules! plain {
    ($($ty:ty),* $(,)?) => {
        $(impl Peel for $ty {
            type Inner = Self;
            #[inline(always)]
            fn peel(self) -> Self {
                self
            }
        })*
    };
}
plain! {
    AttentionModuleOptions, BoolDType, ConvOptions<1>, ConvOptions<2>, ConvOptions<3>,
    ConvTransposeOptions<1>, ConvTransposeOptions<2>, ConvTransposeOptions<3>,
    DeformConvOptions<2>, FloatDType, GridSampleOptions, IndexingUpdateOp, IntDType,
    InterpolateOptions, Option<usize>, Range<i64>, Scalar, Shape, TensorData, UnfoldOptions,
    [usize; 2], bool, f64, usize, &[Slice], &[usize],
}
