//! Word of a call that waits for long.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::CallName;

/// A call that has waited for longer than [`crate::Options::stall`].
///
/// ```
/// use std::time::Duration;
///
/// use burn_virtual_collective::{CallName, Operation, Stall, Work};
///
/// let stall = Stall {
///     rank: 0,
///     call: CallName {
///         operation: Operation::AllReduce,
///         work: Some(Work::from(5)),
///         sequence: 9,
///     },
///     waited: Duration::from_secs(10),
///     here: vec![0, 2],
///     missing: vec![1],
/// };
/// assert_eq!(
///     stall.to_string(),
///     "rank 0: all-reduce of step 5, bucket 0, call 9: waiting for 10 s; here: 0, 2; missing: 1"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// This rank.
    pub rank: usize,
    /// The call.
    pub call: CallName,
    /// Time since the call began.
    pub waited: Duration,
    /// Ranks that are in the call, or through it. This rank is one of them.
    pub here: Vec<usize>,
    /// Ranks that are waited for: they have not entered the call, or stopped in it. Never none.
    pub missing: Vec<usize>,
}

impl fmt::Display for Stall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, call, .. } = self;
        let (waited, here) = (seconds(self.waited), list(&self.here));
        let missing = list(&self.missing);
        write!(
            formatter,
            "rank {rank}: {call}: waiting for {waited}; here: {here}; missing: {missing}"
        )
    }
}

/// A wait in seconds, with tenths where they are few.
pub(crate) fn seconds(waited: Duration) -> String {
    let tenths = usize::from(waited < Duration::from_secs(10));
    format!("{:.tenths$} s", waited.as_secs_f64())
}

fn list(ranks: &[usize]) -> String {
    let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
    ranks.join(", ")
}

/// What is done with a [`Stall`]: by default, a line on stderr.
///
/// ```
/// use burn_virtual_collective::{OnStall, Options};
///
/// let options = Options {
///     on_stall: OnStall::call(|stall| eprintln!("warning: {stall}")),
///     ..Options::default()
/// };
/// ```
pub type OnStall = Reporter<Stall>;

/// What is done with word of a long wait: by default, a line on stderr.
pub struct Reporter<S>(Option<Arc<Report<S>>>);

type Report<S> = dyn Fn(&S) + Send + Sync;

impl<S> Reporter<S> {
    /// Calls `report`, on the thread that waits.
    pub fn call(report: impl Fn(&S) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }
}

impl<S: fmt::Display> Reporter<S> {
    pub(crate) fn report(&self, stall: &S) {
        match &self.0 {
            Some(report) => report(stall),
            // In vain if nobody reads it any more.
            None => drop(writeln!(std::io::stderr(), "{stall}")),
        }
    }
}

impl<S> Default for Reporter<S> {
    fn default() -> Self {
        Self(None)
    }
}

impl<S> Clone for Reporter<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> fmt::Debug for Reporter<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            None => "OnStall(stderr)",
            Some(_) => "OnStall(..)",
        })
    }
}

/// Clones are equal, and so are the defaults.
impl<S> PartialEq for Reporter<S> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl<S> Eq for Reporter<S> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_equal_when_they_are_the_same() {
        let (one, other) = (OnStall::call(|_| {}), OnStall::call(|_| {}));
        assert_eq!(OnStall::default(), OnStall::default());
        assert_eq!(one.clone(), one);
        assert_ne!(one, other);
        assert_ne!(one, OnStall::default());
        assert_eq!(format!("{one:?}"), "OnStall(..)");
    }
}
