//! Tensors without elements beside others: a dimension of 1 is stretched to 0.

mod common;

use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_backend::{Backend, Shape, TensorData, TensorMetadata};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_std::BoolStore;
use burn_virtual_backend::VirtualBackend;

use common::{floats, read_bool, read_float, read_int};

/// Two shapes, and that of what comes of them.
fn pairs() -> [[Shape; 3]; 5] {
    let none = Shape::from([0]);
    [
        [none.clone(), Shape::from([1]), none.clone()],
        [none.clone(), none.clone(), none],
        [[3, 0, 2].into(), [1, 1, 1].into(), [3, 0, 2].into()],
        [[1, 3].into(), [0, 1].into(), [0, 3].into()],
        [[1, 0].into(), [5, 1].into(), [5, 0].into()],
    ]
}

fn pairs_of_floats_have_the_common_shape<B: Backend>() {
    assert_common_shape::<B>(&[B::float_add, B::float_sub, B::float_mul, B::float_div]);
    for [left, right, expected] in pairs() {
        let lower = B::float_lower(ones::<B>(left), ones::<B>(right), BoolStore::Native);
        assert_eq!(read_bool::<B>(lower).shape, expected);
    }
}

/// Not on ndarray: it stretches one of two tensors only, whether or not they are empty.
fn powers_of_floats_have_the_common_shape<B: Backend>() {
    assert_common_shape::<B>(&[B::float_powf]);
}

/// An operation on two tensors.
type Op<B> = fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>;

fn assert_common_shape<B: Backend>(ops: &[Op<B>]) {
    for [left, right, expected] in pairs() {
        for op in ops {
            for (left, right) in [(&left, &right), (&right, &left)] {
                let result = op(ones::<B>(left.clone()), ones::<B>(right.clone()));
                assert_eq!(result.shape(), expected);
                assert_eq!(read_float::<B>(result).shape, expected);
            }
        }
    }
}

fn ones<B: Backend>(shape: Shape) -> FloatTensor<B> {
    let data = TensorData::new(vec![1.0_f32; shape.num_elements()], shape);
    B::float_from_data(data, &Default::default())
}

fn ints<B: Backend>(shape: Shape) -> IntTensor<B> {
    let data = TensorData::new(vec![1_i32; shape.num_elements()], shape);
    B::int_from_data(data, &Default::default())
}

fn pairs_of_ints_and_bools_have_the_common_shape<B: Backend>() {
    for [left, right, expected] in pairs() {
        let [left, right] = [left, right].map(ints::<B>);
        let sum = B::int_add(left.clone(), right.clone());
        assert_eq!(read_int::<B>(sum).shape, expected);
        let [left, right] =
            [left, right].map(|tensor| B::int_equal_elem(tensor, 1.into(), BoolStore::Native));
        assert_eq!(read_bool::<B>(B::bool_and(left, right)).shape, expected);
    }
}

/// Rows and columns are no pairs of values: stretched to a common shape, these wouldn't fit.
fn products_of_matrices_keep_rows_and_columns<B: Backend>() {
    for (left, right, expected) in [([0, 1], [1, 4], [0, 4]), ([3, 1], [1, 0], [3, 0])] {
        let product = B::float_matmul(floats::<B, 2>(left), floats::<B, 2>(right));
        assert_eq!(product.shape(), Shape::from(expected));
        assert_eq!(read_float::<B>(product).shape, Shape::from(expected));
        let product = B::int_matmul(ints::<B>(left.into()), ints::<B>(right.into()));
        assert_eq!(product.shape(), Shape::from(expected));
        assert_eq!(read_int::<B>(product).shape, Shape::from(expected));
    }
}

fn products_over_nothing_are_zero<B: Backend>() {
    let product = B::float_matmul(floats::<B, 2>([2, 0]), floats::<B, 2>([0, 1]));
    assert_eq!(
        read_float::<B>(product),
        TensorData::from([[0.0_f32], [0.0]])
    );
}

macro_rules! on {
    ($($backend:ident $inner:ty: $($name:ident)*;)*) => {
        $(mod $backend {
            use super::*;

            $(#[test]
            fn $name() {
                super::$name::<VirtualBackend<$inner>>();
            })*
        })*
    };
}
on! {
    flex Flex: pairs_of_floats_have_the_common_shape
        powers_of_floats_have_the_common_shape
        pairs_of_ints_and_bools_have_the_common_shape
        products_of_matrices_keep_rows_and_columns
        products_over_nothing_are_zero;
    ndarray NdArray: pairs_of_floats_have_the_common_shape
        pairs_of_ints_and_bools_have_the_common_shape;
}

#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod gpu {
    use super::*;

    common::on_gpus! {
        pairs_of_floats_have_the_common_shape
        powers_of_floats_have_the_common_shape
        pairs_of_ints_and_bools_have_the_common_shape
        products_of_matrices_keep_rows_and_columns
        products_over_nothing_are_zero
    }
}
