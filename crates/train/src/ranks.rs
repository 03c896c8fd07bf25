//! The ranks of this process: each runs its virtual nodes, then all combine their parts.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use burn_virtual_backend::{Scope, enter};
use burn_virtual_collective::{Group, Options, memory};
use burn_virtual_plan::{Layout, Partial, Placement, Stack};

use crate::{NodeError, TrainError};

/// One group member per rank, and which virtual nodes each runs.
pub(crate) struct Ranks {
    placement: Placement,
    options: Options,
    groups: Vec<Group>,
}

/// One step's work, the same for every rank.
pub(crate) struct Round<'a, F> {
    pub(crate) step: u64,
    pub(crate) layout: &'a Layout,
    /// Fills the leaf of one virtual node, or says that it has none: `(state, node, buffer)`.
    pub(crate) leaf: F,
}

/// What a rank's own state became, and the most partial sums it held at once.
pub(crate) struct Ran<T> {
    pub(crate) state: T,
    pub(crate) partials: usize,
}

impl Ranks {
    pub(crate) fn new(placement: Placement, options: Options) -> Self {
        let groups = connect(&placement, &options);
        Self {
            placement,
            options,
            groups,
        }
    }

    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Runs every virtual node on its rank, with one `state` per rank, and evaluates the tree.
    ///
    /// Rank 0 runs on the caller's thread, so a lone rank needs no other. `None` is a tree without
    /// any leaf. After an error the group is closed; the next round gets a fresh one.
    pub(crate) fn run<T, F>(
        &mut self,
        round: &Round<'_, F>,
        states: Vec<T>,
    ) -> Result<(Option<Partial>, Vec<Ran<T>>), TrainError>
    where
        T: Send,
        F: Fn(&mut T, usize, Partial) -> Result<Option<Partial>, NodeError> + Sync,
    {
        let placement = &self.placement;
        let work = self.groups.iter_mut().zip(states).enumerate();
        let results = thread::scope(|scope| {
            let mut work = work.map(|(rank, (group, state))| Work { rank, group, state });
            let first = work.next();
            let others: Vec<_> = work
                .map(|work| {
                    let rank = work.rank;
                    (rank, scope.spawn(move || work.run(placement, round)))
                })
                .collect();
            let mut results: Vec<_> = first
                .map(|work| work.run(placement, round))
                .into_iter()
                .collect();
            for (rank, handle) in others {
                let lost = |panic| Err(rank_panicked(rank, round.step, panic));
                results.push(handle.join().unwrap_or_else(lost));
            }
            results
        });
        self.gather(results)
    }

    fn gather<T>(
        &mut self,
        results: Vec<Result<(Option<Partial>, Ran<T>), TrainError>>,
    ) -> Result<(Option<Partial>, Vec<Ran<T>>), TrainError> {
        let (mut root, mut ran, mut errors) = (None, Vec::new(), Vec::new());
        for result in results {
            match result {
                Ok((combined, state)) => {
                    // Every rank holds the same combined partial: the first will do.
                    if ran.is_empty() {
                        root = combined;
                    }
                    ran.push(state);
                }
                Err(error) => errors.push(error),
            }
        }
        match root_cause(errors) {
            None => Ok((root, ran)),
            Some(error) => {
                self.groups = connect(&self.placement, &self.options);
                Err(error)
            }
        }
    }
}

fn connect(placement: &Placement, options: &Options) -> Vec<Group> {
    let transports = memory::group(placement.ranks());
    transports
        .into_iter()
        .map(|transport| Group::new(Box::new(transport), options.clone()))
        .collect()
}

/// A rank that gave up in a collective only heard of the failure: what happened inside a virtual
/// node or a rank comes first, the lowest rank before others.
fn root_cause(errors: Vec<TrainError>) -> Option<TrainError> {
    errors
        .into_iter()
        .min_by_key(|error| matches!(error, TrainError::Collective(_)))
}

fn rank_panicked(rank: usize, step: u64, panic: Box<dyn Any + Send>) -> TrainError {
    TrainError::Rank {
        rank,
        step,
        reason: crate::replica::message(&*panic),
    }
}

struct Work<'a, T> {
    rank: usize,
    group: &'a mut Group,
    state: T,
}

impl<T> Work<'_, T> {
    fn run<F>(
        mut self,
        placement: &Placement,
        round: &Round<'_, F>,
    ) -> Result<(Option<Partial>, Ran<T>), TrainError>
    where
        F: Fn(&mut T, usize, Partial) -> Result<Option<Partial>, NodeError>,
    {
        let _scope = enter(Scope::Step { step: round.step });
        let passes = AssertUnwindSafe(|| self.passes(placement, round));
        let stack = catch_unwind(passes)
            .unwrap_or_else(|panic| Err(rank_panicked(self.rank, round.step, panic)));
        let mut stack = stack.inspect_err(|error| self.group.abort(&error.to_string()))?;
        let partials = stack.peak();
        let nodes = stack.finish()?;
        let combined = self
            .group
            .all_reduce(round.step, round.layout, placement, nodes)?;
        Ok((
            combined,
            Ran {
                state: self.state,
                partials,
            },
        ))
    }

    fn passes<F>(
        &mut self,
        placement: &Placement,
        round: &Round<'_, F>,
    ) -> Result<Stack, TrainError>
    where
        F: Fn(&mut T, usize, Partial) -> Result<Option<Partial>, NodeError>,
    {
        let range = placement.range(self.rank);
        let mut stack = Stack::new(round.layout, placement.virtual_nodes(), range.clone())?;
        for node in range {
            let buffer = stack.take_buffer();
            let leaf =
                (round.leaf)(&mut self.state, node, buffer).map_err(|source| TrainError::Node {
                    rank: self.rank,
                    step: round.step,
                    node,
                    source,
                })?;
            stack.push_leaf(node, leaf)?;
        }
        Ok(stack)
    }
}
