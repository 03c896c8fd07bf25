//! `burn-virtual train` as a user or a script runs it.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{burn_virtual, fails_with, report, text};

#[test]
fn weights_are_the_same_when_devices_differ() {
    let devices = [
        "flex:0",
        "flex:0,flex:1",
        "flex:0,flex:1,flex:2",
        "flex:0,flex:1,flex:2,flex:3",
        "flex:0,flex:1,flex:2,flex:3,flex:4,flex:5,flex:6,flex:7",
    ];
    let of = |devices: &str| report(&format!("train --steps 12 --devices {devices}"));
    let one = of(devices[0]);
    assert_eq!(one["placement"], serde_json::json!([[0, 7]]));
    for devices in &devices[1..] {
        let many = of(devices);
        for field in ["weights_sha256", "loss", "accuracy", "probe"] {
            assert_eq!(one[field], many[field], "{field} on {devices}");
        }
        let ranks = devices.split(',').count();
        assert_eq!(many["placement"].as_array().unwrap().len(), ranks);
        assert_eq!(many["peak_tensor_bytes"].as_array().unwrap().len(), ranks);
    }
}

#[test]
fn weights_differ_when_the_job_differs() {
    let base = "--steps 3 --model digits-mlp";
    let others = [
        "--steps 4 --model digits-mlp",
        "--steps 3 --model digits-mlp --seed 43",
        "--steps 3 --model digits-mlp --virtual-nodes 4",
        "--steps 3 --model digits-mlp --batch-size 32",
        "--steps 3 --model digits-mlp --optimizer sgd",
        "--steps 3 --model digits-mlp --lr 0.01",
        "--steps 3",
    ];
    let hash = |args: &str| report(&format!("train {args}"))["weights_sha256"].clone();
    assert_eq!(hash(base), hash(base));
    for other in others {
        assert_ne!(hash(base), hash(other), "{other}");
    }
}

#[test]
fn digits_cnn_names_97_percent_when_trained() {
    let report = report("train");
    assert!(report["accuracy"].as_f64().unwrap() >= 0.97, "{report}");
    assert_eq!(report["epochs"], 12);
    assert_eq!(report["steps"], 12 * 23);
    assert_eq!(report["virtual_nodes"], 8);
    assert_eq!(report["backend"], "flex");
}

#[test]
fn empty_virtual_nodes_train_when_the_batch_is_small() {
    let report = report("train --model digits-mlp --steps 5 --batch-size 3 --virtual-nodes 8");
    assert_eq!(report["steps"], 5);
    assert!(report["loss"].as_f64().unwrap().is_finite());
}

#[test]
fn bad_usage_exits_2_and_names_what_was_wrong() {
    let cases = [
        (
            "train --virtual-nodes 0",
            "'0' for '--virtual-nodes <V>': expected a whole number from 1",
        ),
        (
            "train --virtual-nodes 9999999",
            "expected a whole number from 1 to 65536",
        ),
        (
            "train --batch-size 0",
            "'0' for '--batch-size <N>': expected a whole number of at least 1",
        ),
        ("train --steps 0", "'0' for '--steps <N>'"),
        ("train --epochs 0", "'0' for '--epochs <N>'"),
        (
            "train --lr nan",
            "'nan' for '--lr <X>': expected a finite number above 0",
        ),
        (
            "train --lr -1",
            "'-1' for '--lr <X>': expected a finite number above 0",
        ),
        ("train --lr inf", "'inf' for '--lr <X>'"),
        ("train --devices gpu:0", "unknown backend 'gpu'"),
        (
            "train --devices flex:0,flex:",
            "expected a device index from 0, got ''",
        ),
        (
            "train --model lenet",
            "[possible values: digits-cnn, digits-mlp]",
        ),
        (
            "train --optimizer lion",
            "[possible values: adam, sgd, adamw]",
        ),
        (
            "train --virtual-nodes 2 --devices flex:0,flex:1,flex:2",
            "3 ranks cannot share 2 virtual nodes",
        ),
        ("train --seed -1", "'-1' for '--seed <SEED>'"),
        ("train --steps 1 --epochs 1", "cannot be used with"),
        (
            "train --memory-limit 0",
            "'0' for '--memory-limit <BYTES>': expected a whole number of at least 1",
        ),
        (
            "train --memory-limit 1MB",
            "'1MB' for '--memory-limit <BYTES>'",
        ),
        ("train --memory-limit -5", "unexpected argument '-5'"),
        (
            "train --virtual-nodes auto",
            "--virtual-nodes auto: expected a --memory-limit to fit, got none",
        ),
        (
            "train --virtual-nodes automatic",
            "expected a whole number from 1 to 65536, or auto",
        ),
        ("predict", "--model <MODEL>"),
        ("predict --model digits-cnn", "--weights <FILE>"),
        (
            "predict --model digits-cnn --weights w --virtual-nodes auto",
            "'auto' for '--virtual-nodes <V>': expected a whole number from 1",
        ),
        (
            "predict --model digits-cnn --weights w --batch-size 0",
            "'0' for '--batch-size <N>'",
        ),
        ("fly", "unrecognized subcommand"),
    ];
    for (args, expected) in cases {
        let output = burn_virtual(args);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {err}");
        assert!(err.contains(expected), "{args}: {err}");
        assert_eq!(text(&output.stdout), "", "{args}");
    }
}

#[test]
fn training_that_diverges_ends_with_an_error() {
    let output = burn_virtual("train --model digits-mlp --optimizer sgd --lr 1e38 --steps 100");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("the last 10 steps up to step"), "{err}");
    assert!(
        !err.contains("panicked") && !err.contains("backtrace"),
        "{err}"
    );
}

/// A limit that the whole batch of 64 exceeds, and half of it does not.
fn tight_limit() -> u64 {
    let peak = |nodes: usize| {
        let args = format!("train --steps 2 --virtual-nodes {nodes}");
        report(&args)["peak_tensor_bytes"][0].as_u64().unwrap()
    };
    let (whole, half) = (peak(1), peak(2));
    assert!(half < whole);
    (half + whole) / 2
}

#[test]
fn job_that_does_not_fit_is_refused_with_the_virtual_nodes_that_do() {
    let limit = tight_limit();
    let args = format!("train --steps 2 --memory-limit {limit} --virtual-nodes");
    let err = fails_with(1, &format!("{args} 1"));
    assert!(
        err.contains(&format!(
            "--memory-limit {limit}: 1 virtual nodes do not fit; 2 do, with micro-batches of up to 32"
        )),
        "{err}"
    );
    let fits = report(&format!("{args} 2"));
    assert!(fits["peak_tensor_bytes"][0].as_u64().unwrap() <= limit);
}

#[test]
fn auto_takes_the_fewest_virtual_nodes_that_fit() {
    let limit = tight_limit();
    let auto = report(&format!(
        "train --steps 3 --memory-limit {limit} --virtual-nodes auto"
    ));
    assert_eq!(auto["virtual_nodes"], 2);
    assert!(auto["peak_tensor_bytes"][0].as_u64().unwrap() <= limit);
    // The search leaves no trace in the job.
    let two = report("train --steps 3 --virtual-nodes 2");
    assert_eq!(auto["weights_sha256"], two["weights_sha256"]);
    let wide = format!("train --steps 1 --memory-limit {limit} --virtual-nodes auto");
    let ranks = report(&format!("{wide} --devices flex:0,flex:1,flex:2"));
    assert_eq!(ranks["virtual_nodes"], 3, "each rank runs one");
    for peak in ranks["peak_tensor_bytes"].as_array().unwrap() {
        assert!(peak.as_u64().unwrap() <= limit, "ranks share the model");
    }
}

#[test]
fn job_that_never_fits_is_refused_with_what_it_needs() {
    let err = fails_with(1, "train --memory-limit 1000 --virtual-nodes auto");
    assert!(
        err.contains("--memory-limit 1000: no number of virtual nodes fits"),
        "{err}"
    );
}

#[test]
fn run_fails_before_training_when_its_folder_cannot_be_made() {
    let err = fails_with(1, "train --out /dev/null/here --steps 1000000");
    assert!(err.contains("--out /dev/null/here: "), "{err}");

    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("weights.safetensors")).unwrap();
    let args = format!("train --steps 1000000 --out {}", folder.path().display());
    let err = fails_with(1, &args);
    assert!(err.contains("is a directory"), "{err}");
}

#[test]
fn bad_usage_touches_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    for usage in [
        "--virtual-nodes auto",
        "--virtual-nodes 1 --devices flex:0,flex:1",
    ] {
        fails_with(2, &format!("train {usage} --out {}", out.display()));
        assert!(!out.exists(), "{usage}");
    }
}
