//! Faults seen in other systems, as small cases: the right value of each. A test is named after
//! the number of its case.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

#[path = "../common/mod.rs"]
mod common;

mod absent;
mod empty;
mod gradients;
mod ignored;
mod loops;
mod masks;
mod not_finite;
mod precision;
mod seeds;
mod statistics;
mod sums;
mod tied;
