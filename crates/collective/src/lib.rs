//! Ranks that train together: groups, the transports that carry their messages, and the
//! collectives that add up their gradients. The crate exists so that everything that can wait,
//! fail or disagree between ranks is in one place with one set of deadlines and errors; it may
//! import neither Burn nor models, and takes the order of every addition from `burn-virtual-plan`.
//!
//! ```
//! use burn_virtual_collective::{Group, Options, memory};
//! use burn_virtual_plan::{Layout, Partial, Placement};
//!
//! // Three ranks, four virtual nodes. Every virtual node contributes its own number.
//! let layout = Layout::new([1], 0, 0);
//! let placement = Placement::even(4, 3)?;
//! let ranks = memory::group(3).into_iter().map(|transport| {
//!     let (layout, placement) = (layout.clone(), placement.clone());
//!     std::thread::spawn(move || {
//!         let mut group = Group::new(Box::new(transport), Options::default());
//!         let mut stack = burn_virtual_plan::Stack::new(&layout, 4, placement.range(group.rank()))?;
//!         for vn in placement.range(group.rank()) {
//!             let mut leaf = stack.take_buffer();
//!             leaf.set_segment(0, &[vn as f32])?;
//!             stack.push_leaf(vn, Some(leaf))?;
//!         }
//!         let root = group.all_reduce(0, &layout, &placement, stack.finish()?)?;
//!         Ok(root.map(|root| root.values()[0]))
//!     })
//! });
//! for rank in ranks.collect::<Vec<_>>() {
//!     let sum: Result<_, Box<dyn std::error::Error + Send + Sync>> = rank.join().expect("no panic");
//!     assert_eq!(sum.expect("no error"), Some(6.0));
//! }
//! # Ok::<(), burn_virtual_plan::PlanError>(())
//! ```

#![deny(unsafe_code)]

mod algorithm;
mod aligned;
mod call;
mod cube;
mod deadline;
mod element;
mod error;
mod evaluator;
mod exchange;
mod group;
mod halving;
mod header;
#[allow(
    unsafe_code,
    reason = "lends bytes between threads without a lifetime; see there"
)]
mod loan;
mod mailbox;
pub mod memory;
mod ordered;
mod owner;
mod pieces;
mod reduce;
mod ring;
mod roll;
mod shape;
mod shares;
mod spin;
mod stall;
mod stream;
mod tag;
pub mod tcp;
mod transport;
mod unordered;
mod wire;
mod work;

pub use algorithm::Algorithm;
pub use deadline::Deadline;
pub use element::{Element, ElementType, Float};
pub use error::{CallName, CollectiveError, TransportError};
pub use group::{Group, Options};
pub use memory::MemoryTransport;
pub use reduce::Reduce;
pub use shares::Shares;
pub use stall::{OnStall, Reporter, Stall};
pub use tag::{Match, Operation, Tag};
pub use tcp::TcpTransport;
pub use transport::{Lender, Sent, Transport};
pub use work::Work;
