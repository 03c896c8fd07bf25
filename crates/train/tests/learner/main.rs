//! A model on virtual nodes for burn-train: single steps, their outputs, the module that wraps it,
//! and whole trainings.
#![cfg(feature = "burn-train")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;
mod inside;
mod module;
mod outputs;
mod ragged;
mod steps;
mod training;
mod valid;
mod weights;
