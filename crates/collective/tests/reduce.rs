//! The all-reduce of virtual nodes around a ring, and by halving and doubling: what it has in common with
//! the ordered one, and where its bits are the same.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside the test functions

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use burn_virtual_collective::{CollectiveError, Group, Options, Reduce, Work};
use burn_virtual_plan::{Layout, Partial, Placement};
use common::around::BeforeSend;
use common::{assert_all_contain, constant, ends, errors, few_worlds, nodes, run};

const UNORDERED: [Reduce; 2] = [Reduce::Ring, Reduce::HalvingDoubling];

const WORK: Work = Work {
    step: 5,
    bucket: 3,
    samples: 64,
};

type Leaf = fn(&Layout, usize) -> Option<Partial>;

fn all_reduce(
    group: &mut Group,
    reduce: Reduce,
    counts: &[usize],
    leaf: Leaf,
) -> Result<Option<Partial>, CollectiveError> {
    let layout = layout();
    let placement = Placement::explicit(counts.iter().sum(), counts).unwrap();
    let rank = group.rank();
    let own = nodes(&layout, &placement, rank, |vn| leaf(&layout, vn));
    group.all_reduce_by(reduce, WORK, &layout, &placement, own)
}

fn layout() -> Layout {
    Layout::new([5, 1, 0, 70_000, 3], 2, 3)
}

/// The results of all ranks, which are the same.
#[track_caller]
fn result(reduce: Reduce, counts: &'static [usize], leaf: Leaf) -> Option<Partial> {
    let mut results = run(counts.len(), Options::default(), move |mut group| {
        all_reduce(&mut group, reduce, counts, leaf).unwrap()
    });
    let first = results.remove(0).expect("a rank panicked");
    for other in results {
        assert_same(&other.expect("a rank panicked"), &first);
    }
    first
}

/// The same to the last bit, with zeros where nothing is present.
#[track_caller]
fn assert_same(got: &Option<Partial>, right: &Option<Partial>) {
    match (got, right) {
        (None, None) => {}
        (Some(got), Some(right)) => {
            assert!(got.same_bits(right));
            let bits = |sum: &Partial| sum.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert!(bits(got) == bits(right), "values of absent segments");
        }
        _ => panic!("only one of them is absent"),
    }
}

/// Whole numbers, whose sums are exact in every order. Segment 0 is there everywhere, 1 in some virtual
/// nodes, 3 in one, 4 nowhere; every third virtual node has nothing at all.
fn exact(layout: &Layout, vn: usize) -> Option<Partial> {
    if vn % 3 == 2 {
        return None;
    }
    let mut leaf = Partial::empty(layout);
    for segment in [0, 1, 3] {
        let is_there = [true, vn % 2 == 1, false, vn == 3][segment];
        if is_there {
            let value = |index: usize| (index % 7 + vn) as f32 - 3.0;
            let values: Vec<f32> = (0..layout.segment(segment).len()).map(value).collect();
            leaf.set_segment(segment, &values).unwrap();
        }
    }
    leaf.sums_mut()[0] = vn as f64 + 0.5;
    leaf.flags_mut().set(vn % 2);
    Some(leaf)
}

/// Numbers whose sums depend on the order, and whose signs tell zeros from nothing.
fn wild(layout: &Layout, vn: usize) -> Option<Partial> {
    let mut leaf = Partial::empty(layout);
    for segment in [0, 1, 3] {
        let value = |index: usize| match (index * 5 + vn) % 6 {
            0 => -0.0,
            1 => 1.0e8,
            2 => -1.0e8 / (1 + vn) as f32,
            3 => f32::MIN_POSITIVE,
            _ => 1.0 / (1 + index + vn) as f32,
        };
        let values: Vec<f32> = (0..layout.segment(segment).len()).map(value).collect();
        if segment != 1 || vn == 1 {
            leaf.set_segment(segment, &values).unwrap();
        }
    }
    leaf.sums_mut()[1] = 1.0 / (3 + vn) as f64;
    Some(leaf)
}

fn nothing(_: &Layout, _: usize) -> Option<Partial> {
    None
}

fn minus_zero_in_one(layout: &Layout, vn: usize) -> Option<Partial> {
    (vn == 2).then(|| constant(layout, -0.0))?
}

#[test]
fn result_is_that_of_the_ordered_one_when_sums_are_exact() {
    const PLACEMENTS: [&[usize]; 8] = [
        &[5],
        &[3, 5],
        &[1, 1, 1],
        &[2, 1, 4],
        &[1, 2, 3, 1],
        &[3, 1, 1, 1, 2],
        &[1, 1, 1, 1, 1, 1, 1],
        &[1, 2, 1, 3, 1, 1, 1, 1, 2],
    ];
    for counts in PLACEMENTS {
        if few_worlds().contains(&counts.len()) {
            let right = result(Reduce::Ordered, counts, exact);
            for reduce in UNORDERED {
                assert_same(&result(reduce, counts, exact), &right);
            }
        }
    }
}

#[test]
fn nothing_is_the_result_when_all_virtual_nodes_are_empty() {
    for reduce in UNORDERED {
        assert!(result(reduce, &[1, 2, 1], nothing).is_none());
    }
}

#[test]
fn bits_are_those_of_the_ordered_one_when_the_placement_is_aligned_and_ranks_halve() {
    for counts in [&[4, 4][..], &[2, 2, 2, 2], &[2, 2, 2, 1], &[1; 4]] {
        for leaf in [wild, minus_zero_in_one as Leaf] {
            let right = result(Reduce::Ordered, counts, leaf);
            assert_same(&result(Reduce::HalvingDoubling, counts, leaf), &right);
        }
    }
}

#[test]
fn zero_keeps_its_sign_when_only_one_rank_has_it() {
    for reduce in UNORDERED {
        let sum = result(reduce, &[1, 1, 1], minus_zero_in_one).unwrap();
        let [present, absent] = [0, 3].map(|segment| layout().segment(segment).start);
        assert_eq!(sum.values()[present].to_bits(), (-0.0_f32).to_bits());
        assert_eq!(sum.values()[absent].to_bits(), 0);
    }
}

#[test]
fn bits_are_the_same_in_every_run() {
    for reduce in UNORDERED {
        let first = result(reduce, &[3, 1, 4], wild);
        for _ in 0..3 {
            assert_same(&result(reduce, &[3, 1, 4], wild), &first);
        }
    }
}

#[test]
fn unused_buffers_come_back_when_a_rank_has_several_nodes() {
    for reduce in UNORDERED {
        let spares = run(2, Options::default(), move |mut group| {
            all_reduce(&mut group, reduce, &[3, 5], wild).unwrap();
            group.take_spares().len()
        });
        assert_eq!(spares, [Some(1), Some(1)]); // [0..2][2..3] and [3..4][4..8]
    }
}

#[test]
fn every_rank_errs_when_only_some_reduce_in_another_way() {
    for world in [2, 3, 4] {
        for (usual, other) in [
            (Reduce::Ordered, Reduce::Ring),
            (Reduce::Ring, Reduce::HalvingDoubling),
            (Reduce::HalvingDoubling, Reduce::Ordered),
        ] {
            for odd in 0..world {
                let errors = errors(world, Options::default(), move |mut group| {
                    let reduce = if group.rank() == odd { other } else { usual };
                    let counts = vec![1; group.world()];
                    all_reduce(&mut group, reduce, &counts, exact)
                });
                let name = |reduce| match reduce {
                    Reduce::Ordered => "all-reduce".to_owned(),
                    other => format!("{other} all-reduce"),
                };
                assert_all_contain(
                    &errors,
                    &["operation", &name(usual), &name(other), "step 5, bucket 3"],
                );
                assert_all_contain(&errors, &[&format!("rank {odd}")]);
            }
        }
    }
}

#[test]
fn every_rank_errs_when_only_some_have_another_bucket_or_batch() {
    for reduce in [Reduce::Ordered, Reduce::Ring] {
        for (field, work) in [
            ("bucket", Work { bucket: 4, ..WORK }),
            ("number of samples", Work { samples: 4, ..WORK }),
        ] {
            let errors = errors(3, Options::default(), move |mut group| {
                let work = if group.rank() == 1 { work } else { WORK };
                let (layout, placement) = (layout(), Placement::even(3, 3).unwrap());
                let own = nodes(&layout, &placement, group.rank(), |_| None);
                group.all_reduce_by(reduce, work, &layout, &placement, own)
            });
            assert_all_contain(&errors, &["rank 1", "step 5", field, "4"]);
        }
    }
}

/// Less than a call may take, and more than half of it.
const DELAY: Duration = Duration::from_millis(800);

#[test]
fn deadline_holds_for_both_parts_of_a_call_together() {
    let options = Options {
        first_timeout: Duration::from_secs(1),
        ..Options::default()
    };
    for reduce in UNORDERED {
        let ranks = ends(2).into_iter().enumerate().map(|(rank, end)| {
            let options = options.clone();
            std::thread::spawn(move || {
                // Rank 1 at the beginning of the second part of the call.
                let on_time = AtomicBool::new(rank == 0);
                let end = BeforeSend::new(end, move |tag| {
                    if tag.sequence == 1 && !on_time.swap(true, Ordering::Relaxed) {
                        std::thread::sleep(DELAY);
                    }
                });
                let mut group = Group::new(Box::new(end), options);
                if rank == 1 {
                    std::thread::sleep(DELAY);
                }
                all_reduce(&mut group, reduce, &[1, 1], exact).map(|_| ())
            })
        });
        let ranks: Vec<_> = ranks.collect();
        for (rank, result) in ranks.into_iter().enumerate() {
            let result = result.join().unwrap();
            assert!(rank != 0 || result.is_err(), "{reduce}");
        }
    }
}
