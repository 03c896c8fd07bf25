//! Numbers that collectives carry and add up.

use std::fmt;
use std::ops::Range;

use burn_virtual_plan::kernel;
use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// The type of the elements of a vector. The codes travel in headers: they never change their
/// meaning, and 0 stays free for calls that carry no elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum ElementType {
    /// 32-bit float.
    F32 = 1,
    /// 64-bit float.
    F64 = 2,
    /// 16-bit float, 11 significant bits.
    F16 = 3,
    /// 16-bit float, 8 significant bits and the range of [`ElementType::F32`].
    Bf16 = 4,
    /// 32-bit signed integer.
    I32 = 5,
    /// 8-bit unsigned integer.
    U8 = 6,
}

impl ElementType {
    /// The code that travels.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The type of a code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        let all = [
            Self::F32,
            Self::F64,
            Self::F16,
            Self::Bf16,
            Self::I32,
            Self::U8,
        ];
        all.into_iter().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
            Self::U8 => "u8",
        })
    }
}

/// A number that a [`crate::Group`] carries and adds up: `f32`, `f64`, `f16` and `bf16` of the crate
/// `half`, `i32` and `u8`. Sums of the two 16-bit types are kept, and travel, as `f32` until they are
/// complete, and are rounded once. Sums of integers wrap around.
pub trait Element: Pod + summed::Summed {
    /// Which type it is.
    const TYPE: ElementType;
}

/// An element that has a mean.
///
/// ```compile_fail,E0277
/// use burn_virtual_collective::{Algorithm, CollectiveError, Group};
///
/// fn mean(group: &mut Group) -> Result<(), CollectiveError> {
///     group.mean(Algorithm::Ring, &mut [1_i32, 2]) // what is 3 / 2?
/// }
/// ```
pub trait Float: Element + summed::Divided {}

/// How elements are added. Out of reach, so that there are no other elements than those here.
pub(crate) mod summed {
    use super::{Pod, Range};

    /// A number whose sums are kept as `Sum`.
    pub trait Summed: Pod {
        /// Itself, or a wider type.
        type Sum: Addend;

        /// The vector to add up: `values` themselves, or a copy of them in `wide`.
        fn sums<'a>(values: &'a mut [Self], wide: &'a mut Vec<f32>) -> &'a mut [Self::Sum];

        /// Rounds the complete sums of `own` to `values`, if they are kept in `wide`.
        fn settle(values: &mut [Self], wide: &[f32], own: Range<usize>);
    }

    /// A number whose sums can be divided.
    pub trait Divided: Summed {
        /// Divides sums, element by element.
        fn divide(sums: &mut [Self::Sum], by: usize);
    }

    /// A number that sums are kept in.
    pub trait Addend: Pod {
        /// Adds `other` to `acc`, element by element.
        fn add_assign(acc: &mut [Self], other: &[Self]);
    }
}

use summed::{Addend, Divided, Summed};

macro_rules! elements {
    (in themselves: $($type:ty => $name:ident, $add:expr;)*) => {$(
        impl Element for $type {
            const TYPE: ElementType = ElementType::$name;
        }

        impl Summed for $type {
            type Sum = Self;

            fn sums<'a>(values: &'a mut [Self], _: &'a mut Vec<f32>) -> &'a mut [Self] {
                values
            }

            fn settle(_: &mut [Self], _: &[f32], _: Range<usize>) {}
        }

        impl Addend for $type {
            fn add_assign(acc: &mut [Self], other: &[Self]) {
                $add(acc, other);
            }
        }
    )*};
    (in f32: $($type:ty => $name:ident;)*) => {$(
        impl Element for $type {
            const TYPE: ElementType = ElementType::$name;
        }

        impl Summed for $type {
            type Sum = f32;

            fn sums<'a>(values: &'a mut [Self], wide: &'a mut Vec<f32>) -> &'a mut [f32] {
                wide.resize(values.len(), 0.0);
                values.convert_to_f32_slice(wide);
                wide
            }

            fn settle(values: &mut [Self], wide: &[f32], own: Range<usize>) {
                values[own.clone()].convert_from_f32_slice(&wide[own]);
            }
        }
    )*};
}

elements! { in themselves:
    f32 => F32, kernel::add_assign;
    f64 => F64, kernel::add_assign_f64;
    i32 => I32, add_i32;
    u8 => U8, add_u8;
}

elements! { in f32:
    f16 => F16;
    bf16 => Bf16;
}

macro_rules! floats {
    ($($type:ty),*) => {$(
        impl Float for $type {}

        impl Divided for $type {
            fn divide(sums: &mut [Self::Sum], by: usize) {
                // Exact: nobody has so many ranks that they don't fit.
                let by = by as Self::Sum;
                sums.iter_mut().for_each(|sum| *sum /= by);
            }
        }
    )*};
}

floats! { f32, f64, f16, bf16 }

fn add_i32(acc: &mut [i32], other: &[i32]) {
    for (acc, other) in acc.iter_mut().zip(other) {
        *acc = acc.wrapping_add(*other);
    }
}

fn add_u8(acc: &mut [u8], other: &[u8]) {
    for (acc, other) in acc.iter_mut().zip(other) {
        *acc = acc.wrapping_add(*other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_round_trips_for_every_type() {
        let known = (0..=u8::MAX).filter_map(ElementType::from_code);
        let codes: Vec<u8> = known.map(ElementType::code).collect();
        assert_eq!(codes, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn sums_of_integers_wrap_around() {
        let (mut bytes, mut ints) = ([250], [i32::MAX]);
        u8::add_assign(&mut bytes, &[10]);
        i32::add_assign(&mut ints, &[1]);
        assert_eq!((bytes, ints), ([4], [i32::MIN]));
    }

    #[test]
    fn only_own_sums_are_rounded_when_they_are_wide() {
        let (mut values, mut wide) = ([bf16::ONE; 3], vec![]);
        let sums = bf16::sums(&mut values, &mut wide);
        sums.fill(1.0 + 3.0 * 2.0_f32.powi(-9)); // nearest bf16: 1 + 2^-7
        bf16::settle(&mut values, &wide, 1..2);
        let rounded = bf16::from_f32(1.0 + 2.0_f32.powi(-7));
        assert_eq!(values, [bf16::ONE, rounded, bf16::ONE]);
    }
}
