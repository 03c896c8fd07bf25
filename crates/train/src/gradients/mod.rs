//! The gradients of one backward pass: taken by Burn's hook, or when the pass returns. Both give
//! the same bits; cargo feature `overlap` decides.

#[cfg(feature = "overlap")]
mod hooked;
#[cfg(not(feature = "overlap"))]
mod returned;

#[cfg(feature = "overlap")]
pub(crate) use hooked::{Taken, backward, marked};
#[cfg(not(feature = "overlap"))]
pub(crate) use returned::{Taken, backward, marked};
