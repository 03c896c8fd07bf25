//! Collectives on vectors of the caller's: right values for every world, size, type and algorithm.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside the test functions

mod common;

use std::fmt::Debug;

use burn_virtual_collective::{Algorithm, Element, Group, Options, Shares};
use bytemuck::cast_slice;
use common::{late_now_and_then, run, worlds};
use half::{bf16, f16};

/// Nothing at all and fewer elements than ranks (case 23) among them.
const SIZES: [usize; 7] = [0, 1, 2, 7, 100, 1000, 65_537];
const ALGORITHMS: [Algorithm; 2] = [Algorithm::Ring, Algorithm::HalvingDoubling];

/// A type that holds small whole numbers, and so every sum of them here, exactly.
trait Number: Element + PartialEq + Debug {
    fn of(number: i32) -> Self;
}

macro_rules! numbers {
    ($($type:ty: $number:ident => $of:expr;)*) => {$(
        impl Number for $type {
            fn of($number: i32) -> Self {
                $of
            }
        }
    )*};
}

numbers! {
    f32: number => number as f32;
    f64: number => f64::from(number);
    f16: number => f16::from_f32(number as f32);
    bf16: number => bf16::from_f32(number as f32);
    i32: number => number;
    u8: number => number as u8;
}

/// Element i is `value(i % 17)`.
fn periodic<T: Number>(elements: usize, value: impl Fn(usize) -> usize) -> Vec<T> {
    let period: Vec<T> = (0..17).map(|i| T::of(value(i) as i32)).collect();
    let mut all = period.repeat(elements.div_ceil(17)); // copies: much faster than one by one
    all.truncate(elements);
    all
}

/// What rank `rank` brings: element i is i % 17 + rank.
fn ramp<T: Number>(elements: usize, rank: usize) -> Vec<T> {
    periodic(elements, |i| i + rank)
}

/// The sum of what all ranks bring.
fn ramp_sum<T: Number>(elements: usize, world: usize) -> Vec<T> {
    let ranks: usize = (0..world).sum();
    periodic(elements, |i| i * world + ranks)
}

/// Shares of very different sizes, the first one empty if there are others.
fn uneven(elements: usize, world: usize) -> Shares {
    let parts = (world * world / 2).max(1);
    let mut counts: Vec<usize> = (0..world).map(|rank| elements * rank / parts).collect();
    let dealt: usize = counts[..world - 1].iter().sum();
    counts[world - 1] = elements - dealt;
    Shares::explicit(&counts)
}

#[track_caller]
fn assert_same<T: Number>(got: &[T], right: &[T]) {
    if cast_slice::<T, u8>(got) == cast_slice::<T, u8>(right) {
        return; // of all these numbers, equal bytes are equal values
    }
    // A whole vector in a message would be unreadable.
    let wrong = got.iter().zip(right).position(|(got, right)| got != right);
    let detail = wrong.map(|i| (i, got[i], right[i]));
    assert!(wrong.is_none() && got.len() == right.len(), "{detail:?}");
}

fn check_all<T: Number>(group: &mut Group, elements: usize) {
    let (rank, world) = (group.rank(), group.world());
    let right = ramp_sum::<T>(elements, world);
    for algorithm in ALGORITHMS {
        let mut values = ramp::<T>(elements, rank);
        group.sum(algorithm, &mut values).unwrap();
        assert_same(&values, &right);
    }
    for shares in [Shares::even(elements, world), uneven(elements, world)] {
        let own = shares.range(rank);
        let mut values = ramp::<T>(elements, rank);
        group.reduce_scatter(&shares, &mut values).unwrap();
        assert_same(&values[own.clone()], &right[own.clone()]);

        let mut gathered = vec![T::of(0); elements];
        gathered[own.clone()].copy_from_slice(&right[own]);
        group.all_gather(&shares, &mut gathered).unwrap();
        assert_same(&gathered, &right);
    }
    let root = elements % world;
    let mut values = ramp::<T>(elements, rank);
    group.broadcast_slice(root, &mut values).unwrap();
    assert_same(&values, &ramp(elements, root));

    // Only the root knows how many bytes there are.
    let right = cast_slice::<T, u8>(&values).to_vec();
    let mut bytes = if rank == root {
        right.clone()
    } else {
        vec![9; rank]
    };
    group.broadcast(root, &mut bytes).unwrap();
    assert_same(&bytes, &right);

    // Every rank has another number of bytes.
    let own = |rank| vec![rank as u8; right.len() / (rank + 1)];
    let gathered = group.gather(&own(rank)).unwrap();
    assert_eq!(gathered.len(), world);
    for (from, bytes) in gathered.iter().enumerate() {
        assert_same(bytes, &own(from));
    }
    group.barrier().unwrap();
}

fn check_every_type(group: &mut Group, elements: usize) {
    check_all::<f32>(group, elements);
    check_all::<f64>(group, elements);
    check_all::<f16>(group, elements);
    check_all::<bf16>(group, elements);
    check_all::<i32>(group, elements);
    check_all::<u8>(group, elements);
}

#[test]
fn everything_is_right_for_every_world_size_type_and_algorithm() {
    for world in worlds() {
        let results = run(world, Options::default(), |mut group| {
            for elements in SIZES {
                check_every_type(&mut group, elements);
            }
            group.stale()
        });
        assert!(results.iter().all(|stale| *stale == Some(0)), "{world}");
    }
}

#[test]
fn everything_is_right_when_vectors_travel_in_many_pieces() {
    for world in [2, 3, 4, 5] {
        let results = run(world, Options::default(), |mut group| {
            check_all::<f32>(&mut group, 700_001);
            check_all::<bf16>(&mut group, 300_000);
        });
        assert!(results.iter().all(Option::is_some));
    }
}

#[test]
fn bits_are_the_same_on_every_rank_and_in_every_call() {
    for world in worlds() {
        for algorithm in ALGORITHMS {
            let results = run(world, Options::default(), move |mut group| {
                let rank = group.rank();
                let wild = |i: usize| {
                    let mixed = ((i * 31 + rank * 977) as u32).wrapping_mul(2_654_435_761);
                    (mixed as f32 - 2e9) * 2.0_f32.powi((mixed % 40) as i32 - 40)
                };
                let mut sums = vec![];
                for _ in 0..3 {
                    let mut values: Vec<f32> = (0..1000).map(wild).collect();
                    group.sum(algorithm, &mut values).unwrap();
                    sums.push(
                        values
                            .iter()
                            .map(|value| value.to_bits())
                            .collect::<Vec<_>>(),
                    );
                }
                sums
            });
            let sums: Vec<_> = results.into_iter().flatten().flatten().collect();
            assert_eq!(sums.len(), 3 * world);
            assert!(sums.iter().all(|bits| *bits == sums[0]));
        }
    }
}

#[test]
fn small_terms_survive_when_elements_are_narrow_case_11() {
    let results = run(9, Options::default(), |mut group| {
        let first = group.rank() == 0;
        ALGORITHMS.map(|algorithm| {
            // 8 · 2^-9 = 2^-6, which bf16 holds beside 1; each of them alone it does not.
            let small = bf16::from_f32(2.0_f32.powi(-9));
            let mut values = [if first { bf16::ONE } else { small }; 3];
            group.sum(algorithm, &mut values).unwrap();
            values.map(f32::from)
        })
    });
    assert_eq!(results, [Some([[1.015625; 3]; 2]); 9]);
}

#[test]
fn sums_pass_through_what_narrow_elements_cannot_hold() {
    // 4 · 30000 is no f16, but with -60000 twice it is 0 again.
    let results = run(6, Options::default(), |mut group| {
        let value = if group.rank() < 4 {
            30_000.0
        } else {
            -60_000.0
        };
        ALGORITHMS.map(|algorithm| {
            let mut values = [f16::from_f32(value); 7];
            group.sum(algorithm, &mut values).unwrap();
            values.map(f32::from)
        })
    });
    assert_eq!(results, [Some([[0.0; 7]; 2]); 6]);
}

#[test]
fn calls_do_not_mix_when_they_follow_closely_case_20() {
    // One shape, which would hide a mix-up from every check but that of the values; and two.
    for (algorithm, shapes) in [
        (Algorithm::Ring, [6, 6]),
        (Algorithm::HalvingDoubling, [6, 6]),
        (Algorithm::Ring, [6, 4]),
        (Algorithm::HalvingDoubling, [6, 4]),
    ] {
        let results = run(3, Options::default(), move |mut group| {
            let rank = group.rank();
            for i in 0..1000 {
                late_now_and_then(rank, i);
                let mut values = vec![(i + rank) as f32; shapes[i % 2]];
                group.sum(algorithm, &mut values).unwrap();
                assert!(values.iter().all(|value| *value == (3 * i + 3) as f32));
            }
            group.stale()
        });
        assert_eq!(results, [Some(0); 3]);
    }
}

#[test]
fn calls_do_not_mix_when_operations_alternate_case_20() {
    let results = run(4, Options::default(), |mut group| {
        for i in 0..300 {
            check_all::<i32>(&mut group, i % 11);
            if i % 4 == 0 {
                group.barrier().unwrap();
            }
        }
        group.stale()
    });
    assert_eq!(results, [Some(0); 4]);
}

#[test]
fn values_stay_when_world_is_one() {
    let results = run(1, Options::default(), |mut group| {
        let mut values = [f16::from_f32(0.1), f16::NAN];
        for algorithm in ALGORITHMS {
            group.sum(algorithm, &mut values).unwrap();
        }
        group
            .reduce_scatter(&Shares::even(2, 1), &mut values)
            .unwrap();
        group.all_gather(&Shares::even(2, 1), &mut values).unwrap();
        group.broadcast_slice(0, &mut values).unwrap();
        (
            values[0] == f16::from_f32(0.1) && values[1].is_nan(),
            group.sent().messages,
        )
    });
    assert_eq!(results, [Some((true, 0))]);
}
