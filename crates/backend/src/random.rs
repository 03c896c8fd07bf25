//! Random tensors, made on the host so that they have the same bits on every backend.
//!
//! One draw is the key stream of ChaCha8 under the key (seed, step, virtual node, draw number), or
//! (seed, parameter, 0, draw number) for an initial value, the four fields little-endian, with the kind of scope as the stream number. Transcendental functions
//! come from `libm`: the platform's own may differ in the last bit.

use burn_backend::{Distribution, FloatDType, IntDType, Shape, TensorData, bf16, f16};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::context::{Scope, next_draw};

/// Random floats, or `None` where this thread has no stream.
pub(crate) fn float(
    shape: &Shape,
    distribution: Distribution,
    dtype: FloatDType,
) -> Option<TensorData> {
    let mut rng = stream(next_draw()?);
    Some(match dtype {
        FloatDType::F64 => floats::<f64>(&mut rng, shape, distribution),
        FloatDType::F32 | FloatDType::Flex32 => floats::<f32>(&mut rng, shape, distribution),
        FloatDType::F16 => floats::<f16>(&mut rng, shape, distribution),
        FloatDType::BF16 => floats::<bf16>(&mut rng, shape, distribution),
    })
}

/// Random integers, or `None` where this thread has no stream.
pub(crate) fn int(
    shape: &Shape,
    distribution: Distribution,
    dtype: IntDType,
) -> Option<TensorData> {
    let mut rng = stream(next_draw()?);
    Some(match dtype {
        IntDType::I64 => ints(&mut rng, shape, distribution, |value| value as i64),
        IntDType::I32 => ints(&mut rng, shape, distribution, |value| value as i32),
        IntDType::I16 => ints(&mut rng, shape, distribution, |value| value as i16),
        IntDType::I8 => ints(&mut rng, shape, distribution, |value| value as i8),
        IntDType::U64 => ints(&mut rng, shape, distribution, |value| value as u64),
        IntDType::U32 => ints(&mut rng, shape, distribution, |value| value as u32),
        IntDType::U16 => ints(&mut rng, shape, distribution, |value| value as u16),
        IntDType::U8 => ints(&mut rng, shape, distribution, |value| value as u8),
    })
}

fn stream((scope, draw): (Scope, u64)) -> ChaCha8Rng {
    let (kind, seed, step, node) = match scope {
        Scope::Seeded { seed } => (0, seed, 0, 0),
        Scope::Init { seed, parameter } => (1, seed, parameter, 0),
        Scope::Node { seed, step, node } => (2, seed, step, node),
        Scope::Evaluation { seed, step, node } => (4, seed, step, node),
        // `next_draw` gives no draw there; the number stays reserved.
        Scope::Step { step } => (3, 0, step, 0),
    };
    let mut key = [0; 32];
    for (field, value) in key.chunks_exact_mut(8).zip([seed, step, node, draw]) {
        field.copy_from_slice(&value.to_le_bytes());
    }
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(kind);
    rng
}

/// A float element: how many bits a uniform draw in `[0, 1)` may have to be exact.
trait Float: burn_backend::Element {
    const BITS: u32;
    fn of(value: f64) -> Self;
    fn as_f64(self) -> f64;
}

macro_rules! float {
    ($($ty:ty, $bits:literal, $of:expr, $as_f64:expr;)*) => {
        $(impl Float for $ty {
            const BITS: u32 = $bits;
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn as_f64(self) -> f64 {
                $as_f64(self)
            }
        })*
    };
}
float! {
    f64, 53, core::convert::identity, core::convert::identity;
    f32, 24, |value| value as f32, f64::from;
    f16, 11, f16::from_f64, f16::to_f64;
    bf16, 8, bf16::from_f64, bf16::to_f64;
}

fn floats<E: Float>(rng: &mut ChaCha8Rng, shape: &Shape, distribution: Distribution) -> TensorData {
    let count = shape.num_elements();
    let values: Vec<E> = match distribution {
        Distribution::Default => (0..count).map(|_| E::of(unit(rng, E::BITS))).collect(),
        Distribution::Bernoulli(probability) => {
            let (zero, one, limit) = (E::of(0.0), E::of(1.0), threshold(probability));
            (0..count)
                .map(|_| if hit(rng, limit) { one } else { zero })
                .collect()
        }
        Distribution::Uniform(low, high) => {
            check_range(low, high);
            (0..count).map(|_| uniform(rng, low, high)).collect()
        }
        Distribution::Normal(mean, std) => normals(rng, mean, std).take(count).map(E::of).collect(),
    };
    TensorData::new(values, shape.clone())
}

fn ints<E: burn_backend::Element>(
    rng: &mut ChaCha8Rng,
    shape: &Shape,
    distribution: Distribution,
    of: impl Fn(i128) -> E,
) -> TensorData {
    let count = shape.num_elements();
    let values: Vec<E> = match distribution {
        // The whole range of the type: the narrowing keeps the low bits.
        Distribution::Default => (0..count).map(|_| of(rng.next_u64().into())).collect(),
        Distribution::Bernoulli(probability) => {
            let limit = threshold(probability);
            (0..count).map(|_| of(hit(rng, limit).into())).collect()
        }
        Distribution::Uniform(low, high) => {
            check_range(low, high);
            let (low, high) = (low as i128, high as i128);
            let span = u64::try_from(high - low).unwrap_or(u64::MAX);
            assert!(
                span > 0,
                "a uniform range of integers needs low < high, got {low}..{high}"
            );
            (0..count)
                .map(|_| of(low + i128::from(below(rng, span))))
                .collect()
        }
        Distribution::Normal(mean, std) => normals(rng, mean, std)
            .take(count)
            .map(|value| of(value as i128))
            .collect(),
    };
    TensorData::new(values, shape.clone())
}

/// Uniform in `[0, 1)` on a grid of `2^bits` points.
fn unit(rng: &mut ChaCha8Rng, bits: u32) -> f64 {
    let word = if bits > 32 {
        rng.next_u64()
    } else {
        u64::from(rng.next_u32()) << 32
    };
    (word >> (64 - bits)) as f64 * libm::exp2(-f64::from(bits))
}

/// Uniform in `[low, high)`: a value that rounds up to `high` in its own type is drawn again.
fn uniform<E: Float>(rng: &mut ChaCha8Rng, low: f64, high: f64) -> E {
    const TRIES: u32 = 64;
    for _ in 0..TRIES {
        let value = E::of(low + (high - low) * unit(rng, 53));
        if value.as_f64() < high {
            return value;
        }
    }
    E::of(low)
}

/// Bernoulli: a 32-bit draw below `threshold` is a hit.
fn threshold(probability: f64) -> u64 {
    assert!(
        (0.0..=1.0).contains(&probability),
        "a Bernoulli distribution needs a probability in 0..=1, got {probability}"
    );
    (probability * 4_294_967_296.0) as u64
}

fn hit(rng: &mut ChaCha8Rng, threshold: u64) -> bool {
    u64::from(rng.next_u32()) < threshold
}

fn check_range(low: f64, high: f64) {
    assert!(
        low.is_finite() && high.is_finite() && low < high,
        "a uniform distribution needs finite low < high, got {low}..{high}"
    );
}

/// Uniform in `0..span` without bias (Lemire, arXiv 1805.10941, section 3).
fn below(rng: &mut ChaCha8Rng, span: u64) -> u64 {
    let reject = span.wrapping_neg() % span;
    loop {
        let wide = u128::from(rng.next_u64()) * u128::from(span);
        if wide as u64 >= reject {
            return (wide >> 64) as u64;
        }
    }
}

/// Normal values by the transform of Box and Muller (1958), two at a time.
fn normals(rng: &mut ChaCha8Rng, mean: f64, std: f64) -> impl Iterator<Item = f64> {
    assert!(
        mean.is_finite() && std.is_finite() && std >= 0.0,
        "a normal distribution needs a finite mean and std >= 0, got mean {mean}, std {std}"
    );
    core::iter::repeat_with(move || {
        // In (0, 1]: the logarithm of zero never occurs.
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - unit(rng, 53)));
        let angle = core::f64::consts::TAU * unit(rng, 53);
        [
            mean + std * radius * libm::cos(angle),
            mean + std * radius * libm::sin(angle),
        ]
    })
    .flatten()
}
