//! The live-bytes meter counts exactly what lives.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn_autodiff::Autodiff;
use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps, QTensorOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{BoolDType, FloatDType, IntDType, QTensorPrimitive, Shape, Slice};
use burn_flex::{Flex, FlexQTensor};
use burn_tensor::Tensor;
use burn_virtual_backend::{Meter, VirtualBackend};

use common::{floats, read_float};

type V = VirtualBackend<Flex>;

fn zeros<const D: usize>(shape: [usize; D]) -> FloatTensor<V> {
    V::float_zeros(shape.into(), &Default::default(), FloatDType::F32)
}

#[test]
fn bytes_are_elements_times_their_size() {
    let device = Default::default();
    let meter = Meter::new();
    let _listening = meter.listen();
    for (dtype, size) in [
        (FloatDType::F64, 8),
        (FloatDType::F32, 4),
        (FloatDType::F16, 2),
        (FloatDType::BF16, 2),
    ] {
        let _tensor = V::float_zeros([3, 5].into(), &device, dtype);
        assert_eq!(meter.live(), 15 * size);
    }
    for (dtype, size) in [(IntDType::I64, 8), (IntDType::I32, 4), (IntDType::U8, 1)] {
        let _tensor = V::int_zeros([3, 5].into(), &device, dtype);
        assert_eq!(meter.live(), 15 * size);
    }
    let _tensor = V::bool_zeros([3, 5].into(), &device, BoolDType::Native);
    assert_eq!(meter.live(), 15);
}

#[test]
fn empty_tensors_and_scalars_count_their_elements() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let _empty = zeros([3, 0]);
    assert_eq!(meter.live(), 0);
    let _one = zeros([1]);
    assert_eq!(meter.live(), 4);
}

#[test]
fn nothing_is_counted_without_a_listener() {
    let meter = Meter::new();
    let before = zeros([10]);
    assert!(Meter::current().is_none());
    {
        let _listening = meter.listen();
        assert!(Meter::current().is_some());
        drop(before);
        assert_eq!((meter.live(), meter.peak()), (0, 0));
    }
    let _after = zeros([10]);
    assert_eq!((meter.live(), meter.peak()), (0, 0));
    assert!(Meter::current().is_none());
}

#[test]
fn clone_adds_nothing_and_the_last_drop_frees() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let tensor = zeros([10, 10]);
    let clone = tensor.clone();
    assert_eq!(meter.live(), 400);
    drop(tensor);
    assert_eq!(meter.live(), 400);
    drop(clone);
    assert_eq!((meter.live(), meter.peak()), (0, 400));
}

#[test]
fn view_counts_like_a_buffer_of_its_shape() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let tensor = zeros([10, 10]);
    let slice = V::float_slice(tensor.clone(), &[Slice::from(0..5), Slice::from(0..2)]);
    assert_eq!(meter.live(), 400 + 40);
    let expanded = V::float_expand(
        V::float_slice(tensor, &[Slice::from(0..1), Slice::from(0..10)]),
        Shape::from([7, 10]),
    );
    assert_eq!(meter.live(), 40 + 280);
    drop((slice, expanded));
    assert_eq!(meter.live(), 0);
}

#[test]
fn operation_on_the_last_handle_replaces_its_bytes() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let tensor = V::float_exp(zeros([10, 10]));
    assert_eq!((meter.live(), meter.peak()), (400, 400));
    let tensor = V::float_transpose(tensor);
    let tensor = V::float_to_device(V::float_detach(tensor), &Default::default());
    assert_eq!((meter.live(), meter.peak()), (400, 400));
    drop(tensor);
    assert_eq!(meter.live(), 0);
}

#[test]
fn reading_a_tensor_frees_it() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let data = read_float::<V>(zeros([10, 10]));
    assert_eq!(data.num_elements(), 100);
    assert_eq!((meter.live(), meter.peak()), (0, 400));
}

#[test]
fn every_tensor_of_a_compound_result_is_counted() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let (values, indices) = V::float_max_dim_with_indices(zeros([6, 10]), 1, IntDType::I64);
    assert_eq!(meter.live(), 6 * 4 + 6 * 8);
    drop(values);
    assert_eq!(meter.live(), 6 * 8);
    drop(indices);
    assert_eq!(meter.live(), 0);
}

#[test]
fn drop_on_another_thread_frees() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let (tensor, clone) = (zeros([10, 10]), zeros([5]));
    let moved = clone.clone();
    std::thread::spawn(move || drop((tensor, moved)))
        .join()
        .unwrap();
    assert_eq!(meter.live(), 20);
    drop(clone);
    assert_eq!(meter.live(), 0);
}

#[test]
fn listener_hears_its_own_thread_only() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let other = std::thread::spawn(|| zeros([10])).join().unwrap();
    assert_eq!(meter.live(), 0);
    drop(other);
    assert_eq!(meter.live(), 0);
}

#[test]
fn meter_that_listens_on_several_threads_adds_up() {
    let meter = Meter::new();
    let workers: Vec<_> = (1..=3)
        .map(|count| {
            let meter = meter.clone();
            std::thread::spawn(move || {
                let _listening = meter.listen();
                zeros([count * 10])
            })
        })
        .collect();
    let tensors: Vec<_> = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .collect();
    assert_eq!((meter.live(), meter.peak()), (240, 240));
    drop(tensors);
    assert_eq!((meter.live(), meter.peak()), (0, 240));
}

#[test]
fn nested_listeners_count_apart_and_the_outer_one_resumes() {
    let (outer, inner) = (Meter::new(), Meter::new());
    let _outer = outer.listen();
    let first = zeros([1]);
    let second = {
        let _inner = inner.listen();
        zeros([10])
    };
    let third = zeros([100]);
    assert_eq!((outer.live(), inner.live()), (404, 40));
    drop((first, second));
    assert_eq!((outer.live(), inner.live()), (400, 0));
    drop(third);
    assert_eq!((outer.live(), inner.live()), (0, 0));
}

#[test]
fn same_meter_nested_counts_once() {
    let meter = Meter::new();
    let _outer = meter.listen();
    {
        let _inner = meter.listen();
        let _tensor = zeros([10]);
        assert_eq!(meter.live(), 40);
    }
    let _tensor = zeros([10]);
    assert_eq!(meter.live(), 40);
}

#[test]
fn reset_peak_starts_from_what_lives() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let kept = zeros([10]);
    drop(zeros([100]));
    assert_eq!(meter.peak(), 440);
    meter.reset_peak();
    assert_eq!((meter.live(), meter.peak()), (40, 40));
    drop(zeros([20]));
    assert_eq!(meter.peak(), 120);
    drop(kept);
}

#[test]
fn quantized_tensors_count_the_bits_of_their_values() {
    let scheme = FlexQTensor::default_scheme();
    assert_eq!(scheme.size_bits_value(), 8);
    let source = floats::<V, 2>([8, 4]);
    let meter = Meter::new();
    let _listening = meter.listen();
    let quantized = V::quantize_dynamic(source, &scheme);
    assert_eq!(meter.live(), 32);
    let back = V::dequantize(quantized.clone(), FloatDType::F32);
    assert_eq!(meter.live(), 32 + 128);
    drop(quantized);
    assert_eq!(meter.live(), 128);
    drop(back);
    assert_eq!(meter.live(), 0);
}

#[test]
fn peak_of_a_sequence_of_operations_is_exact() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let x = zeros([4, 8]); // 128
    let weight = zeros([8, 16]); // 512
    let hidden = V::float_matmul(x.clone(), weight.clone()); // + 256
    assert_eq!(meter.live(), 896);
    let mask = V::float_greater_elem(hidden.clone(), 0.into(), BoolDType::Native); // + 64
    let active = V::float_mask_fill(hidden.clone(), mask, 0.into()); // + 256 - 64
    assert_eq!((meter.live(), meter.peak()), (1152, 1152));
    drop(hidden); // - 256
    let total = V::float_sum(active); // - 256 + 4
    assert_eq!((meter.live(), meter.peak()), (128 + 512 + 4, 1152));
    drop((x, weight, total));
    assert_eq!(meter.live(), 0);
}

#[test]
fn training_step_leaves_only_weights_and_gradients() {
    type A = Autodiff<V>;
    let device = Default::default();
    let meter = Meter::new();
    let _listening = meter.listen();
    let weight = Tensor::<A, 2>::ones([8, 16], &device).require_grad();
    assert_eq!(meter.live(), 512);
    let gradient = {
        let x = Tensor::<A, 2>::ones([4, 8], &device);
        let gradients = x.matmul(weight.clone()).sum().backward();
        weight.grad(&gradients).unwrap()
    };
    assert_eq!(meter.live(), 1024);
    drop((weight, gradient));
    assert_eq!(meter.live(), 0);
}
