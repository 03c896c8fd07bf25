//! The thread-local context: which random stream this thread draws from, which meter listens, and
//! (with `overlap`) which hook takes gradients.
//!
//! Nothing here is process-wide, so two jobs live in one process without seeing each other.

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;

use crate::meter::Meter;

/// Where random numbers on this thread come from.
///
/// Every random operation of the backend takes the next draw number of the scope; its values are a
/// function of the scope's fields and that number, and of nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A thread that was seeded with [`Backend::seed`](burn_backend::Backend::seed).
    Seeded {
        /// The seed.
        seed: u64,
    },
    /// The initial value of one parameter of a job.
    Init {
        /// The job's seed.
        seed: u64,
        /// The parameter's id.
        parameter: u64,
    },
    /// Inside a step, outside any virtual node: a random operation here is a fault.
    Step {
        /// The applied step.
        step: u64,
    },
    /// One virtual node's forward and backward pass.
    Node {
        /// The job's seed.
        seed: u64,
        /// The applied step.
        step: u64,
        /// The virtual node.
        node: u64,
    },
    /// One virtual node's share of an evaluation.
    Evaluation {
        /// The job's seed.
        seed: u64,
        /// The steps that were applied before.
        step: u64,
        /// The virtual node.
        node: u64,
    },
}

/// What an operation did inside a job that breaks its promise of equal bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A random operation ran inside a step, but outside any virtual node.
    #[error(
        "a random operation ran inside step {step} but outside any virtual node: its values would depend on the placement"
    )]
    Draw {
        /// The applied step.
        step: u64,
    },
    /// `Backend::seed` was called inside a job: every virtual node would draw the same numbers.
    #[error("the backend was seeded inside a job, which draws from its own seed")]
    Seed,
    /// An operation whose threads add into the same place, in the order in which they happen to come.
    #[error(
        "operation `{operation}` of this backend doesn't repeat its bits: results would change from run to run; `allow_drift` accepts that"
    )]
    Unrepeatable {
        /// The method of Burn's backend.
        operation: &'static str,
    },
}

pub(crate) struct Context {
    scope: Cell<Option<Scope>>,
    draws: Cell<u64>,
    fault: Cell<Option<Fault>>,
    pub(crate) meter: RefCell<Option<Meter>>,
    #[cfg(feature = "overlap")]
    pub(crate) hook: RefCell<Option<Box<dyn crate::hook::GradientHook>>>,
}

impl Context {
    /// Whether this thread runs part of a job.
    fn in_job(&self) -> bool {
        !matches!(self.scope.get(), None | Some(Scope::Seeded { .. }))
    }
}

thread_local! {
    pub(crate) static CONTEXT: Context = const {
        Context {
            scope: Cell::new(None),
            draws: Cell::new(0),
            fault: Cell::new(None),
            meter: RefCell::new(None),
            #[cfg(feature = "overlap")]
            hook: RefCell::new(None),
        }
    };
}

/// Restores what held before [`enter`], when dropped.
#[must_use = "the scope ends when this is dropped"]
#[derive(Debug)]
pub struct Entered {
    before: (Option<Scope>, u64),
    // Thread-local state is restored on the thread that entered.
    not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CONTEXT.with(|context| {
            context.scope.set(self.before.0);
            context.draws.set(self.before.1);
        });
    }
}

/// Enters a scope on this thread; draws are counted from zero. Scopes nest.
///
/// ```
/// use burn_backend::{Backend, Distribution, FloatDType, TensorData, ops::FloatTensorOps};
/// use burn_virtual_backend::{Scope, VirtualBackend, enter};
///
/// type B = VirtualBackend<burn_flex::Flex>;
/// let draw = |node| {
///     let _scope = enter(Scope::Node { seed: 42, step: 7, node });
///     let mask = B::float_random([8].into(), Distribution::Bernoulli(0.5), &Default::default(), FloatDType::F32);
///     burn_std::future::block_on(B::float_into_data(mask)).unwrap()
/// };
/// assert_eq!(draw(0), draw(0));
/// assert_ne!(draw(0), draw(1));
/// ```
pub fn enter(scope: Scope) -> Entered {
    CONTEXT.with(|context| Entered {
        before: (context.scope.replace(Some(scope)), context.draws.replace(0)),
        not_send: PhantomData,
    })
}

/// Takes the fault that an operation left behind on this thread, if one did.
pub fn take_fault() -> Option<Fault> {
    CONTEXT.with(|context| context.fault.take())
}

/// Seeds this thread until the next seed or scope. Inside a job that is a fault, and nothing else.
pub(crate) fn seed(seed: u64) {
    CONTEXT.with(|context| {
        if context.in_job() {
            context.fault.set(Some(Fault::Seed));
            return;
        }
        context.scope.set(Some(Scope::Seeded { seed }));
        context.draws.set(0);
    });
}

/// Notes that an operation ran which doesn't repeat its bits. Outside a job nothing is promised.
pub(crate) fn unrepeatable(operation: &'static str) {
    CONTEXT.with(|context| {
        if context.in_job() && context.fault.get().is_none() {
            context.fault.set(Some(Fault::Unrepeatable { operation }));
        }
    });
}

/// The scope and the next draw number, or `None` where this thread has no stream.
pub(crate) fn next_draw() -> Option<(Scope, u64)> {
    CONTEXT.with(|context| {
        let scope = context.scope.get()?;
        if let Scope::Step { step } = scope {
            context.fault.set(Some(Fault::Draw { step }));
            return None;
        }
        let draw = context.draws.get();
        context.draws.set(draw + 1);
        Some((scope, draw))
    })
}
