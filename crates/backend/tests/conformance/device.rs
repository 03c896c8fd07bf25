//! `Backend` itself.

use burn_backend::{Backend, BoolStore, DType, FloatDType, TensorData, ops::FloatTensorOps};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_std::device::Device as _;
use burn_virtual_backend::VirtualBackend;

use crate::common::read_float;

type V<B> = VirtualBackend<B>;

const DTYPES: [DType; 15] = [
    DType::F64,
    DType::F32,
    DType::Flex32,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool(BoolStore::Native),
    DType::Bool(BoolStore::U32),
];

fn same_answers<B: Backend>() {
    let device = B::Device::default();
    for dtype in DTYPES {
        assert_eq!(
            V::<B>::supports_dtype(&device, dtype),
            B::supports_dtype(&device, dtype),
            "{dtype:?}"
        );
        assert_eq!(
            V::<B>::dtype_usage(&device, dtype),
            B::dtype_usage(&device, dtype),
            "{dtype:?}"
        );
    }
    let type_id = device.to_id().type_id;
    assert_eq!(V::<B>::device_count(type_id), B::device_count(type_id));
    assert_eq!(V::<B>::ad_enabled(&device), B::ad_enabled(&device));
    assert!(V::<B>::sync(&device).is_ok());
    V::<B>::memory_cleanup(&device);
    let mut data = TensorData::from([1.0_f32, 2.0]);
    V::<B>::staging([&mut data].into_iter(), &device);
    assert_eq!(data, TensorData::from([1.0_f32, 2.0]));
}

#[test]
fn questions_about_a_device_are_answered_as_by_flex() {
    same_answers::<Flex>();
}

#[test]
fn questions_about_a_device_are_answered_as_by_ndarray() {
    same_answers::<NdArray>();
}

#[cfg(feature = "wgpu")]
#[test]
fn questions_about_a_device_are_answered_as_by_wgpu() {
    same_answers::<burn_virtual_backend::Wgpu>();
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn questions_about_a_device_are_answered_as_by_cuda() {
    same_answers::<burn_virtual_backend::Cuda>();
}

#[test]
fn name_names_the_inner_backend() {
    assert_eq!(V::<Flex>::name(&Default::default()), "virtual<flex>");
    let inner = NdArray::<f32>::name(&Default::default());
    assert_eq!(
        V::<NdArray>::name(&Default::default()),
        format!("virtual<{inner}>")
    );
}

#[test]
fn persistent_allocation_returns_what_the_function_returns() {
    let device = Default::default();
    let sum = V::<Flex>::memory_persistent_allocations(&device, 20_usize, |count| {
        V::<Flex>::float_sum(V::<Flex>::float_ones(
            [count].into(),
            &Default::default(),
            FloatDType::F32,
        ))
    });
    assert_eq!(read_float::<V<Flex>>(sum), TensorData::from([20.0_f32]));
}
