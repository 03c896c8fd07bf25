//! A backend that breaks its promises is caught by `Verify`.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod broken;
mod convert;
mod layers;
mod steadiness;
mod task;
