//! How the output of processes is shown.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::command;
use crate::common::running::LIMIT;
use crate::harness::{Running, launch, parts, result, run, send, sorted, until};

#[test]
fn lines_carry_their_rank() {
    let (code, out, err) = result("--nproc-per-node 3", "echo out; echo err >&2");
    assert_eq!(code, 0);
    let of = |text: &str| [0, 1, 2].map(|rank| format!("[rank{rank}]: {text}"));
    assert_eq!(sorted(&out), of("out"));
    assert_eq!(sorted(&err), of("err"));
}

#[test]
fn lines_stay_whole_and_in_order_when_many_come_at_once() {
    let script =
        r#"i=0; while [ $i -lt 500 ]; do echo "$i of $RANK"; i=$((i+1)); done; printf end"#;
    // Both outputs into one file.
    let script = format!("{{ {script}; }}; {{ {script}; }} >&2");
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("out")).unwrap();
    let mut command = launch("--nproc-per-node 4", &script);
    command.stdout(file.try_clone().unwrap()).stderr(file);
    let mut child = command.spawn().unwrap();
    let status = until("the end", || child.try_wait().unwrap());
    assert!(status.success());
    let text = std::fs::read_to_string(folder.path().join("out")).unwrap();
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        let (rank, line) = line.split_once(": ").unwrap();
        next.entry(rank).or_default().push(line);
    }
    for rank in 0..4 {
        let lines = &next[&*format!("[rank{rank}]")];
        assert_eq!(lines.len(), 2 * 501);
        let numbers = lines.iter().filter_map(|line| line.split_once(" of "));
        let mut numbers: Vec<usize> = numbers
            .map(|(number, of)| {
                assert_eq!(of, rank.to_string());
                number.parse().unwrap()
            })
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq((0..500).flat_map(|n| [n, n])));
    }
}

#[test]
fn bytes_are_passed_as_they_are() {
    let output = run(
        "",
        r"printf '\377\000\r\t\033[0m\n\n \303'; printf '\200' >&2",
    );
    assert_eq!(output.status.code(), Some(0));
    let expected = b"[rank0]: \xff\0\r\t\x1b[0m\n[rank0]: \n[rank0]:  \xc3\n";
    assert_eq!(output.stdout, expected);
    assert_eq!(output.stderr, b"[rank0]: \x80\n");
}

#[test]
fn endless_line_is_shown_in_parts() {
    let (code, out, _) = result("", "head -c 200000 /dev/zero | tr '\\0' x; echo; echo next");
    assert_eq!(code, 0);
    let mut lines: Vec<_> = out
        .lines()
        .map(|line| line.strip_prefix("[rank0]: ").unwrap())
        .collect();
    assert_eq!(lines.pop(), Some("next"));
    assert!(lines.iter().all(|line| line.len() <= 64 << 10));
    assert_eq!(lines.concat(), "x".repeat(200_000));
}

#[test]
fn result_is_the_last_line_as_it_is() {
    // Rank 1 goes on when rank 0 is ready, and an earlier line of rank 0 is one like others.
    let script = r#"if [ $RANK = 0 ]; then echo '{"first":1}'; printf '{"last":2}'; touch ready
        else until [ -e ready ]; do sleep 0.05; done; echo more; fi"#;
    let folder = tempfile::tempdir().unwrap();
    let mut command = launch("--nproc-per-node 2", script);
    let running = Running::start(command.arg("--json").current_dir(&folder));
    let (code, out, _) = parts(&running.finish());
    assert_eq!(code, 0);
    let (others, last) = out.trim_end().rsplit_once('\n').unwrap();
    let expected = [r#"[rank0]: {"first":1}"#, "[rank1]: more"];
    assert_eq!((sorted(others), last), (expected.to_vec(), r#"{"last":2}"#));
    // Without the flag nothing is held back.
    let (_, out, _) = result("", r#"echo '{"last":2}'"#);
    assert_eq!(out, "[rank0]: {\"last\":2}\n");
}

#[test]
fn result_comes_whole_however_long() {
    let mut command = launch("", "head -c 300000 /dev/zero | tr '\\0' x");
    let output = Running::start(command.arg("--json")).finish();
    assert_eq!(parts(&output).1, "x".repeat(300_000) + "\n");
}

#[test]
fn failed_job_has_no_result() {
    let mut command = launch("", "echo '{}'; exit 1");
    let (code, out, _) = parts(&Running::start(command.arg("--json")).finish());
    assert_eq!((code, &*out), (1, "[rank0]: {}\n"));
}

#[test]
fn job_goes_on_when_nobody_reads_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let script = format!(
        "yes | head -n 200000; yes | head -n 200000 >&2; touch {}",
        done.display()
    );
    let mut child = launch("--nproc-per-node 2", &script)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 8]).unwrap();
    drop((out, child.stderr.take()));
    let status = until("the end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(done.exists());
}

#[test]
fn signal_ends_a_job_whose_reader_has_stalled() {
    let script = "trap '' TERM; touch begun; yes";
    let folder = tempfile::tempdir().unwrap();
    let mut child = launch("--kill-after 0.2", script)
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = folder.path().join("begun");
    until("its start", || begun.exists().then_some(()));
    send("TERM", &child.id().to_string());
    let status = until("the end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(143));
}

/// That nobody reads is one thing, that somebody would and can't is another.
#[test]
fn job_whose_output_is_lost_goes_on_and_fails_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    for code in [0, 3] {
        let done = folder.path().join(code.to_string());
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let script = format!("echo lost; touch {}; exit {code}", done.display());
        let mut command = launch("", &script);
        let mut child = command
            .stdout(full.unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(end(&mut child).code(), Some(code.max(1)));
        assert!(done.exists());
        let mut err = String::new();
        let mut stderr = child.stderr.take().unwrap();
        stderr.read_to_string(&mut err).unwrap();
        let lines: Vec<_> = err.lines().collect();
        assert!(lines[0].starts_with("warning: stdout ends here: "), "{err}");
        let start = ["error: ", "also: "][usize::from(code > 0)];
        let expected = format!("{start}output of the job is lost, see the warnings");
        assert_eq!(lines.last(), Some(&&*expected), "{err}");
        assert_eq!(lines.len(), 2 + usize::from(code > 0), "{err}");
    }
}

/// Not even what the launcher says at the end.
#[test]
fn signal_ends_a_job_of_which_nobody_reads_anything() {
    for script in ["exec yes", "exec yes >&2"] {
        let mut command = launch("--nproc-per-node 2 --kill-after 0.2", script);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let pid = child.id();
        until("a writer that waits", || waits_in_write(pid).then_some(()));
        send("TERM", &pid.to_string());
        let code = end(&mut child).code();
        assert_eq!(code, Some(143), "{script}");
    }
}

/// A second signal doesn't cut short what comes after the first.
#[test]
fn second_signal_leaves_nothing_behind_though_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = launch("--kill-after 86400", "exec yes");
    let mut child = command
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    until("a writer that waits", || waits_in_write(pid).then_some(()));
    send("TERM", &pid.to_string());
    // Its only process is gone, and its guard is left.
    until("the end of the process", || {
        (children(pid) == 1).then_some(())
    });
    send("INT", &pid.to_string());
    assert_eq!(end(&mut child).code(), Some(143));
    let mut err = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut err).unwrap();
    assert_eq!(err, "error: stopped by SIGTERM\n");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn failure_is_named_though_nobody_reads_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let script = "[ $RANK = 0 ] && exec yes; until [ -e go ]; do sleep 0.05; done; exit 3";
    let mut command = launch("--nproc-per-node 2 --kill-after 0.2", script);
    let mut child = command
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    until("a writer that waits", || waits_in_write(pid).then_some(()));
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(end(&mut child).code(), Some(3));
    let mut err = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut err).unwrap();
    assert!(err.starts_with("error: rank 1 failed at "), "{err}");
}

/// Whether a thread of a process waits for somebody to read from a pipe.
fn waits_in_write(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| {
        let of = |file| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        // A kernel may hide the one; the other tells the number of the system call.
        of("wchan").contains("pipe_write")
            || (cfg!(target_arch = "x86_64") && of("syscall").starts_with("1 "))
    })
}

/// How many children a process has.
fn children(pid: u32) -> usize {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    children.unwrap().split_whitespace().count()
}

/// Waits for the end of a process, which is killed if it doesn't come.
#[track_caller]
fn end(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() >= deadline {
            child.kill().unwrap();
            panic!("it hangs");
        }
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn job_says_so_when_nobody_reads_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = launch("", "until [ -e closed ]; do sleep 0.05; done; echo '{}'");
    let mut child = command
        .arg("--json")
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    std::fs::write(folder.path().join("closed"), "").unwrap();
    let status = until("the end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(1));
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert!(err.starts_with("error: writing the result: "), "{err}");
}

#[test]
fn arguments_reach_the_program_untouched() {
    let mut command = command("launch --program /bin/echo --");
    let output = Running::start(command.args(["a  b", "--", "-x=1", "", "$RANK"])).finish();
    assert_eq!(parts(&output).1, "[rank0]: a  b -- -x=1  $RANK\n");
}
