//! `ModuleOps`.

use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions, InterpolateMode,
    InterpolateOptions, UnfoldOptions,
};

use crate::cases;

/// Stride 2, padding 1, no dilation, one group.
fn conv<const N: usize>() -> ConvOptions<N> {
    ConvOptions::new([2; N], [1; N], [1; N], 1)
}

/// Stride 1, no padding, dilation 2, two groups.
fn grouped<const N: usize>() -> ConvOptions<N> {
    ConvOptions::new([1; N], [0; N], [2; N], 2)
}

/// Stride 2, padding 1, padding out 1, no dilation, one group.
fn transposed<const N: usize>() -> ConvTransposeOptions<N> {
    ConvTransposeOptions::new([2; N], [1; N], [1; N], [1; N], 1)
}

fn deform() -> DeformConvOptions<2> {
    DeformConvOptions::new([1, 1], [1, 1], [1, 1], 1, 1)
}

fn causal() -> AttentionModuleOptions {
    AttentionModuleOptions {
        scale: Some(0.4),
        softcap: Some(5.0),
        is_causal: true,
    }
}

cases! { T, x;
    plain has_ctc_loss_backward();
    float embedding(x.f([6, 3]), x.indices(6, [2, 5]));
    float embedding_backward(x.f([6, 3]), x.f([2, 5, 3]), x.indices(6, [2, 5]));
    float linear(x.f([7, 4]), x.f([4, 5]), Some(x.f([5])));
    float linear(x.f([2, 7, 4]), x.f([4, 5]), None);
    float linear_x_backward(x.f([4, 5]), x.f([7, 5]));
    float linear_weight_backward(x.f([7, 4]), x.f([7, 5]));
    float linear_bias_backward(x.f([7, 5]));
    float conv1d(x.f([2, 3, 9]), x.f([4, 3, 3]), Some(x.f([4])), conv());
    float conv1d(x.f([2, 4, 9]), x.f([4, 2, 3]), None, grouped());
    float conv1d_x_backward(x.f([2, 3, 9]), x.f([4, 3, 3]), x.f([2, 4, 5]), conv());
    float conv1d_weight_backward(x.f([2, 3, 9]), x.f([4, 3, 3]), x.f([2, 4, 5]), conv());
    float conv1d_weight_backward(x.f([2, 4, 9]), x.f([4, 2, 3]), x.f([2, 4, 5]), grouped());
    float conv1d_bias_backward(x.f([2, 3, 9]), x.f([4]), x.f([2, 4, 5]));
    float conv2d(x.f([2, 3, 9, 7]), x.f([4, 3, 3, 3]), Some(x.f([4])), conv());
    float conv2d(x.f([2, 4, 9, 7]), x.f([4, 2, 3, 3]), None, grouped());
    float conv2d_x_backward(x.f([2, 3, 9, 7]), x.f([4, 3, 3, 3]), x.f([2, 4, 5, 4]), conv());
    float conv2d_weight_backward(x.f([2, 3, 9, 7]), x.f([4, 3, 3, 3]), x.f([2, 4, 5, 4]), conv());
    float conv2d_weight_backward(x.f([2, 4, 9, 7]), x.f([4, 2, 3, 3]), x.f([2, 4, 5, 3]), grouped());
    float conv2d_bias_backward(x.f([2, 3, 9, 7]), x.f([4]), x.f([2, 4, 5, 4]));
    float deform_conv2d(
        x.f([1, 2, 5, 5]),
        x.within(-0.5, 0.5, [1, 18, 5, 5]),
        x.f([3, 2, 3, 3]),
        Some(x.within(0.0, 1.0, [1, 9, 5, 5])),
        Some(x.f([3])),
        deform(),
    );
    float deform_conv2d(x.f([1, 2, 5, 5]), x.within(-0.5, 0.5, [1, 18, 5, 5]), x.f([3, 2, 3, 3]), None, None, deform());
    deformed deform_conv2d_backward(
        x.f([1, 2, 5, 5]),
        x.within(-0.5, 0.5, [1, 18, 5, 5]),
        x.f([3, 2, 3, 3]),
        Some(x.within(0.0, 1.0, [1, 9, 5, 5])),
        Some(x.f([3])),
        x.f([1, 3, 5, 5]),
        deform(),
    );
    deformed deform_conv2d_backward(
        x.f([1, 2, 5, 5]),
        x.within(-0.5, 0.5, [1, 18, 5, 5]),
        x.f([3, 2, 3, 3]),
        None,
        None,
        x.f([1, 3, 5, 5]),
        deform(),
    );
    float conv3d(x.f([2, 3, 5, 4, 6]), x.f([4, 3, 3, 3, 3]), Some(x.f([4])), conv());
    float conv3d_x_backward(x.f([2, 3, 5, 4, 6]), x.f([4, 3, 3, 3, 3]), x.f([2, 4, 3, 2, 3]), conv());
    float conv3d_weight_backward(x.f([2, 3, 5, 4, 6]), x.f([4, 3, 3, 3, 3]), x.f([2, 4, 3, 2, 3]), conv());
    float conv3d_bias_backward(x.f([2, 3, 5, 4, 6]), x.f([4]), x.f([2, 4, 3, 2, 3]));
    float conv_transpose1d(x.f([2, 3, 5]), x.f([3, 4, 3]), Some(x.f([4])), transposed());
    float conv_transpose1d_x_backward(x.f([3, 4, 3]), x.f([2, 4, 10]), transposed());
    float conv_transpose1d_weight_backward(x.f([2, 3, 5]), x.f([3, 4, 3]), x.f([2, 4, 10]), transposed());
    float conv_transpose1d_bias_backward(x.f([2, 3, 5]), x.f([4]), x.f([2, 4, 10]));
    float conv_transpose2d(x.f([2, 3, 5, 4]), x.f([3, 4, 3, 3]), Some(x.f([4])), transposed());
    float conv_transpose2d_x_backward(x.f([3, 4, 3, 3]), x.f([2, 4, 10, 8]), transposed());
    float conv_transpose2d_weight_backward(x.f([2, 3, 5, 4]), x.f([3, 4, 3, 3]), x.f([2, 4, 10, 8]), transposed());
    float conv_transpose2d_bias_backward(x.f([2, 3, 5, 4]), x.f([4]), x.f([2, 4, 10, 8]));
    float conv_transpose3d(x.f([1, 2, 3, 2, 3]), x.f([2, 3, 3, 3, 3]), Some(x.f([3])), transposed());
    float conv_transpose3d_x_backward(x.f([2, 3, 3, 3, 3]), x.f([1, 3, 6, 4, 6]), transposed());
    float conv_transpose3d_weight_backward(x.f([1, 2, 3, 2, 3]), x.f([2, 3, 3, 3, 3]), x.f([1, 3, 6, 4, 6]), transposed());
    float conv_transpose3d_bias_backward(x.f([1, 2, 3, 2, 3]), x.f([3]), x.f([1, 3, 6, 4, 6]));
    float unfold4d(x.f([2, 3, 6, 5]), [3, 2], UnfoldOptions::new([1, 1], [0, 0], [1, 1]));
    float avg_pool1d(x.f([2, 3, 9]), 3, 2, 1, false, false);
    float avg_pool1d(x.f([2, 3, 8]), 3, 2, 0, true, true);
    float avg_pool1d_backward(x.f([2, 3, 9]), x.f([2, 3, 5]), 3, 2, 1, true, false);
    float avg_pool2d(x.f([2, 3, 9, 7]), [3, 2], [2, 1], [1, 0], false, false);
    float avg_pool2d(x.f([2, 3, 8, 8]), [3, 3], [2, 2], [0, 0], true, true);
    float avg_pool2d_backward(x.f([2, 3, 9, 7]), x.f([2, 3, 5, 6]), [3, 2], [2, 1], [1, 0], true, false);
    float adaptive_avg_pool2d(x.f([2, 3, 9, 7]), [4, 3]);
    float adaptive_avg_pool2d_backward(x.f([2, 3, 9, 7]), x.f([2, 3, 4, 3]));
    float adaptive_avg_pool1d(x.f([2, 3, 9]), 4);
    float adaptive_avg_pool1d_backward(x.f([2, 3, 9]), x.f([2, 3, 4]));
    float max_pool1d(x.f([2, 3, 9]), 3, 2, 1, 1, false);
    pooled1 max_pool1d_with_indices(x.f([2, 3, 9]), 3, 2, 1, 1, false);
    unpooled1 max_pool1d_with_indices_backward(x.f([1, 1, 9]), 3, 2, 1, 1, false, x.f([1, 1, 5]), x.these(&[0, 2, 4, 4, 8], [1, 1, 5]));
    float max_pool2d(x.f([2, 3, 9, 7]), [3, 2], [2, 1], [1, 0], [1, 1], false);
    pooled2 max_pool2d_with_indices(x.f([2, 3, 9, 7]), [3, 2], [2, 1], [1, 0], [1, 1], false);
    unpooled2 max_pool2d_with_indices_backward(
        x.f([1, 1, 4, 4]),
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        false,
        x.f([1, 1, 2, 2]),
        x.these(&[1, 6, 8, 15], [1, 1, 2, 2]),
    );
    float interpolate(x.f([2, 3, 4, 5]), [7, 8], InterpolateOptions::new(InterpolateMode::Nearest));
    float interpolate(x.f([2, 3, 4, 5]), [7, 8], InterpolateOptions::new(InterpolateMode::Bilinear));
    float interpolate(x.f([2, 3, 4, 5]), [7, 8], InterpolateOptions::new(InterpolateMode::Bicubic).with_align_corners(false));
    float interpolate_backward(x.f([2, 3, 4, 5]), x.f([2, 3, 7, 8]), [7, 8], InterpolateOptions::new(InterpolateMode::Nearest));
    float attention(x.f([2, 2, 4, 3]), x.f([2, 2, 5, 3]), x.f([2, 2, 5, 6]), None, None, AttentionModuleOptions::default());
    float attention(x.f([2, 2, 4, 3]), x.f([2, 2, 4, 3]), x.f([2, 2, 4, 6]), None, Some(x.f([2, 2, 4, 4])), causal());
    float attention(
        x.f([2, 2, 4, 3]),
        x.f([2, 2, 5, 3]),
        x.f([2, 2, 5, 6]),
        Some(x.b([2, 2, 4, 5])),
        Some(x.f([2, 2, 4, 5])),
        AttentionModuleOptions::default(),
    );
    float layer_norm(x.f([4, 6]), x.f([6]), Some(x.f([6])), 1e-5);
    float layer_norm(x.f([2, 4, 6]), x.f([6]), None, 1e-3);
    float ctc_loss(
        T::log_softmax(x.f([6, 2, 4]), 2),
        x.these(&[1, 2, 3, 2, 1, 1], [2, 3]),
        x.these(&[6, 5], [2]),
        x.these(&[3, 2], [2]),
        0,
    );
    float ctc_loss_backward(
        T::log_softmax(x.f([6, 2, 4]), 2),
        x.these(&[1, 2, 3, 2, 1, 1], [2, 3]),
        x.these(&[6, 5], [2]),
        x.these(&[3, 2], [2]),
        x.f([2]),
        0,
    );
    two_floats rfft(x.f([3, 8]), 1, None);
    two_floats rfft(x.f([3, 6]), 1, Some(8));
    float irfft(x.f([3, 5]), x.f([3, 5]), 1, None);
}
