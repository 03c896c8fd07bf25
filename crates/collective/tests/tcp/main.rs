//! Groups over TCP: what groups in memory are tested for, and what only sockets can do wrong.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside the test functions
#![allow(clippy::duplicate_mod)] // each file brings its helpers along when it is a module

#[path = "../agreement.rs"]
mod agreement;
#[path = "../all_reduce.rs"]
mod all_reduce;
#[path = "../bytes.rs"]
mod bytes;
#[path = "../faults.rs"]
mod faults;
#[path = "../reduce.rs"]
mod reduce;
#[path = "../shapes.rs"]
mod shapes;
#[path = "../stall.rs"]
mod stall;
#[path = "../sums.rs"]
mod sums;

#[path = "../common/mod.rs"]
mod common;
mod forming;
mod help;
mod links;
mod processes;
mod rank;
mod stalls;
mod strangers;
