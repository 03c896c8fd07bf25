//! Reciprocals: rounded once, on every backend and at every place in memory.

mod common;

use burn_backend::ops::FloatTensorOps;
use burn_backend::{Shape, TensorData};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_virtual_backend::VirtualBackend;

use common::{read_float, values};

fn of<B: burn_backend::Backend>(values: Vec<f32>) -> Vec<f32> {
    let data = TensorData::new(values.clone(), Shape::from([values.len()]));
    let tensor = B::float_from_data(data, &Default::default());
    read_float::<B>(<B as FloatTensorOps<B>>::float_recip(tensor))
        .iter()
        .collect()
}

#[test]
fn reciprocals_are_those_of_a_division() {
    // Long enough for SIMD, and no multiple of its width.
    let values: Vec<f32> = values(1003).iter().map(|value| value + 1.5).collect();
    let expected: Vec<f32> = values.iter().map(|value| 1.0 / value).collect();
    assert_eq!(of::<VirtualBackend<Flex>>(values.clone()), expected);
    assert_eq!(of::<VirtualBackend<NdArray>>(values), expected);
}
