//! What a launch says of processes that fail.

use crate::common::command;
use crate::harness::{Running, assert_end, launch, parts, result};

/// The last line of stderr.
fn last(err: &str) -> &str {
    err.lines().last().unwrap()
}

#[test]
fn launch_succeeds_when_all_processes_do() {
    assert_eq!(
        result("--nproc-per-node 3", "exit 0"),
        (0, "".into(), "".into())
    );
    // One that is ready early is no reason to stop the others.
    let script = "[ $RANK = 0 ] || { sleep 0.3; echo late; }";
    let (code, out, _) = result("--nproc-per-node 2", script);
    assert_eq!((code, &*out), (0, "[rank1]: late\n"));
}

#[test]
fn launch_ends_with_the_code_of_the_process_that_failed() {
    for code in [1, 2, 77] {
        let script = format!("[ $RANK = 1 ] && exit {code}; exec sleep 1000");
        let (got, out, err) = result("--nproc-per-node 3", &script);
        assert_eq!((got, &*out), (code, ""), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        let (start, rest) = err.split_once(" (").unwrap();
        let time = start.strip_prefix("error: rank 1 failed at ").unwrap();
        // 2000-01-01T00:00:00.000Z
        assert_eq!(
            (time.len(), &time[10..11], &time[19..20]),
            (24, "T", "."),
            "{time}"
        );
        let rest = rest.strip_prefix("local rank 1, pid ").unwrap();
        let (pid, rest) = rest.split_once(", ").unwrap();
        assert!(pid.parse::<u32>().is_ok(), "{err}");
        assert_eq!(rest, format!("exit code {code})\n"));
    }
}

#[test]
fn launch_ends_with_1_when_a_process_dies_of_a_signal() {
    for signal in ["SEGV", "KILL", "TERM", "ABRT"] {
        let script = format!("[ $RANK = 2 ] && kill -{signal} $$; exec sleep 1000");
        let (code, _, err) = result("--nproc-per-node 3", &script);
        assert_eq!(code, 1, "{err}");
        assert!(err.starts_with("error: rank 2 failed at "), "{err}");
        assert!(err.ends_with(&format!(", SIG{signal})\n")), "{err}");
    }
}

#[test]
fn others_are_stopped_when_one_fails() {
    let script = "[ $RANK = 1 ] && { until [ -e go ]; do sleep 0.05; done; exit 1; }
        sleep 1000 & echo $$; echo $!; wait";
    let folder = tempfile::tempdir().unwrap();
    let mut launch = launch("--nproc-per-node 3", script);
    let mut running = Running::start(launch.current_dir(&folder));
    let processes = running.hear_all(4);
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (code, _, err) = parts(&running.finish());
    assert_eq!(code, 1);
    assert!(err.starts_with("error: rank 1 failed at "), "{err}");
    assert_end(&processes);
}

#[test]
fn those_that_do_not_stop_are_killed() {
    let script = r#"trap "" TERM
        [ $RANK = 1 ] && { until [ -e go ]; do sleep 0.05; done; exit 1; }
        echo $$; while :; do sleep 0.1; done"#;
    let folder = tempfile::tempdir().unwrap();
    let mut launch = launch("--nproc-per-node 2 --kill-after 0.2", script);
    let mut running = Running::start(launch.current_dir(&folder));
    let processes = running.hear_all(1);
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (code, _, err) = parts(&running.finish());
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.starts_with("error: rank 1 failed at "), "{err}");
    assert_end(&processes);
}

/// Rank 1 has gone over to the launcher's group. Shells don't do that; Perl is part of Debian.
#[test]
fn those_that_left_their_group_are_stopped_and_do_not_hide_the_cause() {
    let script = r#"[ $RANK = 1 ] && exec perl -e 'setpgrp(0, getpgrp(getppid())) or die;
            $SIG{TERM} = "IGNORE"; $| = 1; print "$$\n"; open F, ">left"; sleep 1000'
        until [ -e left ]; do sleep 0.05; done; exit 3"#;
    let folder = tempfile::tempdir().unwrap();
    let mut launch = launch("--nproc-per-node 2 --kill-after 0.2", script);
    let (code, out, err) = parts(&Running::start(launch.current_dir(&folder)).finish());
    assert_eq!((code, err.lines().count()), (3, 1), "{err}");
    assert!(err.starts_with("error: rank 0 failed at "), "{err}");
    assert_end(&[out.trim_end().to_owned()]);
}

/// Rank 0 hears of the failure, and ends before the one that failed does.
#[test]
fn cause_is_named_though_others_end_first() {
    let script = r#"case $RANK in
        0) echo '{"message":{"message":"rank 2 is gone"},"consequence":true}' \
               > $TORCHELASTIC_ERROR_FILE
           touch heard; exit 1;;
        1) exec sleep 1000;;
        2) trap "" TERM
           until [ -e heard ]; do sleep 0.05; done
           kill -ABRT $$;;
        esac"#;
    let folder = tempfile::tempdir().unwrap();
    let mut launch = launch("--nproc-per-node 3 --kill-after 60", script);
    let running = Running::start(launch.current_dir(&folder));
    let (code, _, err) = parts(&running.finish());
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.starts_with("error: rank 2 failed at "), "{err}");
    assert!(err.ends_with(", SIGABRT)\n"), "{err}");
}

#[test]
fn others_are_stopped_though_the_cause_is_never_seen() {
    let script = r#"[ $RANK = 1 ] && exec sleep 1000
        echo '{"message":{"message":"rank 1 is late"},"consequence":true}' > $TORCHELASTIC_ERROR_FILE
        exit 1"#;
    let (code, _, err) = result("--nproc-per-node 2", script);
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.starts_with("error: rank 0 failed at "), "{err}");
    assert!(err.ends_with(", exit code 1): rank 1 is late\n"), "{err}");
}

#[test]
fn others_that_failed_by_themselves_are_named_after_the_first() {
    let script = r#"case $RANK in
        0) trap 'kill -ABRT $$' TERM; touch 0;;
        1) trap 'exit 1' TERM; touch 1;;
        2) until [ -e 0 ] && [ -e 1 ]; do sleep 0.05; done
           echo "error: out of luck" >&2; exit 3;;
        esac
        while :; do sleep 0.05; done"#;
    let folder = tempfile::tempdir().unwrap();
    let mut launch = launch("--nproc-per-node 3", script);
    let (code, _, err) = parts(&Running::start(launch.current_dir(&folder)).finish());
    assert_eq!(code, 3, "{err}");
    let lines: Vec<_> = err.lines().collect();
    let [.., first, other] = lines[..] else {
        panic!("{err}");
    };
    assert!(lines.contains(&"[rank2]: error: out of luck"), "{err}");
    assert!(first.starts_with("error: rank 2 failed at "), "{err}");
    assert!(first.ends_with(", exit code 3): out of luck"), "{err}");
    // Asked to stop, it died of something else.
    assert!(other.starts_with("also: rank 0 failed at "), "{err}");
    assert!(other.ends_with(", SIGABRT)"), "{err}");
}

#[test]
fn message_is_that_of_the_error_file_or_else_the_last_of_stderr() {
    let told = r#"{"message":{"message":"told in the file","extraInfo":{"timestamp":"1"}}}"#;
    let cases = [
        (told, "told in the file"),
        ("{\"message\":", "said last"),
        ("\u{0}\u{1}[]", "said last"),
    ];
    for (file, expected) in cases {
        let mut command = launch(
            "",
            r#"printf '%s' "$TOLD" > $TORCHELASTIC_ERROR_FILE
            echo "error: said first" >&2; echo "error: said last" >&2; echo more >&2; exit 1"#,
        );
        let told = file.replace('\u{0}', "\\0");
        let (_, _, err) = parts(&Running::start(command.env("TOLD", told)).finish());
        assert!(last(&err).ends_with(&format!("): {expected}")), "{err}");
    }
}

#[test]
fn huge_error_file_is_no_error_of_the_launcher() {
    let script = "head -c 20000000 /dev/zero > $TORCHELASTIC_ERROR_FILE; exit 1";
    let (code, _, err) = result("", script);
    assert_eq!(code, 1);
    assert!(err.ends_with(", exit code 1)\n"), "{err}");
    let pipe = "mkfifo $TORCHELASTIC_ERROR_FILE; exit 1";
    assert_eq!(result("", pipe).0, 1);
}

#[test]
fn program_that_cannot_be_started_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("no-program");
    std::fs::write(&file, "text").unwrap();
    for program in [
        "/no/such/program",
        "no-such-program",
        file.to_str().unwrap(),
    ] {
        let mut command = command(&format!("launch --nproc-per-node 2 --program {program}"));
        let (code, out, err) = parts(&Running::start(&mut command).finish());
        assert_eq!((code, &*out), (1, ""));
        assert!(
            last(&err).contains(&format!("cannot start {program}: ")),
            "{err}"
        );
    }
}

#[test]
fn this_program_is_the_one_that_runs_where_no_other_is_named() {
    let mut running = command("launch --nproc-per-node 2 -- predict --model none");
    let (code, _, err) = parts(&Running::start(&mut running).finish());
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("]: error: invalid value 'none' for '--model <MODEL>'"),
        "{err}"
    );
}
