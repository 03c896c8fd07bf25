//! Inputs of the calls: the same values on every backend, in several memory layouts.

use core::cell::Cell;
use core::marker::PhantomData;

use burn_backend::quantization::QuantScheme;
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor, QuantizedTensor};
use burn_backend::{
    Backend, BoolDType, Element, QTensorPrimitive, Shape, Slice, TensorData, get_device_settings,
};

use crate::common::{fraction, mix};

/// How an input lies in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    Contiguous,
    /// A view with its last two dimensions swapped.
    Transposed,
    /// A view of the middle of a larger tensor.
    Sliced,
}

impl Layout {
    pub(crate) const ALL: [Self; 3] = [Self::Contiguous, Self::Transposed, Self::Sliced];
}

pub(crate) struct Inputs<T: Backend> {
    pub(crate) device: T::Device,
    /// As the backend stores bools.
    pub(crate) bool_dtype: BoolDType,
    layout: Layout,
    drawn: Cell<u64>,
    backend: PhantomData<T>,
}

impl<T: Backend> Inputs<T> {
    pub(crate) fn new(layout: Layout) -> Self {
        let device = T::Device::default();
        Self {
            bool_dtype: get_device_settings::<T>(&device).bool_dtype,
            device,
            layout,
            drawn: Cell::new(0),
            backend: PhantomData,
        }
    }

    /// Starts the values from the beginning.
    pub(crate) fn restart(&self) {
        self.drawn.set(0);
    }

    fn next(&self) -> u64 {
        self.drawn.replace(self.drawn.get() + 1)
    }

    /// The data of a tensor that becomes one of shape `shape` by [`Self::view`].
    fn data<E: Element>(&self, shape: &[usize], value: impl Fn(u64) -> E) -> TensorData {
        let mut shape = shape.to_vec();
        let rank = shape.len();
        match self.layout {
            Layout::Transposed if rank >= 2 => shape.swap(rank - 2, rank - 1),
            Layout::Sliced => shape.iter_mut().for_each(|size| *size += 2),
            _ => {}
        }
        let count = shape.iter().product();
        let values: Vec<E> = (0..count).map(|_| value(self.next())).collect();
        TensorData::new(values, Shape::from(shape))
    }

    fn view<P>(
        &self,
        tensor: P,
        shape: &[usize],
        transpose: fn(P) -> P,
        slice: fn(P, &[Slice]) -> P,
    ) -> P {
        match self.layout {
            Layout::Transposed if shape.len() >= 2 => transpose(tensor),
            Layout::Sliced => {
                let slices: Vec<_> = shape.iter().map(|size| Slice::from(1..1 + size)).collect();
                slice(tensor, &slices)
            }
            _ => tensor,
        }
    }

    fn float(&self, shape: &[usize], value: impl Fn(u64) -> f32) -> FloatTensor<T> {
        let tensor = T::float_from_data(self.data(shape, value), &self.device);
        self.view(tensor, shape, T::float_transpose, T::float_slice)
    }

    fn int(&self, shape: &[usize], value: impl Fn(u64) -> i64) -> IntTensor<T> {
        let tensor = T::int_from_data(self.data(shape, value), &self.device);
        self.view(tensor, shape, T::int_transpose, T::int_slice)
    }

    /// Floats in `[-2, 2)`.
    pub(crate) fn f<const D: usize>(&self, shape: [usize; D]) -> FloatTensor<T> {
        self.float(&shape, |index| (fraction(index) * 4.0 - 2.0) as f32)
    }

    /// Floats in `[low, high)`.
    pub(crate) fn within<const D: usize>(
        &self,
        low: f64,
        high: f64,
        shape: [usize; D],
    ) -> FloatTensor<T> {
        self.float(&shape, |index| {
            (low + fraction(index) * (high - low)) as f32
        })
    }

    /// Eighths in `[-2, 2)`: their sums are exact, whatever the order of the additions.
    pub(crate) fn exact<const D: usize>(&self, shape: [usize; D]) -> FloatTensor<T> {
        self.float(&shape, |index| (mix(index) % 32) as f32 / 8.0 - 2.0)
    }

    /// Ordinary floats with a NaN, both infinities and both zeros among them.
    pub(crate) fn odd<const D: usize>(&self, shape: [usize; D]) -> FloatTensor<T> {
        const ODD: [f32; 6] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.5];
        self.float(&shape, |index| ODD[(mix(index) % 6) as usize])
    }

    /// Integers in `-5..=5`.
    pub(crate) fn i<const D: usize>(&self, shape: [usize; D]) -> IntTensor<T> {
        self.int(&shape, |index| (mix(index) % 11) as i64 - 5)
    }

    /// Integers in `1..=4`.
    pub(crate) fn positive<const D: usize>(&self, shape: [usize; D]) -> IntTensor<T> {
        self.int(&shape, |index| (mix(index) % 4) as i64 + 1)
    }

    /// Indices in `0..size`, with repetitions.
    pub(crate) fn indices<const D: usize>(&self, size: usize, shape: [usize; D]) -> IntTensor<T> {
        self.int(&shape, |index| (mix(index) % size as u64) as i64)
    }

    /// The integers given.
    pub(crate) fn these<const D: usize>(&self, values: &[i64], shape: [usize; D]) -> IntTensor<T> {
        let data = TensorData::new(values.to_vec(), Shape::from(shape));
        T::int_from_data(data, &self.device)
    }

    pub(crate) fn b<const D: usize>(&self, shape: [usize; D]) -> BoolTensor<T> {
        let tensor = T::bool_from_data(self.bool_data(shape), &self.device);
        self.view(tensor, &shape, T::bool_transpose, T::bool_slice)
    }

    /// Quantized values; the layout is that of the floats they are made of.
    pub(crate) fn q<const D: usize>(&self, shape: [usize; D]) -> QuantizedTensor<T> {
        self.quantized(self.f(shape))
    }

    pub(crate) fn quantized(&self, tensor: FloatTensor<T>) -> QuantizedTensor<T> {
        T::quantize_dynamic(tensor, &self.scheme())
    }

    pub(crate) fn scheme(&self) -> QuantScheme {
        T::QuantizedTensorPrimitive::default_scheme()
    }

    /// Host data of bools, as it goes into `bool_from_data`.
    pub(crate) fn bool_data<const D: usize>(&self, shape: [usize; D]) -> TensorData {
        self.data(&shape, |index| mix(index).is_multiple_of(2))
            .convert_dtype(self.bool_dtype.into())
    }

    /// Host data of floats, as it goes into `float_from_data`.
    pub(crate) fn float_data<const D: usize>(&self, shape: [usize; D]) -> TensorData {
        self.data(&shape, |index| fraction(index) as f32)
    }
}
