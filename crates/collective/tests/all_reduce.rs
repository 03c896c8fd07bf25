//! The ordered all-reduce: right values for every world and size, and the same bits for every
//! placement.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside the test functions

mod common;

use std::time::Duration;

use burn_virtual_collective::{Group, Options, Work};
use burn_virtual_plan::{Layout, Partial, Placement, evaluate};
use common::{constant, late_now_and_then, nodes, run, worlds};

/// Element i of virtual node vn is i % 17 + vn; small whole numbers, so every sum is exact.
fn ramp(layout: &Layout, vn: usize) -> Option<Partial> {
    let mut leaf = Partial::empty(layout);
    let values = periodic(layout.elements(), |i| i + vn);
    leaf.set_segment(0, &values).unwrap();
    leaf.sums_mut()[0] = vn as f64;
    leaf.flags_mut().set(vn % 3);
    Some(leaf)
}

/// Element i is `value(i % 17)`.
fn periodic(elements: usize, value: impl Fn(usize) -> usize) -> Vec<f32> {
    let period: Vec<f32> = (0..17).map(|i| value(i) as f32).collect();
    let mut all = period.repeat(elements.div_ceil(17)); // copies: much faster than one by one
    all.truncate(elements);
    all
}

/// Ways to share virtual nodes on `world` ranks: one each, aligned where the world is a power of two,
/// even, the first or the last with most of them, large and small ones in turn, the fewest bytes.
fn placements(world: usize) -> Vec<Placement> {
    let even = 2 * world + 1;
    let counts = [
        vec![1; world],
        vec![4; world],
        (0..world)
            .map(|rank| if rank == 0 { 7 } else { 1 })
            .collect(),
        (0..world)
            .map(|rank| if rank + 1 == world { 7 } else { 1 })
            .collect(),
        (0..world).map(|rank| [3, 1][rank % 2]).collect(),
    ];
    let explicit = counts
        .iter()
        .map(|counts| Placement::explicit(counts.iter().sum(), counts).unwrap());
    let even = [
        Placement::even(even, world).unwrap(),
        Placement::fewest_bytes(even, world, 4).unwrap(),
    ];
    explicit.chain(even).collect()
}

/// Checks what this rank gets where all bring ramps.
fn check_sum(group: &mut Group, step: u64, elements: usize, placement: &Placement) {
    let layout = Layout::new([elements], 1, 3);
    let own = nodes(&layout, placement, group.rank(), |vn| ramp(&layout, vn));
    let sum = group
        .all_reduce(step, &layout, placement, own)
        .unwrap()
        .unwrap();
    let virtual_nodes = placement.virtual_nodes();
    let ids: usize = (0..virtual_nodes).sum();
    let right = periodic(elements, |i| i * virtual_nodes + ids);
    assert!(sum.values() == right, "{placement}, {elements} elements");
    assert_eq!(sum.sums(), [ids as f64]);
    assert_eq!(sum.flags().count(), virtual_nodes.min(3));
    assert!(sum.present().get(0));
}

#[test]
fn sum_is_right_for_every_world_size_and_placement() {
    for world in worlds() {
        let results = run(world, Options::default(), move |mut group| {
            for placement in placements(world) {
                for (step, elements) in (0..).zip([0, 1, 2, 7, 100, 1000, 65_537]) {
                    check_sum(&mut group, step, elements, &placement);
                }
            }
            group.stale()
        });
        assert_eq!(results, vec![Some(0); world]);
    }
}

/// Values of many magnitudes, segments absent here and there, virtual node 3 empty.
fn wild(layout: &Layout, vn: usize) -> Option<Partial> {
    if vn == 3 {
        return None;
    }
    let mut leaf = Partial::empty(layout);
    for segment in (0..layout.segments()).filter(|segment| !(segment + vn).is_multiple_of(3)) {
        let value = |i: usize| {
            let hash = (i * 31 + vn * 977 + segment * 131) as u32;
            let mixed = hash.wrapping_mul(2_654_435_761);
            (mixed as f32 - 2e9) * 2.0_f32.powi((mixed % 40) as i32 - 40)
        };
        let values: Vec<f32> = layout.segment(segment).map(value).collect();
        leaf.set_segment(segment, &values).unwrap();
    }
    leaf.sums_mut().fill(1.0 / (vn as f64 + 0.3));
    Some(leaf)
}

/// The contiguous ranges that `cuts` makes of the virtual nodes: bit i cuts behind node i.
fn cut(virtual_nodes: usize, cuts: u32) -> Vec<usize> {
    let mut counts = vec![1];
    for vn in 1..virtual_nodes {
        match cuts & (1 << (vn - 1)) {
            0 => *counts.last_mut().unwrap() += 1,
            _ => counts.push(1),
        }
    }
    counts
}

/// Checks that all ranks of a placement get the bits that one rank alone would get.
#[track_caller]
fn assert_same_bits(
    layout: &Layout,
    counts: &[usize],
    leaf: impl Fn(&Layout, usize) -> Option<Partial> + Clone + Send + 'static,
) {
    let placement = Placement::explicit(counts.iter().sum(), counts).unwrap();
    let virtual_nodes = placement.virtual_nodes();
    let leaves = (0..virtual_nodes).map(|vn| (vn..vn + 1, leaf(layout, vn)));
    let expected = evaluate(layout, virtual_nodes, leaves.collect()).unwrap();
    let layout = layout.clone();
    let results = run(placement.ranks(), Options::default(), move |mut group| {
        let own = nodes(&layout, &placement, group.rank(), |vn| leaf(&layout, vn));
        group.all_reduce(0, &layout, &placement, own).unwrap()
    });
    for result in results {
        let result = result.unwrap();
        assert_eq!(result.is_some(), expected.is_some(), "{counts:?}");
        let (Some(result), Some(expected)) = (result, &expected) else {
            continue;
        };
        assert!(result.same_bits(expected), "{counts:?}");
        // Absent segments are zeros on every rank, whatever its buffers held before.
        let bits = |partial: &Partial| -> Vec<u32> {
            let values = partial.values().iter();
            values.map(|value| value.to_bits()).collect()
        };
        assert!(bits(&result) == bits(expected), "{counts:?}");
    }
}

#[test]
fn bits_equal_one_rank_for_every_way_to_cut_6_or_8_virtual_nodes() {
    let layout = Layout::new([5, 0, 1, 13, 2], 2, 1);
    for virtual_nodes in [6, 8] {
        for cuts in 0..1 << (virtual_nodes - 1) {
            assert_same_bits(&layout, &cut(virtual_nodes, cuts), wild);
        }
    }
}

#[test]
fn bits_equal_one_rank_for_many_ways_to_cut_12_virtual_nodes() {
    let layout = Layout::new([5, 0, 1, 13, 2], 2, 1);
    for cuts in (0..1 << 11).step_by(61) {
        assert_same_bits(&layout, &cut(12, cuts), wild);
    }
    // Those where every step of a cube adds siblings.
    for counts in [&[8, 4][..], &[4, 4, 2, 2], &[2, 2, 2, 2, 1, 1, 1, 1]] {
        assert_same_bits(&layout, counts, wild);
    }
}

#[test]
fn bits_equal_one_rank_when_vectors_travel_in_many_pieces() {
    let layout = Layout::new([100_000, 0, 3, 200_001, 7], 1, 1);
    for counts in [&[2, 2][..], &[1, 1, 1, 1], &[3, 1], &[4, 4], &[2, 2, 2, 2]] {
        assert_same_bits(&layout, counts, wild);
    }
}

#[test]
fn bits_equal_one_rank_whichever_segments_and_leaves_are_absent() {
    let layout = Layout::new([1, 1], 1, 0);
    // Two bits for each of 4 virtual nodes: which of the two segments it has. Without any it has no
    // leaf. Zeros are negative: adding a zero of another sign would show.
    for mask in (0..1 << 8).step_by(5) {
        let leaf = move |layout: &Layout, vn: usize| {
            let mut leaf = Partial::empty(layout);
            let present = (0..2).filter(|segment| mask & (1 << (2 * vn + segment)) != 0);
            for segment in present.clone() {
                leaf.set_segment(segment, &[-0.0]).unwrap();
            }
            leaf.sums_mut()[0] = -0.0;
            (present.count() > 0).then_some(leaf)
        };
        for counts in [&[1, 1, 1, 1][..], &[2, 2], &[1, 3], &[4]] {
            assert_same_bits(&layout, counts, leaf);
        }
    }
}

#[test]
fn nothing_is_the_result_when_all_virtual_nodes_are_empty() {
    for counts in [&[2, 1, 1][..], &[2, 2], &[1, 1, 1, 1], &[4]] {
        assert_same_bits(&Layout::new([10], 1, 0), counts, |_, _| None);
    }
}

#[test]
fn ranks_without_a_sample_get_the_sum_too_case_8() {
    let results = run(2, Options::default(), |mut group| {
        let layout = Layout::new([1], 1, 0);
        let placement = Placement::even(8, 2).unwrap();
        let own = nodes(&layout, &placement, group.rank(), |vn| {
            let sample = [1.0, 2.0, 6.0].get(vn)?;
            let mut leaf = constant(&layout, *sample)?;
            leaf.sums_mut()[0] = 1.0;
            Some(leaf)
        });
        let sum = group
            .all_reduce(0, &layout, &placement, own)
            .unwrap()
            .unwrap();
        f64::from(sum.values()[0]) / sum.sums()[0]
    });
    assert_eq!(results, [Some(3.0); 2]);
}

#[test]
fn calls_do_not_mix_when_they_follow_closely_case_20() {
    // One shape, which would hide a mix-up from every check but that of the values; and two.
    for shapes in [[6, 6], [6, 4]] {
        let results = run(3, Options::default(), move |mut group| {
            let placement = Placement::even(3, 3).unwrap();
            let rank = group.rank();
            for step in 0..1000 {
                late_now_and_then(rank, step);
                let layout = Layout::new([shapes[step % 2]], 0, 0);
                let leaf = |vn| constant(&layout, (step + vn) as f32);
                let own = nodes(&layout, &placement, rank, leaf);
                let sum = group
                    .all_reduce(step as u64, &layout, &placement, own)
                    .unwrap()
                    .unwrap();
                let right = vec![(3 * step + 3) as f32; layout.elements()];
                assert_eq!(sum.values(), right);
            }
            group.stale()
        });
        assert_eq!(results, [Some(0); 3]);
    }
}

/// Two ranks with two virtual nodes each, whose gradients are 1, 2, 3 and 4.
#[test]
fn mean_holds_the_last_virtual_node_of_every_rank_case_14() {
    let results = run(2, Options::default(), |mut group| {
        let layout = Layout::new([1], 1, 0);
        let placement = Placement::even(4, 2).unwrap();
        let own = nodes(&layout, &placement, group.rank(), |vn| {
            let mut leaf = constant(&layout, vn as f32 + 1.0)?;
            leaf.sums_mut()[0] = 1.0;
            Some(leaf)
        });
        let sum = group
            .all_reduce(0, &layout, &placement, own)
            .unwrap()
            .unwrap();
        f64::from(sum.values()[0]) / sum.sums()[0]
    });
    assert_eq!(results, [Some(2.5); 2]);
}

/// The bits of a step whose segments travel in buckets of so many; each rank is up to 5 ms late, here
/// and there.
fn bits_in_buckets(group: &mut Group, step: u64, of: usize) -> Vec<u32> {
    const SEGMENTS: [usize; 6] = [5, 1, 13, 2, 100, 3];
    let placement = Placement::explicit(4, &[[3, 1], [2, 2]][step as usize % 2]).unwrap();
    let rank = group.rank();
    let mut bits = vec![];
    for (bucket, sizes) in (0..).zip(SEGMENTS.chunks(of)) {
        let mixed = (step * 31 + u64::from(bucket) * 7 + rank as u64 * 5) % 47;
        std::thread::sleep(Duration::from_millis(mixed.saturating_sub(41)));
        let layout = Layout::new(sizes.iter().copied(), 0, 0);
        let own = nodes(&layout, &placement, rank, |vn| {
            let mut leaf = Partial::empty(&layout);
            for (index, &size) in sizes.iter().enumerate() {
                let segment = bucket as usize * of + index;
                let value = |i: usize| 1.0 / (1 + i + 3 * segment + 7 * vn + step as usize) as f32;
                let values: Vec<f32> = (0..size).map(value).collect();
                leaf.set_segment(index, &values).unwrap();
            }
            Some(leaf)
        });
        let work = Work {
            step,
            bucket,
            samples: 4,
        };
        let sum = group
            .all_reduce(work, &layout, &placement, own)
            .unwrap()
            .unwrap();
        bits.extend(sum.values().iter().map(|value| value.to_bits()));
    }
    bits
}

#[test]
fn bits_are_the_same_however_a_step_is_cut_into_buckets_case_14() {
    let results = run(2, Options::default(), |mut group| {
        (0..200)
            .map(|step| [6, 1, 4].map(|of| bits_in_buckets(&mut group, step, of)))
            .collect::<Vec<_>>()
    });
    let [Some(one), Some(other)] = &results[..] else {
        panic!("a rank panicked");
    };
    assert_eq!(one, other);
    assert!(
        one.iter()
            .all(|[whole, single, some]| whole == single && whole == some)
    );
}

#[test]
fn unused_buffers_come_back_when_a_rank_has_several_nodes() {
    let results = run(2, Options::default(), |mut group| {
        let layout = Layout::new([4], 0, 0);
        let placement = Placement::explicit(8, &[3, 5]).unwrap();
        let own = nodes(&layout, &placement, group.rank(), |vn| {
            constant(&layout, vn as f32)
        });
        let given = own.len();
        let sum = group
            .all_reduce(0, &layout, &placement, own)
            .unwrap()
            .unwrap();
        assert_eq!(sum.values(), [28.0; 4]);
        given - group.take_spares().len()
    });
    assert_eq!(results, [Some(1); 2]);
}
