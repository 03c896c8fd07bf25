//! The one host kernel: every addition of the tree, the one division at its root, and whatever a
//! decision is taken from. Plain loops over flat vectors in a fixed order, which the compiler may
//! vectorise because the order is written into them: the result depends on the vectors alone,
//! never on thread count, machine width or where a vector is cut.
//!
//! Two operands always have equal lengths by construction (a [`crate::Layout`] checks them where
//! they enter); a debug assertion holds the callers to it.

/// Lanes of [`sum_of_squares`]. Part of the definition: another number gives other bits.
pub const LANES: usize = 8;

/// Adds `other` to `acc`, element by element.
pub fn add_assign(acc: &mut [f32], other: &[f32]) {
    debug_assert_eq!(acc.len(), other.len(), "operands of two lengths");
    for (acc, other) in acc.iter_mut().zip(other) {
        *acc += other;
    }
}

/// Adds `other` to `acc`, element by element, in f64.
pub fn add_assign_f64(acc: &mut [f64], other: &[f64]) {
    debug_assert_eq!(acc.len(), other.len(), "operands of two lengths");
    for (acc, other) in acc.iter_mut().zip(other) {
        *acc += other;
    }
}

/// Divides each value by `divisor`. A divisor of 0 gives infinities and NaN, as division does.
///
/// Where `divisor` is an f32, each quotient is the correctly rounded one. Otherwise it is the f64
/// quotient rounded to f32: the same on every machine, and off the correctly rounded one only
/// where the f64 rounding lands on a tie.
pub fn divide(values: &mut [f32], divisor: f64) {
    // A division of two f32 in f64, rounded to f32, is the f32 division: 53 bits are at least
    // 2·24 + 2, so no quotient of two 24-bit numbers comes close enough to a tie to be moved
    // onto it (Figueroa, "When is double rounding innocuous?", 1995). The first branch thus
    // never changes a bit; it handles twice as many values at once.
    let narrow = divisor as f32;
    if f64::from(narrow) == divisor {
        for value in values {
            *value /= narrow;
        }
    } else {
        for value in values {
            *value = (f64::from(*value) / divisor) as f32;
        }
    }
}

/// Multiplies each value by `factor`: the f64 product rounded to f32.
pub fn scale(values: &mut [f32], factor: f64) {
    for value in values {
        *value = (f64::from(*value) * factor) as f32;
    }
}

/// Sum of squares in f64. Element `i` goes to lane `i % LANES`; the lanes are added pairwise:
/// `((0+1) + (2+3)) + ((4+5) + (6+7))`. The square of an f32 is exact in f64, and no sum of them
/// overflows.
pub fn sum_of_squares(values: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for chunk in whole {
        accumulate(&mut lanes, chunk);
    }
    accumulate(&mut lanes, rest);
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

fn accumulate(lanes: &mut [f64; LANES], values: &[f32]) {
    for (lane, &value) in lanes.iter_mut().zip(values) {
        *lane += f64::from(value) * f64::from(value);
    }
}

/// Euclidean norm: the square root of [`sum_of_squares`].
pub fn norm(values: &[f32]) -> f64 {
    sum_of_squares(values).sqrt()
}

/// Whether no value is infinite or NaN.
pub fn all_finite(values: &[f32]) -> bool {
    // A block is looked at whole, so that it vectorises; between blocks the search may stop.
    const BLOCK: usize = 1024;
    let finite = |block: &[f32]| {
        block
            .iter()
            .fold(true, |all, value| all & value.is_finite())
    };
    values.chunks(BLOCK).all(finite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq};

    #[test]
    fn small_terms_survive_when_summed_in_f32_case_11() {
        let mut acc = [1.0];
        for _ in 0..8 {
            add_assign(&mut acc, &[2.0_f32.powi(-9)]);
        }
        assert_eq!(acc, [1.015625]);
    }

    #[test]
    fn sum_of_squares_follows_the_lanes_for_every_short_length() {
        for length in 0..40 {
            let values: Vec<f32> = (0..length).map(|i| 1.0 / (i as f32 + 0.7)).collect();
            let mut lanes = [0.0_f64; LANES];
            for (i, &value) in values.iter().enumerate() {
                lanes[i % LANES] += f64::from(value).powi(2);
            }
            let [a, b, c, d, e, f, g, h] = lanes;
            let expected = ((a + b) + (c + d)) + ((e + f) + (g + h));
            assert_eq!(sum_of_squares(&values).to_bits(), expected.to_bits());
        }
    }

    #[test]
    fn norm_is_finite_when_values_are_the_largest() {
        assert_eq!(norm(&[3.0, 4.0]), 5.0);
        assert_eq!(norm(&[]), 0.0);
        assert!(norm(&[f32::MAX; 100]).is_finite());
        assert!(norm(&[1.0, f32::NAN]).is_nan());
    }

    #[test]
    fn all_finite_finds_the_culprit_wherever_it_lies() {
        assert!(all_finite(&[]));
        let mut values = vec![f32::MAX; 3000];
        assert!(all_finite(&values));
        for index in [0, 1023, 1024, 2999] {
            for culprit in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let before = std::mem::replace(&mut values[index], culprit);
                assert!(!all_finite(&values));
                values[index] = before;
            }
        }
    }

    #[test]
    fn divide_rounds_once_when_divisor_is_no_f32() {
        let divisor = 16_777_217.0; // 2^24 + 1
        let mut values = [16_777_216.0, 1.0, -0.0];
        divide(&mut values, divisor);
        assert_eq!(values[0], (16_777_216.0 / divisor) as f32);
        assert_eq!(values[2].to_bits(), (-0.0_f32).to_bits());
    }

    proptest::proptest! {
        #[test]
        fn both_ways_to_divide_agree_when_both_apply(value in any::<u32>(), by in any::<u32>()) {
            let (value, divisor) = (f32::from_bits(value), f32::from_bits(by));
            let mut quotient = [value];
            divide(&mut quotient, f64::from(divisor));
            let wide = (f64::from(value) / f64::from(divisor)) as f32;
            if wide.is_nan() {
                proptest::prop_assert!(quotient[0].is_nan());
            } else {
                prop_assert_eq!(quotient[0].to_bits(), wide.to_bits());
            }
        }
    }
}
