//! Tensors without elements beside others. Of a dimension that is 0 in one tensor and 1 in the other,
//! the result has 0; cubecl's backends take the larger, and panic or read what isn't there. A sum's
//! backward pass multiplies two such tensors.

use burn_backend::{Shape, TensorMetadata};

use crate::hardware::is_cubecl;

/// Stretches two tensors of backend `B` to their common shape, where one has no elements and the other
/// does.
#[inline]
pub(crate) fn stretched<B, P: TensorMetadata>(
    lhs: P,
    rhs: P,
    expand: impl Fn(P, Shape) -> P,
) -> (P, P) {
    // Shapes take a copy each: on tiny tensors of a CPU backend that would show.
    if !is_cubecl::<B>() {
        return (lhs, rhs);
    }
    let (left, right) = (lhs.shape(), rhs.shape());
    if (left.num_elements() == 0) == (right.num_elements() == 0) {
        return (lhs, rhs);
    }
    match left.broadcast(&right) {
        Ok(shape) => (expand(lhs, shape.clone()), expand(rhs, shape)),
        // The backend says what is wrong with them.
        Err(_) => (lhs, rhs),
    }
}
