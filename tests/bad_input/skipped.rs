//! Steps that are skipped: nothing of them is applied, on any rank.

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn_virtual::nodes::{LossSum, Skipped, StepOutput};

use crate::common::{MAPPINGS, OneParam, hash, values};
use crate::{B, job};

/// Nothing of a skipped step is applied: the gradients are empty, and `optim.step` does nothing.
#[track_caller]
fn assert_not_finite(out: &StepOutput, nodes: &[usize]) {
    let reason = Skipped::NotFinite {
        nodes: nodes.to_vec(),
    };
    assert_eq!(out.skipped, Some(reason));
    assert!(out.grads.is_empty());
}

fn one_param(
    shares: &[usize],
    values: &[f32],
    loss: impl Fn(Tensor<B, 1>) -> Tensor<B, 1> + Sync,
) -> StepOutput {
    let mut model = OneParam::<B>::new(&[1.0]);
    let mut session = job(shares, &mut model);
    let inputs = Tensor::<B, 1>::from_data(values, &Default::default());
    let loss = |model: &OneParam<B>, micro: Tensor<B, 1>| {
        let weight = micro.dims()[0] as f64;
        LossSum {
            sum: loss(model.w.val() * micro).sum(),
            weight,
        }
    };
    let out = session.backward_batch(&model, &inputs, loss).unwrap();
    assert_eq!(session.applied_steps(), u64::from(out.skipped.is_none()));
    out
}

#[test]
fn step_is_skipped_when_only_the_gradient_is_not_finite() {
    for shares in MAPPINGS {
        // The slope of a root at zero, times zero.
        let out = one_param(shares, &[1.0, 4.0, 0.0, 9.0], Tensor::sqrt);
        assert!(out.loss.is_finite());
        assert_not_finite(&out, &[2]);
    }
}

#[test]
fn step_is_skipped_when_only_the_sum_overflows() {
    for shares in MAPPINGS {
        let out = one_param(shares, &[3e38, 3e38, 1.0, 1.0], |product| product);
        assert_not_finite(&out, &[]);
        let out = one_param(shares, &[3e38, 0.0, 1.0, 1.0], |product| product);
        assert_eq!(out.skipped, None);
    }
}

#[derive(Module, Debug)]
struct Normed<B: Backend> {
    norm: BatchNorm<B>,
}

/// A variance that overflows divides its batch to zero: loss and gradients are finite.
#[test]
fn step_is_skipped_when_only_a_statistic_is_not_finite() {
    let device = Default::default();
    for shares in MAPPINGS {
        let mut model = Normed::<B> {
            norm: BatchNormConfig::new(1).init(&device),
        };
        let mut session = job(shares, &mut model);
        let column = [1.0, 2.0, 3.0, 4.0, 1e30, -1e30, 5.0, 7.0];
        let rows = Tensor::<B, 1>::from_data(column, &device).reshape([8, 1]);
        let loss = |model: &Normed<B>, rows: Tensor<B, 2>| LossSum {
            weight: rows.dims()[0] as f64,
            sum: model.norm.forward(rows).sum(),
        };
        let before = hash(&model);
        let out = session.backward_batch(&model, &rows, loss).unwrap();
        assert_not_finite(&out, &[2]);
        assert_eq!(hash(&model), before);
        assert_eq!(session.applied_steps(), 0);
        assert_eq!(values(model.norm.running_var.value()), [1.0]);
    }
}
