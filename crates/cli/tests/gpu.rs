//! The command on GPU backends.
#![cfg(feature = "wgpu")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{fails_with, report};

#[cfg(not(feature = "autotune"))]
#[test]
fn weights_are_the_same_on_wgpu_when_devices_differ() {
    let hash = |devices: &str| {
        let report = report(&format!("train --steps 3 --devices {devices}"));
        assert_eq!(report["backend"], "wgpu");
        report["weights_sha256"].as_str().unwrap().to_owned()
    };
    let one = hash("wgpu:0");
    assert_eq!(one, hash("wgpu:0,wgpu:0,wgpu:0"));
}

#[cfg(not(feature = "autotune"))]
#[test]
fn every_promise_holds_on_wgpu_when_verified() {
    let report = report("verify --backends flex,wgpu --model digits-mlp --steps 3");
    assert_eq!(report["identical"], true);
    let wgpu = &report["backends"][1];
    assert_eq!(wgpu["name"], "wgpu");
    assert_eq!(wgpu["same_initial_weights"], true);
    assert_eq!(wgpu["repeats"], true);
    assert!(wgpu["first_differing_layer"].is_null());
    let difference = wgpu["max_rel_diff"].as_f64().unwrap();
    assert!(difference > 0.0 && difference <= 5e-5, "{difference}");
    assert_eq!(report["placements"].as_array().unwrap().len(), 6);
}

#[cfg(all(feature = "fast", not(feature = "autotune")))]
#[test]
fn fast_mode_is_told_from_the_one_that_repeats_its_bits() {
    let report = report("verify --backends wgpu,wgpu-fast --model digits-mlp --steps 2");
    let [wgpu, fast] = [&report["backends"][0], &report["backends"][1]];
    assert_eq!(wgpu["repeats"], true);
    assert!(fast["repeats"].is_null());
    assert!(wgpu["times_fast_step"].as_f64().unwrap() > 0.0);
    assert!(fast["times_fast_step"].is_null());
    assert!(fast["first_differing_layer"].is_null());
}

#[test]
fn adapters_that_are_not_there_are_refused_by_name() {
    let complaint = fails_with(1, "train --steps 1 --devices wgpu:97");
    assert!(complaint.contains("device wgpu:97: "), "{complaint}");
    assert!(complaint.contains("discrete GPUs"), "{complaint}");
}

#[cfg(feature = "cuda")]
#[test]
fn cuda_devices_that_are_not_there_are_refused_by_name() {
    let complaint = fails_with(1, "train --steps 1 --devices cuda:97");
    assert!(complaint.contains("device cuda:97: "), "{complaint}");
    assert!(complaint.contains("CUDA"), "{complaint}");
}

#[cfg(feature = "autotune")]
#[test]
fn tuned_kernels_are_refused_by_name_where_bits_are_to_repeat() {
    let complaint = fails_with(1, "train --steps 1 --devices wgpu:0");
    assert!(complaint.contains("device wgpu:0: "), "{complaint}");
    assert!(complaint.contains("autotune"), "{complaint}");
    let fast = report("train --steps 1 --model digits-mlp --devices wgpu-fast:0");
    assert_eq!(fast["backend"], "wgpu-fast");
}
