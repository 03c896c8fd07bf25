//! Deep-learning training on Burn, shared among virtual nodes: the same bits on any hardware.
//!
//! This crate is the one door to the crates behind it, and holds no code of its own. The README of
//! the repository shows a training loop; in short:
//!
//! ```
//! use burn::backend::Autodiff;
//! use burn::nn::{Linear, LinearConfig};
//! use burn::optim::{Optimizer, SgdConfig};
//! use burn::tensor::Tensor;
//! use burn_flex::{Flex, FlexDevice as Cpu};
//! use burn_virtual::backend::VirtualBackend;
//! use burn_virtual::nodes::{VirtualNodes, WeightsHash, squared_error_sum};
//!
//! type B = Autodiff<VirtualBackend<Flex>>;
//!
//! let train = |devices: Vec<Cpu>| {
//!     let mut model: Linear<B> = LinearConfig::new(2, 1).init(&Cpu);
//!     let mut optim = SgdConfig::new().init();
//!     let mut nodes = VirtualNodes::new(4).seed(42).devices(devices).start(&mut model)?;
//!     let batch = (Tensor::<B, 2>::ones([10, 2], &Cpu), Tensor::<B, 2>::ones([10, 1], &Cpu));
//!     for _ in 0..5 {
//!         let out = nodes.backward_batch(&model, &batch, |model, (inputs, targets)| {
//!             squared_error_sum(model.forward(inputs), targets)
//!         })?;
//!         model = optim.step(0.1, model, out.grads);
//!     }
//!     WeightsHash::of(&model)
//! };
//! assert_eq!(train(vec![Cpu])?, train(vec![Cpu, Cpu, Cpu])?);
//! # Ok::<(), burn_virtual::nodes::TrainError>(())
//! ```

/// [`VirtualBackend`](backend::VirtualBackend): the decorator around any Burn backend, its random
/// streams, meter and bit probe; and GPU backends by name.
pub mod backend {
    #[cfg(all(feature = "cuda", feature = "fusion"))]
    pub use burn_virtual_backend::FusedCuda;
    #[cfg(all(feature = "wgpu", feature = "fusion"))]
    pub use burn_virtual_backend::FusedWgpu;
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub use burn_virtual_backend::Gpu;
    #[cfg(feature = "cuda")]
    pub use burn_virtual_backend::{Cuda, CudaDevice};
    pub use burn_virtual_backend::{
        Entered, Fault, Listening, Meter, Probe, Scope, Virtual, VirtualBackend, VirtualTensor,
        autotunes, enter, probe,
    };
    #[cfg(feature = "wgpu")]
    pub use burn_virtual_backend::{Wgpu, WgpuDevice};
}

/// Training on virtual nodes: the session, its step, losses and running statistics.
pub mod nodes {
    #[cfg(feature = "burn-train")]
    pub use burn_virtual_train::learner;
    pub use burn_virtual_train::{
        BackendReport, CrossEntropy, DefaultDevice, IntoLossSum, JoinBatch, LayerReport, LossError,
        LossSum, NodeError, PlacementReport, Predictor, RankMemory, Session, Skipped, SplitBatch,
        StepOutput, StepReport, Task, TaskBatcher, TrainError, Trainer, ValidModel, Verify,
        VerifyReport, VerifySettings, VirtualAutodiff, VirtualNodes, WeightsError, WeightsHash,
        binary_cross_entropy_sum, cross_entropy_sum, id_of_path, load_weights, measure_step,
        measure_task, read_weights_metadata, save_weights, squared_error_sum,
    };
}

/// Groups of ranks: transports, collectives and their deadlines.
pub mod distributed {
    pub use burn_virtual_collective::{
        Algorithm, CallName, CollectiveError, Deadline, Element, ElementType, Float, Group, Lender,
        Match, OnStall, Operation, Options, Reduce, Sent, Shares, Stall, Tag, Transport,
        TransportError, Work, memory, tcp,
    };
}

/// Virtual nodes, batch split, placements, the summation tree and its host kernel.
pub mod plan {
    pub use burn_virtual_plan::{
        BatchSplit, Bits, Fit, FitError, Layout, Need, Node, Partial, Placement, PlanError, Stack,
        StepCost, chunk, evaluate, fewest_virtual_nodes, kernel, tree,
    };
}

/// Models and data sets.
pub mod models {
    pub use burn_virtual_models::{
        Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig, DigitsError,
        DigitsMlp, DigitsMlpConfig, Epoch, ZeroBatchSize, shuffle,
    };
}

/// The README's example is a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
