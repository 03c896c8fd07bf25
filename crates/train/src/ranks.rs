//! The ranks of this process: each runs its virtual nodes, then all combine their parts.

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use burn_virtual_backend::{Scope, enter, take_stream_fault};
use burn_virtual_collective::{CollectiveError, Group, Options, TransportError, memory};
use burn_virtual_plan::{BatchSplit, Layout, Partial, Placement, Stack};

use crate::replica::message;
use crate::{NodeError, TrainError};

/// Stack of a rank's thread: the usual one of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// One member per rank, and which virtual nodes each runs.
#[derive(Debug)]
pub(crate) struct Ranks {
    placement: Placement,
    options: Options,
    members: Vec<Member>,
}

/// A rank: its place in the group, and its part of the tree with the buffers of earlier steps.
#[derive(Debug)]
struct Member {
    group: Group,
    stack: Option<(Layout, Stack)>,
}

/// One step's work, the same for every rank.
pub(crate) struct Round<'a, F> {
    pub(crate) step: u64,
    pub(crate) layout: &'a Layout,
    pub(crate) split: &'a BatchSplit,
    /// Fills the leaf of a virtual node that has samples: `(state, node, samples, buffer)`.
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
        F: Fn(&mut T, usize, Range<usize>, Partial) -> Result<Partial, NodeError> + Sync,
    {
        let placement = &self.placement;
        let turns: Vec<_> = thread::scope(|scope| {
            let mut work = self.members.iter_mut().zip(states).enumerate();
            let first = work.next();
            let others: Vec<_> = work
                .map(|(rank, (member, state))| {
                    let turn = move || member.take_turn(rank, placement, round, state);
                    let thread = thread::Builder::new().name(format!("rank {rank}"));
                    // A deep model needs the stack that it would have on the main thread.
                    (
                        rank,
                        thread.stack_size(STACK_BYTES).spawn_scoped(scope, turn),
                    )
                })
                .collect();
            let unstarted = others.iter().find_map(|(rank, thread)| {
                thread
                    .as_ref()
                    .err()
                    .map(|error| no_thread(*rank, round.step, error))
            });
            let first = first.map(|(rank, (member, state))| match unstarted {
                Some(error) => {
                    member.group.abort(&error.to_string());
                    Err(error)
                }
                None => member.take_turn(rank, placement, round, state),
            });
            let others = others.into_iter().map(|(rank, thread)| match thread {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|panic| Err(lost(rank, round.step, message(&*panic)))),
                Err(error) => Err(no_thread(rank, round.step, &error)),
            });
            first.into_iter().chain(others).collect()
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

/// What happened inside a virtual node or a rank comes first, then what a rank waited for in vain;
/// a rank that only heard of a failure comes last. Among equals, the lowest rank.
fn root_cause(errors: impl Iterator<Item = TrainError>) -> Option<TrainError> {
    errors.min_by_key(|error| match error {
        TrainError::Collective(
            CollectiveError::Closed { .. }
            | CollectiveError::Transport {
                source: TransportError::Closed { .. } | TransportError::Gone { .. },
                ..
            },
        ) => 2,
        TrainError::Collective(_) => 1,
        _ => 0,
    })
}

fn no_thread(rank: usize, step: u64, error: &io::Error) -> TrainError {
    lost(rank, step, format!("no thread for it: {error}"))
}

fn lost(rank: usize, step: u64, reason: String) -> TrainError {
    TrainError::Rank { rank, step, reason }
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
        F: Fn(&mut T, usize, Range<usize>, Partial) -> Result<Partial, NodeError>,
    {
        let _scope = enter(Scope::Step { step: round.step });
        let turn = AssertUnwindSafe(|| self.try_turn(rank, placement, round, &mut state));
        let (root, partials) = catch_unwind(turn)
            .unwrap_or_else(|panic| Err(lost(rank, round.step, message(&*panic))))
            .inspect_err(|error| self.group.abort(&error.to_string()))?;
        Ok(Turn {
            root,
            state,
            partials,
        })
    }

    fn try_turn<T, F>(
        &mut self,
        rank: usize,
        placement: &Placement,
        round: &Round<'_, F>,
        state: &mut T,
    ) -> Result<(Option<Partial>, usize), TrainError>
    where
        F: Fn(&mut T, usize, Range<usize>, Partial) -> Result<Partial, NodeError>,
    {
        let mut stack = self.take_stack(rank, placement, round.layout)?;
        run_nodes(rank, placement, round, state, &mut stack)?;
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
        Ok((root, partials))
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
    F: Fn(&mut T, usize, Range<usize>, Partial) -> Result<Partial, NodeError>,
{
    let step = round.step;
    for node in placement.range(rank) {
        let samples = round.split.range(node);
        if samples.is_empty() {
            stack.push_leaf(node, None)?;
            continue;
        }
        let buffer = stack.take_buffer();
        let leaf = (round.leaf)(state, node, samples, buffer);
        // Taken also from a node that failed, or a later one would be blamed.
        let leaf = match take_stream_fault() {
            Some(fault) if leaf.is_ok() => Err(fault.into()),
            _ => leaf,
        };
        let leaf = leaf.map_err(|source| TrainError::Node {
            rank,
            step,
            node,
            source,
        })?;
        stack.push_leaf(node, Some(leaf))?;
    }
    Ok(())
}
