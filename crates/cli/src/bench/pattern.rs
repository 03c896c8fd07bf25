//! Numbers whose sums are known, and exact in any order.

use std::ops::Range;

/// Numbers repeat after so many.
const PERIOD: usize = 7;

/// What a range of virtual nodes brings or sums to: virtual node `v` has `(i + v) mod 7` at `i`.
#[derive(Debug)]
pub(super) struct Pattern([f32; PERIOD]);

impl Pattern {
    /// The sum over a range of virtual nodes: of at most 65,536, which f32 counts without rounding.
    pub(super) fn of(nodes: Range<usize>) -> Self {
        let at = |index| {
            nodes
                .clone()
                .map(|node| (index + node) % PERIOD)
                .sum::<usize>()
        };
        Self(std::array::from_fn(|index| at(index) as f32))
    }

    pub(super) fn vector(&self, elements: usize) -> Vec<f32> {
        self.0.iter().copied().cycle().take(elements).collect()
    }

    /// Where `values` differ from it first: the place, what is expected, and what is there.
    pub(super) fn difference(&self, values: &[f32]) -> Option<(usize, f32, f32)> {
        for (chunk, values) in values.chunks(PERIOD).enumerate() {
            for (place, (&got, &expected)) in values.iter().zip(&self.0).enumerate() {
                if got.to_bits() != expected.to_bits() {
                    return Some((chunk * PERIOD + place, expected, got));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_is_the_sum_of_its_virtual_nodes() {
        let vector = |nodes| Pattern::of(nodes).vector(10);
        let (one, other) = (vector(3..9), vector(9..14));
        let sum: Vec<_> = one
            .iter()
            .zip(&other)
            .map(|(one, other)| one + other)
            .collect();
        assert_eq!(sum, vector(3..14));
        assert_eq!(vector(0..1)[..8], [0., 1., 2., 3., 4., 5., 6., 0.]);
    }

    #[test]
    fn difference_is_the_first() {
        let pattern = Pattern::of(2..5);
        let mut values = pattern.vector(100);
        assert_eq!(pattern.difference(&values), None);
        values[99] = f32::NAN;
        values[50] += 1.0;
        let expected = values[50] - 1.0;
        assert_eq!(
            pattern.difference(&values),
            Some((50, expected, values[50]))
        );
        // 0 and -0 are other bits.
        assert!(Pattern::of(0..1).difference(&[-0.0]).is_some());
    }
}
