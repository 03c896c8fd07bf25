//! The order of the samples in an epoch.
//!
//! The order is part of what decides a training run's bits, so it may change neither with the
//! machine nor with a release of `rand`. Only the raw words of ChaCha8, which are fixed by its
//! definition, come from outside; how they become indices is written out here.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Keeps this stream apart from others that are keyed by the same seed.
const DOMAIN: &[u8; 16] = b"sample order v1\0";

/// The ids `0..len` in the order of epoch number `epoch` under `seed`, each once.
///
/// A function of its three arguments alone: the same on every machine, thread and backend, and
/// independent of what was drawn before.
pub fn order(len: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut rng = ChaCha8Rng::from_seed(key(seed, epoch));
    let mut ids: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        let chosen = below(&mut rng, last as u64 + 1);
        ids.swap(last, chosen as usize);
    }
    ids
}

/// A key that differs for every pair of seed and epoch: both lie in it whole, unmixed.
fn key(seed: u64, epoch: u64) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&epoch.to_le_bytes());
    key[16..].copy_from_slice(DOMAIN);
    key
}

/// A uniform number in `0..bound`, for `bound` of 1 or more.
///
/// Words in the incomplete last run of `bound` numbers are thrown away: a bare remainder would
/// favour small numbers.
fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    let accepted = u64::MAX - u64::MAX % bound;
    loop {
        let word = rng.next_u64();
        if word < accepted {
            return word % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_the_same_in_every_release() {
        // Equal to what a second implementation, written from the definition of ChaCha8, gives.
        assert_eq!(order(10, 42, 0), [9, 3, 7, 8, 2, 5, 6, 4, 1, 0]);
        assert_eq!(
            order(1438, 42, 0)[..8],
            [131, 329, 480, 1058, 877, 291, 213, 410]
        );
        assert_eq!(
            order(1438, 42, 1)[..8],
            [938, 748, 682, 178, 483, 1089, 639, 348]
        );
    }

    #[test]
    fn order_repeats_for_equal_arguments() {
        assert_eq!(order(1438, 42, 3), order(1438, 42, 3));
    }

    #[test]
    fn order_differs_between_epochs_and_seeds() {
        assert_ne!(order(1438, 42, 0), order(1438, 42, 1));
        assert_ne!(order(1438, 42, 0), order(1438, 43, 0));
        // Seed and epoch must not be interchangeable, as in a key made by adding them.
        assert_ne!(order(1438, 1, 2), order(1438, 2, 1));
    }

    #[test]
    fn order_has_every_id_once() {
        for len in [0, 1, 2, 3, 10, 1438] {
            let mut ids = order(len, 42, 0);
            ids.sort_unstable();
            assert_eq!(ids, (0..len).collect::<Vec<_>>(), "length {len}");
        }
    }

    #[test]
    fn order_puts_every_id_everywhere_about_equally_often() {
        let mut counts = [[0_u32; 4]; 4];
        for epoch in 0..4000 {
            for (place, id) in order(4, 42, epoch).into_iter().enumerate() {
                counts[place][id] += 1;
            }
        }
        // 1000 expected, standard deviation 27: five of them either way.
        for count in counts.into_iter().flatten() {
            assert!((863..=1137).contains(&count), "{count} of 4000");
        }
    }

    #[test]
    fn below_stays_in_range_at_the_extremes() {
        let mut rng = ChaCha8Rng::from_seed(key(42, 0));
        assert_eq!(below(&mut rng, 1), 0);
        assert!(below(&mut rng, u64::MAX) < u64::MAX);
        let half = u64::MAX / 2 + 2;
        assert!((0..1000).all(|_| below(&mut rng, half) < half));
    }
}
