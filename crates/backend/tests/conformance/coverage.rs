//! Every method of the op tables has a row here or a reason for having none.

use std::collections::BTreeSet;

use burn_flex::Flex;

use super::{Table, skipped};

/// The methods of the delegating impls in a source file of `src/ops`.
fn methods(source: &'static str) -> BTreeSet<&'static str> {
    source
        .lines()
        // A function beside the impls starts its line.
        .filter(|line| line.starts_with(' '))
        .filter_map(|line| line.trim_start().strip_prefix("fn "))
        .map(|rest| rest.split(['(', '<']).next().unwrap())
        .collect()
}

fn check(family: &str, source: &'static str, count: usize, table: Table<Flex>) {
    let delegated = methods(source);
    assert_eq!(delegated.len(), count, "{family}: number of methods");
    let called: BTreeSet<_> = table.iter().map(|case| case.name).collect();
    let without: Vec<_> = delegated.difference(&called).collect();
    assert!(
        without.is_empty(),
        "{family}: no row in the table for {without:?}"
    );
    let unknown: Vec<_> = called.difference(&delegated).collect();
    assert!(
        unknown.is_empty(),
        "{family}: rows for {unknown:?}, which are not delegated"
    );
}

macro_rules! covered {
    ($($test:ident $family:ident $file:literal $count:literal)*) => {
        $(
            #[test]
            fn $test() {
                check(
                    stringify!($family),
                    include_str!(concat!("../../src/ops/", $file)),
                    $count,
                    super::$family::cases(),
                );
            }
        )*
    };
}
// The counts are those of Burn 0.21: required and defaulted methods together.
covered! {
    every_activation_op_has_a_row activation "activation.rs" 14
    every_bool_op_has_a_row bool "bool.rs" 39
    every_float_op_has_a_row float "float.rs" 124
    every_int_op_has_a_row int "int.rs" 104
    every_module_op_has_a_row module "module.rs" 56
    every_quantized_op_has_a_row quantized "quantized.rs" 80
    every_transaction_op_has_a_row transaction "transaction.rs" 1
}

#[test]
fn skipped_methods_have_a_row_and_a_reason() {
    let names: BTreeSet<_> = [
        super::activation::cases::<Flex>(),
        super::bool::cases(),
        super::float::cases(),
        super::int::cases(),
        super::module::cases(),
        super::quantized::cases(),
        super::transaction::cases(),
    ]
    .iter()
    .flatten()
    .map(|case| case.name)
    .collect();
    assert_eq!(names.len(), 418);
    let skipped = [
        skipped::ON_FLEX,
        skipped::ON_NDARRAY,
        skipped::ON_GPU,
        skipped::ON_WGPU,
        skipped::UNLIKE_FLEX,
    ];
    for (name, _, reason) in skipped.into_iter().flatten() {
        assert!(names.contains(name), "{name} is skipped but has no row");
        assert!(reason.len() > 10, "{name} is skipped without a reason");
    }
}
