//! `QTensorOps`.

use burn_backend::quantization::QuantizationParametersPrimitive;
use burn_backend::{FloatDType, IntDType, Scalar, Shape, Slice, TensorPrimitive};

use crate::cases;
use crate::common::read_quantized;

cases! { T, x;
    data q_into_data(x.q([4, 4]));
    plain q_is_require_grad(&x.q([4, 4]));
    quantized quantize(
        x.f([4, 4]),
        &x.scheme(),
        QuantizationParametersPrimitive { scales: x.within(0.01, 0.02, [1]) },
    );
    quantized quantize_dynamic(x.f([4, 4]), &x.scheme());
    quantized q_from_data(read_quantized::<T>(x.q([4, 4])), &x.device);
    float dequantize(x.q([4, 4]), FloatDType::F32);
    plain q_device(&x.q([4, 4]));
    quantized q_to_device(x.q([4, 4]), &x.device);
    quantized q_reshape(x.q([4, 4]), Shape::from([2, 8]));
    quantized q_detach(x.q([4, 4]));
    quantized q_set_require_grad(x.q([4, 4]), false);
    quantized q_expand(x.q([1, 4]), Shape::from([3, 4]));
    quantized q_transpose(x.q([2, 3, 4]));
    quantized q_swap_dims(x.q([2, 3, 4]), 0, 2);
    quantized q_permute(x.q([2, 3, 4]), &[2, 0, 1]);
    quantized q_flip(x.q([2, 3, 4]), &[0, 2]);
    quantized q_select(x.q([3, 4]), 0, x.indices(3, [4]));
    quantized q_slice(x.q([4, 5]), &[Slice::from(1..3), Slice::from(1..5)]);
    quantized q_gather(1, x.q([4, 4]), x.indices(4, [4, 2]));
    quantized q_repeat_dim(x.q([4, 4]), 1, 3);
    either q_add(x.q([4, 4]), x.q([4, 4]));
    either q_add_scalar(x.q([4, 4]), Scalar::from(0.3));
    either q_clamp_min(x.q([4, 4]), Scalar::from(-0.5));
    either q_clamp_max(x.q([4, 4]), Scalar::from(0.5));
    either q_clamp(x.q([4, 4]), Scalar::from(-0.5), Scalar::from(0.6));
    either q_sub(x.q([4, 4]), x.q([4, 4]));
    either q_sub_scalar(x.q([4, 4]), Scalar::from(0.3));
    either q_mul(x.q([4, 4]), x.q([4, 4]));
    either q_mul_scalar(x.q([4, 4]), Scalar::from(0.3));
    either q_div(x.q([4, 4]), x.quantized(x.within(1.0, 2.0, [4, 4])));
    either q_div_scalar(x.q([4, 4]), Scalar::from(0.3));
    either q_matmul(TensorPrimitive::QFloat(x.q([4, 8])), TensorPrimitive::QFloat(x.q([8, 4])));
    either q_matmul(TensorPrimitive::Float(x.f([4, 8])), TensorPrimitive::QFloat(x.q([8, 4])));
    either q_neg(x.q([4, 4]));
    either q_recip(x.quantized(x.within(1.0, 2.0, [4, 4])));
    either q_sum(x.q([4, 4]));
    either q_sum_dim(x.q([4, 4]), 1);
    either q_prod(x.q([4, 4]));
    either q_prod_dim(x.q([4, 4]), 1);
    either q_mean(x.q([4, 4]));
    either q_mean_dim(x.q([4, 4]), 1);
    either q_cumsum(x.q([4, 4]), 1);
    either q_cumprod(x.q([4, 4]), 1);
    either q_cummin(x.q([4, 4]), 1);
    either q_cummax(x.q([4, 4]), 1);
    either q_exp(x.q([4, 4]));
    either q_log(x.quantized(x.within(1.0, 2.0, [4, 4])));
    either q_log1p(x.quantized(x.within(1.0, 2.0, [4, 4])));
    either q_powf(x.quantized(x.within(1.0, 2.0, [4, 4])), x.q([4, 4]));
    either q_powi(x.q([4, 4]), x.positive([4, 4]));
    either q_powi_scalar(x.q([4, 4]), Scalar::from(3));
    either q_powf_scalar(x.quantized(x.within(1.0, 2.0, [4, 4])), Scalar::from(1.7));
    either q_sqrt(x.quantized(x.within(1.0, 2.0, [4, 4])));
    quantized q_abs(x.q([4, 4]));
    either q_cos(x.q([4, 4]));
    either q_sin(x.q([4, 4]));
    either q_tan(x.q([4, 4]));
    either q_cosh(x.q([4, 4]));
    either q_sinh(x.q([4, 4]));
    either q_tanh(x.q([4, 4]));
    either q_erf(x.q([4, 4]));
    quantized q_cat(vec![x.q([4, 4]), x.q([2, 4])], 0);
    int q_argmax(x.q([4, 4]), 1, IntDType::I64);
    int q_argtopk(x.q([4, 4]), 1, 2, IntDType::I64);
    quantized q_topk(x.q([4, 4]), 1, 2);
    int q_argmin(x.q([4, 4]), 1, IntDType::I64);
    quantized q_max(x.q([4, 4]));
    quantized q_max_dim(x.q([4, 4]), 1);
    quantized_int q_max_dim_with_indices(x.q([4, 4]), 1, IntDType::I64);
    quantized q_min(x.q([4, 4]));
    quantized q_min_dim(x.q([4, 4]), 1);
    quantized_int q_min_dim_with_indices(x.q([4, 4]), 1, IntDType::I64);
    quantized q_max_abs(x.q([4, 4]));
    quantized q_max_abs_dim(x.q([4, 4]), 1);
    bool q_any(x.q([4, 4]), x.bool_dtype);
    bool q_any_dim(x.q([4, 4]), 1, x.bool_dtype);
    bool q_all(x.q([4, 4]), x.bool_dtype);
    bool q_all_dim(x.q([4, 4]), 1, x.bool_dtype);
    quantized q_sort(x.q([4, 4]), 1, true);
    quantized_int q_sort_with_indices(x.q([4, 4]), 1, false, IntDType::I64);
    int q_argsort(x.q([4, 4]), 0, false, IntDType::I64);
}
