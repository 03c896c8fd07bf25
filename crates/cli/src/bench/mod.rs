//! `burn-virtual bench`: what the collectives take on this machine.

mod args;
mod error;
mod job;
mod pattern;
mod rank;
mod report;
mod threads;

use burn_virtual::distributed::tcp::Environment;

pub(crate) use args::BenchArgs;
use args::{AllReduceArgs, Transport, What};
pub(crate) use error::BenchError;
use job::Job;
use report::BenchReport;

use crate::error::RunError;
use crate::output;
use crate::process::Process;

/// `burn-virtual bench`.
pub(crate) fn run(args: &BenchArgs) -> Result<(), RunError> {
    let What::AllReduce(args) = &args.what;
    match (args.transport, Environment::read()?) {
        #[cfg(unix)]
        (Transport::Tcp, Some(place)) => run_rank(args, &place),
        #[cfg(unix)]
        (Transport::Tcp, None) => run_processes(args),
        (Transport::Memory, _) => {
            Process::check_alone("bench allreduce --transport memory")?;
            let job = args.job(args.ranks(), args.ranks())?;
            report(args, &job, &threads::measure(&job)?)
        }
    }
}

/// This program, once for each rank; rank 0 has the figures.
#[cfg(unix)]
fn run_processes(args: &AllReduceArgs) -> Result<(), RunError> {
    use crate::launch::{Settings, launch};

    args.job(args.ranks(), args.ranks())?;
    let words = std::env::args_os().skip(1).collect();
    Ok(launch(&Settings::quiet(args.ranks(), words)?)?)
}

/// One of the processes that a launcher started.
#[cfg(unix)]
fn run_rank(args: &AllReduceArgs, place: &Environment) -> Result<(), RunError> {
    use burn_virtual::distributed::tcp::join;

    let world = place.settings.job.world;
    args.check_world(world)?;
    // The others' share of memory may be taken already.
    let job = args.job(world, 1)?;
    let seconds = rank::measure(&job, Box::new(join(&place.settings)?))?;
    if place.settings.rank > 0 {
        return Ok(());
    }
    report(args, &job, &seconds)
}

fn report(args: &AllReduceArgs, job: &Job, seconds: &[f64]) -> Result<(), RunError> {
    let report = BenchReport::new(job, args.transport, seconds);
    Ok(output::print(&report, args.json)?)
}
