//! A fault in one operation is caught, and the layer that it is in is named.

use burn_flex::FlexDevice;
use burn_virtual_train::VerifyReport;

use crate::broken::{Fault, faults};
use crate::task::{Sound, items, verify, with_fault};

faults! {
    Nothing: "";
    Conv2d: "conv2d";
    Conv2dWeightBackward: "conv2d_weight_backward";
    EmbeddingBackward: "embedding_backward";
    FloatFromData: "float_from_data";
    FloatSumDim: "float_sum_dim";
    LinearWeightBackward: "linear_weight_backward";
    LinearXBackward: "linear_x_backward";
    ReluBackward: "relu_backward";
}

/// Flex, and Flex with a fault.
fn compared<F: Fault>() -> VerifyReport {
    let items = items();
    let sound = verify(&items).backend::<Sound>("sound", [FlexDevice]);
    with_fault::<F>(sound.unwrap()).unwrap().report()
}

/// Whether a fault is found in just these layers, in the order of the backward pass.
fn is_caught<F: Fault>(layers: &[&str]) {
    let report = compared::<F>();
    let text = report.to_string();
    assert!(!report.holds(), "{text}");
    let broken = &report.backends[1];
    // The bits tell nothing: the fault is the same on every placement and in every run.
    assert!(broken.same_initial_weights, "{text}");
    assert!(broken.identical(), "{text}");

    let found = broken.layers.iter().rev();
    let found = found.filter(|layer| layer.difference > Some(broken.tolerance));
    let found: Vec<_> = found.map(|layer| layer.path.as_str()).collect();
    assert_eq!(found, layers, "{text}");
    assert_eq!(broken.first_differing_layer(), Some(layers[0]));
    let named = format!("out of tolerance (5e-5)   `{}`\n", layers[0]);
    assert!(text.contains(&named), "{text}");
}

#[test]
fn decorators_without_a_fault_hold() {
    let report = compared::<Nothing>();
    assert!(report.holds(), "{report}");
    assert_eq!(report.backends[1].gradient_difference(), 0.0);
    assert_eq!(report.backends[1].loss_difference, 0.0);
}

#[test]
fn gradients_of_a_convolution_are_named() {
    is_caught::<Conv2dWeightBackward>(&["conv.weight"]);
}

#[test]
fn gradients_of_an_embedding_are_named() {
    is_caught::<EmbeddingBackward>(&["embedding.weight"]);
}

#[test]
fn last_linear_layer_is_named_when_all_are_wrong() {
    is_caught::<LinearWeightBackward>(&["output.weight", "hidden.weight"]);
}

/// What lies before the last linear layer, in the order of the backward pass.
const BEFORE_OUTPUT: &[&str] = &[
    "hidden.bias",
    "hidden.weight",
    "norm.beta",
    "norm.gamma",
    "conv.weight",
    "embedding.weight",
];

#[test]
fn layer_before_a_linear_one_is_named_when_what_that_hands_back_is_wrong() {
    is_caught::<LinearXBackward>(BEFORE_OUTPUT);
}

#[test]
fn layer_before_an_activation_is_named_when_what_that_hands_back_is_wrong() {
    is_caught::<ReluBackward>(BEFORE_OUTPUT);
}

#[test]
fn norm_is_named_when_sums_along_a_dimension_are_wrong() {
    // They are what the gradients of a broadcast tensor are made of. (A linear layer's bias has an
    // operation of its own.)
    is_caught::<FloatSumDim>(&["norm.beta", "norm.gamma", "conv.weight", "embedding.weight"]);
}

#[test]
fn convolution_is_named_when_its_output_is_wrong() {
    // What follows it doesn't see that: the norm takes the scale out again.
    is_caught::<Conv2d>(&["conv.weight", "embedding.weight"]);
}

#[test]
fn initial_weights_are_reported_when_they_are_wrong() {
    let report = compared::<FloatFromData>();
    let text = report.to_string();
    assert!(!report.holds(), "{text}");
    assert!(!report.backends[1].same_initial_weights, "{text}");
    let named = text.contains("initial weights            DIFFERENT\n");
    assert!(named, "{text}");
}
