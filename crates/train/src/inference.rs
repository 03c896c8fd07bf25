//! Virtual nodes without gradients: what evaluation and prediction share.

use std::ops::Range;

use burn::tensor::backend::Backend;
use burn_virtual_backend::{Meter, Scope, enter};
use burn_virtual_collective::Reduce;
use burn_virtual_plan::{BatchSplit, Layout, Partial};

use crate::memory::NodeMemory;
use crate::ranks::{Ranks, Round};
use crate::replica::guarded;
use crate::{NodeError, SplitBatch, TrainError};

/// What every virtual node of a forward round shares.
pub(crate) struct ForwardJob<'a, S> {
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) batch: &'a S,
    /// Whether operations may run that don't repeat their bits.
    pub(crate) allow_drift: bool,
}

impl<S> ForwardJob<'_, S> {
    /// Runs user code on the samples of one virtual node. `samples` is not empty.
    pub(crate) fn run<B: Backend, T>(
        &self,
        node: usize,
        samples: Range<usize>,
        device: &B::Device,
        forward: impl FnOnce(S::Micro) -> T,
    ) -> Result<T, NodeError>
    where
        S: SplitBatch<B>,
    {
        let _scope = enter(Scope::Evaluation {
            seed: self.seed,
            step: self.step,
            node: node as u64,
        });
        guarded(|| Ok(forward(self.batch.micro(samples, device))))
    }
}

/// A rank of a forward round: the model on its device, and what its virtual nodes came to, in order.
pub(crate) struct ForwardRank<'a, B: Backend, M, R> {
    pub(crate) model: &'a mut M,
    pub(crate) device: B::Device,
    pub(crate) memory: NodeMemory,
    pub(crate) results: Vec<R>,
}

impl<'a, B: Backend, M, R> ForwardRank<'a, B, M, R> {
    pub(crate) fn new(model: &'a mut M, device: &B::Device, meter: Option<Meter>) -> Self {
        Self {
            model,
            device: device.clone(),
            memory: NodeMemory::new(meter),
            results: Vec::new(),
        }
    }
}

/// Runs `forward` on every virtual node that has samples.
///
/// `other_count` tells whether a result is of another number of samples than it should be.
pub(crate) fn forward_round<'a, B, M, S, F, R>(
    ranks: &mut Ranks,
    job: &ForwardJob<'_, S>,
    split: &BatchSplit,
    states: Vec<ForwardRank<'a, B, M, R>>,
    forward: &F,
    other_count: fn(&R, usize) -> Option<usize>,
) -> Result<Vec<ForwardRank<'a, B, M, R>>, TrainError>
where
    B: Backend,
    M: Send,
    S: SplitBatch<B>,
    F: Fn(&M, S::Micro) -> R + Sync,
    R: Send,
{
    let round = Round {
        step: job.step,
        layout: &Layout::new([], 0, 0),
        split,
        reduce: Reduce::Ordered,
        allow_drift: job.allow_drift,
        begin: |rank: &mut ForwardRank<'a, B, M, R>, node, samples: Range<usize>, leaf: Partial| {
            let _listening = rank.memory.listen();
            rank.memory.start();
            let run = |micro| forward(rank.model, micro);
            let expected = samples.len();
            let result = job.run::<B, _>(node, samples, &rank.device, run)?;
            if let Some(got) = other_count(&result, expected) {
                return Err(NodeError::Results { expected, got });
            }
            rank.memory.after_forward_only();
            rank.results.push(result);
            Ok(leaf)
        },
    };
    let turns = ranks.run(&round, states)?;
    Ok(turns.into_iter().map(|turn| turn.state).collect())
}
