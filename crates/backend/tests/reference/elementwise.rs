//! Arithmetic, functions, comparisons, masks and casts, value by value.

use crate::array::Array;
use crate::{Input, mask, rows, signed, within};

fn positive<const D: usize>(shape: [usize; D]) -> Input {
    within(0.2, 3.0, shape)
}

/// Away from zero: their reciprocals have slopes that central differences can follow.
fn far<const D: usize>(shape: [usize; D]) -> Input {
    within(0.5, 3.0, shape)
}

/// Eighths, so that there are equal ones to compare.
fn eighths(a: &Array) -> Array {
    a.map(|x| (x * 8.0).round() / 8.0)
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn compared(a: &[Array], holds: impl Fn(f64, f64) -> bool) -> Array {
    eighths(&a[0]).zip(&eighths(&a[1]), |x, y| truth(holds(x, y)))
}

macro_rules! eighths {
    ($x:ident, $input:literal) => {
        ($x.f::<2>($input) * 8.0).round() / 8.0
    };
}

rows! { B, x, a;
    "add" ELEMENTWISE [signed([3, 5]), signed([3, 5])] a[0].zip(&a[1], |x, y| x + y) => x.f::<2>(0) + x.f::<2>(1);
    "add a row" ELEMENTWISE [signed([3, 5]), signed([1, 5])] a[0].zip(&a[1], |x, y| x + y) => x.f::<2>(0) + x.f::<2>(1);
    "add a column to a row" ELEMENTWISE [signed([3, 1]), signed([1, 5])] a[0].zip(&a[1], |x, y| x + y) => x.f::<2>(0) + x.f::<2>(1);
    "add a tensor to itself" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x + x) => x.f::<2>(0) + x.f::<2>(0);
    "sub" ELEMENTWISE [signed([3, 5]), signed([3, 5])] a[0].zip(&a[1], |x, y| x - y) => x.f::<2>(0) - x.f::<2>(1);
    "sub from a column" ELEMENTWISE [signed([3, 1]), signed([3, 5])] a[0].zip(&a[1], |x, y| x - y) => x.f::<2>(0) - x.f::<2>(1);
    "mul" ELEMENTWISE [signed([3, 5]), signed([3, 5])] a[0].zip(&a[1], |x, y| x * y) => x.f::<2>(0) * x.f::<2>(1);
    "mul by channels" ELEMENTWISE [signed([2, 3, 4]), signed([1, 3, 1])] a[0].zip(&a[1], |x, y| x * y) => x.f::<3>(0) * x.f::<3>(1);
    "mul of a transposed view" ELEMENTWISE [signed([5, 3]), signed([3, 5])] a[0].permuted(&[1, 0]).zip(&a[1], |x, y| x * y) => x.f::<2>(0).transpose() * x.f::<2>(1);
    "div" ELEMENTWISE [signed([3, 5]), far([3, 5])] a[0].zip(&a[1], |x, y| x / y) => x.f::<2>(0) / x.f::<2>(1);
    "div by a column" ELEMENTWISE [signed([3, 5]), far([3, 1])] a[0].zip(&a[1], |x, y| x / y) => x.f::<2>(0) / x.f::<2>(1);
    "add a number" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x + 0.75) => x.f::<2>(0) + 0.75;
    "sub a number" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x - 0.75) => x.f::<2>(0) - 0.75;
    "mul by a number" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x * 0.75) => x.f::<2>(0) * 0.75;
    "div by a number" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x / 0.75) => x.f::<2>(0) / 0.75;
    "neg" ELEMENTWISE [signed([3, 5])] a[0].map(|x| -x) => -x.f::<2>(0);
    "abs" ELEMENTWISE [signed([3, 5])] a[0].map(f64::abs) => x.f::<2>(0).abs();
    "recip" ELEMENTWISE [far([3, 5])] a[0].map(f64::recip) => x.f::<2>(0).recip();
    "exp" ELEMENTWISE [signed([3, 5])] a[0].map(f64::exp) => x.f::<2>(0).exp();
    "log" ELEMENTWISE [positive([3, 5])] a[0].map(f64::ln) => x.f::<2>(0).log();
    "log1p" ELEMENTWISE [positive([3, 5])] a[0].map(f64::ln_1p) => x.f::<2>(0).log1p();
    "sqrt" ELEMENTWISE [positive([3, 5])] a[0].map(f64::sqrt) => x.f::<2>(0).sqrt();
    "square" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x * x) => x.f::<2>(0).square();
    "powf" ELEMENTWISE [positive([3, 5]), signed([3, 5])] a[0].zip(&a[1], f64::powf) => x.f::<2>(0).powf(x.f::<2>(1));
    "powf of a number" ELEMENTWISE [positive([3, 5])] a[0].map(|x| x.powf(1.7)) => x.f::<2>(0).powf_scalar(1.7);
    "powi of 3" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x.powi(3)) => x.f::<2>(0).powi_scalar(3);
    "powi of -2" ELEMENTWISE [far([3, 5])] a[0].map(|x| x.powi(-2)) => x.f::<2>(0).powi_scalar(-2);
    "sin" ELEMENTWISE [signed([3, 5])] a[0].map(f64::sin) => x.f::<2>(0).sin();
    "cos" ELEMENTWISE [signed([3, 5])] a[0].map(f64::cos) => x.f::<2>(0).cos();
    "erf" ELEMENTWISE [signed([3, 5])] a[0].map(libm::erf) => x.f::<2>(0).erf();
    "clamp" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x.clamp(-0.5, 0.75)) => x.f::<2>(0).clamp(-0.5, 0.75);
    "clamp_min" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x.max(-0.5)) => x.f::<2>(0).clamp_min(-0.5);
    "clamp_max" ELEMENTWISE [signed([3, 5])] a[0].map(|x| x.min(0.75)) => x.f::<2>(0).clamp_max(0.75);
    "max_pair" ELEMENTWISE [signed([3, 5]), signed([3, 5])] a[0].zip(&a[1], f64::max) => x.f::<2>(0).max_pair(x.f::<2>(1));
    "min_pair" ELEMENTWISE [signed([3, 5]), signed([3, 5])] a[0].zip(&a[1], f64::min) => x.f::<2>(0).min_pair(x.f::<2>(1));
    "mask_fill" ELEMENTWISE [signed([3, 5])] a[0].zip(&mask(&[3, 5]), |x, m| if m == 1.0 { 9.5 } else { x }) => x.f::<2>(0).mask_fill(x.bool(&mask(&[3, 5])), 9.5);
    "mask_where" ELEMENTWISE [signed([3, 5]), signed([3, 5])]
        a[0].zip(&mask(&[3, 5]), |x, m| x * (1.0 - m)).zip(&a[1].zip(&mask(&[3, 5]), |y, m| y * m), |x, y| x + y)
        => x.f::<2>(0).mask_where(x.bool(&mask(&[3, 5])), x.f::<2>(1));
    "equal" ELEMENTWISE [signed([9, 9]), signed([9, 9])] compared(a, |x, y| x == y) => eighths!(x, 0).equal(eighths!(x, 1));
    "not_equal" ELEMENTWISE [signed([9, 9]), signed([9, 9])] compared(a, |x, y| x != y) => eighths!(x, 0).not_equal(eighths!(x, 1));
    "greater" ELEMENTWISE [signed([9, 9]), signed([9, 9])] compared(a, |x, y| x > y) => eighths!(x, 0).greater(eighths!(x, 1));
    "greater_equal" ELEMENTWISE [signed([9, 9]), signed([9, 9])] compared(a, |x, y| x >= y) => eighths!(x, 0).greater_equal(eighths!(x, 1));
    "lower" ELEMENTWISE [signed([9, 9]), signed([9, 9])] compared(a, |x, y| x < y) => eighths!(x, 0).lower(eighths!(x, 1));
    "lower_equal" ELEMENTWISE [signed([9, 9]), signed([9, 9])] compared(a, |x, y| x <= y) => eighths!(x, 0).lower_equal(eighths!(x, 1));
    "equal to a number" ELEMENTWISE [signed([9, 9])] eighths(&a[0]).map(|x| truth(x == 0.5)) => eighths!(x, 0).equal_elem(0.5);
    "greater than a number" ELEMENTWISE [signed([9, 9])] eighths(&a[0]).map(|x| truth(x > 0.5)) => eighths!(x, 0).greater_elem(0.5);
    "lower than or equal to a number" ELEMENTWISE [signed([9, 9])] eighths(&a[0]).map(|x| truth(x <= 0.5)) => eighths!(x, 0).lower_equal_elem(0.5);
    "float to int" ELEMENTWISE [within(-9.0, 9.0, [3, 5])] a[0].map(f64::trunc) => x.f::<2>(0).int();
    "int to float" ELEMENTWISE [] Array::new(&[2, 2], vec![-3.0, 0.0, 7.0, 70_000.0]) => x.int(&[-3, 0, 7, 70_000], [2, 2]).float();
    "bool to float" ELEMENTWISE [] mask(&[3, 5]) => x.bool::<2>(&mask(&[3, 5])).float();
    "bool to int" ELEMENTWISE [] mask(&[3, 5]) => x.bool::<2>(&mask(&[3, 5])).int();
    "int to bool" ELEMENTWISE [] Array::new(&[4], vec![1.0, 0.0, 1.0, 1.0]) => x.int(&[-3, 0, 7, 1], [4]).bool();
    "int arithmetic" ELEMENTWISE [] Array::new(&[4], vec![-5.0, 3.0, 31.0, 7.0]) => x.int(&[-3, 0, 7, 1], [4]) * 4 + x.int(&[7, 3, 3, 3], [4]);
    "int equal to a number" ELEMENTWISE [] Array::new(&[4], vec![0.0, 1.0, 0.0, 1.0]) => x.int(&[3, 0, 7, 0], [4]).equal_elem(0);
}
