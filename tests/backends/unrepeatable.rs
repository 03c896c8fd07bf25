//! Operations that don't repeat their bits are refused by name, and accepted where drift is.

use burn::nn::{Linear, LinearConfig};
use burn::tensor::{IndexingUpdateOp, Int, Tensor};
use burn_virtual::backend::Fault;
use burn_virtual::nodes::{
    LossSum, NodeError, StepOutput, TrainError, VirtualAutodiff, VirtualNodes,
};

use crate::common::{OnFlex, on_gpus};

/// A step whose loss adds its rows into one place.
fn step<B: VirtualAutodiff>(nodes: VirtualNodes) -> Result<StepOutput, TrainError> {
    let device = B::Device::default();
    let mut model: Linear<B> = LinearConfig::new(1, 1).init(&device);
    let mut session = nodes.start(&mut model)?;
    let batch = Tensor::<B, 2>::ones([4, 1], &device);
    session.backward_batch(&model, &batch, |model: &Linear<B>, micro: Tensor<B, 2>| {
        let [rows, _] = micro.dims();
        let device = micro.device();
        let scattered = Tensor::<B, 1>::zeros([1], &device).scatter_nd(
            Tensor::<B, 2, Int>::zeros([rows, 1], &device),
            model.forward(micro).reshape([rows]),
            IndexingUpdateOp::Add,
        );
        LossSum {
            sum: scattered,
            weight: rows as f64,
        }
    })
}

on_gpus! {
    scattering_is_refused_by_name
    scattering_is_taken_when_drift_is_allowed
}

fn scattering_is_refused_by_name<B: VirtualAutodiff>() {
    let error = step::<B>(VirtualNodes::new(2)).unwrap_err();
    let TrainError::Node { node, source, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*node, 0);
    let operation = "float_scatter_nd";
    assert!(
        matches!(source, NodeError::Fault(fault) if *fault == Fault::Unrepeatable { operation })
    );
    assert!(error.to_string().contains("`float_scatter_nd`"), "{error}");
}

fn scattering_is_taken_when_drift_is_allowed<B: VirtualAutodiff>() {
    let out = step::<B>(VirtualNodes::new(2).allow_drift()).unwrap();
    assert!(out.loss.is_finite());
}

#[test]
fn scattering_is_taken_on_flex() {
    let out = step::<OnFlex>(VirtualNodes::new(2)).unwrap();
    assert!(out.loss.is_finite());
}
