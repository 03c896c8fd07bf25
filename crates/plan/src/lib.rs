//! What a training job is, before any hardware: virtual nodes, who runs which of them, and the
//! one order in which their contributions are added. The crate exists so that this order can be
//! read, tested and simulated without a tensor library and without a network; it may import
//! neither Burn nor sockets.
//!
//! ```
//! use burn_virtual_plan::{BatchSplit, Layout, PlanError, Placement, Stack, evaluate};
//!
//! // 10 samples over 4 virtual nodes, which two ranks run: 3 and 1 of them.
//! let split = BatchSplit::new(10, 4)?;
//! let placement = Placement::explicit(4, &[3, 1])?;
//!
//! // One parameter of 2 elements, one f64 sum (the weight) beside it.
//! let layout = Layout::new([2], 1, 0);
//! let mut nodes = Vec::new();
//! for range in placement.shares() {
//!     let mut stack = Stack::new(&layout, placement.virtual_nodes(), range.clone())?;
//!     for vn in range {
//!         let mut leaf = stack.take_buffer();
//!         leaf.set_segment(0, &[1.0, vn as f32])?;
//!         leaf.sums_mut()[0] = split.range(vn).len() as f64;
//!         stack.push_leaf(vn, Some(leaf))?;
//!     }
//!     nodes.extend(stack.finish()?);
//! }
//!
//! let root = evaluate(&layout, placement.virtual_nodes(), nodes)?;
//! let root = root.expect("some virtual node contributed");
//! assert_eq!(root.segment(0), Some(&[4.0, 6.0][..]));
//! assert_eq!(root.sums(), [10.0]);
//! # Ok::<(), PlanError>(())
//! ```

mod bits;
mod error;
mod fingerprint;
mod fit;
pub mod kernel;
mod layout;
mod partial;
mod placement;
mod search;
mod split;
mod stack;
mod step_cost;
pub mod tree;
mod wire;

pub use bits::Bits;
pub use error::PlanError;
pub use fit::{Fit, FitError, Need, fewest_virtual_nodes};
pub use layout::Layout;
pub use partial::{Partial, add_stretch};
pub use placement::Placement;
pub use split::{BatchSplit, chunk};
pub use stack::{Node, Stack, evaluate};
pub use step_cost::StepCost;
