//! The tensor primitive: the inner backend's, plus a small tag.

use burn_backend::{DType, QTensorPrimitive, Shape, TensorMetadata};
use burn_std::quantization::{QuantAcc, QuantPropagation, QuantScheme};

use crate::meter::Live;

/// A tensor primitive `P` of the inner backend with its tag.
///
/// The tag holds the live-bytes guard (absent while no [`Meter`](crate::Meter) listens) and a
/// mark that every operation drops: a tensor that still has it was not computed anew.
#[derive(Clone, Debug)]
pub struct VirtualTensor<P> {
    live: Option<Live>,
    marked: bool,
    // Last, since a clone makes the fields in this order: on tiny tensors, what the decorator costs
    // is mostly copies of primitives, and the last field may be made in place.
    inner: P,
}

impl<P: TensorMetadata> VirtualTensor<P> {
    /// Wraps the result of an operation of the inner backend.
    #[inline]
    pub(crate) fn new(inner: P) -> Self {
        let live = Live::of(&inner);
        Self {
            live,
            marked: false,
            inner,
        }
    }

    /// The inner backend's primitive.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// The claims of some tensors on live bytes, beside their own; none while no meter listens.
    pub(crate) fn claims(tensors: &[Self]) -> Vec<Live> {
        tensors
            .iter()
            .filter_map(|tensor| tensor.live.clone())
            .collect()
    }

    /// Gives up the tag, and with it the claim on live bytes.
    #[inline]
    pub(crate) fn into_inner(self) -> P {
        // Moved out by itself: dropped in its place, it would have the whole tensor copied first.
        let _live = self.live;
        self.inner
    }

    /// Applies an operation that leaves the very same tensor: the whole tag survives.
    #[inline]
    pub(crate) fn same_tensor(self, operation: impl FnOnce(P) -> P) -> Self {
        Self {
            inner: operation(self.inner),
            ..self
        }
    }

    /// Applies an operation that copies a tensor without changing its value: the mark survives.
    #[inline]
    pub(crate) fn same_value(self, operation: impl FnOnce(P) -> P) -> Self {
        let marked = self.marked;
        Self {
            marked,
            ..Self::new(operation(self.into_inner()))
        }
    }

    /// Marks the tensor; clones keep the mark, results of operations do not have it.
    pub(crate) fn marked(mut self) -> Self {
        self.marked = true;
        self
    }

    /// Whether the tensor is a clone of a marked one.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked
    }
}

impl<P: TensorMetadata> TensorMetadata for VirtualTensor<P> {
    fn dtype(&self) -> DType {
        self.inner.dtype()
    }

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn rank(&self) -> usize {
        self.inner.rank()
    }
}

impl<P: QTensorPrimitive> QTensorPrimitive for VirtualTensor<P> {
    fn scheme(&self) -> &QuantScheme {
        self.inner.scheme()
    }

    fn acc_precision(&self) -> QuantAcc {
        self.inner.acc_precision()
    }

    fn propagation(&self) -> QuantPropagation {
        self.inner.propagation()
    }

    fn default_scheme() -> QuantScheme {
        P::default_scheme()
    }
}
