//! All-reduces of f32 between all ranks, in place, one after the other: over TCP between processes
//! whose place is in the environment, as a launcher sets it, or without one in memory, between two
//! threads. Rank 0 prints a line for each size: bytes, and the median time of one call in
//! microseconds.
//!
//! Arguments: `ring`, `halving-doubling`, `ordered` or, for one core that adds two vectors, `add`; then
//! pairs of bytes and number of calls to time.

use std::env;
use std::error::Error;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use burn_virtual_collective::tcp::{self, Environment};
use burn_virtual_collective::{Algorithm, Group, Options, Transport, memory};
use burn_virtual_plan::{Layout, Partial, Placement, kernel};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Size in bytes and number of calls.
type Sizes = Vec<(usize, usize)>;

fn main() -> Result<()> {
    let usage = "arguments: ring|halving-doubling|ordered|add, then pairs of bytes and calls";
    let mut arguments = env::args().skip(1);
    let way = arguments.next().ok_or(usage)?;
    let numbers: Vec<usize> = arguments
        .map(|argument| argument.parse())
        .collect::<std::result::Result<_, _>>()?;
    let sizes: Sizes = numbers
        .chunks_exact(2)
        .map(|two| (two[0], two[1]))
        .collect();
    if way == "add" {
        add(&sizes);
        return Ok(());
    }
    match Environment::read()? {
        Some(environment) => rank(tcp::join(&environment.settings)?, &way, &sizes),
        None => {
            let rank = |end| {
                let (way, sizes) = (way.clone(), sizes.clone());
                thread::spawn(move || rank(end, &way, &sizes))
            };
            let ranks: Vec<_> = memory::group(2).into_iter().map(rank).collect();
            for rank in ranks {
                rank.join().map_err(|_| "a rank panicked")??;
            }
            Ok(())
        }
    }
}

/// What one rank does.
fn rank(transport: impl Transport + 'static, way: &str, sizes: &Sizes) -> Result<()> {
    let mut group = Group::new(Box::new(transport), Options::default());
    for &(bytes, calls) in sizes {
        let median = match way {
            "ordered" => ordered(&mut group, bytes, calls)?,
            way => flat(&mut group, way, bytes, calls)?,
        };
        report(group.rank(), bytes, median);
    }
    group.barrier()?;
    Ok(())
}

fn flat(group: &mut Group, way: &str, bytes: usize, calls: usize) -> Result<Duration> {
    let algorithm = match way {
        "ring" => Algorithm::Ring,
        "halving-doubling" => Algorithm::HalvingDoubling,
        other => return Err(format!("expected a way to reduce, got {other:?}").into()),
    };
    let mut values = vec![group.rank() as f32; bytes / 4];
    median(calls, || Ok(group.sum(algorithm, &mut values)?))
}

fn ordered(group: &mut Group, bytes: usize, calls: usize) -> Result<Duration> {
    let layout = Layout::new([bytes / 4], 0, 0);
    let placement = Placement::even(group.world(), group.world())?;
    let mut sum = Partial::empty(&layout);
    sum.set_segment(0, &vec![group.rank() as f32; bytes / 4])?;
    let (mut sum, own) = (Some(sum), placement.range(group.rank()));
    median(calls, || {
        let node = (own.clone(), sum.take());
        sum = group.all_reduce(0, &layout, &placement, vec![node])?;
        Ok(())
    })
}

fn add(sizes: &Sizes) {
    for &(bytes, calls) in sizes {
        let (mut acc, other) = (vec![1.0; bytes / 4], vec![1.0; bytes / 4]);
        let added = median(calls, || {
            kernel::add_assign(black_box(&mut acc), black_box(&other));
            Ok(())
        });
        report(0, bytes, added.unwrap_or_default());
    }
}

/// The median time of a call, once connections and buffers have grown.
fn median(calls: usize, mut call: impl FnMut() -> Result<()>) -> Result<Duration> {
    (0..calls / 10 + 2).try_for_each(|_| call())?;
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[calls / 2])
}

fn report(rank: usize, bytes: usize, median: Duration) {
    if rank == 0 {
        println!("{bytes} {:.2}", median.as_secs_f64() * 1e6);
    }
}
