//! `burn-virtual launch` with real processes: shell scripts, which need no training.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]

#[path = "../common/mod.rs"]
mod common;
mod environment;
mod failures;
mod harness;
mod leftovers;
mod logs;
mod output;
mod signals;
mod usage;
