//! Outputs that don't fit together, as those of sequences that each micro-batch pads to its own
//! longest.

use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_flex::FlexDevice;
use burn_virtual_train::learner::Virtual;
use burn_virtual_train::{TrainError, VirtualNodes};

use crate::common::{B, panic_of};

#[derive(Clone, Copy, Debug)]
struct Numbers;

impl<B: Backend> Batcher<B, f32, Tensor<B, 2>> for Numbers {
    fn batch(&self, items: Vec<f32>, device: &B::Device) -> Tensor<B, 2> {
        let rows = items.len();
        Tensor::from_data(TensorData::new(items, [rows, 1]), device)
    }
}

/// Its output has a column, not a row, per sample.
#[derive(Module, Debug)]
struct Turned<B: Backend> {
    layer: Linear<B>,
}

impl<B: Backend> Turned<B> {
    fn regress(&self, inputs: Tensor<B, 2>) -> RegressionOutput<B> {
        let output = self.layer.forward(inputs.clone());
        let loss = output.clone().powi_scalar(2).mean();
        RegressionOutput::new(loss, output.transpose(), inputs)
    }
}

impl<B: AutodiffBackend> TrainStep for Turned<B> {
    type Input = Tensor<B, 2>;
    type Output = RegressionOutput<B>;

    fn step(&self, inputs: Tensor<B, 2>) -> TrainOutput<RegressionOutput<B>> {
        let output = self.regress(inputs);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<B: Backend> InferenceStep for Turned<B> {
    type Input = Tensor<B, 2>;
    type Output = RegressionOutput<B>;

    fn step(&self, inputs: Tensor<B, 2>) -> RegressionOutput<B> {
        self.regress(inputs)
    }
}

#[test]
fn outputs_that_do_not_fit_together_are_an_error_that_names_the_step() {
    let mut model = Turned {
        layer: LinearConfig::new(1, 1).init(&FlexDevice),
    };
    let nodes = VirtualNodes::new(2).start(&mut model).unwrap();
    let model: Virtual<B, _, _, f32> = Virtual::new(nodes, model, Numbers);
    // One column from each.
    model.try_step(&[1.0, 2.0]).unwrap();

    let expected = "step 1: putting the results of the virtual nodes together: ";
    let Err(error) = model.try_step(&[1.0, 2.0, 3.0]) else {
        panic!("a step");
    };
    assert!(matches!(error, TrainError::Join { step: 1, .. }), "{error}");
    assert!(error.to_string().starts_with(expected), "{error}");
    assert_eq!(model.handle().status().applied_steps, 1);

    let valid = model.valid();
    let text = panic_of(|| InferenceStep::step(&valid, vec![1.0, 2.0, 3.0]));
    assert!(text.starts_with(expected), "{text}");
    valid.try_step(&[1.0, 2.0]).unwrap();
}
