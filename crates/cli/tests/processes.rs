//! Training in several processes that `burn-virtual launch` starts.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use common::running::{LIMIT, Running};
use common::{burn_virtual, command, fails_with, free_port, object, report, text};

/// Fields that no placement may change.
const FIELDS: [&str; 5] = ["weights_sha256", "loss", "accuracy", "probe", "steps"];

#[test]
fn processes_end_with_the_weights_of_one() {
    let job = "train --steps 12 --virtual-nodes 8";
    let one = report(job);
    for ranks in [1, 2, 3, 4] {
        let many = report(&format!("launch --nproc-per-node {ranks} -- {job}"));
        for field in FIELDS {
            assert_eq!(one[field], many[field], "{field} on {ranks} processes");
        }
        for field in ["placement", "peak_tensor_bytes"] {
            assert_eq!(many[field].as_array().unwrap().len(), ranks, "{field}");
        }
        let peaks = many["peak_tensor_bytes"].as_array().unwrap();
        assert!(
            peaks.iter().all(|peak| peak.as_u64().unwrap() > 0),
            "{many}"
        );
    }
}

#[test]
fn weights_do_not_depend_on_the_threads_of_a_process() {
    let of = |threads: &str| {
        let mut command = command("launch --nproc-per-node 2 -- train --steps 4 --json");
        let output = command.env("RAYON_NUM_THREADS", threads).output().unwrap();
        object(&output)["weights_sha256"].clone()
    };
    assert_eq!(of("1"), of("3"));
}

/// The same bits on every rank: the command compares them at its end.
#[test]
fn other_reductions_train_as_well_and_say_what_they_give_up() {
    for reduce in ["ring", "halving-doubling"] {
        let job = format!("train --model digits-mlp --epochs 3 --reduce {reduce} --json");
        let output = burn_virtual(&format!("launch --nproc-per-node 3 -- {job}"));
        let accuracy = object(&output)["accuracy"].as_f64().unwrap();
        assert!(accuracy > 0.85, "{accuracy}");
        let note = "[rank0]: note: bits depend on the placement";
        assert!(text(&output.stderr).starts_with(note));
    }
}

#[test]
fn only_the_first_rank_shows_progress_and_the_result() {
    let output = burn_virtual("launch --nproc-per-node 2 -- train --model digits-mlp --steps 2");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(
        shown.lines().all(|line| line.starts_with("[rank0]: ")),
        "{shown}"
    );
    assert!(shown.contains("weights SHA-256"), "{shown}");
}

#[test]
fn weights_are_saved_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display();
    let job = format!("train --model digits-mlp --steps 2 --out {out}");
    let trained = report(&format!("launch --nproc-per-node 2 -- {job}"));
    let weights = folder.path().join("weights.safetensors");
    let weights = weights.display();
    let asked = report(&format!("predict --model digits-mlp --weights {weights}"));
    assert_eq!(asked["weights_sha256"], trained["weights_sha256"]);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn bad_usage_in_a_process_is_bad_usage_of_the_launch() {
    for (job, expected) in [
        ("train --virtual-nodes 2", "3 ranks"),
        (
            "train --devices flex:0,flex:1",
            "--devices: expected 1 device, or one for each of the 3 processes of this host, got 2",
        ),
        ("train --reduce tree", "--reduce"),
    ] {
        let error = fails_with(2, &format!("launch --nproc-per-node 3 -- {job}"));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn environment_that_makes_no_sense_is_refused_by_name() {
    for (variables, expected) in [
        (&[("RANK", "0")][..], "WORLD_SIZE: expected a whole number"),
        (
            &[("RANK", "3"), ("WORLD_SIZE", "2")],
            "RANK: expected a rank below WORLD_SIZE, got 3",
        ),
    ] {
        let mut command = command("train --model digits-mlp --steps 1");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let shown = text(&output.stderr);
        assert!(shown.contains(expected), "{shown}");
    }
}

#[test]
fn commands_of_one_process_are_refused_to_several() {
    for job in ["verify", "predict --model digits-mlp --weights none"] {
        let error = fails_with(2, &format!("launch --nproc-per-node 2 -- {job}"));
        assert!(
            error.contains("expected a process by itself, got one of 2"),
            "{error}"
        );
    }
}

/// A rank that was started without a launcher: as torchrun or a shell would.
fn start_rank(rank: usize, port: u16) -> Running {
    let mut command = command("train --model digits-mlp --steps 3 --json");
    command
        .envs([("RANK", rank.to_string()), ("WORLD_SIZE", "2".to_owned())])
        .env("MASTER_PORT", port.to_string());
    Running::start(&mut command)
}

/// Waits for both ranks: they ended with the weights of one process, and only the first says so.
#[track_caller]
fn assert_trained(ranks: [Running; 2]) {
    let [first, second] = ranks.map(Running::finish);
    assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
    assert!(second.stdout.is_empty());
    let one = report("train --model digits-mlp --steps 3");
    assert_eq!(object(&first)["weights_sha256"], one["weights_sha256"]);
}

#[test]
fn processes_meet_by_the_environment_alone() {
    let port = free_port();
    assert_trained([0, 1].map(|rank| start_rank(rank, port)));
}

/// Two thousand connections from elsewhere while a rank waits for the other: 1,000 that say nothing,
/// 1,000 that talk nonsense.
#[test]
fn job_trains_in_spite_of_strangers() {
    let port = free_port();
    let first = start_rank(0, port);
    let limit = Instant::now() + LIMIT;
    let connect = || loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < limit, "{error}"),
        }
    };
    let mut noise = 1_u64;
    for _ in 0..4 {
        // No more at a time than a process may have open.
        let silent: Vec<_> = (0..250).map(|_| connect()).collect();
        for mut stream in (0..250).map(|_| connect()) {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let bytes = noise.to_le_bytes().repeat(noise as usize % 100);
            // The other end may have hung up already.
            let _ = stream.write_all(&bytes);
        }
        drop(silent);
    }
    assert_trained([first, start_rank(1, port)]);
}

/// Ranks with other jobs: all fail, and the launch names the rank and both sides.
#[test]
fn rank_with_another_job_is_refused_by_all() {
    let program = env!("CARGO_BIN_EXE_burn-virtual");
    for (flag, expected) in [
        ("--seed $RANK", "seed: expected 0, got 1"),
        (
            "--steps $((3 + RANK))",
            "number of steps: expected 3, got 4",
        ),
        (
            "--lr 0.$((1 + RANK))",
            "learning rate: expected 0.1, got 0.2",
        ),
    ] {
        let script = format!("exec {program} train --model digits-mlp {flag}");
        let mut command = command("launch --nproc-per-node 2 --program /bin/sh -- -c");
        let output = command.arg(script).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let shown = text(&output.stderr);
        let expected = format!("rank 1 differs from rank 0 in its {expected}");
        assert!(shown.contains(&expected), "{shown}");
    }
}
