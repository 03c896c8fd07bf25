//! Command lines that make no sense.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::common::{fails_with, text};
use crate::harness::launch;

#[test]
fn bad_usage_exits_2_and_names_what_was_wrong() {
    let cases = [
        ("launch", "<ARGS>..."),
        ("launch --nproc-per-node 2", "<ARGS>..."),
        (
            "launch --nproc-per-node 0 -- train",
            "'0' for '--nproc-per-node <N|auto>': expected a whole number from 1 to 256, auto or cpu",
        ),
        (
            "launch --nproc-per-node gpu -- train",
            "'gpu' for '--nproc-per-node <N|auto>'",
        ),
        ("launch --nproc-per-node 257 -- train", "from 1 to 256"),
        ("launch --nnodes 257 -- train", "from 1 to 256"),
        (
            "launch --nnodes 3 --nproc-per-node 86 -- train",
            "--nnodes 3, --nproc-per-node 86: expected at most 256 processes in all, got 258",
        ),
        ("launch --nnodes 0 -- train", "'0' for '--nnodes <N>'"),
        ("launch --nnodes 1:2 -- train", "'1:2' for '--nnodes <N>'"),
        (
            "launch --node-rank 1 -- train",
            "--node-rank: expected a node below --nnodes 1, got 1",
        ),
        ("launch --node-rank -1 -- train", "'-1'"),
        (
            "launch --master-port 65536 -- train",
            "'65536' for '--master-port <PORT>'",
        ),
        (
            "launch --nnodes 2 --master-port 0 -- train",
            "--master-port: expected a port that all nodes know, got 0",
        ),
        (
            "launch --rdzv-id a/b -- train",
            "'a/b' for '--rdzv-id <ID>': expected the name of a file",
        ),
        ("launch --rdzv-id .. -- train", "'..' for '--rdzv-id <ID>'"),
        ("launch --redirects 3 -- train", "--log-dir <DIR>"),
        ("launch --tee 3 -- train", "--log-dir <DIR>"),
        (
            "launch --log-dir /dev/null/no --tee 4 -- train",
            "'4' for '--tee <0..3>': expected 0, 1, 2 or 3, or LOCAL-RANK:VALUE,..",
        ),
        (
            "launch --log-dir /dev/null/no -r 0:1,0:2 -- train",
            "local rank 0 is there twice",
        ),
        (
            "launch --log-dir /dev/null/no --tee 1:3 -- train",
            "--tee: expected local ranks below 1, got 1",
        ),
        (
            "launch --log-dir /dev/null/no -r 0:1,7:3 -- train",
            "--redirects: expected local ranks below 1, got 7",
        ),
        (
            "launch --local-ranks-filter 1 -- train",
            "--local-ranks-filter: expected local ranks below 1, got 1",
        ),
        (
            "launch --local-ranks-filter x -- train",
            "'x' for '--local-ranks-filter <RANKS>'",
        ),
        (
            "launch --signals-to-handle SIGKILL -- train",
            "expected one of SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2",
        ),
        (
            "launch --signals-to-handle TERM -- train",
            "'TERM' for '--signals-to-handle <SIGNALS>'",
        ),
        ("launch --kill-after -1 -- train", "'-1'"),
        ("launch --kill-after 0 -- train", "'0'"),
        (
            "launch --kill-after nan -- train",
            "'nan' for '--kill-after <SECONDS>': expected a number of seconds above 0, up to 1000000000",
        ),
        (
            "launch --kill-after 1e19 -- train",
            "'1e19' for '--kill-after <SECONDS>'",
        ),
        (
            "launch --max-restarts 3 -- train",
            "unexpected argument '--max-restarts'",
        ),
        ("launch train", "unexpected argument 'train'"),
    ];
    for (args, expected) in cases {
        let err = fails_with(2, args);
        assert!(err.contains(expected), "{args}: {err}");
    }
}

#[test]
fn several_nodes_need_a_token() {
    let token = |token: Option<&OsStr>| {
        let mut command = launch("--nnodes 2", "echo started");
        match token {
            Some(token) => command.env("BURN_VIRTUAL_TOKEN", token),
            None => command.env_remove("BURN_VIRTUAL_TOKEN"),
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stdout), "");
        text(&output.stderr)
    };
    let none = token(None);
    assert!(
        none.contains("variable BURN_VIRTUAL_TOKEN, got none"),
        "{none}"
    );
    let binary = token(Some(OsStr::from_bytes(b"\xff0123456789abcdef")));
    let expected = "variable BURN_VIRTUAL_TOKEN: expected text in UTF-8";
    assert!(binary.contains(expected), "{binary}");
    let short = token(Some(OsStr::new("secret")));
    let expected = "variable BURN_VIRTUAL_TOKEN: token: expected at least 16 bytes, got 6";
    assert!(short.contains(expected), "{short}");
}

#[test]
fn hidden_commands_are_not_for_people() {
    let help = text(&crate::common::burn_virtual("--help").stdout);
    assert!(help.contains("launch") && !help.contains("tether") && !help.contains("guard"));
}
