//! `burn-virtual verify` on the backends of this build.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{burn_virtual, report, text};

#[test]
fn placements_are_identical_on_flex() {
    for model in ["digits-cnn", "digits-mlp"] {
        let report = report(&format!("verify --backends flex --steps 3 --model {model}"));
        assert_eq!(report["identical"], true);
        let placements = report["placements"].as_array().unwrap();
        let shares: Vec<_> = placements.iter().map(|p| p["shares"].to_string()).collect();
        assert_eq!(shares, ["[8]", "[3,3,2]", "[6,1,1]"]);
        for placement in placements {
            assert_eq!(placement["weights_sha256"], placements[0]["weights_sha256"]);
        }
        let backend = &report["backends"][0];
        assert_eq!(backend["name"], "flex");
        assert_eq!(backend["repeats"], true);
        assert_eq!(backend["max_rel_diff"], 0.0);
        assert!(backend["first_differing_layer"].is_null());
    }
}

#[test]
fn few_virtual_nodes_are_verified_on_as_many_ranks() {
    for (nodes, placements) in [(1, 1), (2, 3)] {
        let args =
            format!("verify --backends flex --model digits-mlp --steps 2 --virtual-nodes {nodes}");
        assert_eq!(
            report(&args)["placements"].as_array().unwrap().len(),
            placements
        );
    }
}

#[test]
fn people_get_a_table_that_ends_in_the_verdict() {
    let output = burn_virtual("verify --backends flex --model digits-mlp --steps 2");
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    assert!(out.starts_with("flex\n"), "{out}");
    assert_eq!(out.lines().last().unwrap(), "every promise holds");
}
