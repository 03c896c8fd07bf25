//! What the benches of speed share: comparisons in pairs, and Criterion beside them.
//!
//! The machine may be shared and has slow modes that hit whole runs, so two programs are only ever
//! compared within one run, taking turns, and by their fastest runs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;

/// A program to measure, and what to call it.
pub(crate) type Side<'a, F> = (&'a str, &'a mut F);

/// What a comparison came to.
pub(crate) struct Paired {
    reference: Times,
    candidate: Times,
}

struct Times {
    minimum: Duration,
    median: Duration,
}

impl Paired {
    /// The candidate's fastest run in units of the reference's fastest run.
    pub(crate) fn ratio(&self) -> f64 {
        ratio(self.candidate.minimum, self.reference.minimum)
    }

    /// The same of the medians.
    fn ratio_of_medians(&self) -> f64 {
        ratio(self.candidate.median, self.reference.median)
    }
}

/// Runs both sides `pairs` times, in the order A B, B A, A B, ..., and prints a line: minima,
/// medians, their ratios, and whether the ratio of the minima keeps the bar. Without a bar it is for
/// information. A missed bar is printed, never a failure.
pub(crate) fn paired<A, B, R, S>(
    name: &str,
    pairs: usize,
    bar: Option<f64>,
    (reference, a): Side<'_, A>,
    (candidate, b): Side<'_, B>,
) -> Paired
where
    A: FnMut() -> R,
    B: FnMut() -> S,
{
    const WARM_UP: usize = 3;
    for _ in 0..WARM_UP {
        time(a);
        time(b);
    }
    let (mut times_a, mut times_b) = (Vec::with_capacity(pairs), Vec::with_capacity(pairs));
    for pair in 0..pairs {
        if pair % 2 == 0 {
            times_a.push(time(a));
            times_b.push(time(b));
        } else {
            times_b.push(time(b));
            times_a.push(time(a));
        }
    }
    let result = Paired {
        reference: Times::of(times_a),
        candidate: Times::of(times_b),
    };
    println!(
        "{name}: {reference} {}, {candidate} {}; ratio {:.3} (of medians {:.3}), {pairs} pairs; {}",
        result.reference,
        result.candidate,
        result.ratio(),
        result.ratio_of_medians(),
        verdict(result.ratio(), bar),
    );
    result
}

/// What a measured figure makes of its bar.
pub(crate) fn verdict(measured: f64, at_most: Option<f64>) -> String {
    match at_most {
        None => "for information".to_owned(),
        Some(bar) if measured <= bar => format!("at most {bar:.3}: met"),
        Some(bar) => format!("at most {bar:.3}: MISSED"),
    }
}

/// Whether to compare at all: not where Criterion only tries out, lists or profiles the benches.
pub(crate) fn measures() -> bool {
    let given = |flag: &str| std::env::args().any(|argument| argument == flag);
    given("--bench")
        && !["--test", "--list", "--profile-time"]
            .into_iter()
            .any(given)
}

/// Criterion with the command line's settings, and defaults that keep a bench within a minute.
pub(crate) fn criterion(measurement: Duration) -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(measurement)
        .configure_from_args()
}

fn time<R>(run: &mut impl FnMut() -> R) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

fn ratio(candidate: Duration, reference: Duration) -> f64 {
    candidate.as_secs_f64() / reference.as_secs_f64()
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self {
            minimum: times.first().copied().unwrap_or_default(),
            median: times.get(times.len() / 2).copied().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3?} (median {:.3?})", self.minimum, self.median)
    }
}
