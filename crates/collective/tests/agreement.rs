//! Ranks that disagree about a call on their vectors, leave in the middle, or never come: with every
//! algorithm an error on every rank that names ranks and both sides.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside the test functions

mod common;

use std::sync::{Arc, Barrier};
use std::time::Duration;

use burn_virtual_collective::{Algorithm, CollectiveError, Element, Group, Options, Shares};
use burn_virtual_plan::{Layout, Placement};
use common::{assert_all_contain, constant, errors, few_worlds, nodes, run};
use half::f16;

/// What a rank may call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Ring,
    HalvingDoubling,
    ReduceScatter,
    AllGather,
    BroadcastSlice,
    Broadcast,
    Barrier,
    /// The ordered all-reduce, where all ranks hold one node each.
    Aligned,
    /// And where they don't.
    Unaligned,
}

use Operation::{
    Aligned, AllGather, Barrier as BarrierOf, Broadcast, BroadcastSlice, HalvingDoubling,
    ReduceScatter, Ring, Unaligned,
};

const ON_SLICES: [Operation; 5] = [
    Ring,
    HalvingDoubling,
    ReduceScatter,
    AllGather,
    BroadcastSlice,
];

impl Operation {
    /// Its name in errors.
    fn name(self) -> &'static str {
        match self {
            Ring => "ring all-reduce",
            HalvingDoubling => "halving-doubling all-reduce",
            ReduceScatter => "reduce-scatter",
            AllGather => "all-gather",
            BroadcastSlice => "slice broadcast",
            Broadcast => "broadcast",
            BarrierOf => "barrier",
            Aligned | Unaligned => "all-reduce",
        }
    }

    fn run<T: Element>(self, group: &mut Group, values: &mut [T]) -> Result<(), CollectiveError> {
        let shares = Shares::even(values.len(), group.world());
        match self {
            Ring => group.sum(Algorithm::Ring, values),
            HalvingDoubling => group.sum(Algorithm::HalvingDoubling, values),
            ReduceScatter => group.reduce_scatter(&shares, values),
            AllGather => group.all_gather(&shares, values),
            BroadcastSlice => group.broadcast_slice(0, values),
            Broadcast => group.broadcast(0, &mut vec![7]),
            BarrierOf => group.barrier(),
            Aligned => all_reduce(group, 1, values.len()),
            Unaligned => all_reduce(group, 2, values.len()),
        }
    }
}

/// The ordered all-reduce with one virtual node a rank, but for rank 0, which has `first`.
fn all_reduce(group: &mut Group, first: usize, elements: usize) -> Result<(), CollectiveError> {
    let mut counts = vec![1; group.world()];
    counts[0] = first;
    let placement = Placement::explicit(counts.iter().sum(), &counts).unwrap();
    let layout = Layout::new([elements], 0, 0);
    let own = nodes(&layout, &placement, group.rank(), |_| {
        constant(&layout, 1.0)
    });
    group.all_reduce(3, &layout, &placement, own).map(|_| ())
}

/// Runs `usual` on all ranks but one, which runs `other`; every choice of that one in turn. All
/// errors must name it and contain `parts`.
#[track_caller]
fn assert_all_err(
    world: usize,
    parts: &[&str],
    usual: impl Fn(&mut Group) -> Result<(), CollectiveError> + Clone + Send + 'static,
    other: impl Fn(&mut Group) -> Result<(), CollectiveError> + Clone + Send + 'static,
) {
    for odd in 0..world {
        let (usual, other) = (usual.clone(), other.clone());
        let errors = errors(world, Options::default(), move |mut group| {
            if group.rank() == odd {
                other(&mut group)
            } else {
                usual(&mut group)
            }
        });
        assert_all_contain(&errors, parts);
        assert_all_contain(&errors, &[&format!("rank {odd}")]);
    }
}

/// Worlds, without those that take too long where groups are formed again and again.
fn up_to_few<const N: usize>(worlds: [usize; N]) -> impl Iterator<Item = usize> {
    let few = |world: &usize| few_worlds().contains(world);
    worlds.into_iter().filter(few)
}

/// A group made after others were closed.
#[track_caller]
fn assert_fresh_group_works() {
    for algorithm in [Algorithm::Ring, Algorithm::HalvingDoubling] {
        let sums = run(2, Options::default(), move |mut group| {
            let mut values = [group.rank() as f32 + 1.0];
            group.sum(algorithm, &mut values).unwrap();
            values
        });
        assert_eq!(sums, [Some([3.0]); 2]);
    }
}

#[test]
fn every_rank_errs_when_sizes_differ_case_21() {
    for operation in ON_SLICES {
        for world in up_to_few([2, 3, 4, 7]) {
            // Nothing at all, too: a vector without elements must not be summed past a full one.
            for (size, other) in [(10, 12), (0, 5), (5, 0), (1, 2)] {
                let parts = [size.to_string(), other.to_string()];
                assert_all_err(
                    world,
                    &[operation.name(), "element count", &parts[0], &parts[1]],
                    move |group| operation.run(group, &mut vec![1.0_f32; size]),
                    move |group| operation.run(group, &mut vec![1.0_f32; other]),
                );
            }
        }
    }
    assert_fresh_group_works();
}

#[test]
fn every_rank_errs_when_types_differ_and_bytes_do_not_case_21() {
    for operation in ON_SLICES {
        for world in [2, 3, 5] {
            assert_all_err(
                world,
                &[operation.name(), "element type", "f32", "i32"],
                move |group| operation.run(group, &mut [1.0_f32; 2]),
                move |group| operation.run(group, &mut [1_i32; 2]),
            );
            assert_all_err(
                world,
                &[operation.name(), "element type", "f32", "f16"],
                move |group| operation.run(group, &mut [1.0_f32; 2]),
                move |group| operation.run(group, &mut [f16::ONE; 4]),
            );
        }
    }
    assert_fresh_group_works();
}

#[test]
fn every_rank_errs_when_operations_differ_case_21() {
    const ALL: [Operation; 9] = [
        Ring,
        HalvingDoubling,
        ReduceScatter,
        AllGather,
        BroadcastSlice,
        Broadcast,
        BarrierOf,
        Aligned,
        Unaligned,
    ];
    for world in up_to_few([2, 3, 4, 6]) {
        for (index, usual) in ALL.into_iter().enumerate() {
            for other in &ALL[index + 1..] {
                let other = *other;
                if (usual, other) == (Aligned, Unaligned) {
                    continue; // one operation, see below
                }
                assert_all_err(
                    world,
                    &["operation", usual.name(), other.name()],
                    move |group| usual.run(group, &mut [1.0_f32; 50]),
                    move |group| other.run(group, &mut [1.0_f32; 50]),
                );
            }
        }
    }
    assert_fresh_group_works();
}

#[test]
fn every_rank_errs_when_only_some_placements_are_aligned() {
    for world in [2, 4, 8] {
        for (usual, other) in [(Aligned, Unaligned), (Unaligned, Aligned)] {
            assert_all_err(
                world,
                &["all-reduce of step 3", "placement fingerprint"],
                move |group| usual.run(group, &mut [1.0_f32; 5]),
                move |group| other.run(group, &mut [1.0_f32; 5]),
            );
        }
    }
}

#[test]
fn every_rank_errs_when_shares_differ_or_do_not_fit() {
    for world in [2, 3, 4] {
        for (operation, name) in [(ReduceScatter, "reduce-scatter"), (AllGather, "all-gather")] {
            let with = move |shares: Shares| {
                move |group: &mut Group| match operation {
                    ReduceScatter => group.reduce_scatter(&shares, &mut [1.0_f32; 10]),
                    _ => group.all_gather(&shares, &mut [1.0_f32; 10]),
                }
            };
            let mut counts = vec![0; world];
            counts[0] = 10;
            let even = with(Shares::even(10, world));
            assert_all_err(
                world,
                &[name, "layout fingerprint"],
                even.clone(),
                with(Shares::explicit(&counts)),
            );
            assert_all_err(
                world,
                &[name, "expected shares of 10 elements"],
                even.clone(),
                with(Shares::even(11, world)),
            );
            assert_all_err(
                world,
                &[name, &format!("got 10 for {}", world + 1)],
                even,
                with(Shares::even(10, world + 1)),
            );
        }
    }
}

#[test]
fn every_rank_errs_when_roots_of_slices_differ_or_do_not_exist() {
    let from = |root| move |group: &mut Group| group.broadcast_slice(root, &mut [1_u8; 4]);
    for world in [2, 3, 5] {
        assert_all_err(world, &["slice broadcast", "root"], from(0), from(1));
        let beyond = format!("expected a root below {world}, got {world}");
        assert_all_err(world, &[&beyond], from(0), from(world));
    }
}

#[test]
fn others_err_when_a_rank_leaves_before_the_call_case_37() {
    for operation in [
        Ring,
        HalvingDoubling,
        ReduceScatter,
        AllGather,
        BroadcastSlice,
        Aligned,
    ] {
        for world in [2, 3, 4, 7] {
            if operation == Aligned && world % 2 == 1 {
                continue;
            }
            for odd in 0..world {
                let results = run(world, Options::default(), move |mut group| {
                    if group.rank() == odd {
                        return None;
                    }
                    let error = operation.run(&mut group, &mut vec![1.0_f32; 1000]);
                    Some(error.unwrap_err().to_string())
                });
                let errors: Vec<String> = results.into_iter().flatten().flatten().collect();
                assert_eq!(errors.len(), world - 1);
                assert_all_contain(&errors, &[operation.name(), &format!("rank {odd} is gone")]);
            }
        }
    }
    assert_fresh_group_works();
}

#[test]
fn others_err_when_a_rank_panics_between_calls() {
    for operation in ON_SLICES {
        let between = Arc::new(Barrier::new(5));
        let results = run(5, Options::default(), move |mut group| {
            operation.run(&mut group, &mut [1.0_f32; 100]).unwrap();
            between.wait();
            if group.rank() == 3 {
                std::panic::resume_unwind(Box::new("a fault of the test"));
            }
            let error = operation.run(&mut group, &mut [1.0_f32; 100]);
            error.unwrap_err().to_string()
        });
        let errors: Vec<String> = results.into_iter().flatten().collect();
        assert_eq!(errors.len(), 4);
        assert_all_contain(&errors, &["rank 3", "panicked", "call 1"]);
    }
}

#[test]
fn culprit_is_named_on_every_rank_when_it_never_enters_case_36() {
    const WORLD: usize = 7;
    // All others wait for one another, and only one or two of them for the culprit itself.
    for operation in [Ring, HalvingDoubling, ReduceScatter, AllGather] {
        let timeout = Duration::from_millis(800);
        let options = Options {
            timeout,
            first_timeout: timeout,
            ..Options::default()
        };
        let (entered, over) = (Barrier::new(WORLD), Barrier::new(WORLD));
        let (entered, over) = (Arc::new(entered), Arc::new(over));
        let results = run(WORLD, options, move |mut group| {
            entered.wait();
            let error = (group.rank() != 2)
                .then(|| operation.run(&mut group, &mut [1.0_f32; 100]).unwrap_err());
            over.wait(); // alive until the others have given up
            error.map(|error| error.to_string())
        });
        let errors: Vec<String> = results.into_iter().flatten().flatten().collect();
        assert_eq!(errors.len(), WORLD - 1);
        assert_all_contain(&errors, &[operation.name(), "no message from rank 2"]);
    }
}
