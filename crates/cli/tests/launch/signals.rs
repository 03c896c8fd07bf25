//! Signals that come to the launcher.

use crate::harness::{Running, assert_end, launch, parts};

#[test]
fn signals_are_passed_on() {
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131)] {
        let script = format!(
            "trap 'echo got {signal}; exit 0' {signal}; echo ready; while :; do sleep 0.05; done"
        );
        let mut running = Running::start(&mut launch("--nproc-per-node 2", &script));
        running.hear_all(2);
        running.signal(signal);
        let got = running.hear_all(2);
        let expected = [0, 1].map(|rank| format!("[rank{rank}]: got {signal}"));
        assert_eq!(got, expected);
        let (got, _, err) = parts(&running.finish());
        assert_eq!(got, code, "{err}");
        // The shells may have said that somebody stopped their `sleep`.
        let expected = format!("error: stopped by SIG{signal}");
        assert_eq!(err.lines().last(), Some(&*expected));
    }
}

#[test]
fn signals_reach_what_processes_started() {
    let script = "sleep 1000 & echo $!; wait";
    let mut running = Running::start(&mut launch("--nproc-per-node 2", script));
    let processes = running.hear_all(2);
    running.signal("TERM");
    assert_eq!(parts(&running.finish()).0, 143);
    assert_end(&processes);
}

#[test]
fn processes_are_killed_when_they_do_not_heed_a_signal() {
    let script = r#"trap "" INT; echo $$; while :; do sleep 0.05; done"#;
    let mut running = Running::start(&mut launch("--nproc-per-node 2 --kill_after 0.2", script));
    let processes = running.hear_all(2);
    running.signal("INT");
    assert_eq!(parts(&running.finish()).0, 130);
    assert_end(&processes);
}

#[test]
fn second_signal_kills_at_once() {
    let script = "trap 'echo got $$' TERM; echo ready; while :; do sleep 0.05; done";
    let flags = "--nproc-per-node 2 --kill-after 86400";
    let mut running = Running::start(&mut launch(flags, script));
    running.hear_all(2);
    running.signal("TERM");
    let processes = running.hear_all(2);
    running.signal("INT");
    // The first is the one that ended the job.
    assert_eq!(parts(&running.finish()).0, 143);
    assert_end(&processes);
}

#[test]
fn processes_that_were_suspended_are_stopped() {
    let script = "echo $$; kill -STOP $$; sleep 1000";
    let mut running = Running::start(&mut launch("--nproc-per-node 2 --kill-after 0.2", script));
    let processes = running.hear_all(2);
    running.signal("TERM");
    assert_eq!(parts(&running.finish()).0, 143);
    assert_end(&processes);
}

#[test]
fn only_signals_that_are_asked_for_are_handled() {
    let script = "trap 'echo got' USR1; echo ready; while :; do sleep 0.05; done";
    let mut running = Running::start(&mut launch(
        "--signals-to-handle SIGUSR1 --kill-after 0.2",
        script,
    ));
    running.hear();
    running.signal("USR1");
    assert_eq!(running.hear(), "[rank0]: got");
    let (code, _, err) = parts(&running.finish());
    let last = err.lines().last();
    assert_eq!((code, last), (138, Some("error: stopped by SIGUSR1")));
}

/// As `nohup` has it.
#[test]
fn signals_that_the_launcher_was_started_to_ignore_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "echo ready; until [ -e {}/go ]; do sleep 0.05; done; echo went on",
        folder.path().display()
    );
    let launch = launch("", &script);
    let mut nohup = std::process::Command::new("/bin/sh");
    nohup.args(["-c", r#"trap "" HUP; exec "$0" "$@""#]);
    nohup.arg(launch.get_program()).args(launch.get_args());
    let mut running = Running::start(&mut nohup);
    running.hear();
    running.signal("HUP");
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(running.hear(), "[rank0]: went on");
    assert_eq!(parts(&running.finish()).0, 0);
}

#[test]
fn ends_are_seen_though_the_launcher_was_started_to_ignore_them() {
    let launch = launch(
        "--nproc-per-node 2",
        "[ $RANK = 0 ] || exit 7; exec sleep 1000",
    );
    // A shell would not pass this on; Python's is not at hand everywhere, Perl is part of Debian.
    let mut perl = std::process::Command::new("perl");
    perl.args(["-e", r#"$SIG{CHLD} = "IGNORE"; exec @ARGV"#]);
    perl.arg(launch.get_program()).args(launch.get_args());
    assert_eq!(parts(&Running::start(&mut perl).finish()).0, 7);
}
