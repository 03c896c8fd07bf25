//! How a job is shared out: the settings of a session, and its start.

use std::fmt;
use std::time::Duration;

use burn::module::AutodiffModule;
use burn_virtual_collective::{Reduce, Transport};

use crate::agreement::Terms;
use crate::{Predictor, Session, TrainError, VirtualAutodiff};

/// A step visits every virtual node, the empty ones too, and keeps a flag for each.
const MOST_VIRTUAL_NODES: usize = 1 << 20;

/// The settings of a training job on virtual nodes.
///
/// What decides the result is the number of virtual nodes and the seed. The devices and the
/// placement do not: they may be changed at any step with [`Session::resize`].
#[derive(Clone, Debug)]
pub struct VirtualNodes<D = DefaultDevice> {
    pub(crate) count: usize,
    pub(crate) seed: u64,
    pub(crate) devices: D,
    pub(crate) shares: Option<Vec<usize>>,
    pub(crate) timeout: Duration,
    pub(crate) first_timeout: Duration,
    pub(crate) stall: Duration,
    pub(crate) reduce: Reduce,
    pub(crate) allow_drift: bool,
    pub(crate) require_all_gradients: bool,
    pub(crate) clip_norm: Option<f64>,
    pub(crate) terms: Terms,
}

/// One rank on the backend's default device.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultDevice;

impl VirtualNodes {
    /// A job of `count` virtual nodes, fixed for its life: seed 42, one rank on the default device.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            seed: 42,
            devices: DefaultDevice,
            shares: None,
            timeout: Duration::from_secs(60),
            first_timeout: Duration::from_secs(300),
            stall: Duration::from_secs(10),
            reduce: Reduce::Ordered,
            allow_drift: false,
            require_all_gradients: false,
            clip_norm: None,
            terms: Terms::default(),
        }
    }
}

impl<D> VirtualNodes<D> {
    /// Seeds initial weights and random operations.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// One rank per device, in this order; a device may be named more than once.
    pub fn devices<E>(self, devices: impl IntoIterator<Item = E>) -> VirtualNodes<Vec<E>> {
        VirtualNodes {
            devices: devices.into_iter().collect(),
            count: self.count,
            seed: self.seed,
            shares: self.shares,
            timeout: self.timeout,
            first_timeout: self.first_timeout,
            stall: self.stall,
            reduce: self.reduce,
            allow_drift: self.allow_drift,
            require_all_gradients: self.require_all_gradients,
            clip_norm: self.clip_norm,
            terms: self.terms,
        }
    }

    /// How many virtual nodes each rank runs; without it they are shared out evenly.
    pub fn shares(self, shares: impl IntoIterator<Item = usize>) -> Self {
        Self {
            shares: Some(shares.into_iter().collect()),
            ..self
        }
    }

    /// How long a rank that is done with its virtual nodes waits for the others before the step is
    /// an error; 60 seconds by default. It bounds the waiting for ranks, not what user code does: a
    /// rank's own forward pass may take as long as it likes while no other waits for it.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The [`timeout`](Self::timeout) of the first step after a start, a resize or an error, when
    /// kernels may still have to be compiled; 300 seconds by default.
    pub fn first_timeout(self, first_timeout: Duration) -> Self {
        Self {
            first_timeout,
            ..self
        }
    }

    /// How long a rank waits for the others until a line on stderr says which are missing, and again
    /// each time; 10 seconds by default. Waiting ends at the [`timeout`](Self::timeout), not here.
    pub fn stall_after(self, stall: Duration) -> Self {
        Self { stall, ..self }
    }

    /// How the gradients of the ranks are combined: along the tree by default, with the same bits for
    /// every placement. [`Reduce::Ring`] and [`Reduce::HalvingDoubling`] send the fewest bytes for
    /// every placement, and give that up: bits then depend on the number of ranks, and on which
    /// virtual nodes each runs.
    pub fn reduce(self, reduce: Reduce) -> Self {
        Self { reduce, ..self }
    }

    /// Adds something that decides the result and is the caller's own (the optimizer, say, or the
    /// learning rate): ranks of several processes compare it before they begin.
    pub fn agree_on(self, what: &str, value: impl fmt::Display) -> Self {
        Self {
            terms: self.terms.with(what, value),
            ..self
        }
    }

    /// Accepts ranks that do not compute the same bits, devices and operations that do not repeat
    /// their own, and backends that fuse kernels or choose them by timing. Results then depend on the placement, or change from run to run.
    pub fn allow_drift(self) -> Self {
        Self {
            allow_drift: true,
            ..self
        }
    }

    /// Scales the gradients of a step down to this Euclidean norm over all parameters together where
    /// they exceed it: once, on the combined mean, never per virtual node or per tensor.
    pub fn clip_norm(self, limit: f64) -> Self {
        Self {
            clip_norm: Some(limit),
            ..self
        }
    }

    pub(crate) fn check(&self) -> Result<(), TrainError> {
        if self.count > MOST_VIRTUAL_NODES {
            return Err(TrainError::Setting {
                what: "virtual nodes",
                expected: "at most 1048576",
                got: self.count.to_string(),
            });
        }
        match self.clip_norm {
            Some(limit) if !(limit.is_finite() && limit > 0.0) => Err(TrainError::Setting {
                what: "clip norm",
                expected: "a finite number above 0",
                got: limit.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Takes a trained parameter without a gradient for an error, instead of for one that the loss
    /// did not use.
    pub fn require_all_gradients(self) -> Self {
        Self {
            require_all_gradients: true,
            ..self
        }
    }
}

impl VirtualNodes<DefaultDevice> {
    /// Starts the job: see [`VirtualNodes::start`] with devices.
    ///
    /// # Errors
    /// As there.
    pub fn start<B: VirtualAutodiff, M: AutodiffModule<B>>(
        self,
        model: &mut M,
    ) -> Result<Session<B>, TrainError> {
        self.devices([B::Device::default()]).start(model)
    }

    /// Makes a model ready for inference: see [`VirtualNodes::predictor`] with devices.
    ///
    /// # Errors
    /// As there.
    pub fn predictor<B: VirtualAutodiff, M: AutodiffModule<B>>(
        self,
        model: &M,
    ) -> Result<Predictor<B::InnerBackend, M::InnerModule>, TrainError> {
        self.devices([B::Device::default()]).predictor(model)
    }
}

impl<D> VirtualNodes<Vec<D>> {
    /// Starts the job: draws the model's initial parameters from the seed, names them by their
    /// module paths, takes the bit probe of every device, and places the virtual nodes.
    ///
    /// Parameters are lazy in Burn: one that was used before (in a forward pass, by reading it, by
    /// `no_grad`, a cast or any other mapping) is there already and keeps its value, drawn from
    /// whatever seeded the thread at the time. Freeze and cast after the start, or call
    /// `B::seed(&device, seed)` before the model is made. And a clone of a module shares its running statistics with
    /// the original: to train the same model twice, initialise it twice or go by way of a record.
    ///
    /// # Errors
    /// [`TrainError::Plan`] for no virtual nodes, no devices, more devices than virtual nodes or
    /// shares that don't add up; [`TrainError::DuplicateParameter`] for one id at two paths;
    /// [`TrainError::SharedPath`] and [`TrainError::Unnamed`] for modules whose `visit` and `map` don't
    /// fit; [`TrainError::Drift`] for devices that compute different bits, [`TrainError::Unsteady`] for
    /// one that doesn't repeat its own, [`TrainError::Fusion`] and
    /// [`TrainError::Autotune`] for a backend that fuses kernels or chooses them by timing;
    /// [`TrainError::Device`] for one that fails; [`TrainError::Setting`] for a setting that makes no
    /// sense. The model is then unchanged.
    pub fn start<B: VirtualAutodiff<Device = D>, M: AutodiffModule<B>>(
        self,
        model: &mut M,
    ) -> Result<Session<B>, TrainError> {
        Session::start(self, model)
    }

    /// Starts the job as some of the ranks of a group whose others are in other processes: one rank
    /// per device, at the ends of the given transports, in the same order. Every process makes the
    /// same calls with the same batches; each runs the virtual nodes of its own ranks, and gets the
    /// combined gradients.
    ///
    /// ```no_run
    /// use burn::backend::Autodiff;
    /// use burn::nn::{Linear, LinearConfig};
    /// use burn_flex::{Flex, FlexDevice as Cpu};
    /// use burn_virtual_backend::VirtualBackend;
    /// use burn_virtual_collective::tcp;
    /// use burn_virtual_train::VirtualNodes;
    ///
    /// let mut model: Linear<Autodiff<VirtualBackend<Flex>>> = LinearConfig::new(2, 1).init(&Cpu);
    /// let nodes = VirtualNodes::new(8).devices([Cpu]);
    /// // As `burn-virtual launch` or torchrun set RANK, WORLD_SIZE and the rest.
    /// let mut session = match tcp::Environment::read()? {
    ///     Some(place) => nodes.start_in(&mut model, [tcp::join(&place.settings)?])?,
    ///     None => nodes.start(&mut model)?,
    /// };
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// All ranks compare what decides the result before this returns: settings, bit probes, the
    /// model's tensors and their initial values. Later on an error in one process closes the group, and
    /// every further step of the session is an error.
    ///
    /// # Errors
    /// As [`start`](Self::start); [`TrainError::Transports`] for another number of them than of
    /// devices, or for ends of several groups; [`TrainError::Disagreement`] on every rank, where one
    /// was started otherwise; [`TrainError::Collective`] where one is missing.
    pub fn start_in<B, M, T>(
        self,
        model: &mut M,
        transports: impl IntoIterator<Item = T>,
    ) -> Result<Session<B>, TrainError>
    where
        B: VirtualAutodiff<Device = D>,
        M: AutodiffModule<B>,
        T: Transport + 'static,
    {
        let boxed = |transport: T| -> Box<dyn Transport> { Box::new(transport) };
        Session::start_in(self, model, transports.into_iter().map(boxed).collect())
    }

    /// Makes a model ready for inference on virtual nodes: copies it, without autodiff, to every
    /// device. The model is not touched, and may be trained on.
    ///
    /// Of the settings, those of training (clipping, required gradients) have no effect. Parameters
    /// that were never used are drawn from the seed, as at the start of a training job.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn predictor<B: VirtualAutodiff<Device = D>, M: AutodiffModule<B>>(
        self,
        model: &M,
    ) -> Result<Predictor<B::InnerBackend, M::InnerModule>, TrainError> {
        Predictor::start(self, model)
    }
}
