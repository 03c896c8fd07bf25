//! Vectors of one length but of several shapes, and means.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside the test functions

mod common;

use burn_virtual_collective::{Algorithm, CollectiveError, Group, Options, Shares};
use common::{assert_all_contain, errors, run, worlds};
use half::{bf16, f16};

const ALGORITHMS: [Algorithm; 2] = [Algorithm::Ring, Algorithm::HalvingDoubling];

/// A call on a vector of 12 elements.
type Call = fn(&mut Group, &[usize]) -> Result<(), CollectiveError>;

const CALLS: [(&str, Call); 6] = [
    ("ring all-reduce", |group, shape| {
        group.shape(shape).sum(Algorithm::Ring, &mut [1.0_f32; 12])
    }),
    ("halving-doubling all-reduce", |group, shape| {
        let group = group.shape(shape);
        group.sum(Algorithm::HalvingDoubling, &mut [1_u8; 12])
    }),
    ("ring mean", |group, shape| {
        group.shape(shape).mean(Algorithm::Ring, &mut [1.0_f64; 12])
    }),
    ("reduce-scatter", |group, shape| {
        let shares = Shares::even(12, group.world());
        let group = group.shape(shape);
        group.reduce_scatter(&shares, &mut [1.0_f32; 12])
    }),
    ("all-gather", |group, shape| {
        let shares = Shares::even(12, group.world());
        group.shape(shape).all_gather(&shares, &mut [1.0_f32; 12])
    }),
    ("slice broadcast", |group, shape| {
        group.shape(shape).broadcast_slice(0, &mut [1.0_f32; 12])
    }),
];

#[test]
fn every_rank_errs_when_only_shapes_differ_case_21() {
    for world in [2, 3, 4] {
        for (name, call) in CALLS {
            for odd in 0..world {
                let errors = errors(world, Options::default(), move |mut group| {
                    let is_odd = group.rank() == odd;
                    call(&mut group, if is_odd { &[3, 4] } else { &[2, 6] })
                });
                let odd = format!("rank {odd}");
                assert_all_contain(&errors, &[name, "shape", "[2, 6]", "[3, 4]", &odd]);
            }
        }
        let fresh = run(2, Options::default(), |mut group| {
            let mut values = [group.rank() as f32 + 1.0];
            group.sum(Algorithm::Ring, &mut values).unwrap();
            values
        });
        assert_eq!(fresh, [Some([3.0]); 2]);
    }
}

#[test]
fn every_rank_errs_when_only_one_has_a_shape() {
    let errors = errors(3, Options::default(), |mut group| {
        let mut values = [1.0_f32; 12];
        if group.rank() == 2 {
            group.shape(&[2, 6]);
        }
        group.sum(Algorithm::Ring, &mut values)
    });
    assert_all_contain(&errors, &["rank 2", "shape", "[2, 6]", "[12]"]);
}

#[test]
fn every_rank_errs_when_one_gives_a_shape_of_another_length() {
    for (name, call) in CALLS {
        let errors = errors(3, Options::default(), move |mut group| {
            let is_odd = group.rank() == 1;
            call(&mut group, if is_odd { &[3, 5] } else { &[3, 4] })
        });
        let text = "expected a shape of 12 elements, got [3, 5]";
        assert_all_contain(&errors, &[name, "rank 1", text]);
    }
}

#[test]
fn shapes_that_agree_are_summed_and_count_for_one_call_only() {
    let results = run(3, Options::default(), |mut group| {
        let rank = group.rank();
        for (name, call) in CALLS {
            call(&mut group, &[2, 2, 3]).expect(name);
        }
        // As good as none; and dropped by a call without a vector.
        if rank == 0 {
            group.shape(&[12]);
        }
        group.sum(Algorithm::Ring, &mut [1_i32; 12]).unwrap();
        group.shape(&[rank]).barrier().unwrap();
        let mut values = [1_i32; 5];
        group.sum(Algorithm::Ring, &mut values).unwrap();
        values
    });
    assert_eq!(results, [Some([3; 5]); 3]);
}

#[test]
fn mean_is_in_range_when_the_sum_is_not_case_11() {
    for algorithm in ALGORITHMS {
        let results = run(8, Options::default(), move |mut group| {
            let mut values = [f16::from_f32(10_000.0), f16::from_bits(1)]; // 2^-24
            group.mean(algorithm, &mut values).unwrap();
            let mut brain = [bf16::from_f32(1.0 + (group.rank() % 2) as f32 / 128.0)];
            group.mean(algorithm, &mut brain).unwrap();
            (values, brain)
        });
        let right = [f16::from_f32(10_000.0), f16::from_f32(2.0_f32.powi(-24))];
        let brain = [bf16::from_f32(1.0)]; // 1 + 2^-8 lies in the middle, and rounds to even
        assert_eq!(results, [Some((right, brain)); 8]);
    }
}

#[test]
fn mean_is_right_for_every_world_size_and_type() {
    for algorithm in ALGORITHMS {
        for world in worlds() {
            let results = run(world, Options::default(), move |mut group| {
                let rank = group.rank();
                for elements in [0, 1, 5, 1000] {
                    // Their mean is the element's index.
                    let value = |index: usize| (2 * index * (rank + 1)) as f64 / (world + 1) as f64;
                    let near = |got: f64, index: usize, most: f64| {
                        assert!((got - index as f64).abs() <= most * index as f64, "{got}");
                    };
                    let mut wide: Vec<f64> = (0..elements).map(value).collect();
                    let mut single: Vec<f32> = wide.iter().map(|&value| value as f32).collect();
                    let mut half: Vec<f16> = wide.iter().map(|&v| f16::from_f64(v)).collect();
                    group.mean(algorithm, &mut wide).unwrap();
                    group.mean(algorithm, &mut single).unwrap();
                    group.mean(algorithm, &mut half).unwrap();
                    for index in 0..elements {
                        near(wide[index], index, 1e-12);
                        near(single[index].into(), index, 1e-5);
                        near(half[index].into(), index, 2e-3);
                    }
                }
            });
            assert!(results.iter().all(Option::is_some), "{algorithm} {world}");
        }
    }
}

#[test]
fn every_rank_errs_when_only_some_want_the_mean() {
    for algorithm in ALGORITHMS {
        let errors = errors(3, Options::default(), move |mut group| {
            let mut values = [1.0_f32; 5];
            match group.rank() {
                1 => group.mean(algorithm, &mut values),
                _ => group.sum(algorithm, &mut values),
            }
        });
        let [sum, mean] = [
            format!("{algorithm} all-reduce"),
            format!("{algorithm} mean"),
        ];
        assert_all_contain(&errors, &["rank 1", "operation", &sum, &mean]);
    }
}
