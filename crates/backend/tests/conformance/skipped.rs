//! Methods that the inner backend itself does not have, with the reason.

/// Where a method is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Everywhere,
    /// On inputs that are views; contiguous ones are compared.
    OnViews,
    /// In one of its rows, counted from 0.
    Row(usize),
}

use Where::{Everywhere, OnViews, Row};

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

const EMPTY: &str = "burn-cubecl subtracts one from the size of an empty view";
const NOT_QUANTIZED: &str = "`unimplemented!` in the inner backend";
const PACKED: &str = "the inner backend packs four values into one, and can't cut between them";

/// Methods that wgpu does not have, or not for everything, beside [`ON_GPU`].
pub(crate) const ON_WGPU: &Skipped = &[(
    "int_cast",
    Row(0),
    "there are no integers of 16 bits: the result is what lay in memory",
)];

/// Methods that burn-cubecl, which wgpu and CUDA have in common, does not have, or not for everything.
pub(crate) const ON_GPU: &Skipped = &[
    ("relu", Row(2), EMPTY),
    ("bool_not", Row(1), EMPTY),
    ("float_add", Row(2), EMPTY),
    ("int_add", Row(1), EMPTY),
    (
        "prelu",
        Row(1),
        "the inner backend wants the rank of the tensor, which burn-tensor's `prelu` gives it",
    ),
    (
        "float_scatter_nd",
        Row(0),
        "of two additions to one place, the inner backend loses one",
    ),
    (
        "tr_execute",
        Row(1),
        "the inner backend unwraps the first tensor's client",
    ),
    ("q_expand", Everywhere, NOT_QUANTIZED),
    ("q_flip", Everywhere, NOT_QUANTIZED),
    ("q_select", Everywhere, NOT_QUANTIZED),
    ("q_gather", Everywhere, NOT_QUANTIZED),
    ("q_max", Everywhere, NOT_QUANTIZED),
    ("q_max_dim", Everywhere, NOT_QUANTIZED),
    ("q_max_dim_with_indices", Everywhere, NOT_QUANTIZED),
    ("q_max_abs", Everywhere, NOT_QUANTIZED),
    ("q_max_abs_dim", Everywhere, NOT_QUANTIZED),
    ("q_min", Everywhere, NOT_QUANTIZED),
    ("q_min_dim", Everywhere, NOT_QUANTIZED),
    ("q_min_dim_with_indices", Everywhere, NOT_QUANTIZED),
    ("q_slice", Everywhere, PACKED),
    ("q_topk", Everywhere, PACKED),
];

const DEVICE: &str = "the devices have other names";
const WIDTH: &str = "the result of Flex says of itself that it is u8, not bool";
const POWERS: &str = "wgpu takes powers of floats and cuts them: 124 for 5 to the power of 3";

/// Methods that wgpu and Flex both have, but not with the same results.
pub(crate) const UNLIKE_FLEX: &Skipped = &[
    ("bool_device", Everywhere, DEVICE),
    ("float_device", Everywhere, DEVICE),
    ("int_device", Everywhere, DEVICE),
    ("bool_gather", Everywhere, WIDTH),
    ("bool_select", Everywhere, WIDTH),
    ("bool_select_or", Everywhere, WIDTH),
    ("relu", Row(1), "Flex makes 0 of NaN, wgpu keeps it"),
    (
        "float_powi",
        Everywhere,
        "wgpu gives NaN for negative numbers to some negative powers: -0.69 to that of -3",
    ),
    ("int_powi", Everywhere, POWERS),
    ("int_powi_scalar", Everywhere, POWERS),
    ("int_powi_scalar_impl", Everywhere, POWERS),
    (
        "float_grid_sample_2d",
        OnViews,
        "wgpu reads the grid as if it were contiguous",
    ),
    (
        "deform_conv2d_backward",
        Everywhere,
        "the gradients of offsets and masks are wrong on wgpu, by as much as they are large",
    ),
    (
        "has_ctc_loss_backward",
        Everywhere,
        "wgpu has it, Flex does not",
    ),
    (
        "tr_execute",
        Row(0),
        "burn-cubecl leaves out quantized tensors",
    ),
];
