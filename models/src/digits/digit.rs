//! One sample of the digits data set.

/// Rows, and columns, of an image.
pub(crate) const SIDE: usize = 8;

/// One handwritten digit.
#[derive(Clone, Debug, PartialEq)]
pub struct Digit {
    /// The 8x8 image, row by row, from 0 (paper) to 1 (ink).
    pub pixels: [f32; SIDE * SIDE],
    /// What was written, 0 to 9.
    pub label: u8,
}
