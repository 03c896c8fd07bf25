//! Methods that the inner backend itself does not have, with the reason.

/// Where a method is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Everywhere,
    /// On inputs that are views; contiguous ones are compared.
    OnViews,
}

use Where::{Everywhere, OnViews};

pub(crate) type Skipped = [(&'static str, Where, &'static str)];

const NO_ARGTOPK: &str = "not implemented by the inner backend";
const NO_CTC: &str = "the default is `unreachable!`: has_ctc_loss_backward() is false";

pub(crate) const ON_FLEX: &Skipped = &[
    ("float_argtopk", Everywhere, NO_ARGTOPK),
    ("int_argtopk", Everywhere, NO_ARGTOPK),
    ("q_argtopk", Everywhere, "goes through float_argtopk"),
    ("ctc_loss_backward", Everywhere, NO_CTC),
];

pub(crate) const ON_NDARRAY: &Skipped = &[
    ("float_argtopk", Everywhere, NO_ARGTOPK),
    ("int_argtopk", Everywhere, NO_ARGTOPK),
    ("q_argtopk", Everywhere, "goes through float_argtopk"),
    ("ctc_loss_backward", Everywhere, NO_CTC),
    ("rfft", Everywhere, "`todo!` in the inner backend"),
    ("irfft", Everywhere, "`todo!` in the inner backend"),
    (
        "float_scatter_nd",
        OnViews,
        "the inner backend takes contiguous inputs only",
    ),
    (
        "float_gather_nd",
        OnViews,
        "the inner backend takes contiguous inputs only",
    ),
    (
        "int_scatter_nd",
        OnViews,
        "the inner backend takes contiguous inputs only",
    ),
    (
        "int_gather_nd",
        OnViews,
        "the inner backend takes contiguous inputs only",
    ),
    (
        "deform_conv2d_backward",
        OnViews,
        "the inner backend takes contiguous inputs only",
    ),
];
