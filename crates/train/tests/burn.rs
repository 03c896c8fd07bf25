//! Facts about Burn 0.21.0 that the step leans on: a change of any of them has to be noticed.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use burn::backend::Autodiff;
use burn::module::{AutodiffModule, Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};
use burn_virtual_backend::VirtualBackend;
use burn_virtual_train::{LossSum, VirtualNodes};

type B = Autodiff<VirtualBackend<Flex>>;

/// Ids and values of a module's float tensors, in module order.
#[derive(Default)]
struct Reader(Vec<(ParamId, TensorData)>);

impl<B: Backend> ModuleVisitor<B> for Reader {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.0.push((param.id, param.val().into_data()));
    }
}

fn read<B: Backend, M: Module<B>>(module: &M) -> Vec<(ParamId, TensorData)> {
    let mut reader = Reader::default();
    module.visit(&mut reader);
    reader.0
}

/// Gives every tensor the id 7 and adds 1 to it.
struct Bump;

impl<B: Backend> ModuleMapper<B> for Bump {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (_, tensor, mapper) = param.consume();
        Param::from_mapped_value(ParamId::from(7), tensor.add_scalar(1.0), mapper)
    }
}

/// A batch norm of 3 channels: gamma, beta, running mean, running variance.
fn batch_norm() -> BatchNorm<B> {
    BatchNormConfig::new(3).init(&FlexDevice)
}

#[test]
fn statistics_keep_their_ids_when_mapped() {
    let before = read(&batch_norm());
    let module = batch_norm();
    let ids: Vec<_> = read(&module).into_iter().map(|(id, _)| id).collect();
    let after: Vec<_> = read(&module.map(&mut Bump))
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(before.len(), 4);
    assert_eq!(after, [ParamId::from(7), ParamId::from(7), ids[2], ids[3]]);
}

#[test]
fn clones_share_statistics_and_nothing_else() {
    let module = batch_norm();
    let bumped = module.clone().map(&mut Bump);
    let (original, bumped) = (read(&module), read(&bumped));
    for parameter in 0..2 {
        assert_ne!(original[parameter].1, bumped[parameter].1);
    }
    for statistic in 2..4 {
        assert_eq!(original[statistic].1, bumped[statistic].1);
    }
}

#[test]
fn replicas_own_their_statistics_when_made_from_an_inner_module() {
    let module = batch_norm();
    let replica = BatchNorm::<B>::from_inner(module.valid());
    let input = Tensor::<B, 2>::from_floats([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], &FlexDevice);
    replica.forward(input);
    assert_eq!(read(&module)[2].1, TensorData::from([0.0f32; 3]));
    let moved = read::<VirtualBackend<Flex>, _>(&replica.valid());
    moved[2]
        .1
        .assert_approx_eq::<f32>(&TensorData::from([0.2f32, 0.2, 0.2]), Default::default());
}

#[test]
fn inner_clones_forget_what_is_trained() {
    let model: Linear<B> = LinearConfig::new(2, 1).init(&FlexDevice);
    let inner = model.valid();
    assert!(
        !Linear::<B>::from_inner(inner.clone())
            .weight
            .is_require_grad()
    );
    assert!(Linear::<B>::from_inner(inner).weight.is_require_grad());
}

#[test]
fn gradients_arrive_when_a_replica_is_trained() {
    let mut model: Linear<B> = LinearConfig::new(2, 1).init(&FlexDevice);
    let mut nodes = VirtualNodes::new(2).start(&mut model).unwrap();
    let inputs = Tensor::<B, 2>::from_floats([[1.0, 2.0], [3.0, 4.0]], &FlexDevice);
    let out = nodes
        .backward_batch(&model, &inputs, |model, micro| LossSum {
            weight: micro.dims()[0] as f64,
            sum: model.forward(micro).sum(),
        })
        .unwrap();
    assert_eq!(out.grads.len(), 2);
    let weight = out
        .grads
        .get::<VirtualBackend<Flex>, 2>(model.weight.id)
        .unwrap();
    assert_eq!(weight.into_data(), TensorData::from([[2.0f32], [3.0]]));
}
