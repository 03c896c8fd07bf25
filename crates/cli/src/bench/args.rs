//! The command line of `bench`.

use std::fmt;
use std::num::NonZeroUsize;

use burn_virtual::distributed::Reduce;
use burn_virtual::plan::Placement;
use clap::{Subcommand, ValueEnum};

use super::BenchError;
use super::job::Job;
use crate::args::MOST_DEVICES;

/// `burn-virtual bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(super) what: What,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// Sum a vector of f32 over ranks, from a tensor to a tensor.
    #[command(name = "allreduce")]
    AllReduce(AllReduceArgs),
}

/// `burn-virtual bench allreduce`.
#[derive(Debug, clap::Args)]
pub(super) struct AllReduceArgs {
    /// Ranks [default: 2, under `launch` its processes].
    #[arg(long, value_name = "N", value_parser = crate::args::ranks)]
    ranks: Option<usize>,

    /// What carries messages between ranks.
    #[arg(long, value_enum, default_value_t = Transport::Memory)]
    pub(super) transport: Transport,

    /// How the ranks add up what they bring. `ordered` is measured as training calls it, the others
    /// by themselves and in place: `train --reduce` first adds up what each rank brings.
    #[arg(long, default_value_t, value_name = "ordered|ring|halving-doubling")]
    algorithm: Reduce,

    /// Bytes that each rank brings.
    #[arg(long, default_value = "16777216", value_name = "N", value_parser = whole_elements)]
    bytes: usize,

    /// Virtual nodes that the ranks share, with `ordered` [default: one a rank].
    #[arg(long, value_name = "V", value_parser = crate::args::virtual_nodes)]
    virtual_nodes: Option<NonZeroUsize>,

    /// How many all-reduces are measured.
    #[arg(long, default_value = "20", value_name = "N", value_parser = crate::args::at_least_one)]
    iterations: NonZeroUsize,

    /// How many come before them.
    #[arg(long, default_value = "5", value_name = "N")]
    warmup: usize,

    /// Print the result as one JSON object on the last line of stdout.
    #[arg(long)]
    pub(super) json: bool,
}

/// What carries messages between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    /// Ranks are threads of this process.
    Memory,
    /// Ranks are processes of this host.
    #[cfg(unix)]
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Memory => "memory",
            #[cfg(unix)]
            Self::Tcp => "tcp",
        })
    }
}

impl AllReduceArgs {
    pub(super) fn ranks(&self) -> usize {
        self.ranks.unwrap_or(2)
    }

    /// Whether the processes of a launch are as many as were asked for, and not too many.
    #[cfg(unix)]
    pub(super) fn check_world(&self, world: usize) -> Result<(), BenchError> {
        match self.ranks {
            _ if world > MOST_DEVICES => Err(BenchError::Ranks(world)),
            Some(got) if got != world => Err(BenchError::World {
                expected: world,
                got,
            }),
            _ => Ok(()),
        }
    }

    /// What `world` ranks do, if there is memory for so many of them.
    pub(super) fn job(&self, world: usize, ranks_here: usize) -> Result<Job, BenchError> {
        if self.virtual_nodes.is_some() && self.algorithm != Reduce::Ordered {
            return Err(BenchError::VirtualNodes(self.algorithm));
        }
        let nodes = self.virtual_nodes.map_or(world, NonZeroUsize::get);
        let job = Job {
            reduce: self.algorithm,
            placement: Placement::even(nodes, world)?,
            elements: self.bytes / size_of::<f32>(),
            iterations: self.iterations.get(),
            warmup: self.warmup,
        };
        job.check_memory(ranks_here)?;
        Ok(job)
    }
}

fn whole_elements(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok();
    bytes
        .filter(|bytes: &usize| bytes.is_multiple_of(size_of::<f32>()))
        .ok_or_else(|| "expected a multiple of 4, the bytes of a number".to_owned())
}
