//! When two results count as the same.

use burn_backend::{DType, TensorData};

use crate::read::Value;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Same {
    /// All bits.
    Bits,
    /// Floats may differ by this part of the tensor's largest value.
    Within(f64),
    /// The same on another backend, whose integers and bools have a width of their own.
    Elsewhere(f64),
}

impl Same {
    pub(crate) fn holds(self, a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Data(a), Value::Data(b)) => self.holds_for_data(a, b),
            (Value::Meta(a, shape_a, rank_a), Value::Meta(b, shape_b, rank_b)) => {
                self.holds_for_dtypes(*a, *b) && (shape_a, rank_a) == (shape_b, rank_b)
            }
            (Value::Text(a), Value::Text(b)) => a == b,
            _ => false,
        }
    }

    pub(crate) fn holds_for_data(self, a: &TensorData, b: &TensorData) -> bool {
        if !self.holds_for_dtypes(a.dtype, b.dtype) || a.shape != b.shape {
            return false;
        }
        match self {
            Self::Within(part) | Self::Elsewhere(part) if a.dtype.is_float() => close(a, b, part),
            Self::Elsewhere(_) => a.iter::<i64>().eq(b.iter::<i64>()),
            _ => a.as_bytes() == b.as_bytes(),
        }
    }

    fn holds_for_dtypes(self, a: DType, b: DType) -> bool {
        let both = |kind: fn(&DType) -> bool| kind(&a) && kind(&b);
        a == b
            || matches!(self, Self::Elsewhere(_))
                && (both(DType::is_int) || both(DType::is_uint) || both(DType::is_bool))
    }
}

fn close(a: &TensorData, b: &TensorData, part: f64) -> bool {
    let largest = a
        .iter::<f64>()
        .filter(|value| value.is_finite())
        .fold(0.0, |largest: f64, value| largest.max(value.abs()));
    a.iter::<f64>()
        .zip(b.iter::<f64>())
        .all(|(a, b)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= largest * part)
}

#[test]
fn close_far_values_are_told_apart() {
    let near = TensorData::from([1.0_f32, 2.0]);
    let nearer = TensorData::from([1.000_001_f32, 2.0]);
    let ints = TensorData::from([1_i32, 2]);
    for same in [Same::Within(1e-5), Same::Elsewhere(1e-5)] {
        assert!(same.holds_for_data(&near, &nearer));
        assert!(!same.holds_for_data(&near, &TensorData::from([1.000_1_f32, 2.0])));
        assert!(!same.holds_for_data(&near, &ints));
        assert!(!same.holds_for_data(&ints, &TensorData::from([1_i32, 3])));
    }
    assert!(!Same::Bits.holds_for_data(&near, &nearer));
}

#[test]
fn widths_of_integers_matter_within_one_backend() {
    let (short, long) = (TensorData::from([1_i32, 2]), TensorData::from([1_i64, 2]));
    assert!(!Same::Bits.holds_for_data(&short, &long));
    assert!(!Same::Within(1e-5).holds_for_data(&short, &long));
    assert!(Same::Elsewhere(1e-5).holds_for_data(&short, &long));
    assert!(!Same::Elsewhere(1e-5).holds_for_data(&short, &TensorData::from([1_i64, 3])));
}
