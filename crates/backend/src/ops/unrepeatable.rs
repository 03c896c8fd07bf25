//! Operations of cubecl's backends that don't repeat their bits, read in burn-cubecl 0.21 and cubek 0.2:
//! threads add into the same place in the order in which they happen to come.
//!
//! Inside a job they are refused by name. (A full sum adds with atomics as well, but the decorator
//! has one of its own: see `reduce`.)

use crate::context;
use crate::hardware::is_cubecl;

const LISTED: [&str; 3] = [
    // The gradient of the input is gathered with float atomics.
    "deform_conv2d_backward",
    // One thread a value, reading and writing without atomics: where an index comes twice, one of
    // the two is even lost.
    "float_scatter_nd",
    "int_scatter_nd",
];

/// Whether a method is one of them. For constants: no other method pays for the question.
pub(crate) const fn is_listed(method: &str) -> bool {
    let mut index = 0;
    while index < LISTED.len() {
        if equal(LISTED[index].as_bytes(), method.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

/// Notes that one of them runs, where the backend is one of cubecl's.
#[cold]
pub(crate) fn note<B>(method: &'static str) {
    if is_cubecl::<B>() {
        context::unrepeatable(method);
    }
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut same = a.len() == b.len();
    let mut index = 0;
    while same && index < a.len() {
        same = a[index] == b[index];
        index += 1;
    }
    same
}

#[cfg(test)]
mod tests {
    use super::LISTED;

    const TABLES: [&str; 6] = [
        include_str!("activation.rs"),
        include_str!("bool.rs"),
        include_str!("float.rs"),
        include_str!("int.rs"),
        include_str!("module.rs"),
        include_str!("quantized.rs"),
    ];

    /// Only those are asked whether they are listed.
    #[test]
    fn what_is_listed_is_a_row_of_a_table() {
        for name in LISTED {
            let start = format!("fn {name}(");
            // A row is one line; a method of an impl has a body.
            let is_row = |line: &str| line.trim_start().starts_with(&start) && line.ends_with(';');
            let mut rows = TABLES.iter().flat_map(|table| table.lines());
            assert!(rows.any(is_row), "no row `{name}`");
        }
    }
}
