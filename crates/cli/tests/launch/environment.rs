//! What processes find in their environment, and how nodes and launches meet.

use std::net::TcpListener;
use std::thread::available_parallelism;

use crate::common::free_port;
use crate::harness::{Running, launch, parts, result, run, sorted};

const TOKEN: &str = "BURN_VIRTUAL_TOKEN";

#[test]
fn processes_find_their_place_in_the_environment() {
    let script = r#"echo "$LOCAL_RANK of $LOCAL_WORLD_SIZE, $RANK of $WORLD_SIZE, node $GROUP_RANK" \
        "$MASTER_ADDR $TORCHELASTIC_RUN_ID $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS" \
        "$TORCHELASTIC_USE_AGENT_STORE""#;
    let (code, out, err) = result("--nproc_per_node 2 --rdzv_id job", script);
    assert_eq!((code, &*err), (0, ""));
    assert_eq!(
        sorted(&out),
        [
            "[rank0]: 0 of 2, 0 of 2, node 0 127.0.0.1 job 0 0 True",
            "[rank1]: 1 of 2, 1 of 2, node 0 127.0.0.1 job 0 0 True",
        ]
    );
}

#[test]
fn launches_on_default_settings_do_not_meet() {
    // Each waits for a file of the other's before it ends, so that both run at once.
    let folder = tempfile::tempdir().unwrap();
    let script = "echo $MASTER_PORT $TORCHELASTIC_RUN_ID $BURN_VIRTUAL_TOKEN
        touch $RUN; until [ -e 1 ] && [ -e 2 ]; do sleep 0.05; done";
    let start = |run| {
        let mut command = launch("", script);
        let command = command.current_dir(&folder).env_remove(TOKEN);
        Running::start(command.env("RUN", run))
    };
    let both = [start("1"), start("2")].map(|running| parts(&running.finish()));
    let words = both.map(|(code, out, err)| {
        assert_eq!((code, &*err), (0, ""));
        let words: Vec<_> = out.split_whitespace().skip(1).map(str::to_owned).collect();
        <[String; 3]>::try_from(words).unwrap()
    });
    for (one, other) in words[0].iter().zip(&words[1]) {
        assert_ne!(one, other);
    }
    assert!(words[0][0].parse::<u16>().unwrap() > 0);
    assert!(words[0][2].len() >= 32, "a token that nobody guesses");
}

#[test]
fn token_is_the_launchers_own_where_it_has_one() {
    let mut command = launch("", "echo $BURN_VIRTUAL_TOKEN");
    let token = "0123456789abcdef0123";
    let output = Running::start(command.env(TOKEN, token)).finish();
    assert_eq!(parts(&output).1, format!("[rank0]: {token}\n"));
}

#[test]
fn secrets_are_on_no_command_line() {
    let script = "tr '\\0' ' ' < /proc/$$/cmdline; tr '\\0' ' ' < /proc/$PPID/cmdline";
    let mut command = launch("", script);
    let token = "0123456789abcdef0123";
    let (code, out, _) = parts(&Running::start(command.env(TOKEN, token)).finish());
    assert_eq!(code, 0);
    assert!(out.contains("launch") && !out.contains(token), "{out}");
}

#[test]
fn processes_share_the_cores() {
    let cores = available_parallelism().unwrap().get();
    let threads = |flags: &str, given: Option<&str>| {
        let mut command = launch(flags, "echo $RAYON_NUM_THREADS");
        match given {
            Some(given) => command.env("RAYON_NUM_THREADS", given),
            None => command.env_remove("RAYON_NUM_THREADS"),
        };
        let (code, out, err) = parts(&Running::start(&mut command).finish());
        assert_eq!(code, 0, "{err}");
        let first = out.lines().next().unwrap();
        first.split_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(threads("", None), "");
    let each = (cores / 2).max(1).to_string();
    assert_eq!(threads("--nproc-per-node 2", None), each);
    assert_eq!(threads("--nproc-per-node 99", None), "1");
    assert_eq!(threads("--nproc-per-node 2", Some("7")), "7");
}

#[test]
fn there_is_a_process_for_each_core_when_asked_for() {
    let cores = available_parallelism().unwrap().get();
    for flags in ["--nproc-per-node auto", "--nproc-per-node=cpu"] {
        let (code, out, _) = result(flags, "echo $WORLD_SIZE");
        assert_eq!((code, out.lines().count()), (0, cores));
    }
}

#[test]
fn nothing_is_read_from_the_launchers_input() {
    assert_eq!(result("--nproc-per-node 2", "cat; echo end").0, 0);
}

#[test]
fn nodes_count_ranks_one_after_the_other() {
    let port = free_port();
    let script = "echo $RANK of $WORLD_SIZE, $LOCAL_RANK, node $GROUP_RANK, $MASTER_PORT $TORCHELASTIC_RUN_ID";
    for (node, ranks) in [(0, [0, 1]), (1, [2, 3])] {
        let flags =
            format!("--nnodes 2 --nproc-per-node 2 --node-rank {node} --master-port {port}");
        let mut command = launch(&flags, script);
        let output = Running::start(command.env(TOKEN, "0123456789abcdef")).finish();
        let (code, out, err) = parts(&output);
        assert_eq!(code, 0, "{err}");
        let expected = ranks.map(|rank| {
            let local = rank % 2;
            format!("[rank{rank}]: {rank} of 4, {local}, node {node}, {port} burn-virtual")
        });
        assert_eq!(sorted(&out), expected);
    }
}

#[test]
fn busy_port_is_an_error() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = busy.local_addr().unwrap();
    let (code, out, err) = result(&format!("--master-port {}", at.port()), "echo started");
    assert_eq!((code, &*out), (1, ""));
    assert!(
        err.starts_with(&format!("error: cannot listen at {at}: ")),
        "{err}"
    );
}

#[test]
fn temporary_folder_is_gone_at_the_end() {
    let output = run("", "dirname $(dirname $TORCHELASTIC_ERROR_FILE)");
    let (_, out, _) = parts(&output);
    let folder = out.trim().strip_prefix("[rank0]: ").unwrap().to_owned();
    assert!(folder.starts_with('/'), "{folder}");
    assert!(!std::path::Path::new(&folder).exists());
}
