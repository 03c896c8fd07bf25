//! A running job: the step, resizing, and evaluation.

use std::fmt;
use std::time::Instant;

use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module};
use burn::optim::GradientsParams;
use burn_virtual_backend::{Meter, Probe};
use burn_virtual_collective::{Options, Transport};
use burn_virtual_plan::{BatchSplit, Partial, Placement};

use crate::batch::{Items, split};
use crate::inventory::{Frame, Inventory};
use crate::memory::NodeMemory;
use crate::names::assign_ids;
use crate::pass::{LossPass, Pass};
use crate::placing::{options, placement, same_probe};
use crate::ranks::{Begun, Ranks, Round, Turn};
use crate::replica::{Done, Master, Running, StepJob};
use crate::root::Root;
use crate::spread::one_group;
use crate::{
    IntoLossSum, NodeError, RankMemory, Skipped, SplitBatch, TrainError, VirtualAutodiff,
    VirtualNodes,
};

/// What a step came to. Bit-identical for every placement.
#[derive(Debug)]
#[non_exhaustive]
pub struct StepOutput {
    /// The gradients of the mean loss, by parameter id, ready for Burn's `optim.step`; empty when
    /// the step was skipped. A parameter that no virtual node used has none.
    pub grads: GradientsParams,
    /// The sum of the losses divided by the sum of the weights; NaN where there were no items.
    pub loss: f64,
    /// The sum of the weights.
    pub weight: f64,
    /// The Euclidean norm of all gradients together, before clipping.
    pub norm: f64,
    /// Per virtual node, the seconds that the host spent on its forward and backward, and waiting for
    /// its values; 0 for one without samples. A GPU works behind the host's back, so there only
    /// their sum tells how long the step took. The only figures here that are not the same everywhere.
    pub seconds: Vec<f64>,
    /// Why nothing is to be applied, if so.
    pub skipped: Option<Skipped>,
}

/// What a rank has of its own in a step.
struct RankState<M, O> {
    master: M,
    memory: NodeMemory,
    /// Virtual nodes that ran, how long each took, and what it came to.
    done: Vec<(usize, f64, Done<O>)>,
}

/// A virtual node that was begun, and the seconds that the host spent on it.
struct Timed<'a, O> {
    node: usize,
    running: Running<'a, O>,
    seconds: f64,
}

impl<M, O> Begun<RankState<M, O>> for Timed<'_, O> {
    fn is_over(&self) -> bool {
        self.running.is_over()
    }

    fn finish(self, state: &mut RankState<M, O>) -> Result<Partial, NodeError> {
        let start = Instant::now();
        let (leaf, done) = self.running.finish()?;
        let seconds = self.seconds + start.elapsed().as_secs_f64();
        state.done.push((self.node, seconds, done));
        Ok(leaf)
    }
}

/// What the virtual nodes came to together.
struct Combined<O> {
    root: Option<Partial>,
    seconds: Vec<f64>,
    /// In the order of the virtual nodes; none for one that was not run.
    done: Vec<Done<O>>,
}

/// A job that was started with [`VirtualNodes::start`].
pub struct Session<B: VirtualAutodiff> {
    pub(crate) settings: VirtualNodes<Vec<B::Device>>,
    pub(crate) ranks: Ranks,
    pub(crate) inventory: Inventory,
    frozen: Vec<String>,
    pub(crate) probe: Probe,
    pub(crate) applied: u64,
    meters: Vec<Meter>,
    memory: Vec<RankMemory>,
}

impl<O> Combined<O> {
    fn gather<M>(mut turns: Vec<Turn<RankState<M, O>>>, virtual_nodes: usize) -> Self {
        let root = turns.first_mut().and_then(|turn| turn.root.take());
        let mut seconds = vec![0.0; virtual_nodes];
        let ran = turns.into_iter().flat_map(|turn| turn.state.done);
        let done = ran.map(|(node, took, done)| {
            seconds[node] = took;
            done
        });
        let done = done.collect();
        Self {
            root,
            seconds,
            done,
        }
    }
}

impl<B: VirtualAutodiff> Session<B> {
    pub(crate) fn start<M: AutodiffModule<B>>(
        settings: VirtualNodes<Vec<B::Device>>,
        model: &mut M,
    ) -> Result<Self, TrainError> {
        let ranks = settings.devices.len();
        Self::begin(settings, model, ranks, Ranks::new)
    }

    pub(crate) fn start_in<M: AutodiffModule<B>>(
        settings: VirtualNodes<Vec<B::Device>>,
        model: &mut M,
        transports: Vec<Box<dyn Transport>>,
    ) -> Result<Self, TrainError> {
        let world = one_group(&transports, settings.devices.len())?;
        let mut session = Self::begin(settings, model, world, |placement, options| {
            Ranks::over(placement, options, transports)
        })?;
        session.agree(model)?;
        Ok(session)
    }

    fn begin<M: AutodiffModule<B>>(
        settings: VirtualNodes<Vec<B::Device>>,
        model: &mut M,
        world: usize,
        connect: impl FnOnce(Placement, Options) -> Ranks,
    ) -> Result<Self, TrainError> {
        settings.check()?;
        let placement = placement(settings.count, world, settings.shares.as_deref())?;
        let probe = same_probe::<B::InnerBackend>(&settings.devices, None, settings.allow_drift)?;
        let inventory = adopt(settings.seed, model)?;
        let ranks = connect(placement, options(&settings));
        let mut session = Self {
            settings,
            ranks,
            inventory,
            frozen: Vec::new(),
            probe,
            applied: 0,
            meters: Vec::new(),
            memory: Vec::new(),
        };
        session.reset_memory();
        Ok(session)
    }

    /// Takes over a model after a record was loaded into it: names its parameters again.
    ///
    /// # Errors
    /// [`TrainError::DuplicateParameter`] for one id at two paths; the model is then unchanged.
    pub fn adopt<M: Module<B>>(&mut self, model: &mut M) -> Result<(), TrainError> {
        self.inventory = adopt(self.settings.seed, model)?;
        for path in &self.frozen {
            self.inventory.freeze_statistics(path);
        }
        Ok(())
    }

    /// Freezes the running statistics at or below a module path (`""` for all): whatever the forward
    /// passes do to them, they stay as they are.
    ///
    /// A batch norm in training still normalises by its micro-batch: Burn has no other mode for it
    /// under autodiff.
    ///
    /// # Errors
    /// [`TrainError::NoStatistics`] if there are none.
    pub fn freeze_statistics(&mut self, path: &str) -> Result<(), TrainError> {
        if !self.inventory.freeze_statistics(path) {
            return Err(TrainError::NoStatistics {
                path: path.to_owned(),
            });
        }
        self.frozen.push(path.to_owned());
        Ok(())
    }

    /// Moves the virtual nodes to other devices, shared out evenly. Between steps, at any time;
    /// the result of the job does not change.
    ///
    /// # Errors
    /// As [`VirtualNodes::start`]; the session is then unchanged.
    pub fn resize(
        &mut self,
        devices: impl IntoIterator<Item = B::Device>,
    ) -> Result<(), TrainError> {
        self.place(devices.into_iter().collect(), None)
    }

    /// Moves the virtual nodes to other devices, `shares[i]` of them to the i-th device.
    ///
    /// # Errors
    /// As [`VirtualNodes::start`]; the session is then unchanged.
    pub fn resize_to(
        &mut self,
        devices: impl IntoIterator<Item = B::Device>,
        shares: impl IntoIterator<Item = usize>,
    ) -> Result<(), TrainError> {
        self.place(
            devices.into_iter().collect(),
            Some(shares.into_iter().collect()),
        )
    }

    fn place(
        &mut self,
        devices: Vec<B::Device>,
        shares: Option<Vec<usize>>,
    ) -> Result<(), TrainError> {
        self.check_all_here("resizing")?;
        let placement = placement(self.settings.count, devices.len(), shares.as_deref())?;
        let probe =
            same_probe::<B::InnerBackend>(&devices, Some(self.probe), self.settings.allow_drift)?;
        self.ranks = Ranks::new(placement, options(&self.settings));
        self.probe = probe;
        self.settings.devices = devices;
        self.settings.shares = shares;
        self.reset_memory();
        Ok(())
    }

    /// Runs every virtual node forward and backward on its share of `items`, and combines the
    /// gradients.
    ///
    /// `batcher` makes each micro-batch when its virtual node's turn comes; `loss` gets a fresh
    /// replica of the model and that micro-batch. Virtual nodes without samples are not run. The
    /// new running statistics are in `model` when this returns, unless the step was skipped.
    ///
    /// Only the replica that `loss` is given may be trained in it. A model that it captures (a
    /// teacher, say) has to be without autodiff (`model.valid()`) or without tracked parameters
    /// (`no_grad()`): ranks that share tracked tensors can lock each other up inside burn-autodiff.
    ///
    /// With several ranks, call this from a thread of your own, not from a worker of rayon's global
    /// pool (a `par_iter` over jobs, say): CPU backends compute on that pool, and a worker that waits
    /// for its ranks is missing there.
    ///
    /// # Errors
    /// [`TrainError::EmptyBatch`] for no items; [`TrainError::Node`] where the loss refused its
    /// inputs or user code panicked; [`TrainError::ModelChanged`] for another model than the
    /// session was started with. Nothing is applied then.
    pub fn backward<M, I, O, T, F, L>(
        &mut self,
        model: &M,
        items: &[I],
        batcher: &T,
        loss: F,
    ) -> Result<StepOutput, TrainError>
    where
        M: AutodiffModule<B>,
        I: Clone + Sync,
        T: Batcher<B, I, O>,
        F: Fn(&M, O) -> L + Sync,
        L: IntoLossSum<B>,
    {
        self.backward_batch(model, &Items::new(items, batcher), loss)
    }

    /// [`backward`](Self::backward) on a batch that is ready: tensors, or a [`SplitBatch`] of your
    /// own. The whole batch then stays on its device for the whole step.
    ///
    /// # Errors
    /// As [`backward`](Self::backward), and [`TrainError::UnequalBatch`].
    pub fn backward_batch<M, S, F, L>(
        &mut self,
        model: &M,
        batch: &S,
        loss: F,
    ) -> Result<StepOutput, TrainError>
    where
        M: AutodiffModule<B>,
        S: SplitBatch<B>,
        F: Fn(&M, S::Micro) -> L + Sync,
        L: IntoLossSum<B>,
    {
        let nothing = |_, _| Ok(());
        let (output, ()) = self.step(model, batch, &LossPass(loss), nothing)?;
        Ok(output)
    }

    /// A step with any kind of pass. `finish` gets the number of the step and what each virtual node
    /// that ran handed back, in order; it may still refuse the step, as nothing is applied before.
    pub(crate) fn step<M, S, P, T>(
        &mut self,
        model: &M,
        batch: &S,
        pass: &P,
        finish: impl FnOnce(u64, Vec<Done<P::Output>>) -> Result<T, TrainError>,
    ) -> Result<(StepOutput, T), TrainError>
    where
        M: AutodiffModule<B>,
        S: SplitBatch<B>,
        P: Pass<B, M, S::Micro>,
    {
        let stepped = self.try_step(model, batch, pass, finish);
        stepped.inspect_err(|error| self.ranks.leave(error))
    }

    fn try_step<M, S, P, T>(
        &mut self,
        model: &M,
        batch: &S,
        pass: &P,
        finish: impl FnOnce(u64, Vec<Done<P::Output>>) -> Result<T, TrainError>,
    ) -> Result<(StepOutput, T), TrainError>
    where
        M: AutodiffModule<B>,
        S: SplitBatch<B>,
        P: Pass<B, M, S::Micro>,
    {
        let split = split(batch, self.settings.count)?;
        let trained = self.inventory.trained(model)?;
        let frame = Frame::new(&self.inventory, &trained, self.settings.count);
        let combined = self.combine(model, batch, &split, &frame, pass)?;
        let root = Root::new(&frame, combined.root, &self.settings);
        // The upload may fail; what changes the model and the session comes after it.
        let grads = root.gradients(model);
        self.remember_upload();
        let finished = finish(self.applied, combined.done)?;
        root.apply_statistics(model);
        if root.skipped.is_none() {
            self.applied += 1;
        }
        let output = StepOutput {
            grads,
            loss: root.loss,
            weight: root.weight,
            norm: root.norm,
            seconds: combined.seconds,
            skipped: root.skipped,
        };
        Ok((output, finished))
    }

    fn combine<M, S, P>(
        &mut self,
        model: &M,
        batch: &S,
        split: &BatchSplit,
        frame: &Frame,
        pass: &P,
    ) -> Result<Combined<P::Output>, TrainError>
    where
        M: AutodiffModule<B>,
        S: SplitBatch<B>,
        P: Pass<B, M, S::Micro>,
    {
        let resident = Meter::current().map(|meter| meter.live());
        let job = StepJob {
            inventory: &self.inventory,
            frame,
            seed: self.settings.seed,
            step: self.applied,
            batch,
            pass,
            require_all_gradients: self.settings.require_all_gradients,
        };
        let states = self.rank_states(model, frame, resident);
        let round = Round {
            step: self.applied,
            layout: &frame.layout,
            split,
            reduce: self.settings.reduce,
            allow_drift: self.settings.allow_drift,
            begin: |state: &mut RankState<Master<B, M>, P::Output>, node, samples, buffer| {
                let _listening = state.memory.listen();
                let start = Instant::now();
                let running = state
                    .master
                    .run(&job, node, samples, buffer, &mut state.memory)?;
                Ok(Timed {
                    node,
                    running,
                    seconds: start.elapsed().as_secs_f64(),
                })
            },
        };
        let turns = self.ranks.run(&round, states)?;
        if let Some(resident) = resident {
            self.remember(resident, frame, &turns);
        }
        Ok(Combined::gather(turns, self.settings.count))
    }

    fn rank_states<M: AutodiffModule<B>, O>(
        &self,
        model: &M,
        frame: &Frame,
        resident: Option<usize>,
    ) -> Vec<RankState<Master<B, M>, O>> {
        let ranks = self.settings.devices.iter().zip(&self.meters);
        let state = |(device, meter): (&B::Device, &Meter)| {
            let memory = NodeMemory::new(resident.map(|_| meter.clone()));
            let _listening = memory.listen();
            let master = Master::<B, M>::new(model, device, frame);
            RankState {
                master,
                memory,
                done: Vec::new(),
            }
        };
        ranks.map(state).collect()
    }

    fn remember<M, O>(&mut self, resident: usize, frame: &Frame, turns: &[Turn<RankState<M, O>>]) {
        let parameters = self.inventory.bytes();
        let partial = frame.gradient_bytes() + frame.layout.sums() * size_of::<f64>();
        for (memory, turn) in self.memory.iter_mut().zip(turns) {
            let nodes = &turn.state.memory;
            *memory = memory.max(RankMemory {
                parameters,
                optimizer: resident.saturating_sub(parameters),
                gradients: frame.gradient_bytes(),
                activations: nodes.activations(),
                partials: turn.partials * partial,
                peak: resident + nodes.peak(),
            });
        }
    }

    /// The combined gradients are on the device now, beside parameters and optimizer state.
    fn remember_upload(&mut self) {
        if let Some(meter) = Meter::current() {
            for memory in &mut self.memory {
                memory.peak = memory.peak.max(meter.live());
            }
        }
    }

    fn reset_memory(&mut self) {
        self.meters = self.settings.devices.iter().map(|_| Meter::new()).collect();
        self.memory = vec![RankMemory::default(); self.settings.devices.len()];
    }

    /// The number of virtual nodes.
    pub fn virtual_nodes(&self) -> usize {
        self.settings.count
    }

    /// Which virtual nodes each rank runs.
    pub fn placement(&self) -> &Placement {
        self.ranks.placement()
    }

    /// The steps that were applied: skipped ones don't count.
    pub fn applied_steps(&self) -> u64 {
        self.applied
    }

    /// The bit probe of the ranks; of rank 0 where drift was allowed.
    pub fn probe(&self) -> Probe {
        self.probe
    }

    /// Per rank of this process, the largest bytes since the start or the last resize. All zero unless
    /// a [`Meter`] listened on the thread that ran the steps.
    pub fn memory(&self) -> &[RankMemory] {
        &self.memory
    }
}

impl<B: VirtualAutodiff> fmt::Debug for Session<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("settings", &self.settings)
            .field("placement", self.ranks.placement())
            .field("probe", &self.probe)
            .field("applied_steps", &self.applied)
            .finish_non_exhaustive()
    }
}

/// Names the model's parameters; initial values that are still to be drawn come from the seed.
fn adopt<B: VirtualAutodiff, M: Module<B>>(
    seed: u64,
    model: &mut M,
) -> Result<Inventory, TrainError> {
    assign_ids(seed, model)?;
    Inventory::take(model)
}
