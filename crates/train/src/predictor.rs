//! Inference on virtual nodes.

use std::fmt;

use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module};
use burn_virtual_backend::{Meter, Probe, Virtual};
use burn_virtual_plan::{BatchSplit, Placement};

use crate::batch::{Items, split};
use crate::inference::{ForwardJob, ForwardRank, forward_round};
use crate::inventory;
use crate::names::assign_ids;
use crate::placing::{options, placement, same_probe};
use crate::ranks::Ranks;
use crate::replica::{guarded, on_device};
use crate::{JoinBatch, RankMemory, SplitBatch, TrainError, VirtualAutodiff, VirtualNodes};

/// Runs a model on batches of any size: each is split over the virtual nodes and their devices, and
/// the results are put together in order.
///
/// A device holds the model, the inputs and activations of one micro-batch, and the results of the
/// batch so far. Like the weights of a training job, the results have the same bits for every
/// placement: they depend on the model, the batch and the number of virtual nodes.
///
/// ```
/// use burn::backend::Autodiff;
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::Tensor;
/// use burn_flex::{Flex, FlexDevice};
/// use burn_virtual_backend::VirtualBackend;
/// use burn_virtual_train::VirtualNodes;
///
/// type V = VirtualBackend<Flex>;
/// type B = Autodiff<V>;
///
/// let model: Linear<B> = LinearConfig::new(2, 3).init(&FlexDevice);
/// let mut predictor = VirtualNodes::new(4).devices([FlexDevice, FlexDevice]).predictor(&model)?;
///
/// let inputs = Tensor::<V, 2>::ones([10, 2], &FlexDevice);
/// let outputs = predictor.predict_batch(&inputs, |model, micro| model.forward(micro))?;
/// assert_eq!(outputs.dims(), [10, 3]);
/// # Ok::<(), burn_virtual_train::TrainError>(())
/// ```
pub struct Predictor<B: Virtual, M> {
    settings: VirtualNodes<Vec<B::Device>>,
    ranks: Ranks,
    /// The model on each rank's device.
    replicas: Vec<M>,
    parameters: usize,
    probe: Probe,
    batches: u64,
    meters: Vec<Meter>,
    memory: Vec<RankMemory>,
}

impl<B: Virtual, M: Module<B>> Predictor<B, M> {
    pub(crate) fn start<A, N>(
        settings: VirtualNodes<Vec<B::Device>>,
        model: &N,
    ) -> Result<Self, TrainError>
    where
        A: VirtualAutodiff<InnerBackend = B, Device = B::Device>,
        N: AutodiffModule<A, InnerModule = M>,
    {
        settings.check()?;
        let ranks = settings.devices.len();
        let placement = placement(settings.count, ranks, settings.shares.as_deref())?;
        let probe = same_probe::<B>(&settings.devices, None, settings.allow_drift)?;
        let mut model = model.clone();
        assign_ids(settings.seed, &mut model)?;
        let meters: Vec<_> = settings.devices.iter().map(|_| Meter::new()).collect();
        let replicas = settings.devices.iter().zip(&meters);
        let replicas = replicas.map(|(device, meter)| {
            let _listening = Meter::current().map(|_| meter.listen());
            on_device(model.valid(), device)
        });
        let replicas = replicas.collect();
        Ok(Self {
            ranks: Ranks::new(placement, options(&settings)),
            replicas,
            parameters: inventory::bytes::<A, _>(&model),
            probe,
            batches: 0,
            meters,
            memory: vec![RankMemory::default(); ranks],
            settings,
        })
    }

    /// Runs the model on `items`.
    ///
    /// `batcher` makes each micro-batch when its virtual node's turn comes; `forward` gets the model
    /// and that micro-batch, and returns one row or entry per sample. Virtual nodes without samples
    /// are not run.
    ///
    /// # Errors
    /// [`TrainError::EmptyBatch`] for no items; [`TrainError::Node`] where user code panicked or the
    /// result is of another number of samples (the step it names is the number of the batch, from
    /// 0); [`TrainError::Join`] where the results of the micro-batches don't fit together.
    pub fn predict<I, T, O, F, R>(
        &mut self,
        items: &[I],
        batcher: &T,
        forward: F,
    ) -> Result<R, TrainError>
    where
        I: Clone + Sync,
        T: Batcher<B, I, O>,
        F: Fn(&M, O) -> R + Sync,
        R: JoinBatch + Send,
    {
        self.predict_batch(&Items::new(items, batcher), forward)
    }

    /// [`predict`](Self::predict) on a batch that is ready: tensors, or a [`SplitBatch`] of your own.
    ///
    /// # Errors
    /// As [`predict`](Self::predict), and [`TrainError::UnequalBatch`].
    pub fn predict_batch<S, F, R>(&mut self, batch: &S, forward: F) -> Result<R, TrainError>
    where
        S: SplitBatch<B>,
        F: Fn(&M, S::Micro) -> R + Sync,
        R: JoinBatch + Send,
    {
        let split = split(batch, self.settings.count)?;
        let resident = Meter::current().map(|meter| meter.live());
        let replicas = self.live();
        let results = self.run(batch, &split, &forward, resident)?;
        self.batches += 1;
        let mut results = results.into_iter();
        let first = results.next().ok_or(TrainError::EmptyBatch)?;
        let parts = self.live().saturating_sub(replicas);
        let joined = guarded(|| Ok(R::join(first, results.collect())));
        self.remember_join(parts);
        joined.map_err(|source| TrainError::Join {
            step: self.batches - 1,
            source,
        })
    }

    /// Bytes that the ranks hold.
    fn live(&self) -> usize {
        self.meters.iter().map(Meter::live).sum()
    }

    /// Parts and whole stand side by side for a moment, on the device of the first rank.
    fn remember_join(&mut self, parts: usize) {
        if let (Some(meter), Some(memory)) = (Meter::current(), self.memory.first_mut()) {
            memory.peak = memory.peak.max(meter.live() + parts);
        }
    }

    /// Runs the model on a stream of items, `batch_size` at a time: only the items, and the results,
    /// of one batch are held. The results come in order, one per batch; the stream ends after an
    /// error.
    ///
    /// # Errors
    /// [`TrainError::Setting`] for a batch size of 0; then, per batch, as
    /// [`predict`](Self::predict).
    pub fn stream<Source, T, O, F, R>(
        &mut self,
        items: Source,
        batch_size: usize,
        batcher: &T,
        forward: F,
    ) -> Result<impl Iterator<Item = Result<R, TrainError>>, TrainError>
    where
        Source: IntoIterator<Item: Clone + Sync>,
        T: Batcher<B, Source::Item, O>,
        F: Fn(&M, O) -> R + Sync,
        R: JoinBatch + Send,
    {
        check_batch_size(batch_size)?;
        let mut items = items.into_iter().fuse();
        let mut failed = false;
        Ok(std::iter::from_fn(move || {
            // Taken for failed until it isn't: the items' own iterator may panic.
            if std::mem::replace(&mut failed, true) {
                return None;
            }
            let batch: Vec<_> = items.by_ref().take(batch_size).collect();
            if batch.is_empty() {
                return None;
            }
            let result = self.predict(&batch, batcher, &forward);
            failed = result.is_err();
            Some(result)
        }))
    }

    /// The results of the virtual nodes that ran, in order.
    fn run<S, F, R>(
        &mut self,
        batch: &S,
        split: &BatchSplit,
        forward: &F,
        resident: Option<usize>,
    ) -> Result<Vec<R>, TrainError>
    where
        S: SplitBatch<B>,
        F: Fn(&M, S::Micro) -> R + Sync,
        R: JoinBatch + Send,
    {
        let job = ForwardJob {
            seed: self.settings.seed,
            step: self.batches,
            batch,
            allow_drift: self.settings.allow_drift,
        };
        let replicas = self.replicas.iter_mut().zip(&self.settings.devices);
        let ranks = replicas
            .zip(&self.meters)
            .map(|((replica, device), meter)| {
                ForwardRank::new(replica, device, resident.map(|_| meter.clone()))
            })
            .collect();
        let ranks = forward_round::<B, _, _, _, _>(
            &mut self.ranks,
            &job,
            split,
            ranks,
            forward,
            R::other_count,
        )?;
        if let Some(resident) = resident {
            for (memory, rank) in self.memory.iter_mut().zip(&ranks) {
                *memory = memory.max(RankMemory {
                    parameters: self.parameters,
                    activations: rank.memory.activations(),
                    peak: resident + rank.memory.peak(),
                    ..RankMemory::default()
                });
            }
        }
        Ok(ranks.into_iter().flat_map(|rank| rank.results).collect())
    }

    /// The number of virtual nodes.
    pub fn virtual_nodes(&self) -> usize {
        self.settings.count
    }

    /// Which virtual nodes each rank runs.
    pub fn placement(&self) -> &Placement {
        self.ranks.placement()
    }

    /// The bit probe of the ranks; of rank 0 where drift was allowed.
    pub fn probe(&self) -> Probe {
        self.probe
    }

    /// Per rank, the largest bytes since the start: parameters, activations of one micro-batch (with
    /// its results), and the peak. All zero unless a [`Meter`] listened on the thread that called.
    pub fn memory(&self) -> &[RankMemory] {
        &self.memory
    }
}

/// A stream is read in batches of at least one item.
pub(crate) fn check_batch_size(batch_size: usize) -> Result<(), TrainError> {
    if batch_size > 0 {
        return Ok(());
    }
    Err(TrainError::Setting {
        what: "batch size",
        expected: "at least 1",
        got: batch_size.to_string(),
    })
}

impl<B: Virtual, M> fmt::Debug for Predictor<B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predictor")
            .field("virtual_nodes", &self.settings.count)
            .field("placement", self.ranks.placement())
            .field("batches", &self.batches)
            .finish_non_exhaustive()
    }
}
