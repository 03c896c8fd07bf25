//! Log files, and what is shown beside them.

use std::fs;

use crate::harness::{result, run, sorted};

const BOTH: &str = "echo out $RANK; echo err $RANK >&2";

/// The lines that are shown on stdout and on stderr, and those in the log files.
fn logged(flags: &str) -> [Vec<String>; 3] {
    let folder = tempfile::tempdir().unwrap();
    let flags = format!(
        "--nproc-per-node 2 --log-dir {} {flags}",
        folder.path().display()
    );
    let (code, out, err) = result(&format!("{flags} --rdzv-id job"), BOTH);
    assert_eq!(code, 0, "{err}");
    let mut files = Vec::new();
    for rank in 0..2 {
        for name in ["stdout", "stderr"] {
            let file = folder
                .path()
                .join(format!("job/attempt_0/{rank}/{name}.log"));
            files.extend(fs::read_to_string(file).ok());
        }
    }
    let lines = |text: &str| sorted(text).into_iter().map(str::to_owned).collect();
    [lines(&out), lines(&err), lines(&files.concat())]
}

#[test]
fn logs_hold_everything_and_it_is_shown_when_nothing_else_is_said() {
    let files = ["err 0", "err 1", "out 0", "out 1"].map(String::from);
    let of = |text: &str| [0, 1].map(|rank| format!("[rank{rank}]: {text} {rank}"));
    let expected = [of("out").to_vec(), of("err").to_vec(), files.to_vec()];
    assert_eq!(logged(""), expected);
    assert_eq!(logged("--tee 3"), expected);
    assert_eq!(logged("-t 3 -r 3"), expected, "shown as well");
    let [_, _, files] = expected;
    assert_eq!(logged("--redirects 3"), [vec![], vec![], files]);
}

#[test]
fn outputs_are_chosen_by_torchruns_numbers() {
    let cases = [
        ("-r 1", "", "[rank0]: err 0,[rank1]: err 1", "out 0,out 1"),
        ("-r 2", "[rank0]: out 0,[rank1]: out 1", "", "err 0,err 1"),
        ("-r 0:3,1:1", "", "[rank1]: err 1", "err 0,out 0,out 1"),
        (
            "-r 3 -t 1:2",
            "",
            "[rank1]: err 1",
            "err 0,err 1,out 0,out 1",
        ),
        (
            "-r 0 -t 0:1 --local-ranks-filter 0",
            "[rank0]: out 0",
            "[rank0]: err 0",
            "out 0",
        ),
        (
            "--local_ranks_filter 1",
            "[rank1]: out 1",
            "[rank1]: err 1",
            "err 0,err 1,out 0,out 1",
        ),
    ];
    for (flags, out, err, files) in cases {
        let lines = |text: &str| {
            text.split(',')
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let expected: [Vec<String>; 3] = [out, err, files].map(lines);
        assert_eq!(logged(flags), expected, "{flags}");
    }
}

#[test]
fn filter_needs_no_logs() {
    let (_, out, err) = result("--nproc-per-node 3 --local-ranks-filter 0,2", BOTH);
    assert_eq!(sorted(&out), ["[rank0]: out 0", "[rank2]: out 2"]);
    assert_eq!(sorted(&err), ["[rank0]: err 0", "[rank2]: err 2"]);
}

#[test]
fn logs_hold_bytes_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let flags = format!("-r 3 --rdzv-id job --log-dir {}", folder.path().display());
    run(
        &flags,
        r"printf 'a\n\377\000b'; head -c 100000 /dev/zero >&2",
    );
    let file = |name: &str| fs::read(folder.path().join("job/attempt_0/0").join(name)).unwrap();
    assert_eq!(file("stdout.log"), b"a\n\xff\0b");
    assert_eq!(file("stderr.log"), vec![0; 100_000]);
}

#[test]
fn error_names_the_log_file_and_leaves_the_error_file_there() {
    let folder = tempfile::tempdir().unwrap();
    let flags = format!("--rdzv-id job --log-dir {}", folder.path().display());
    let script = r#"echo '{"message":{"message":"no luck"}}' > $TORCHELASTIC_ERROR_FILE; exit 1"#;
    let (_, _, err) = result(&flags, script);
    let rank = folder.path().join("job/attempt_0/0");
    let log = rank.join("stderr.log");
    assert!(
        err.ends_with(&format!("): no luck; log: {}\n", log.display())),
        "{err}"
    );
    assert!(rank.join("error.json").exists());
}

#[test]
fn logs_of_another_launch_are_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let flags = format!("--rdzv-id job --log-dir {}", folder.path().display());
    assert_eq!(result(&flags, "echo first").0, 0);
    let (code, out, err) = result(&flags, "echo second");
    assert_eq!((code, &*out), (1, ""));
    assert!(err.contains("there are logs already"), "{err}");
    let log = folder.path().join("job/attempt_0/0/stdout.log");
    assert_eq!(fs::read_to_string(log).unwrap(), "first\n");
    // Names that are drawn don't meet.
    let flags = format!("--log-dir {}", folder.path().display());
    for _ in 0..2 {
        assert_eq!(result(&flags, "echo more").0, 0);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn folder_that_cannot_be_made_is_an_error() {
    let (code, out, err) = result("--log-dir /dev/null/logs", "echo started");
    assert_eq!((code, &*out), (1, ""));
    assert!(err.starts_with("error: --log-dir /dev/null/logs/"), "{err}");
}

#[test]
fn job_goes_on_when_a_log_file_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let flags = format!(
        "--nproc-per-node 2 --rdzv-id job --log-dir {}",
        folder.path().display()
    );
    // A limit on the size of files stands in for a full disk; the launcher's own, set by a shell.
    let launch = crate::harness::launch(&flags, "yes | head -n 100000; echo end >&2");
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", r#"trap "" XFSZ; ulimit -f 8; exec "$0" "$@""#]);
    shell.arg(launch.get_program()).args(launch.get_args());
    let output = crate::harness::Running::start(&mut shell).finish();
    let (code, _, err) = crate::harness::parts(&output);
    // The job succeeded, its logs are not what they should be.
    assert_eq!(code, 1, "{err}");
    let count = |text: &str| err.lines().filter(|line| line.contains(text)).count();
    for rank in 0..2 {
        let file = format!("job/attempt_0/{rank}/stdout.log ends here: ");
        assert_eq!(count(&file), 1, "{err}");
        assert_eq!(count(&format!("warning: rank {rank}: log file ")), 1);
    }
    assert_eq!(count("]: end"), 2, "{err}");
    let expected = "error: output of the job is lost, see the warnings";
    assert_eq!(err.lines().last(), Some(expected));
}
