//! An all-reduce of f32 between two ranks, threads of this process, and beside it one core that adds
//! two vectors of the same size.
//!
//! Bars: at 16 MiB at least 0.7 of the rate at which one core adds, and less than 2.7 ms; less than
//! 0.38 ms at 4 MiB, and 29 µs at 4 KiB.

use std::hint::black_box;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use burn_virtual_collective::{Algorithm, Group, Options, Transport, memory};
use burn_virtual_plan::{Layout, Partial, Placement, kernel, tree};
use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};

const SIZES: [(&str, usize); 5] = [
    ("4 KiB", 4 << 10),
    ("1 MiB", 1 << 20),
    ("4 MiB", 4 << 20),
    ("16 MiB", 16 << 20),
    ("64 MiB", 64 << 20),
];

/// What two ranks do over and over.
#[derive(Clone, Copy)]
enum Reduce {
    Flat(Algorithm),
    /// Along the tree, with as many virtual nodes on each rank.
    Ordered([usize; 2]),
}

/// One rank and what it brings.
struct Member {
    group: Group,
    work: Work,
}

enum Work {
    Flat(Algorithm, Vec<f32>),
    Ordered {
        layout: Layout,
        placement: Placement,
        spare: Vec<Partial>,
    },
}

impl Member {
    fn new(transport: Box<dyn Transport>, reduce: Reduce, bytes: usize) -> Self {
        let work = match reduce {
            Reduce::Flat(algorithm) => Work::Flat(algorithm, vec![1.0; bytes / 4]),
            Reduce::Ordered(counts) => Work::Ordered {
                layout: Layout::new([bytes / 4], 0, 0),
                placement: must(Placement::explicit(counts.iter().sum(), &counts)),
                spare: Vec::new(),
            },
        };
        let group = Group::new(transport, Options::default());
        Self { group, work }
    }

    fn reduce(&mut self) {
        let group = &mut self.group;
        match &mut self.work {
            Work::Flat(algorithm, values) => must(group.sum(*algorithm, values)),
            Work::Ordered {
                layout,
                placement,
                spare,
            } => {
                let range = placement.range(group.rank());
                let nodes = tree::maximal_subtrees(placement.virtual_nodes(), range);
                let own = nodes.into_iter().map(|node| {
                    let sum = spare.pop().unwrap_or_else(|| full(layout));
                    (node, Some(sum))
                });
                let own = own.collect();
                spare.extend(must(group.all_reduce(0, layout, placement, own)));
                spare.extend(group.take_spares());
            }
        }
    }
}

fn full(layout: &Layout) -> Partial {
    let mut full = Partial::empty(layout);
    must(full.set_segment(0, &vec![1.0; layout.elements()]));
    full
}

/// Two ranks: rank 0 on the thread that measures, rank 1 on its own.
struct Pair {
    first: Member,
    turns: Sender<u64>,
    done: Receiver<()>,
}

impl Pair {
    fn new(reduce: Reduce, bytes: usize) -> Self {
        let mut ends = memory::group(2).into_iter().map(|end| Box::new(end) as _);
        let mut member = || Member::new(must(ends.next().ok_or("no end")), reduce, bytes);
        let (first, mut second) = (member(), member());
        let (turns, given) = mpsc::channel();
        let (finished, done) = mpsc::channel();
        thread::spawn(move || {
            for count in given {
                (0..count).for_each(|_| second.reduce());
                if finished.send(()).is_err() {
                    return;
                }
            }
        });
        Self { first, turns, done }
    }

    fn run(&mut self, count: u64) -> Duration {
        must(self.turns.send(count));
        let start = Instant::now();
        (0..count).for_each(|_| self.first.reduce());
        must(self.done.recv());
        start.elapsed()
    }
}

fn all_reduce(criterion: &mut Criterion) {
    for (name, bytes) in SIZES {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(bytes as u64));
        let kinds = [
            ("ring", Reduce::Flat(Algorithm::Ring)),
            ("halving-doubling", Reduce::Flat(Algorithm::HalvingDoubling)),
            ("ordered", Reduce::Ordered([4, 4])),
            ("ordered, unaligned", Reduce::Ordered([3, 5])),
        ];
        for (kind, reduce) in kinds {
            measure(&mut group, kind, bytes, reduce);
        }
        add(&mut group, bytes);
        group.finish();
    }
}

fn measure(group: &mut BenchmarkGroup<'_, WallTime>, kind: &str, bytes: usize, reduce: Reduce) {
    let mut pair = Pair::new(reduce, bytes);
    pair.run(3); // buffers grow
    group.bench_function(BenchmarkId::from_parameter(kind), |bencher| {
        bencher.iter_custom(|count| pair.run(count));
    });
}

fn add(group: &mut BenchmarkGroup<'_, WallTime>, bytes: usize) {
    let (mut acc, other) = (vec![1.0; bytes / 4], vec![1.0; bytes / 4]);
    group.bench_function(BenchmarkId::from_parameter("one core adds"), |bencher| {
        bencher.iter(|| kernel::add_assign(black_box(&mut acc), black_box(&other)));
    });
}

#[track_caller]
fn must<T, E: std::fmt::Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error:?}"),
    }
}

criterion_group!(benches, all_reduce);
criterion_main!(benches);
