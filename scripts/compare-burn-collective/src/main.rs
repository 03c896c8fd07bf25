//! All-reduces of f32 between two threads of one process, tensor in, tensor out: those of
//! burn-collective and of this project, round after round of each in turn, so that what else the
//! machine does falls on all. Prints medians over the rounds, in microseconds a call.
//!
//! `cargo run --release [rounds, default 9]` in this folder.

use std::error::Error;
use std::thread;
use std::time::Instant;

use burn_collective::{
    AllReduceStrategy, CollectiveConfig, PeerId, ReduceOperation, all_reduce, register,
    reset_collective,
};
use burn_flex::Flex;
use burn_tensor::{Tensor, TensorPrimitive};
use burn_virtual_collective::{Algorithm, Group, MemoryTransport, Options, memory};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes, and calls in each round.
const SIZES: [(usize, usize); 5] = [
    (4 << 10, 300),
    (1 << 20, 60),
    (4 << 20, 30),
    (16 << 20, 10),
    (64 << 20, 4),
];

#[derive(Clone, Copy, Debug)]
enum Way {
    Burn(AllReduceStrategy),
    Own(Algorithm),
}

const WAYS: [Way; 5] = [
    Way::Burn(AllReduceStrategy::Centralized),
    Way::Burn(AllReduceStrategy::Tree(2)),
    Way::Burn(AllReduceStrategy::Ring),
    Way::Own(Algorithm::Ring),
    Way::Own(Algorithm::HalvingDoubling),
];

fn main() -> Result<()> {
    let rounds = std::env::args()
        .nth(1)
        .map_or(Ok(9), |rounds| rounds.parse())?;
    println!(
        "| bytes |{}",
        WAYS.map(|way| format!(" {way:?} |")).concat()
    );
    println!("|---|{}", "---|".repeat(WAYS.len()));
    for (bytes, calls) in SIZES {
        let mut times = WAYS.map(|_| Vec::new());
        for _ in 0..rounds {
            for (way, times) in WAYS.into_iter().zip(&mut times) {
                times.push(round(way, bytes, calls)?);
            }
        }
        let medians = times.map(|mut times| format!(" {:.1} |", median(&mut times)));
        println!("| {bytes} |{}", medians.concat());
    }
    Ok(())
}

/// The median time of a call on rank 0.
fn round(way: Way, bytes: usize, calls: usize) -> Result<f64> {
    reset_collective::<Flex>();
    let rank = |end: MemoryTransport| {
        thread::spawn(move || match way {
            Way::Burn(strategy) => burn(&end, strategy, bytes, calls),
            Way::Own(algorithm) => own(end, algorithm, bytes, calls),
        })
    };
    let ranks: Vec<_> = memory::group(2).into_iter().map(rank).collect();
    let mut times = Vec::new();
    for rank in ranks {
        times.push(rank.join().map_err(|_| "a rank panicked")??);
    }
    Ok(times[0])
}

fn burn(
    end: &MemoryTransport,
    strategy: AllReduceStrategy,
    bytes: usize,
    calls: usize,
) -> Result<f64> {
    use burn_virtual_collective::Transport;
    let id = PeerId::from(end.rank());
    let config = CollectiveConfig::default()
        .with_num_devices(end.world())
        .with_local_all_reduce_strategy(strategy);
    register::<Flex>(id, Default::default(), config).map_err(|fault| format!("{fault:?}"))?;
    timed(bytes, calls, |tensor| {
        let tensor = tensor.into_primitive().tensor();
        let sum = all_reduce::<Flex>(id, tensor, ReduceOperation::Sum);
        let sum = sum.map_err(|fault| format!("{fault:?}"))?;
        Ok(Tensor::from_primitive(TensorPrimitive::Float(sum)))
    })
}

fn own(end: MemoryTransport, algorithm: Algorithm, bytes: usize, calls: usize) -> Result<f64> {
    let mut group = Group::new(Box::new(end), Options::default());
    timed(bytes, calls, |tensor| {
        let mut data = tensor.into_data();
        let values = data
            .as_mut_slice::<f32>()
            .map_err(|fault| format!("{fault:?}"))?;
        group.sum(algorithm, values)?;
        Ok(Tensor::from_data(data, &Default::default()))
    })
}

fn timed(
    bytes: usize,
    calls: usize,
    mut call: impl FnMut(Tensor<Flex, 1>) -> Result<Tensor<Flex, 1>>,
) -> Result<f64> {
    // Zeros: their sums are zeros however often.
    let mut tensor = Tensor::zeros([bytes / 4], &Default::default());
    let mut times = Vec::new();
    for index in 0..calls + 3 {
        let start = Instant::now();
        tensor = call(tensor)?;
        if index >= 3 {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(median(&mut times))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
