//! Nobody is left when a launch is over.

use std::fs;

use crate::harness::{Running, assert_end, launch, parts, result, send, until};

/// Prints two processes: its own, and one that it started.
const TWO: &str = "sleep 1000 & echo $$; echo $!; wait";

#[test]
fn nothing_is_left_when_the_launcher_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let entries = || fs::read_dir(folder.path()).unwrap().count();
    let mut launch = launch("--nproc-per-node 3", TWO);
    let mut running = Running::start(launch.env("TMPDIR", folder.path()));
    let processes = running.hear_all(6);
    assert_eq!(entries(), 1);
    running.signal("KILL");
    assert_end(&processes);
    running.wait();
    until("an empty folder", || (entries() == 0).then_some(()));
}

/// The kernel still knows whom the processes belong to.
#[test]
fn processes_end_with_the_launcher_though_nobody_guards_them() {
    // Nobody removes the launcher's folder either.
    let folder = tempfile::tempdir().unwrap();
    let mut launch = launch("--nproc-per-node 2", "echo $$; exec sleep 1000");
    let mut running = Running::start(launch.env("TMPDIR", folder.path()));
    let processes = running.hear_all(2);
    let children = format!("/proc/{0}/task/{0}/children", running.pid());
    let is_guard = |pid: &&str| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        words.split('\0').nth(1) == Some("guard")
    };
    let children = fs::read_to_string(children).unwrap();
    let guards: Vec<_> = children.split_whitespace().filter(is_guard).collect();
    assert_eq!(guards.len(), 1);
    send("KILL", guards[0]);
    running.signal("KILL");
    assert_end(&processes);
}

#[test]
fn nobody_is_left_when_a_launcher_that_stops_others_is_killed() {
    let script = format!(r#"trap "echo asked" TERM; {TWO}; while :; do sleep 0.05; done"#);
    let mut running = Running::start(&mut launch(
        "--nproc-per-node 2 --kill-after 86400",
        &script,
    ));
    let processes = running.hear_all(4);
    running.signal("TERM");
    running.hear_all(2);
    running.signal("KILL");
    assert_end(&processes);
}

#[test]
fn what_processes_left_running_is_stopped() {
    for code in [0, 4] {
        let script = format!("sleep 1000 & echo $!; exit {code}");
        let (got, out, _) = result("", &script);
        assert_eq!(got, code);
        let processes: Vec<_> = out.lines().map(str::to_owned).collect();
        assert_eq!(processes.len(), 1);
        assert_end(&processes);
    }
}

#[test]
fn what_processes_left_running_has_time_to_stop() {
    let helper = "trap 'echo cleaned up; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let script = format!("( {helper} ) & until [ -e go ]; do sleep 0.05; done");
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start(launch("", &script).current_dir(&folder));
    assert_eq!(running.hear(), "[rank0]: ready");
    fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(running.hear(), "[rank0]: cleaned up");
    assert_eq!(parts(&running.finish()).0, 0);
}

/// A process in another session is nobody's; it may keep the output open.
#[test]
fn launch_ends_though_somebody_keeps_an_output_open() {
    let folder = tempfile::tempdir().unwrap();
    let script = "setsid sh -c 'echo $$; touch ready; exec sleep 1000' &
        until [ -e ready ]; do sleep 0.05; done";
    let mut running = Running::start(launch("", script).current_dir(&folder));
    let process = running.hear();
    let code = running.wait().code();
    send("KILL", process.rsplit(' ').next().unwrap());
    assert_eq!(code, Some(0));
}

/// The same, with more to read at any time. With nobody to write to, it ends.
#[test]
fn launch_ends_though_somebody_goes_on_writing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "setsid sh -c 'echo $$; touch ready; exec yes' &
        until [ -e ready ]; do sleep 0.05; done; echo end";
    let output = Running::start(launch("", script).current_dir(&folder)).finish();
    let (code, out, _) = parts(&output);
    assert_eq!(code, 0);
    // Not always a line by itself: the other one writes more at a time than comes whole.
    assert!(out.contains("end"));
    assert_end(&[out.lines().next().unwrap().to_owned()]);
}
