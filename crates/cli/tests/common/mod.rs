//! The command as a user or a script runs it.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test file uses a part; a panic is how a test fails"
)]

pub(crate) mod running;

use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

pub(crate) fn command(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burn-virtual"));
    command
        .args(args.split_whitespace())
        // Without it, the Vulkan loader's libraries complain on stderr, which is not ours to test.
        .env("XDG_RUNTIME_DIR", std::env::temp_dir());
    command
}

pub(crate) fn burn_virtual(args: &str) -> Output {
    command(args).output().unwrap()
}

/// The object on the last line of stdout of a command that succeeds.
#[track_caller]
pub(crate) fn report(args: &str) -> Value {
    let output = burn_virtual(&format!("{args} --json"));
    let report = object(&output);
    let err = text(&output.stderr);
    assert_eq!(err, "", "a run without a terminal shows no progress");
    report
}

/// The object on the last line of stdout of a command that succeeded.
#[track_caller]
pub(crate) fn object(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap()
}

/// What a command that fails says on stderr; it says nothing on stdout.
#[track_caller]
pub(crate) fn fails_with(code: i32, args: &str) -> String {
    let output = burn_virtual(args);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args}: {err}");
    assert_eq!(text(&output.stdout), "", "{args}");
    err
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A port that is free, another one at each call. It is below those that a system gives whoever asks
/// for any, so that it stays free.
#[track_caller]
pub(crate) fn free_port() -> u16 {
    const COUNT: u32 = 12_000;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Other tests are other processes, with numbers close to this one's.
    let first = std::process::id().wrapping_mul(101) % COUNT;
    (0..COUNT)
        .map(|_| CALLS.fetch_add(1, Ordering::Relaxed))
        .filter_map(|call| u16::try_from(20_000 + (first + call) % COUNT).ok())
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .unwrap()
}
