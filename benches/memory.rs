//! The activations of one micro-batch against those of the whole batch.
//!
//! Bar: with 16 virtual nodes, at most 1/8 of one virtual node's, by the live-bytes meter and by an
//! allocator that counts.
//!
//! The two see different things. The meter counts tensors, at their logical size. The allocator
//! counts what was asked of the system during `backward`, above what was there before: tensors at
//! the size of their buffers (a view costs nothing), and beside them the patches that Flex's
//! convolutions unfold, packing buffers of its matrix products, shapes and tape nodes of autodiff,
//! the samples on the host that the batcher makes tensors of. Of its peak, the gradients and the
//! partial sums are taken off as the meter has them: neither depends on the micro-batch.

#[path = "support/allocator.rs"]
mod allocator;

use std::error::Error;

use allocator::Counting;
use burn::backend::Autodiff;
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn_flex::{Flex, FlexDevice};
use burn_virtual::backend::{Meter, VirtualBackend};
use burn_virtual::models::{Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig};
use burn_virtual::nodes::{RankMemory, Session, TrainError, VirtualNodes, cross_entropy_sum};

type B = Autodiff<VirtualBackend<Flex>>;

#[global_allocator]
static HEAP: Counting = Counting::new();

const BATCH: usize = 256;
const VIRTUAL_NODES: usize = 16;
const AT_MOST: f64 = 1.0 / 8.0;

fn main() -> Result<(), Box<dyn Error>> {
    let epoch = Digits::load()?.epoch(42, 0);
    let items: Vec<Digit> = epoch.items().iter().take(BATCH).cloned().collect();
    println!("DigitsCnn, batch {BATCH}, kilobytes:");
    let whole = Measured::of(1, &items)?;
    let split = Measured::of(VIRTUAL_NODES, &items)?;
    for (nodes, measured) in [(1, &whole), (VIRTUAL_NODES, &split)] {
        println!("virtual nodes {nodes}: {measured}");
    }
    verdict("meter", split.rank.activations, whole.rank.activations);
    verdict(
        "allocator",
        split.heap_activations(),
        whole.heap_activations(),
    );
    Ok(())
}

fn verdict(by: &str, split: usize, whole: usize) {
    let ratio = split as f64 / whole as f64;
    let verdict = if ratio <= AT_MOST { "met" } else { "MISSED" };
    println!(
        "activations by the {by}: {VIRTUAL_NODES} virtual nodes {ratio:.4} of one; at most {AT_MOST}: {verdict}"
    );
}

/// The memory of one step.
struct Measured {
    rank: RankMemory,
    /// The peak of the heap above what was allocated before the step.
    heap: usize,
}

impl Measured {
    fn of(count: usize, items: &[Digit]) -> Result<Self, TrainError> {
        let meter = Meter::new();
        let listening = meter.listen();
        let device = FlexDevice;
        let mut model: DigitsCnn<B> = DigitsCnnConfig::new().init(&device);
        let mut optim = AdamConfig::new().init();
        let mut nodes = VirtualNodes::new(count)
            .devices([device])
            .start(&mut model)?;
        // The optimizer has its state after one step, and threads have what they allocate once.
        for _ in 0..2 {
            let grads = backward(&mut nodes, &model, items)?;
            model = optim.step(0.002, model, grads);
        }
        let grads = backward(&mut nodes, &model, items)?;
        let rank = nodes.memory()[0];
        // The meter's own claims are not to be counted.
        drop((grads, listening));
        // A session may keep the buffers of its partial sums from step to step. Not over a resize:
        // so all of them are made anew in the step that is measured.
        nodes.resize([device])?;
        let (heap, grads) = HEAP.peak_during(|| backward(&mut nodes, &model, items));
        drop(grads?);
        Ok(Self { rank, heap })
    }

    /// What the heap's peak holds beyond the gradients and partial sums.
    fn heap_activations(&self) -> usize {
        self.heap
            .saturating_sub(self.rank.gradients + self.rank.partials)
    }
}

/// Forward and backward, without the optimizer: what virtual nodes split.
fn backward(
    nodes: &mut Session<B>,
    model: &DigitsCnn<B>,
    items: &[Digit],
) -> Result<GradientsParams, TrainError> {
    let loss = |model: &DigitsCnn<B>, micro: DigitsBatch<B>| {
        cross_entropy_sum(model.forward(micro.images), micro.targets)
    };
    Ok(nodes.backward(model, items, &DigitsBatcher, loss)?.grads)
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kb = |bytes: usize| bytes as f64 / 1000.0;
        let rank = &self.rank;
        write!(
            f,
            "parameters {:.0}, optimizer {:.0}, gradients {:.0}, partials {:.0}, activations {:.0}; \
             heap above the start {:.0}, of which activations {:.0}",
            kb(rank.parameters),
            kb(rank.optimizer),
            kb(rank.gradients),
            kb(rank.partials),
            kb(rank.activations),
            kb(self.heap),
            kb(self.heap_activations()),
        )
    }
}
