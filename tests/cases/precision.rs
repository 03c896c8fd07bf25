//! Case 11: gradients of half precision are summed in f32 and rounded once, at the end.

use burn::data::dataloader::batcher::Batcher;
use burn::module::Param;
use burn::tensor::backend::Backend;
use burn::tensor::{DType, Tensor, TensorData};
use burn_virtual::nodes::LossSum;

use crate::common::{OnFlex, OneParam, start, values};

type B = OnFlex;

/// A gradient, and what it weighs.
#[derive(Clone, Copy)]
struct Term {
    gradient: f32,
    weight: f64,
}

struct Half(DType);

struct Micro<B: Backend> {
    gradients: Tensor<B, 1>,
    weight: f64,
}

impl<B: Backend> Batcher<B, Term, Micro<B>> for Half {
    fn batch(&self, items: Vec<Term>, device: &B::Device) -> Micro<B> {
        let gradients: Vec<f32> = items.iter().map(|item| item.gradient).collect();
        let data = TensorData::new(gradients, [items.len()]).convert_dtype(self.0);
        Micro {
            gradients: Tensor::from_data(data, (device, self.0)),
            weight: items.iter().map(|item| item.weight).sum(),
        }
    }
}

/// One virtual node a term; the mean gradient of a parameter of that type.
fn mean_gradient(dtype: DType, terms: &[Term], shares: &[usize]) -> f32 {
    let device = Default::default();
    let one = TensorData::from([1.0_f32]).convert_dtype(dtype);
    let mut model = OneParam::<B> {
        w: Param::from_tensor(Tensor::from_data(one, (&device, dtype))),
    };
    let mut session = start(shares, &mut model);
    assert_eq!(model.w.val().dtype(), dtype);
    let loss = |model: &OneParam<B>, micro: Micro<B>| LossSum {
        sum: (model.w.val() * micro.gradients).sum(),
        weight: micro.weight,
    };
    let out = session.backward(&model, terms, &Half(dtype), loss).unwrap();
    assert_eq!(out.skipped, None);
    let gradient = out
        .grads
        .get::<burn_virtual::backend::VirtualBackend<burn_flex::Flex>, 1>(model.w.id);
    let gradient = gradient.unwrap();
    assert_eq!(gradient.dtype(), dtype);
    values(gradient)[0]
}

/// The weights sum to 1, so that the mean is the sum: a running sum in bf16 stays at 1.
#[test]
fn case_11_small_terms_survive_in_bf16() {
    let mut terms = [Term {
        gradient: 2.0_f32.powi(-9),
        weight: 0.0625,
    }; 9];
    terms[0] = Term {
        gradient: 1.0,
        weight: 0.5,
    };
    for shares in [&[9][..], &[4, 5], &[1; 9], &[8, 1]] {
        assert_eq!(mean_gradient(DType::BF16, &terms, shares), 1.015625);
    }
}

/// The sum of 80,000 is beyond the largest f16.
#[test]
fn case_11_sum_does_not_overflow_in_f16() {
    let terms = [Term {
        gradient: 10_000.0,
        weight: 1.0,
    }; 8];
    for shares in [&[8][..], &[1; 8], &[3, 5]] {
        assert_eq!(mean_gradient(DType::F16, &terms, shares), 10_000.0);
    }
}

/// The smallest f16: an eighth of it is zero.
#[test]
fn case_11_smallest_value_is_not_flushed_in_f16() {
    let terms = [Term {
        gradient: 2.0_f32.powi(-24),
        weight: 1.0,
    }; 8];
    for shares in [&[8][..], &[1; 8], &[3, 5]] {
        assert_eq!(mean_gradient(DType::F16, &terms, shares), 2.0_f32.powi(-24));
    }
}
