//! The ranks of this process: each runs its virtual nodes, then all combine their parts.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use burn_virtual_backend::{Scope, enter};
use burn_virtual_collective::{Group, Options, memory};
use burn_virtual_plan::{Layout, Partial, Placement, Stack};

use crate::{NodeError, TrainError};

/// One member per rank, and which virtual nodes each runs.
pub(crate) struct Ranks {
    placement: Placement,
    options: Options,
    members: Vec<Member>,
}

/// A rank: its place in the group, and its part of the tree with the buffers of earlier steps.
struct Member {
    group: Group,
    stack: Option<(Layout, Stack)>,
}

/// One step's work, the same for every rank.
pub(crate) struct Round<'a, F> {
    pub(crate) step: u64,
    pub(crate) layout: &'a Layout,
    /// Fills the leaf of one virtual node, or says that it has none: `(state, node, buffer)`.
    pub(crate) leaf: F,
}

/// What a rank's turn came to.
pub(crate) struct Turn<T> {
    /// The root of the tree, the same on every rank; `None` where there is no leaf at all.
    pub(crate) root: Option<Partial>,
    pub(crate) state: T,
    /// The most partial sums that the rank held at once.
    pub(crate) partials: usize,
}

impl Ranks {
    pub(crate) fn new(placement: Placement, options: Options) -> Self {
        let members = connect(&placement, &options);
        Self {
            placement,
            options,
            members,
        }
    }

    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Runs every virtual node on its rank, with one of `states` per rank, and evaluates the tree.
    ///
    /// Rank 0 runs on the caller's thread, so a lone rank needs no other. After an error the group
    /// is closed; the next round gets a fresh one.
    pub(crate) fn run<T, F>(
        &mut self,
        round: &Round<'_, F>,
        states: Vec<T>,
    ) -> Result<Vec<Turn<T>>, TrainError>
    where
        T: Send,
        F: Fn(&mut T, usize, Partial) -> Result<Option<Partial>, NodeError> + Sync,
    {
        let placement = &self.placement;
        let turns = thread::scope(|scope| {
            let mut work = self.members.iter_mut().zip(states).enumerate();
            let first = work.next();
            let others: Vec<_> = work
                .map(|(rank, (member, state))| {
                    scope.spawn(move || member.take_turn(rank, placement, round, state))
                })
                .collect();
            let mut turns: Vec<_> = first
                .map(|(rank, (member, state))| member.take_turn(rank, placement, round, state))
                .into_iter()
                .collect();
            for (index, handle) in others.into_iter().enumerate() {
                let lost = |panic| Err(panicked(index + 1, round.step, panic));
                turns.push(handle.join().unwrap_or_else(lost));
            }
            turns
        });
        let (turns, errors): (Vec<_>, Vec<_>) = turns.into_iter().partition(Result::is_ok);
        match root_cause(errors.into_iter().filter_map(Result::err)) {
            None => Ok(turns.into_iter().filter_map(Result::ok).collect()),
            Some(error) => {
                self.members = connect(&self.placement, &self.options);
                Err(error)
            }
        }
    }
}

fn connect(placement: &Placement, options: &Options) -> Vec<Member> {
    memory::group(placement.ranks())
        .into_iter()
        .map(|transport| Group::new(Box::new(transport), options.clone()))
        .map(|group| Member { group, stack: None })
        .collect()
}

/// A rank that gave up in a collective only heard of the failure: what happened inside a virtual
/// node or a rank comes first, the lowest rank before others.
fn root_cause(errors: impl Iterator<Item = TrainError>) -> Option<TrainError> {
    errors.min_by_key(|error| matches!(error, TrainError::Collective(_)))
}

fn panicked(rank: usize, step: u64, panic: Box<dyn Any + Send>) -> TrainError {
    TrainError::Rank {
        rank,
        step,
        reason: crate::replica::message(&*panic),
    }
}

impl Member {
    fn take_turn<T, F>(
        &mut self,
        rank: usize,
        placement: &Placement,
        round: &Round<'_, F>,
        mut state: T,
    ) -> Result<Turn<T>, TrainError>
    where
        F: Fn(&mut T, usize, Partial) -> Result<Option<Partial>, NodeError>,
    {
        let _scope = enter(Scope::Step { step: round.step });
        let mut stack = self.take_stack(rank, placement, round.layout)?;
        let passes = AssertUnwindSafe(|| run_nodes(rank, placement, round, &mut state, &mut stack));
        catch_unwind(passes)
            .unwrap_or_else(|panic| Err(panicked(rank, round.step, panic)))
            .inspect_err(|error| self.group.abort(&error.to_string()))?;
        let partials = stack.peak();
        let nodes = stack.finish()?;
        let root = self
            .group
            .all_reduce(round.step, round.layout, placement, nodes)?;
        self.group
            .take_spares()
            .into_iter()
            .for_each(|spare| stack.recycle(spare));
        self.stack = Some((round.layout.clone(), stack));
        Ok(Turn {
            root,
            state,
            partials,
        })
    }

    /// The stack of the step before, if the layout is still the same.
    fn take_stack(
        &mut self,
        rank: usize,
        placement: &Placement,
        layout: &Layout,
    ) -> Result<Stack, TrainError> {
        match self.stack.take() {
            Some((known, stack)) if known == *layout => Ok(stack),
            _ => Ok(Stack::new(
                layout,
                placement.virtual_nodes(),
                placement.range(rank),
            )?),
        }
    }
}

fn run_nodes<T, F>(
    rank: usize,
    placement: &Placement,
    round: &Round<'_, F>,
    state: &mut T,
    stack: &mut Stack,
) -> Result<(), TrainError>
where
    F: Fn(&mut T, usize, Partial) -> Result<Option<Partial>, NodeError>,
{
    let step = round.step;
    for node in placement.range(rank) {
        let buffer = stack.take_buffer();
        let leaf = (round.leaf)(state, node, buffer).map_err(|source| TrainError::Node {
            rank,
            step,
            node,
            source,
        })?;
        stack.push_leaf(node, leaf)?;
    }
    Ok(())
}
