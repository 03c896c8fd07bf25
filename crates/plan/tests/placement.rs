//! Placements: who runs what, and what is refused.

use burn_virtual_plan::{Placement, PlanError};
use serde::Deserialize;
use serde::de::value::{Error, SeqDeserializer};

fn counts(placement: Result<Placement, PlanError>) -> Result<Vec<usize>, PlanError> {
    placement.map(Vec::from)
}

#[test]
fn even_gives_larger_shares_first_when_it_does_not_divide() {
    let placement = Placement::even(8, 3).unwrap();
    assert_eq!(placement.to_string(), "[0..3][3..6][6..8]");
    assert_eq!(placement.virtual_nodes(), 8);
    assert_eq!(placement.ranks(), 3);
    assert_eq!(placement.range(2), 6..8);
    assert_eq!(placement.range(3), 8..8);
    assert_eq!(placement.range(usize::MAX), 8..8);
}

#[test]
fn rank_of_agrees_with_range_for_every_virtual_node() {
    let placement = Placement::explicit(7, &[1, 4, 2]).unwrap();
    for vn in 0..7 {
        let rank = placement.rank_of(vn).unwrap();
        assert!(placement.range(rank).contains(&vn));
    }
    assert_eq!(placement.rank_of(7), None);
}

#[test]
fn sizes_refused_when_someone_would_run_nothing() {
    assert_eq!(Placement::even(0, 1), Err(PlanError::NoVirtualNodes));
    assert_eq!(Placement::even(4, 0), Err(PlanError::NoRanks));
    let error = Placement::even(2, 3).unwrap_err().to_string();
    assert_eq!(
        error,
        "3 ranks cannot share 2 virtual nodes: each runs at least one"
    );
    let empty = Placement::explicit(3, &[3, 0]);
    assert_eq!(empty, Err(PlanError::EmptyShare { rank: 1 }));
}

#[test]
fn explicit_refused_when_sum_is_wrong() {
    let wrong = |got| Err(PlanError::ShareSum { expected: 8, got });
    assert_eq!(Placement::explicit(8, &[3, 3]), wrong(6));
    assert_eq!(Placement::explicit(8, &[usize::MAX, 9]), wrong(usize::MAX));
}

#[test]
fn weighted_follows_speeds_by_largest_remainder() {
    assert_eq!(counts(Placement::weighted(8, &[1.0, 3.0])), Ok(vec![2, 6]));
    assert_eq!(counts(Placement::weighted(10, &[2.0, 1.0])), Ok(vec![7, 3]));
    assert_eq!(counts(Placement::weighted(8, &[1.0; 3])), Ok(vec![3, 3, 2]));
}

#[test]
fn weighted_keeps_one_for_each_rank_when_speeds_are_extreme() {
    let extreme = Placement::weighted(5, &[f64::MAX, f64::MAX, f64::MIN_POSITIVE]);
    assert_eq!(counts(extreme), Ok(vec![2, 2, 1]));
    let many_slow = Placement::weighted(5, &[1e-9, 1e-9, 1.0, 1e-9]);
    assert_eq!(counts(many_slow), Ok(vec![1, 1, 2, 1]));
}

#[test]
fn weighted_refused_when_a_speed_is_not_positive_and_finite() {
    for speed in [0.0, -1.0, f64::INFINITY] {
        let refused = Placement::weighted(4, &[1.0, speed]);
        assert_eq!(refused, Err(PlanError::Speed { rank: 1, speed }));
    }
    assert!(Placement::weighted(4, &[1.0, f64::NAN]).is_err());
}

#[test]
fn placement_is_checked_again_when_deserialised() {
    let read = |counts: Vec<usize>| {
        Placement::deserialize(SeqDeserializer::<_, Error>::new(counts.into_iter()))
    };
    let placement = Placement::explicit(8, &[5, 3]).unwrap();
    assert_eq!(read(placement.clone().into()).unwrap(), placement);
    assert!(read(vec![5, 0, 3]).is_err());
    assert!(read(vec![]).is_err());
}

#[test]
fn fingerprints_differ_when_placements_differ() {
    let even = Placement::even(8, 2).unwrap();
    let uneven = Placement::explicit(8, &[5, 3]).unwrap();
    assert_eq!(even.fingerprint(), even.clone().fingerprint());
    assert_ne!(even.fingerprint(), uneven.fingerprint());
}

proptest::proptest! {
    #[test]
    fn weighted_shares_are_within_one_of_quota_or_the_minimum(
        speeds in proptest::collection::vec(0.01f64..100.0, 1..8),
        extra in 0usize..40,
    ) {
        let virtual_nodes = speeds.len() + extra;
        let placement = Placement::weighted(virtual_nodes, &speeds).unwrap();
        proptest::prop_assert_eq!(placement.virtual_nodes(), virtual_nodes);
        proptest::prop_assert_eq!(placement.ranks(), speeds.len());
        let total: f64 = speeds.iter().sum();
        for (share, speed) in placement.shares().zip(&speeds) {
            let quota = speed / total * virtual_nodes as f64;
            proptest::prop_assert!(!share.is_empty());
            proptest::prop_assert!((share.len() as f64) < quota.max(1.0) + 1.0 + 1e-9);
        }
    }
}
