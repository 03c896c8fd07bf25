//! `burn-virtual predict` on what `burn-virtual train --out` leaves.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{fails_with, report};
use serde_json::Value;
use tempfile::TempDir;

/// A few steps of a model, and where its weights are.
fn train(folder: &TempDir, model: &str) -> (Value, PathBuf) {
    let out = folder.path().join(model);
    let args = format!("train --model {model} --steps 30 --out {}", out.display());
    (report(&args), out.join("weights.safetensors"))
}

fn command(model: &str, weights: &Path) -> String {
    format!("predict --model {model} --weights {}", weights.display())
}

#[test]
fn predictions_are_those_of_the_trained_model_on_any_placement() {
    let folder = TempDir::new().unwrap();
    for model in ["digits-cnn", "digits-mlp"] {
        let (trained, weights) = train(&folder, model);
        let command = command(model, &weights);
        let one = report(&command);
        assert_eq!(one["weights_sha256"], trained["weights_sha256"]);
        assert_eq!(one["accuracy"], trained["accuracy"]);
        assert_eq!(one["samples"], 359);
        let predictions = one["predictions"].as_array().unwrap();
        assert_eq!(predictions.len(), 359);
        assert!(predictions.iter().any(|digit| *digit != predictions[0]));
        for others in [
            "--devices flex:0,flex:1,flex:2",
            "--virtual-nodes 1 --batch-size 359",
            "--virtual-nodes 64 --batch-size 7",
        ] {
            let other = report(&format!("{command} {others}"));
            assert_eq!(one["predictions"], other["predictions"], "{others}");
        }
    }
}

#[test]
fn more_virtual_nodes_need_less_memory() {
    let folder = TempDir::new().unwrap();
    let (_, weights) = train(&folder, "digits-cnn");
    let peak = |nodes: usize| {
        let command = command("digits-cnn", &weights);
        let args = format!("{command} --batch-size 359 --virtual-nodes {nodes}");
        report(&args)["peak_tensor_bytes"][0].as_u64().unwrap()
    };
    assert!(peak(16) * 2 < peak(1));
}

#[test]
fn files_that_do_not_fit_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let (_, weights) = train(&folder, "digits-mlp");
    let name = weights.display().to_string();

    let err = fails_with(1, &command("digits-cnn", &weights));
    assert!(
        err.contains(&format!(
            "--weights {name}: expected weights of digits-cnn, got those of digits-mlp"
        )),
        "{err}"
    );

    let err = fails_with(1, &command("digits-mlp", Path::new("/nowhere/w")));
    assert!(err.contains("/nowhere/w"), "{err}");

    let whole = fs::read(&weights).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for broken in [&whole[..whole.len() - 1], &whole[..5], &[], &flipped] {
        fs::write(&weights, broken).unwrap();
        let err = fails_with(1, &command("digits-mlp", &weights));
        assert!(err.starts_with("error: ") && err.contains(&name), "{err}");
    }
}
