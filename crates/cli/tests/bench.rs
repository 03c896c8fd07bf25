//! `burn-virtual bench` on every transport.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use common::running::{LIMIT, send, until};
use common::{burn_virtual, command, fails_with, report, text};

const ALGORITHMS: [&str; 3] = ["ordered", "ring", "halving-doubling"];

#[track_caller]
fn assert_measures(args: &str, ranks: usize, bytes: u64) {
    let report = report(&format!(
        "bench allreduce {args} --bytes {bytes} --iterations 3"
    ));
    let number = |name: &str| report[name].as_f64().unwrap();
    assert!(number("median_ms") >= number("min_ms"), "{report}");
    assert!(number("min_ms") > 0.0, "{report}");
    assert_eq!(report["bytes"], bytes);
    assert_eq!(report["ranks"], ranks);
    assert_eq!(report["iterations"], 3);
    // 10^9 bytes a second are 10^6 a millisecond.
    let rate = bytes as f64 / number("median_ms") / 1e6;
    assert!(
        (number("algbw_gb_per_s") - rate).abs() <= 1e-9 * rate,
        "{report}"
    );
}

#[test]
fn every_algorithm_is_measured_in_memory() {
    for algorithm in ALGORITHMS {
        for ranks in [1, 2, 3, 4] {
            for bytes in [0, 4, 4000] {
                let args = format!("--ranks {ranks} --transport memory --algorithm {algorithm}");
                assert_measures(&args, ranks, bytes);
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn every_algorithm_is_measured_over_tcp() {
    for algorithm in ALGORITHMS {
        for (ranks, bytes) in [(1, 4), (2, 0), (3, 4000)] {
            let args = format!("--ranks {ranks} --transport tcp --algorithm {algorithm}");
            assert_measures(&args, ranks, bytes);
        }
    }
}

#[test]
fn placements_that_are_not_aligned_are_measured() {
    let args = "bench allreduce --ranks 3 --virtual-nodes 32 --bytes 4000 --warmup 0";
    assert_eq!(report(args)["virtual_nodes"], 32);
}

#[cfg(unix)]
#[test]
fn ranks_are_those_of_a_launch_when_there_is_one() {
    let args = "launch --nproc-per-node 3 -- bench allreduce --transport tcp --bytes 400";
    assert_eq!(report(args)["ranks"], 3);
    let output = burn_virtual(&format!("{args} --ranks 2"));
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(
        err.contains("--ranks: expected the 3 processes of the launch, got 2"),
        "{err}"
    );
}

#[cfg(unix)]
#[test]
fn processes_of_a_launch_do_not_measure_each_by_itself() {
    let output = burn_virtual("launch --nproc-per-node 2 -- bench allreduce --bytes 400");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    let expected = "bench allreduce --transport memory: expected a process by itself, got one of 2";
    assert!(err.contains(expected), "{err}");
    assert_eq!(text(&output.stdout), "");
}

/// Here, that a rank is waited for.
#[cfg(target_os = "linux")]
#[test]
fn what_ranks_say_on_stderr_is_shown() {
    let args = "bench allreduce --transport tcp --bytes 4 --iterations 1000000000";
    let mut child = command(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let rank = until("rank 1", || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        let mut children = children.split_whitespace();
        let rank = children.find(|child| {
            let of = |file| fs::read_to_string(format!("/proc/{child}/{file}"));
            of("environ").is_ok_and(|text| text.split('\0').any(|word| word == "RANK=1"))
                && of("cmdline").is_ok_and(|text| text.split('\0').nth(1) == Some("bench"))
        });
        rank.map(str::to_owned)
    });
    send("STOP", &rank);
    let (sender, lines) = mpsc::channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    thread::spawn(move || {
        stderr
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| sender.send(line))
    });
    let line = lines.recv_timeout(LIMIT);
    child.kill().unwrap();
    child.wait().unwrap();
    let line = line.unwrap();
    assert!(line.starts_with("[rank0]: "), "{line}");
}

#[cfg(unix)]
#[test]
fn too_many_ranks_are_refused_without_a_launch_too() {
    let output = command("bench allreduce --transport tcp")
        .envs([("RANK", "0"), ("WORLD_SIZE", "257")])
        .output()
        .unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    let expected = "expected at most 256 ranks, got 257 (WORLD_SIZE)";
    assert!(err.contains(expected), "{err}");
}

#[test]
fn people_get_a_table() {
    let output = burn_virtual("bench allreduce --bytes 4000");
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    for row in [
        "median",
        "bandwidth",
        "ranks              2 (memory)",
        "algorithm          ordered",
    ] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{out}");
    }
}

#[test]
fn bad_usage_exits_2_and_names_what_was_wrong() {
    let cases = [
        ("", "Usage:"),
        ("allgather", "unrecognized subcommand 'allgather'"),
        (
            "allreduce --ranks 0",
            "'0' for '--ranks <N>': expected a whole number from 1 to 256",
        ),
        ("allreduce --ranks 257", "from 1 to 256"),
        (
            "allreduce --bytes 6",
            "'6' for '--bytes <N>': expected a multiple of 4",
        ),
        ("allreduce --bytes -4", "'-4'"),
        ("allreduce --bytes 99999999999999999999", "'--bytes <N>'"),
        (
            "allreduce --transport mpi",
            "[possible values: memory, tcp]",
        ),
        (
            "allreduce --algorithm tree",
            "expected ordered, ring or halving-doubling",
        ),
        ("allreduce --iterations 0", "'0' for '--iterations <N>'"),
        (
            "allreduce --algorithm ring --virtual-nodes 4",
            "--virtual-nodes: expected --algorithm ordered, got ring",
        ),
        (
            "allreduce --ranks 3 --virtual-nodes 2",
            "3 ranks cannot share 2 virtual nodes",
        ),
    ];
    for (args, expected) in cases {
        let err = fails_with(2, &format!("bench {args}"));
        assert!(err.contains(expected), "{args}: {err}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_does_not_fit_in_memory_is_refused() {
    for bytes in ["1000000000000000", "18446744073709551612"] {
        for transport in ["memory", "tcp"] {
            let args = format!("bench allreduce --transport {transport} --bytes {bytes}");
            let err = fails_with(1, &args);
            assert!(
                err.starts_with("error: --bytes: expected at most "),
                "{err}"
            );
        }
    }
}
