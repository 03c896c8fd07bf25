//! What layers and losses are made of: embeddings, norms, attention, cross entropy.

use burn_tensor::activation::{log_softmax, softmax};
use burn_tensor::backend::{AutodiffBackend, Backend};
use burn_tensor::module::{attention, embedding};
use burn_tensor::ops::AttentionModuleOptions;
use burn_tensor::{Tensor, TensorPrimitive};

use crate::array::{self, Array, mean, product, spread};
use crate::{Leaves, mask, rows, signed};

/// Of five, with repetitions.
const IDS: [i64; 6] = [4, 0, 4, 1, 2, 4];

const EPSILON: f64 = 1e-5;

fn normalised(line: &[f64]) -> Vec<f64> {
    let (mean, spread) = (mean(line), spread(line));
    let scale = (spread + EPSILON).sqrt();
    line.iter().map(|x| (x - mean) / scale).collect()
}

fn naive_layer_norm(a: &[Array]) -> Array {
    let size = a[1].values.len();
    let mut row = vec![1; a[0].shape.len()];
    row[a[0].shape.len() - 1] = size;
    let x = a[0].lines(a[0].shape.len() - 1, normalised);
    let x = x.zip(&a[1].reshaped(&row), |x, gamma| x * gamma);
    match a.get(2) {
        Some(beta) => x.zip(&beta.reshaped(&row), |x, beta| x + beta),
        None => x,
    }
}

/// As burn-nn's `LayerNorm` calls it.
fn layer_norm<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    gamma: Tensor<B, 1>,
    beta: Option<Tensor<B, 1>>,
) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(B::layer_norm(
        x.into_primitive().tensor(),
        gamma.into_primitive().tensor(),
        beta.map(|beta| beta.into_primitive().tensor()),
        EPSILON,
    )))
}

/// Images, channels in the second dimension, normalised over everything else.
fn naive_batch_norm(a: &[Array]) -> Array {
    let [n, c, h, w] = a[0].shape[..] else {
        panic!("no images")
    };
    let by_channel = a[0].permuted(&[1, 0, 2, 3]).reshaped(&[c, n * h * w]);
    let x = by_channel.lines(1, normalised);
    let x = x.zip(&a[1].reshaped(&[c, 1]), |x, gamma| x * gamma);
    let x = x.zip(&a[2].reshaped(&[c, 1]), |x, beta| x + beta);
    x.reshaped(&[c, n, h, w]).permuted(&[1, 0, 2, 3])
}

/// The steps of burn-nn's `BatchNorm` in training, without the running statistics.
fn batch_norm<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    gamma: Tensor<B, 1>,
    beta: Tensor<B, 1>,
) -> Tensor<B, D> {
    let dims = x.dims();
    let channels = dims[1];
    let each = dims.iter().product::<usize>() / channels;
    let mut shape = [1; D];
    shape[1] = channels;
    let mean_of = |x: Tensor<B, D>| {
        let lines = x.swap_dims(0, 1).reshape([channels, each]);
        lines.mean_dim(1).reshape(shape)
    };
    let mean = mean_of(x.clone());
    let var = mean_of(x.clone().sub(mean.clone()).square());
    let std = var.add_scalar(EPSILON).sqrt();
    x.sub(mean)
        .div(std)
        .mul(gamma.reshape(shape))
        .add(beta.reshape(shape))
}

/// Queries, keys and values; then maybe what is added to the scores. Masked places are not looked at.
fn naive_attention(a: &[Array], masked: Option<&Array>, scale: f64) -> Array {
    let mut scores = product(&a[0], &a[1].permuted(&[0, 1, 3, 2])).map(|x| x * scale);
    if let Some(bias) = a.get(3) {
        scores = scores.zip(bias, |x, bias| x + bias);
    }
    if let Some(masked) = masked {
        scores = scores.zip(masked, |x, m| if m == 0.0 { x } else { f64::NEG_INFINITY });
    }
    product(&scores.lines(3, array::softmax), &a[2])
}

/// The future of each place.
fn future(shape: &[usize]) -> Array {
    Array::each(shape, |i| f64::from(u8::from(i[3] > i[2])))
}

/// Irregular, but each place looks at the first one.
fn scattered(shape: &[usize]) -> Array {
    let first = Array::each(shape, |i| f64::from(u8::from(i[3] > 0)));
    mask(shape).zip(&first, |m, later| m * later)
}

fn heads<B: AutodiffBackend>(x: &Leaves<B>) -> [Tensor<B, 4>; 3] {
    [x.f(0), x.f(1), x.f(2)]
}

fn by_hand<B: AutodiffBackend>([q, k, v]: [Tensor<B, 4>; 3], scale: f64) -> Tensor<B, 4> {
    let scores = q.matmul(k.transpose()) * scale;
    softmax(scores, 3).matmul(v)
}

fn naive_cross_entropy(logits: &Array) -> Array {
    let logs = logits.lines(1, array::log_softmax);
    let rows = IDS.iter().enumerate();
    let picked: Vec<f64> = rows
        .map(|(row, id)| logs.at(&[row, *id as usize]))
        .collect();
    Array::new(&[1], vec![-mean(&picked)])
}

rows! { B, x, a;
    "embedding" ELEMENTWISE [signed([5, 3])]
        Array::each(&[2, 3, 3], |i| a[0].at(&[IDS[3 * i[0] + i[1]] as usize, i[2]]))
        => embedding(x.f(0), x.int(&IDS, [2, 3]));
    "layer_norm" SUMS [signed([3, 9]), signed([9]), signed([9])] naive_layer_norm(a) => layer_norm(x.f::<2>(0), x.f(1), Some(x.f(2)));
    "layer_norm of sequences" SUMS [signed([2, 3, 8]), signed([8]), signed([8])] naive_layer_norm(a) => layer_norm(x.f::<3>(0), x.f(1), Some(x.f(2)));
    "layer_norm without beta" SUMS [signed([3, 9]), signed([9])] naive_layer_norm(a) => layer_norm(x.f::<2>(0), x.f(1), None);
    "batch norm" SUMS [signed([3, 2, 3, 4]), signed([2]), signed([2])] naive_batch_norm(a) => batch_norm(x.f::<4>(0), x.f(1), x.f(2));
    "attention" PRODUCTS [signed([2, 2, 3, 4]), signed([2, 2, 5, 4]), signed([2, 2, 5, 3])]
        naive_attention(a, None, 0.5)
        => { let [q, k, v] = heads(x); attention(q, k, v, None, None, AttentionModuleOptions::default()) };
    "attention to the past" PRODUCTS [signed([1, 2, 4, 4]), signed([1, 2, 4, 4]), signed([1, 2, 4, 3])]
        naive_attention(a, Some(&future(&[1, 2, 4, 4])), 0.5)
        => { let [q, k, v] = heads(x); attention(q, k, v, None, None, AttentionModuleOptions { is_causal: true, ..Default::default() }) };
    "attention with a mask and a bias" PRODUCTS [signed([1, 2, 3, 4]), signed([1, 2, 5, 4]), signed([1, 2, 5, 3]), signed([1, 2, 3, 5])]
        naive_attention(a, Some(&scattered(&[1, 2, 3, 5])), 0.4)
        => {
            let [q, k, v] = heads(x);
            let options = AttentionModuleOptions { scale: Some(0.4), ..Default::default() };
            attention(q, k, v, Some(x.bool(&scattered(&[1, 2, 3, 5]))), Some(x.f(3)), options)
        };
    "attention by hand" PRODUCTS [signed([2, 2, 3, 4]), signed([2, 2, 5, 4]), signed([2, 2, 5, 3])] naive_attention(a, None, 0.5) => by_hand(heads(x), 0.5);
    "cross entropy" SUMS [signed([6, 5])] naive_cross_entropy(&a[0]) => log_softmax(x.f::<2>(0), 1).gather(1, x.int(&IDS, [6, 1])).mean().neg();
}
