//! Training on virtual nodes with burn-train: its `SupervisedTraining` with metrics, dashboard, early
//! stopping and checkpoints.
//!
//! [`Virtual`] wraps a model that already has burn-train's `TrainStep` and `InferenceStep`. Its
//! input is a list of items, which the data loader passes on as they are ([`Uncollated`]); the
//! model's own batcher moves into the wrapper, which calls it once per virtual node. So a batch that
//! doesn't fit a device trains as if it did.
//!
//! The model's own `TrainStep` runs once per virtual node, on a replica; its gradients are those of
//! a mean, weighted by the number of items (or by [`Virtual::with_weight`]). The outputs of the
//! virtual nodes are put together ([`JoinOutput`]), so metrics see one batch.
//!
//! Three things to know: outputs whose rows don't fit together can't be put together (sequences that
//! a batcher pads to the longest of *its* items: pad to a fixed length); a step is skipped when a
//! gradient isn't finite, but the loss, which only the model sees, is not looked at; and all copies of
//! a model share one session.
//!
//! What burn-train itself decides stays as it is: it steps the learning rate once per batch, applied
//! or skipped, and its `grads_accumulation` drops the last partial window of an epoch. Virtual nodes
//! are what replaces it.

mod forward;
mod handle;
mod items;
mod output;
mod step_pass;
mod valid;
mod virtual_model;

pub use handle::{Handle, Status};
pub use items::Uncollated;
pub use output::JoinOutput;
pub use valid::VirtualValid;
pub use virtual_model::Virtual;
