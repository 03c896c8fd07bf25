//! Hello, claims, proof and verdict of a handshake.
#![no_main]

use burn_virtual_collective::tcp::fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::handshake(bytes));
