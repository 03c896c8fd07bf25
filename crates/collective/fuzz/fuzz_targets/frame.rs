//! Frames of a TCP connection.
#![no_main]

use burn_virtual_collective::tcp::fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::frame(bytes));
