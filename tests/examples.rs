//! Every example runs to its end: each asserts what it shows.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a panic is how a test fails; `main` is public for this file"
)]

#[path = "../examples/burn_train.rs"]
mod burn_train;
#[path = "../examples/inference.rs"]
mod inference;
#[path = "../examples/large_batch.rs"]
mod large_batch;
#[path = "../examples/plain_loop.rs"]
mod plain_loop;
#[path = "../examples/resize.rs"]
mod resize;

use std::path::Path;

macro_rules! examples {
    ($($name:ident)*) => {
        /// In alphabetical order.
        const RUN: &[&str] = &[$(stringify!($name)),*];

        mod runs_to_its_end {
            $(#[test]
            fn $name() {
                super::$name::main().unwrap();
            })*
        }
    };
}
examples!(burn_train inference large_batch plain_loop resize);

#[test]
fn no_example_is_left_out_when_one_is_added() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut found: Vec<_> = directory
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort_unstable();
    assert_eq!(found, RUN);
}
