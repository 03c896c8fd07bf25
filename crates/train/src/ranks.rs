//! The ranks of this process: each runs its virtual nodes, then all ranks of the group combine their
//! parts.

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use burn_virtual_backend::{Fault, Scope, enter, take_fault};
use burn_virtual_collective::{Group, Options, Reduce, Transport, Work, memory};
use burn_virtual_plan::{BatchSplit, Layout, Partial, Placement, Stack};

use crate::replica::message;
use crate::{NodeError, TrainError};

/// Stack of a rank's thread: the usual one of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// The ranks of this process, and which virtual nodes each rank of the group runs.
#[derive(Debug)]
pub(crate) struct Ranks {
    placement: Placement,
    options: Options,
    members: Vec<Member>,
    /// Whether others are in other processes. A group of this process alone is formed anew after an
    /// error; one of several stays closed.
    spread: bool,
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
    /// How the parts of the ranks are combined.
    pub(crate) reduce: Reduce,
    /// Whether operations may run that don't repeat their bits.
    pub(crate) allow_drift: bool,
    /// Begins with a virtual node that has samples: `(state, node, samples, buffer)`.
    pub(crate) begin: F,
}

/// A virtual node that was begun.
pub(crate) trait Begun<T> {
    /// Whether there is nothing to wait for.
    fn is_over(&self) -> bool;

    /// Waits for its values; its leaf, filled.
    fn finish(self, state: &mut T) -> Result<Partial, NodeError>;
}

/// One that is over as soon as it was begun.
impl<T> Begun<T> for Partial {
    fn is_over(&self) -> bool {
        true
    }

    fn finish(self, _state: &mut T) -> Result<Partial, NodeError> {
        Ok(self)
    }
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
    /// All ranks of a placement, in this process.
    pub(crate) fn new(placement: Placement, options: Options) -> Self {
        let members = connect(&placement, &options);
        Self {
            placement,
            options,
            members,
            spread: false,
        }
    }

    /// The ranks of a placement that are at this end of the given transports.
    pub(crate) fn over(
        placement: Placement,
        options: Options,
        transports: Vec<Box<dyn Transport>>,
    ) -> Self {
        let members = transports
            .into_iter()
            .map(|transport| Member::new(transport, &options))
            .collect();
        Self {
            placement,
            options,
            members,
            spread: true,
        }
    }

    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Number of ranks in this process.
    pub(crate) fn here(&self) -> usize {
        self.members.len()
    }

    /// Runs every virtual node of this process on its rank, with one of `states` per rank, and
    /// evaluates the tree.
    pub(crate) fn run<T, F, N>(
        &mut self,
        round: &Round<'_, F>,
        states: Vec<T>,
    ) -> Result<Vec<Turn<T>>, TrainError>
    where
        T: Send,
        F: Fn(&mut T, usize, Range<usize>, Partial) -> Result<N, NodeError> + Sync,
        N: Begun<T>,
    {
        let placement = self.placement.clone();
        self.on_all(round.step, states, |member, state| {
            member.take_turn(&placement, round, state)
        })
    }

    /// Closes a group of several processes after an error in this one: the others would wait for
    /// its ranks, which did not get as far as to tell them.
    pub(crate) fn leave(&mut self, error: &TrainError) {
        if self.spread {
            let reason = error.to_string();
            self.members
                .iter_mut()
                .for_each(|member| member.group.abort(&reason));
        }
    }

    /// What every rank of the group brings, in the order of ranks; `own` is what each rank of this
    /// process does.
    pub(crate) fn gather(
        &mut self,
        step: u64,
        own: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, TrainError> {
        let gathered = self.on_all(step, own, |member, own| Ok(member.group.gather(&own)?))?;
        Ok(gathered.into_iter().next().unwrap_or_default())
    }

    /// Runs something on every rank of this process, with one of `states` per rank.
    ///
    /// The first rank runs on the caller's thread, so a lone one needs no other. After an error the
    /// group is closed; see [`Ranks::spread`] for what comes next.
    fn on_all<S: Send, T: Send>(
        &mut self,
        step: u64,
        states: Vec<S>,
        turn: impl Fn(&mut Member, S) -> Result<T, TrainError> + Sync,
    ) -> Result<Vec<T>, TrainError> {
        let turn = &turn;
        let turns: Vec<_> = thread::scope(|scope| {
            let mut work = self.members.iter_mut().zip(states);
            let first = work.next();
            let others: Vec<_> = work
                .map(|(member, state)| {
                    let rank = member.group.rank();
                    let thread = thread::Builder::new().name(format!("rank {rank}"));
                    // A deep model needs the stack that it would have on the main thread.
                    let thread = thread.stack_size(STACK_BYTES);
                    (
                        rank,
                        thread.spawn_scoped(scope, move || turn(member, state)),
                    )
                })
                .collect();
            let unstarted = others.iter().find_map(|(rank, thread)| {
                thread
                    .as_ref()
                    .err()
                    .map(|error| no_thread(*rank, step, error))
            });
            let first = first.map(|(member, state)| match unstarted {
                Some(error) => {
                    member.group.abort(&error.to_string());
                    Err(error)
                }
                None => turn(member, state),
            });
            let others = others.into_iter().map(|(rank, thread)| match thread {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|panic| Err(lost(rank, step, message(&*panic)))),
                Err(error) => Err(no_thread(rank, step, &error)),
            });
            first.into_iter().chain(others).collect()
        });
        let (turns, errors): (Vec<_>, Vec<_>) = turns.into_iter().partition(Result::is_ok);
        match root_cause(errors.into_iter().filter_map(Result::err)) {
            None => Ok(turns.into_iter().filter_map(Result::ok).collect()),
            Some(error) => {
                if !self.spread {
                    self.members = connect(&self.placement, &self.options);
                }
                Err(error)
            }
        }
    }
}

fn connect(placement: &Placement, options: &Options) -> Vec<Member> {
    memory::group(placement.ranks())
        .into_iter()
        .map(|transport| Member::new(Box::new(transport), options))
        .collect()
}

/// What happened inside a virtual node or a rank comes first, then what a rank waited for in vain;
/// a rank that only heard of a failure comes last. Among equals, the lowest rank.
fn root_cause(errors: impl Iterator<Item = TrainError>) -> Option<TrainError> {
    errors.min_by_key(|error| match error {
        error if error.is_consequence() => 2,
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
    fn new(transport: Box<dyn Transport>, options: &Options) -> Self {
        Self {
            group: Group::new(transport, options.clone()),
            stack: None,
        }
    }

    fn take_turn<T, F, N>(
        &mut self,
        placement: &Placement,
        round: &Round<'_, F>,
        mut state: T,
    ) -> Result<Turn<T>, TrainError>
    where
        F: Fn(&mut T, usize, Range<usize>, Partial) -> Result<N, NodeError>,
        N: Begun<T>,
    {
        let _scope = enter(Scope::Step { step: round.step });
        let rank = self.group.rank();
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

    fn try_turn<T, F, N>(
        &mut self,
        rank: usize,
        placement: &Placement,
        round: &Round<'_, F>,
        state: &mut T,
    ) -> Result<(Option<Partial>, usize), TrainError>
    where
        F: Fn(&mut T, usize, Range<usize>, Partial) -> Result<N, NodeError>,
        N: Begun<T>,
    {
        let mut stack = self.take_stack(rank, placement, round.layout)?;
        run_nodes(rank, placement, round, state, &mut stack)?;
        let partials = stack.peak();
        let nodes = stack.finish()?;
        let work = Work {
            step: round.step,
            bucket: 0,
            samples: round.split.batch() as u64,
        };
        let root = self
            .group
            .all_reduce_by(round.reduce, work, round.layout, placement, nodes)?;
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

/// Runs the virtual nodes of a rank in order. While one computes on its device, the host adds up
/// what the one before it came to: see [`Download`](crate::download::Download).
fn run_nodes<T, F, N>(
    rank: usize,
    placement: &Placement,
    round: &Round<'_, F>,
    state: &mut T,
    stack: &mut Stack,
) -> Result<(), TrainError>
where
    F: Fn(&mut T, usize, Range<usize>, Partial) -> Result<N, NodeError>,
    N: Begun<T>,
{
    let failed = |node| {
        move |source| TrainError::Node {
            rank,
            step: round.step,
            node,
            source,
        }
    };
    let finish = |(node, begun): (usize, N), state: &mut T, stack: &mut Stack| {
        let leaf = begun.finish(state).map_err(failed(node))?;
        Ok::<_, TrainError>(stack.push_leaf(node, Some(leaf))?)
    };
    let mut waiting: Option<(usize, N)> = None;
    for node in placement.range(rank) {
        let samples = round.split.range(node);
        let begun = (!samples.is_empty()).then(|| {
            let buffer = stack.take_buffer();
            begin(round, state, node, samples, buffer)
        });
        // Its error comes first: what a device notices late may end the next virtual node, too.
        if let Some(before) = waiting.take() {
            finish(before, state, stack)?;
        }
        match begun.transpose().map_err(failed(node))? {
            None => stack.push_leaf(node, None)?,
            // Kept waiting, it would take memory for nothing.
            Some(begun) if begun.is_over() => finish((node, begun), state, stack)?,
            Some(begun) => waiting = Some((node, begun)),
        }
    }
    waiting.map_or(Ok(()), |last| finish(last, state, stack))
}

fn begin<T, F, N>(
    round: &Round<'_, F>,
    state: &mut T,
    node: usize,
    samples: Range<usize>,
    buffer: Partial,
) -> Result<N, NodeError>
where
    F: Fn(&mut T, usize, Range<usize>, Partial) -> Result<N, NodeError>,
{
    let begun = (round.begin)(state, node, samples, buffer);
    // Taken also from a node that failed, or a later one would be blamed.
    match take_fault() {
        Some(Fault::Unrepeatable { .. }) if round.allow_drift => begun,
        Some(fault) if begun.is_ok() => Err(fault.into()),
        _ => begun,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A virtual node of a device that works behind the host's back.
    struct Queued<'a> {
        node: usize,
        fails: bool,
        log: &'a Mutex<Vec<String>>,
    }

    impl Begun<()> for Queued<'_> {
        fn is_over(&self) -> bool {
            false
        }

        fn finish(self, _state: &mut ()) -> Result<Partial, NodeError> {
            note(self.log, "finish", self.node);
            if self.fails {
                return Err(NodeError::Panicked("late".to_owned()));
            }
            Ok(Partial::empty(&Layout::new([], 1, 0)))
        }
    }

    fn note(log: &Mutex<Vec<String>>, what: &str, node: usize) {
        log.lock().unwrap().push(format!("{what} {node}"));
    }

    /// A step of four virtual nodes, the third without samples, on one rank.
    fn run(
        begin: impl Fn(usize) -> Result<bool, NodeError> + Sync,
    ) -> (Vec<String>, Option<TrainError>) {
        let log = Mutex::new(Vec::new());
        let round = Round {
            step: 7,
            layout: &Layout::new([], 1, 0),
            split: &BatchSplit::new(2, 3).unwrap(),
            reduce: Reduce::Ordered,
            allow_drift: false,
            begin: |(): &mut (), node, _samples: Range<usize>, _buffer: Partial| {
                note(&log, "begin", node);
                let fails = begin(node)?;
                Ok(Queued {
                    node,
                    fails,
                    log: &log,
                })
            },
        };
        let placement = Placement::even(3, 1).unwrap();
        let ran = Ranks::new(placement, Options::default()).run(&round, vec![()]);
        let error = ran.err();
        (log.into_inner().unwrap(), error)
    }

    #[test]
    fn virtual_nodes_are_finished_behind_the_next_one() {
        let (log, error) = run(|_| Ok(false));
        assert!(error.is_none());
        assert_eq!(log, ["begin 0", "begin 1", "finish 0", "finish 1"]);
    }

    #[test]
    fn error_is_that_of_the_first_virtual_node_when_the_next_fails_as_well() {
        let (log, error) = run(|node| match node {
            0 => Ok(true),
            _ => Err(NodeError::Panicked("early".to_owned())),
        });
        assert_eq!(log, ["begin 0", "begin 1", "finish 0"]);
        assert!(
            matches!(
                error,
                Some(TrainError::Node {
                    node: 0,
                    step: 7,
                    ..
                })
            ),
            "{error:?}"
        );
    }
}
