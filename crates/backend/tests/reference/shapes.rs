//! Views and copies: slices, concatenations, permutations, repetitions.

use burn_tensor::{Tensor, s};

use crate::array::{Array, product};
use crate::{rows, signed};

rows! { B, x, a;
    "slice" ELEMENTWISE [signed([4, 5])] Array::each(&[2, 3], |i| a[0].at(&[i[0] + 1, i[1] + 2])) => x.f::<2>(0).slice([1..3, 2..5]);
    "slice with a step" ELEMENTWISE [signed([4, 5])] Array::each(&[2, 3], |i| a[0].at(&[i[0] + 1, i[1] * 2])) => x.f::<2>(0).slice(s![1..3, 0..5;2]);
    "slice_assign" ELEMENTWISE [signed([4, 5]), signed([2, 3])]
        Array::each(&[4, 5], |i| if (1..3).contains(&i[0]) && i[1] >= 2 { a[1].at(&[i[0] - 1, i[1] - 2]) } else { a[0].at(i) })
        => x.f::<2>(0).slice_assign([1..3, 2..5], x.f::<2>(1));
    "cat of rows" ELEMENTWISE [signed([3, 4]), signed([2, 4])]
        Array::each(&[5, 4], |i| if i[0] < 3 { a[0].at(i) } else { a[1].at(&[i[0] - 3, i[1]]) })
        => Tensor::cat(vec![x.f::<2>(0), x.f::<2>(1)], 0);
    "cat of columns" ELEMENTWISE [signed([3, 4]), signed([3, 1])]
        Array::each(&[3, 5], |i| if i[1] < 4 { a[0].at(i) } else { a[1].at(&[i[0], 0]) })
        => Tensor::cat(vec![x.f::<2>(0), x.f::<2>(1)], 1);
    "stack" ELEMENTWISE [signed([3, 4]), signed([3, 4])]
        Array::each(&[3, 2, 4], |i| a[i[1]].at(&[i[0], i[2]]))
        => Tensor::stack::<3>(vec![x.f::<2>(0), x.f::<2>(1)], 1);
    "reshape" ELEMENTWISE [signed([3, 4])] a[0].reshaped(&[2, 6]) => x.f::<2>(0).reshape([2, 6]);
    "reshape of a transposed view" ELEMENTWISE [signed([3, 4])] a[0].permuted(&[1, 0]).reshaped(&[2, 6]) => x.f::<2>(0).transpose().reshape([2, 6]);
    "permute" ELEMENTWISE [signed([2, 3, 4])] a[0].permuted(&[2, 0, 1]) => x.f::<3>(0).permute([2, 0, 1]);
    "swap_dims" ELEMENTWISE [signed([2, 3, 4])] a[0].permuted(&[2, 1, 0]) => x.f::<3>(0).swap_dims(0, 2);
    "matmul of transposed views" PRODUCTS [signed([7, 5]), signed([6, 7])]
        product(&a[0].permuted(&[1, 0]), &a[1].permuted(&[1, 0]))
        => x.f::<2>(0).transpose().matmul(x.f::<2>(1).transpose());
    "matmul of a permuted view" PRODUCTS [signed([3, 2, 5]), signed([2, 5, 4])]
        product(&a[0].permuted(&[1, 0, 2]), &a[1])
        => x.f::<3>(0).permute([1, 0, 2]).matmul(x.f::<3>(1));
    "matmul of a slice" PRODUCTS [signed([6, 9]), signed([5, 4])]
        product(&Array::each(&[3, 5], |i| a[0].at(&[i[0] + 2, i[1] + 3])), &a[1])
        => x.f::<2>(0).slice([2..5, 3..8]).matmul(x.f::<2>(1));
    "repeat_dim" ELEMENTWISE [signed([3, 4])] Array::each(&[3, 12], |i| a[0].at(&[i[0], i[1] % 4])) => x.f::<2>(0).repeat_dim(1, 3);
    "repeat_dim of one row" ELEMENTWISE [signed([1, 4])] Array::each(&[3, 4], |i| a[0].at(&[0, i[1]])) => x.f::<2>(0).repeat_dim(0, 3);
    "expand" ELEMENTWISE [signed([1, 4])] Array::each(&[3, 4], |i| a[0].at(i)) => x.f::<2>(0).expand([3, 4]);
    "flip" ELEMENTWISE [signed([2, 3, 4])] Array::each(&[2, 3, 4], |i| a[0].at(&[1 - i[0], i[1], 3 - i[2]])) => x.f::<3>(0).flip([0, 2]);
    "unsqueeze" ELEMENTWISE [signed([3, 4])] a[0].reshaped(&[3, 1, 4]) => x.f::<2>(0).unsqueeze_dim::<3>(1);
    "triu" ELEMENTWISE [signed([4, 4])] Array::each(&[4, 4], |i| if i[1] >= i[0] { a[0].at(i) } else { 0.0 }) => x.f::<2>(0).triu(0);
}
