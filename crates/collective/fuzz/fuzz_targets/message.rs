//! Messages between a rank and the store.
#![no_main]

use burn_virtual_collective::tcp::fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::message(bytes));
