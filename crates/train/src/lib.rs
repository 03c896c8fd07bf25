//! Training on virtual nodes.
//!
//! This crate is where Burn's modules and optimizers meet the plan and the collectives: the step,
//! replicas, running statistics, resizing, inference, weights files and burn-train. It knows nothing of
//! the command line.
//!
//! ```
//! use burn::backend::Autodiff;
//! use burn::nn::{Linear, LinearConfig};
//! use burn::optim::{Optimizer, SgdConfig};
//! use burn::tensor::Tensor;
//! use burn_flex::{Flex, FlexDevice};
//! use burn_virtual_backend::VirtualBackend;
//! use burn_virtual_train::{LossSum, VirtualNodes};
//!
//! type B = Autodiff<VirtualBackend<Flex>>;
//!
//! let device = FlexDevice;
//! let mut model: Linear<B> = LinearConfig::new(2, 1).init(&device);
//! let mut optim = SgdConfig::new().init::<B, Linear<B>>();
//! let mut nodes = VirtualNodes::new(4).seed(42).devices([device, device]).start(&mut model)?;
//!
//! let inputs = Tensor::<B, 2>::ones([10, 2], &device);
//! for _ in 0..3 {
//!     let out = nodes.backward_batch(&model, &inputs, |model, micro| {
//!         let weight = micro.dims()[0] as f64;
//!         LossSum { sum: model.forward(micro).powi_scalar(2).sum(), weight }
//!     })?;
//!     model = optim.step(0.1, model, out.grads);
//! }
//! assert_eq!(nodes.applied_steps(), 3);
//! # Ok::<(), burn_virtual_train::TrainError>(())
//! ```

mod agreement;
mod batch;
mod collect;
mod download;
mod error;
mod evaluate;
mod gradients;
mod inference;
mod inventory;
mod join;
#[cfg(feature = "burn-train")]
pub mod learner;
mod loss;
mod measure;
mod memory;
mod names;
mod pass;
mod placing;
mod predictor;
mod ranks;
mod replica;
mod root;
mod session;
mod settings;
mod spread;
mod task;
mod task_steps;
mod tensors;
mod trainer;
mod verify;
mod walk;
mod weights;
mod weights_file;

pub use batch::SplitBatch;
pub use error::{LossError, NodeError, TrainError};
pub use join::JoinBatch;
pub use loss::{
    CrossEntropy, IntoLossSum, LossSum, binary_cross_entropy_sum, cross_entropy_sum,
    squared_error_sum,
};
pub use measure::{measure_step, measure_task};
pub use memory::RankMemory;
pub use names::id_of_path;
pub use predictor::Predictor;
pub use root::Skipped;
pub use session::{Session, StepOutput};
pub use settings::{DefaultDevice, VirtualNodes};
pub use task::{Task, TaskBatcher, ValidModel};
pub use trainer::{StepReport, Trainer};
pub use verify::{
    BackendReport, LayerReport, PlacementReport, Verify, VerifyReport, VerifySettings,
};
pub use weights::WeightsHash;
pub use weights_file::{WeightsError, load_weights, read_weights_metadata, save_weights};

use burn::tensor::backend::AutodiffBackend;
use burn_virtual_backend::Virtual;

/// Autodiff around a [`VirtualBackend`](burn_virtual_backend::VirtualBackend), as
/// `Autodiff<VirtualBackend<Flex>>`.
pub trait VirtualAutodiff: AutodiffBackend<InnerBackend: Virtual> {}

impl<B: AutodiffBackend<InnerBackend: Virtual>> VirtualAutodiff for B {}
