//! How many virtual nodes a job gets, under a memory limit or not.

use burn::optim::Optimizer;
use burn_virtual::models::Digit;
use burn_virtual::nodes::{Task, TrainError, measure_task};
use burn_virtual::plan::{FitError, Placement, fewest_virtual_nodes};

use crate::args::{TrainArgs, VirtualNodes};
use crate::backend::Hardware;
use crate::error::RunError;

/// The number of virtual nodes, checked against the memory limit by running micro-batches of a
/// throw-away copy of the job on a device. Each of the job's `ranks` runs at least one.
pub(crate) fn virtual_nodes<B, T, O>(
    args: &TrainArgs,
    task: &T,
    optimizer: impl Fn() -> O,
    items: &[Digit],
    device: &B::Device,
    ranks: usize,
) -> Result<usize, RunError>
where
    B: Hardware,
    T: Task<Item = Digit>,
    O: Optimizer<T::Model<B>, B>,
{
    let Some(limit) = args.memory_limit.map(usize::from) else {
        return match args.virtual_nodes {
            VirtualNodes::Count(count) => Ok(count.get()),
            VirtualNodes::Auto => Err(RunError::Auto),
        };
    };
    if let VirtualNodes::Count(count) = args.virtual_nodes {
        Placement::even(count.get(), ranks).map_err(TrainError::from)?;
    }
    let batch = args.batch_size.get().min(items.len());
    let measure =
        |samples: usize| measure_task::<B, _, _>(task, device, optimizer(), &items[..samples]);
    let fit = fewest_virtual_nodes(batch, limit, measure).map_err(refused)?;
    match args.virtual_nodes {
        VirtualNodes::Auto => Ok(fit.virtual_nodes.max(ranks)),
        VirtualNodes::Count(count) if count.get() >= fit.virtual_nodes => Ok(count.get()),
        VirtualNodes::Count(count) => Err(RunError::Memory {
            limit,
            asked: count.get(),
            // Every rank runs at least one.
            fit: fit.virtual_nodes.max(ranks),
            micro_batch: fit.micro_batch,
            need: fit.need,
        }),
    }
}

fn refused(error: FitError<TrainError>) -> RunError {
    match error {
        FitError::Measure(error) => error.into(),
        FitError::TooLarge { limit, need } => RunError::Never { limit, need },
        other => RunError::Fit(other),
    }
}
