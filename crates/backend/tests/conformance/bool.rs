//! `BoolTensorOps`.

use burn_backend::{FloatDType, IntDType, Scalar, Shape, Slice};

use crate::cases;

cases! { T, x;
    data bool_into_data(x.b([3, 4]));
    int_later bool_argwhere(x.b([3, 4]), IntDType::I64);
    int_later bool_argwhere(x.b([2, 3, 4]), IntDType::I32);
    bool_meta bool_empty(Shape::from([3, 4]), &x.device, x.bool_dtype);
    bool bool_zeros(Shape::from([3, 4]), &x.device, x.bool_dtype);
    bool bool_ones(Shape::from([3, 4]), &x.device, x.bool_dtype);
    bool bool_from_data(x.bool_data([3, 4]), &x.device);
    int bool_into_int(x.b([3, 4]), IntDType::I32);
    float bool_into_float(x.b([3, 4]), FloatDType::F64);
    plain bool_device(&x.b([3, 4]));
    bool bool_to_device(x.b([3, 4]), &x.device);
    bool bool_reshape(x.b([3, 4]), Shape::from([2, 6]));
    bool bool_reshape(x.b([3, 0]), Shape::from([0, 6]));
    bool bool_slice(x.b([4, 5]), &[Slice::from(1..3), Slice::new(0, Some(5), 2)]);
    bool bool_slice_assign(x.b([4, 5]), &[Slice::from(1..3), Slice::from(2..5)], x.b([2, 3]));
    bool bool_mask_where(x.b([3, 4]), x.b([3, 4]), x.b([3, 4]));
    bool bool_mask_fill(x.b([3, 4]), x.b([3, 4]), Scalar::from(true));
    bool bool_gather(1, x.b([3, 4]), x.indices(4, [3, 2]));
    bool bool_scatter_or(1, x.b([3, 4]), x.indices(4, [3, 2]), x.b([3, 2]));
    bool bool_select(x.b([3, 4]), 0, x.indices(3, [5]));
    bool bool_select_or(x.b([3, 4]), 0, x.indices(3, [5]), x.b([5, 4]));
    bool bool_repeat_dim(x.b([3, 4]), 1, 3);
    bool bool_cat(vec![x.b([3, 4]), x.b([2, 4]), x.b([0, 4])], 0);
    bool bool_equal(x.b([3, 4]), x.b([3, 4]));
    bool bool_not_equal(x.b([3, 4]), x.b([3, 4]));
    bool bool_equal_elem(x.b([3, 4]), Scalar::from(true));
    bool bool_not_equal_elem(x.b([3, 4]), Scalar::from(true));
    bool bool_not(x.b([3, 4]));
    bool bool_not(x.b([3, 0]));
    bool bool_and(x.b([3, 4]), x.b([3, 4]));
    bool bool_or(x.b([3, 4]), x.b([3, 4]));
    bool bool_xor(x.b([3, 4]), x.b([3, 4]));
    bool bool_transpose(x.b([2, 3, 4]));
    bool bool_swap_dims(x.b([2, 3, 4]), 0, 2);
    bool bool_permute(x.b([2, 3, 4]), &[2, 0, 1]);
    bool bool_flip(x.b([2, 3, 4]), &[0, 2]);
    bool bool_any(x.b([3, 4]));
    bool bool_any(T::bool_zeros(Shape::from([3, 4]), &x.device, x.bool_dtype));
    bool bool_any_dim(x.b([9, 2]), 1);
    bool bool_all(x.b([3, 4]));
    bool bool_all(T::bool_ones(Shape::from([3, 4]), &x.device, x.bool_dtype));
    bool bool_all_dim(x.b([9, 2]), 1);
    bool bool_expand(x.b([1, 4]), Shape::from([3, 4]));
    bool bool_unfold(x.b([3, 8]), 1, 3, 2);
}
