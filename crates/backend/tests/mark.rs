//! The mark: kept by whatever leaves a tensor as it is, dropped by every operation.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn_autodiff::Autodiff;
use burn_backend::ops::{ActivationOps, FloatTensorOps, ModuleOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{FloatDType, Scalar, Shape, Slice, TensorPrimitive};
use burn_flex::Flex;
use burn_tensor::Tensor;
use burn_virtual_backend::{Virtual, VirtualBackend};

use common::{floats, read_float};

type V = VirtualBackend<Flex>;
type A = Autodiff<V>;

fn marked() -> FloatTensor<V> {
    V::mark(floats::<V, 2>([3, 4]))
}

fn plain() -> FloatTensor<V> {
    floats::<V, 2>([3, 4])
}

fn primitive<const D: usize>(tensor: Tensor<V, D>) -> FloatTensor<V> {
    match tensor.into_primitive() {
        TensorPrimitive::Float(tensor) => tensor,
        TensorPrimitive::QFloat(_) => unreachable!("nothing here is quantized"),
    }
}

#[test]
fn mark_is_set_by_marking_alone() {
    assert!(!V::is_marked(&plain()));
    assert!(V::is_marked(&marked()));
}

#[test]
fn mark_leaves_the_values_as_they_are() {
    assert_eq!(read_float::<V>(marked()), read_float::<V>(plain()));
}

#[test]
fn mark_on_a_clone_leaves_the_original_unmarked() {
    let tensor = plain();
    let copy = V::mark(tensor.clone());
    assert!(V::is_marked(&copy));
    assert!(!V::is_marked(&tensor));
}

#[test]
fn clones_keep_the_mark_on_every_thread() {
    let tensor = marked();
    let clone = tensor.clone();
    assert!(V::is_marked(&clone.clone()));
    assert!(
        std::thread::spawn(move || V::is_marked(&clone))
            .join()
            .unwrap()
    );
    assert!(V::is_marked(&tensor));
}

#[test]
fn detach_and_move_to_a_device_keep_the_mark() {
    assert!(V::is_marked(&V::float_detach(marked())));
    assert!(V::is_marked(&V::float_to_device(
        marked(),
        &Default::default()
    )));
    assert!(!V::is_marked(&V::float_detach(plain())));
    assert!(!V::is_marked(&V::float_to_device(
        plain(),
        &Default::default()
    )));
}

#[test]
fn results_of_operations_are_not_marked() {
    let device = Default::default();
    let zero = Scalar::from(0.0);
    let results = [
        ("add", V::float_add(marked(), marked())),
        ("add_scalar", V::float_add_scalar(marked(), zero)),
        ("mul_scalar", V::float_mul_scalar(marked(), zero)),
        ("neg", V::float_neg(marked())),
        ("exp", V::float_exp(marked())),
        (
            "matmul",
            V::float_matmul(marked(), V::float_transpose(marked())),
        ),
        ("transpose", V::float_transpose(marked())),
        ("reshape", V::float_reshape(marked(), Shape::from([3, 4]))),
        ("slice", V::float_slice(marked(), &[Slice::from(0..3)])),
        (
            "slice_assign",
            V::float_slice_assign(marked(), &[Slice::from(0..3)], marked()),
        ),
        ("cat", V::float_cat(vec![marked()], 0)),
        ("cast", V::float_cast(marked(), FloatDType::F32)),
        ("expand", V::float_expand(marked(), Shape::from([3, 4]))),
        ("sum", V::float_sum(marked())),
        ("mean", V::float_mean(marked())),
        ("sum_dim", V::float_sum_dim(marked(), 0)),
        ("relu", V::relu(marked())),
        ("softmax", V::softmax(marked(), 1)),
        (
            "linear",
            V::linear(marked(), V::mark(floats::<V, 2>([4, 2])), None),
        ),
        (
            "from_data",
            V::float_from_data(read_float::<V>(marked()), &device),
        ),
    ];
    for (name, result) in results {
        assert!(!V::is_marked(&result), "{name} keeps the mark");
    }
}

#[test]
fn operation_on_a_clone_leaves_the_original_marked() {
    let tensor = marked();
    let sum = V::float_add_scalar(tensor.clone(), Scalar::from(1.0));
    assert!(!V::is_marked(&sum));
    assert!(V::is_marked(&tensor));
}

#[test]
fn round_trip_through_autodiff_keeps_the_mark() {
    let tensor = Tensor::<V, 2>::from_primitive(TensorPrimitive::Float(marked()));
    let tracked = Tensor::<A, 2>::from_inner(tensor);
    assert!(V::is_marked(&primitive(tracked.clone().inner())));
    assert!(V::is_marked(&primitive(
        tracked.clone().require_grad().inner()
    )));
    assert!(!V::is_marked(&primitive((tracked + 1.0).inner())));
}

#[test]
fn use_in_a_training_step_leaves_the_leaf_marked() {
    let tensor = Tensor::<V, 2>::from_primitive(TensorPrimitive::Float(marked()));
    let leaf = Tensor::<A, 2>::from_inner(tensor).require_grad();
    let gradients = (leaf.clone() * leaf.clone()).sum().backward();
    let gradient = leaf.grad(&gradients).unwrap();
    assert!(!V::is_marked(&primitive(gradient.clone())));
    let stepped = leaf.clone().inner() - gradient * 0.1;
    assert!(!V::is_marked(&primitive(stepped)));
    assert!(V::is_marked(&primitive(leaf.inner())));
}
