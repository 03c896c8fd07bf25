//! Products of matrices, and the linear layer.

use burn_tensor::module::linear;

use crate::array::{Array, product};
use crate::{rows, signed};

fn layer(a: &[Array]) -> Array {
    let rank = a[0].shape.len();
    let mut weight = vec![1; rank];
    weight[rank - 2..].copy_from_slice(&a[1].shape);
    let mut bias = vec![1; rank];
    let out = product(&a[0], &a[1].reshaped(&weight));
    bias[rank - 1] = out.shape[rank - 1];
    match a.get(2) {
        Some(b) => out.zip(&b.reshaped(&bias), |x, b| x + b),
        None => out,
    }
}

rows! { B, x, a;
    "matmul 4x4 4x4" PRODUCTS [signed([4, 4]), signed([4, 4])] product(&a[0], &a[1]) => x.f::<2>(0).matmul(x.f::<2>(1));
    "matmul 7x9 9x5" PRODUCTS [signed([7, 9]), signed([9, 5])] product(&a[0], &a[1]) => x.f::<2>(0).matmul(x.f::<2>(1));
    "matmul 3x17 17x6" PRODUCTS [signed([3, 17]), signed([17, 6])] product(&a[0], &a[1]) => x.f::<2>(0).matmul(x.f::<2>(1));
    "matmul 8x18 18x8" PRODUCTS [signed([8, 18]), signed([18, 8])] product(&a[0], &a[1]) => x.f::<2>(0).matmul(x.f::<2>(1));
    "matmul 5x33 33x1" PRODUCTS [signed([5, 33]), signed([33, 1])] product(&a[0], &a[1]) => x.f::<2>(0).matmul(x.f::<2>(1));
    "matmul 1x33 33x5" PRODUCTS [signed([1, 33]), signed([33, 5])] product(&a[0], &a[1]) => x.f::<2>(0).matmul(x.f::<2>(1));
    "matmul 1x19 19x1" PRODUCTS [signed([1, 19]), signed([19, 1])] product(&a[0], &a[1]) => x.f::<2>(0).matmul(x.f::<2>(1));
    "matmul 6x1 1x7" PRODUCTS [signed([6, 1]), signed([1, 7])] product(&a[0], &a[1]) => x.f::<2>(0).matmul(x.f::<2>(1));
    "matmul of two batches" PRODUCTS [signed([2, 3, 5]), signed([2, 5, 4])] product(&a[0], &a[1]) => x.f::<3>(0).matmul(x.f::<3>(1));
    "matmul of a batch by one matrix" PRODUCTS [signed([3, 2, 5]), signed([1, 5, 4])] product(&a[0], &a[1]) => x.f::<3>(0).matmul(x.f::<3>(1));
    "matmul of one matrix by a batch" PRODUCTS [signed([1, 2, 5]), signed([3, 5, 4])] product(&a[0], &a[1]) => x.f::<3>(0).matmul(x.f::<3>(1));
    "matmul of heads" PRODUCTS [signed([2, 2, 3, 5]), signed([2, 2, 5, 3])] product(&a[0], &a[1]) => x.f::<4>(0).matmul(x.f::<4>(1));
    "linear" PRODUCTS [signed([7, 9]), signed([9, 5]), signed([5])] layer(a) => linear(x.f::<2>(0), x.f(1), Some(x.f(2)));
    "linear of one output" PRODUCTS [signed([7, 9]), signed([9, 1]), signed([1])] layer(a) => linear(x.f::<2>(0), x.f(1), Some(x.f(2)));
    "linear of one row" PRODUCTS [signed([1, 9]), signed([9, 5]), signed([5])] layer(a) => linear(x.f::<2>(0), x.f(1), Some(x.f(2)));
    "linear without bias" PRODUCTS [signed([7, 9]), signed([9, 5])] layer(a) => linear(x.f::<2>(0), x.f(1), None);
    "linear of sequences" PRODUCTS [signed([2, 3, 9]), signed([9, 5]), signed([5])] layer(a) => linear(x.f::<3>(0), x.f(1), Some(x.f(2)));
    "linear of sequences without bias" PRODUCTS [signed([2, 3, 9]), signed([9, 5])] layer(a) => linear(x.f::<3>(0), x.f(1), None);
}
