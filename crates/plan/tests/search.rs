//! The placements that send the least, and that take the least time, against all there are.
#![allow(clippy::unwrap_used)] // helpers of tests, outside the test functions

use std::cmp::Reverse;

use burn_virtual_plan::{Placement, PlanError, StepCost};
use proptest::prelude::*;

/// Every placement.
fn all(virtual_nodes: usize, ranks: usize) -> Vec<Placement> {
    fn counts(left: usize, ranks: usize) -> Vec<Vec<usize>> {
        if ranks == 1 {
            return vec![vec![left]];
        }
        let first = 1..=left + 1 - ranks;
        let with = |first| {
            let rest = counts(left - first, ranks - 1);
            rest.into_iter()
                .map(move |rest| [&[first], &rest[..]].concat())
        };
        first.flat_map(with).collect()
    }
    let counts = counts(virtual_nodes, ranks).into_iter();
    counts
        .map(|counts| Placement::explicit(virtual_nodes, &counts).unwrap())
        .collect()
}

fn largest(placement: &Placement) -> usize {
    placement.shares().map(|share| share.len()).max().unwrap()
}

/// What `fewest_bytes` promises, in its order.
fn key(placement: &Placement) -> impl Ord + std::fmt::Debug + use<> {
    let subtrees: Vec<usize> = (0..placement.ranks())
        .map(|rank| placement.subtrees(rank))
        .collect();
    let counts = Vec::from(placement.clone());
    let squares: usize = counts.iter().map(|count| count * count).sum();
    let sum: usize = subtrees.iter().sum();
    (subtrees.into_iter().max(), sum, squares, Reverse(counts))
}

#[test]
fn twelve_twelve_and_eight_beat_the_even_placement() {
    let even = Placement::even(32, 3).unwrap();
    let best = Placement::fewest_bytes(32, 3, 12).unwrap();
    assert_eq!(Vec::from(best.clone()), [12, 12, 8]);
    assert_eq!(even.worst_byte_ratio(), 2.5);
    assert_eq!(best.worst_byte_ratio(), 1.5);
    assert_eq!(best.mean_byte_ratio(), 4.0 / 3.0);
    // Without room there is nothing better than 11 + 11 + 10 in some order.
    let tight = Placement::fewest_bytes(32, 3, 11).unwrap();
    assert_eq!(largest(&tight), 11);
}

#[test]
fn placement_is_the_even_one_when_that_is_aligned() {
    for (virtual_nodes, ranks) in [(8, 1), (8, 2), (16, 4), (4096, 64), (5, 5)] {
        let even = Placement::even(virtual_nodes, ranks).unwrap();
        let tight = Placement::fewest_bytes(virtual_nodes, ranks, largest(&even)).unwrap();
        let free = Placement::fewest_bytes(virtual_nodes, ranks, virtual_nodes).unwrap();
        assert_eq!([&tight, &free], [&even; 2]);
    }
}

#[test]
fn a_ring_s_bytes_are_enough_when_shares_may_be_twice_the_mean() {
    for virtual_nodes in 1..=40_usize {
        for ranks in 1..=virtual_nodes {
            let largest = (2 * virtual_nodes).div_ceil(ranks);
            let best = Placement::fewest_bytes(virtual_nodes, ranks, largest).unwrap();
            assert_eq!(best.worst_byte_ratio(), 1.0, "{best}");
        }
    }
}

#[test]
fn large_jobs_are_searched() {
    for (virtual_nodes, ranks, most) in [
        (4096, 64, 65),
        (4095, 63, 90),
        (4001, 3, 2000),
        (4096, 2048, 3),
    ] {
        let best = Placement::fewest_bytes(virtual_nodes, ranks, most).unwrap();
        assert_eq!((best.virtual_nodes(), best.ranks()), (virtual_nodes, ranks));
        assert!(largest(&best) <= most, "{best}");
    }
    let cost = StepCost {
        virtual_node_s: 1e-3,
        ring_s: 0.1,
    };
    let best = Placement::least_time(4001, 37, &cost).unwrap();
    let even = Placement::even(4001, 37).unwrap();
    assert!(cost.step_s(&best) < cost.step_s(&even));
}

#[test]
fn refused_when_sizes_or_times_make_no_sense() {
    let (virtual_nodes, ranks) = (32, 3);
    for largest in [0, 1, 10] {
        let refused = Placement::fewest_bytes(virtual_nodes, ranks, largest);
        let least = 11;
        let error = PlanError::LargestShare {
            virtual_nodes,
            ranks,
            largest,
            least,
        };
        assert_eq!(refused, Err(error));
    }
    assert_eq!(
        Placement::fewest_bytes(0, 1, 1),
        Err(PlanError::NoVirtualNodes)
    );
    assert_eq!(Placement::fewest_bytes(1, 0, 1), Err(PlanError::NoRanks));
    assert!(Placement::fewest_bytes(2, 3, 1).is_err());
    for virtual_nodes in [4097, usize::MAX] {
        let limit = 4096;
        let refused = Err(PlanError::TooManyToSearch {
            virtual_nodes,
            limit,
        });
        assert_eq!(
            Placement::fewest_bytes(virtual_nodes, 3, usize::MAX),
            refused
        );
    }
    for wrong in [-1.0, f64::NAN, f64::INFINITY] {
        for (virtual_node_s, ring_s) in [(wrong, 1.0), (1.0, wrong)] {
            let cost = StepCost {
                virtual_node_s,
                ring_s,
            };
            let error = Placement::least_time(8, 3, &cost).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{wrong} s, expected a finite number")),
                "{error}"
            );
        }
    }
}

#[test]
fn placement_is_balanced_when_bytes_cost_nothing_and_lean_when_nodes_don_t() {
    let cost = |virtual_node_s, ring_s| StepCost {
        virtual_node_s,
        ring_s,
    };
    let balanced = Placement::least_time(100, 7, &cost(1.0, 0.0)).unwrap();
    assert_eq!(largest(&balanced), 15);
    let lean = Placement::least_time(100, 7, &cost(0.0, 1.0)).unwrap();
    assert_eq!(lean.worst_byte_ratio(), 1.0);
    let neither = Placement::least_time(100, 7, &cost(0.0, 0.0)).unwrap();
    assert_eq!(largest(&neither), 15);
}

fn sizes() -> impl Strategy<Value = (usize, usize)> {
    (1..=13_usize).prop_flat_map(|virtual_nodes| (Just(virtual_nodes), 1..=virtual_nodes))
}

proptest! {
    #[test]
    fn fewest_bytes_is_the_best_of_all((virtual_nodes, ranks) in sizes(), most in 1..=14_usize) {
        let placements = all(virtual_nodes, ranks).into_iter();
        let right = placements
            .filter(|placement| largest(placement) <= most)
            .min_by_key(key);
        prop_assert_eq!(Placement::fewest_bytes(virtual_nodes, ranks, most).ok(), right);
    }

    #[test]
    fn least_time_is_the_best_of_all(
        (virtual_nodes, ranks) in sizes(),
        virtual_node_s in 0..5_u8,
        ring_s in 0..9_u8,
    ) {
        // Whole numbers, so that times are exact.
        let (virtual_node_s, ring_s) = (f64::from(virtual_node_s), f64::from(ring_s));
        let cost = StepCost { virtual_node_s, ring_s };
        let right = all(virtual_nodes, ranks).into_iter().min_by(|one, other| {
            let order = cost.step_s(one).total_cmp(&cost.step_s(other));
            order.then_with(|| (largest(one), key(one)).cmp(&(largest(other), key(other))))
        });
        prop_assert_eq!(Placement::least_time(virtual_nodes, ranks, &cost).ok(), right);
    }
}
