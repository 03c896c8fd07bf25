//! Case 17: tensors without elements, and a model without anything to train.

use burn::data::dataloader::batcher::Batcher;
use burn::module::{Module, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::Optimizer;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use burn_virtual::nodes::{LossSum, VirtualAutodiff};

use crate::common::{
    MAPPINGS, adam, assert_all_close, bits, gradient, on_all, start, values, vector,
};

#[derive(Module, Debug)]
struct Shapes<B: Backend> {
    none: Param<Tensor<B, 1>>,
    hollow: Param<Tensor<B, 3>>,
    four: Param<Tensor<B, 1>>,
}

/// Rows of numbers.
struct Rows;

impl<B: Backend, const N: usize> Batcher<B, [f32; N], Tensor<B, 2>> for Rows {
    fn batch(&self, items: Vec<[f32; N]>, device: &B::Device) -> Tensor<B, 2> {
        let shape = [items.len(), N];
        Tensor::from_data(TensorData::new(items.into_flattened(), shape), device)
    }
}

on_all! {
    case_17_shapes_are_kept_when_tensors_are_empty
    case_17_nothing_is_trained_when_all_is_frozen;
    case_17_statistics_are_bitwise_equal_when_all_is_frozen
}

fn case_17_shapes_are_kept_when_tensors_are_empty<B: VirtualAutodiff>() {
    let batch = [
        [1.0, 0.0, 2.0, 4.0],
        [3.0, 0.0, 2.0, 4.0],
        [2.0, 4.0, 2.0, 4.0],
        [2.0, 0.0, 2.0, -4.0],
    ];
    for shares in MAPPINGS {
        let hollow = TensorData::new(Vec::<f32>::new(), [3, 0, 2]);
        let mut model = Shapes::<B> {
            none: vector(&[]),
            hollow: Param::from_data(hollow, &Default::default()),
            four: vector(&[1.0, -1.0, 0.5, 2.0]),
        };
        let mut optim = adam::<B, Shapes<B>>();
        let mut session = start(shares, &mut model);
        for _ in 0..2 {
            let loss = |model: &Shapes<B>, rows: Tensor<B, 2>| {
                let weight = rows.dims()[0] as f64;
                let used = (rows * model.four.val().unsqueeze::<2>()).sum();
                let empty = model.none.val().sum() + model.hollow.val().sum();
                LossSum {
                    sum: used + empty,
                    weight,
                }
            };
            let out = session.backward(&model, &batch, &Rows, loss).unwrap();
            assert_eq!(out.grads.len(), 3);
            let hollow = out
                .grads
                .get::<B::InnerBackend, 3>(model.hollow.id)
                .unwrap();
            assert_eq!(hollow.dims(), [3, 0, 2]);
            assert_eq!(gradient(&out, &model.none).unwrap(), [0.0; 0]);
            assert_all_close(&gradient(&out, &model.four).unwrap(), &[2.0, 1.0, 2.0, 2.0]);
            model = optim.step(0.1, model, out.grads);
        }
        assert_eq!(model.hollow.val().dims(), [3, 0, 2]);
        assert_eq!(model.none.val().dims(), [0]);
        assert!(values(model.four.val())[0] < 1.0);
    }
}

#[derive(Module, Debug)]
struct Frozen<B: Backend> {
    norm: BatchNorm<B>,
    output: Linear<B>,
}

/// Ten steps; the running statistics of the model.
fn train_frozen<B: VirtualAutodiff>(shares: &[usize]) -> [Vec<u32>; 2] {
    let device = B::Device::default();
    let norm = BatchNormConfig::new(2).init(&device);
    let model = Frozen::<B> {
        norm,
        output: LinearConfig::new(2, 1).init(&device),
    };
    let mut model = model.no_grad();
    let mut session = start(shares, &mut model);
    let mut optim = adam::<B, Frozen<B>>();
    let parameters = |model: &Frozen<B>| {
        let norm = [bits(model.norm.gamma.val()), bits(model.norm.beta.val())];
        (norm, bits(model.output.weight.val()))
    };
    let before = parameters(&model);
    let batch: Vec<[f32; 2]> = (0..10)
        .map(|row| [row as f32, 1.0 / (row as f32 + 0.5)])
        .collect();
    for _ in 0..10 {
        let loss = |model: &Frozen<B>, rows: Tensor<B, 2>| {
            let weight = rows.dims()[0] as f64;
            LossSum {
                sum: model.output.forward(model.norm.forward(rows)).sum(),
                weight,
            }
        };
        let out = session.backward(&model, &batch, &Rows, loss).unwrap();
        assert!(out.grads.is_empty());
        assert_eq!((out.norm, out.skipped), (0.0, None));
        assert!(out.loss.is_finite());
        model = optim.step(0.1, model, out.grads);
    }
    assert_eq!(session.applied_steps(), 10);
    assert_eq!(parameters(&model), before);
    // The mean of the first column is 4.5; a running mean gets there by a tenth at a time.
    let mean = values(model.norm.running_mean.value())[0];
    assert!(
        (mean - 4.5 * (1.0 - 0.9_f32.powi(10))).abs() < 1e-4,
        "{mean}"
    );
    [
        bits(model.norm.running_mean.value()),
        bits(model.norm.running_var.value()),
    ]
}

fn case_17_nothing_is_trained_when_all_is_frozen<B: VirtualAutodiff>() {
    for shares in MAPPINGS {
        train_frozen::<B>(shares);
    }
}

fn case_17_statistics_are_bitwise_equal_when_all_is_frozen<B: VirtualAutodiff>() {
    let expected = train_frozen::<B>(&[4]);
    for shares in MAPPINGS {
        assert_eq!(train_frozen::<B>(shares), expected);
    }
}
