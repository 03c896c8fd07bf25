//! Bare operations on tiny tensors, where what the decorator adds is largest.
//!
//! Bar: on 8x8 tensors, with no meter listening, at most 10 % slower than the inner backend. With a
//! meter, and for whole steps of an MLP of 8-wide layers, for information.

mod support;

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::backend::BackendTypes;
use burn::tensor::ops::{ActivationOps, FloatTensorOps};
use burn::tensor::{TensorData, backend::Backend};
use burn_flex::{Flex, FlexDevice};
use burn_virtual::backend::{Meter, VirtualBackend};
use criterion::Throughput;
use support::paired;

type Virtual = VirtualBackend<Flex>;
type Primitive<B> = <B as BackendTypes>::FloatTensorPrimitive;

const SIDE: usize = 8;
/// Calls of one sample, which then takes about a millisecond.
const CALLS: usize = 5_000;
const PAIRS: usize = 100;
const AT_MOST: f64 = 1.10;

fn main() {
    let mut criterion = support::criterion(Duration::from_secs(1));
    let operands = Operands {
        flex: (tensor::<Flex>(), tensor::<Flex>()),
        decorated: (tensor::<Virtual>(), tensor::<Virtual>()),
    };

    /// One operation on both backends: the same expression, once for each. The inputs are cloned
    /// for every call, on both sides.
    macro_rules! op {
        ($name:literal, $backend:ident => |$lhs:ident, $rhs:ident| $call:expr) => {{
            let flex = {
                type $backend = Flex;
                let ($lhs, $rhs) = &operands.flex;
                move || (0..CALLS).for_each(|_| drop(black_box($call)))
            };
            let decorated = {
                type $backend = Virtual;
                let ($lhs, $rhs) = &operands.decorated;
                move || (0..CALLS).for_each(|_| drop(black_box($call)))
            };
            compare(&mut criterion, $name, flex, decorated);
        }};
    }
    op!("add", B => |lhs, rhs| B::float_add(lhs.clone(), rhs.clone()));
    op!("mul", B => |lhs, rhs| B::float_mul(lhs.clone(), rhs.clone()));
    op!("matmul", B => |lhs, rhs| B::float_matmul(lhs.clone(), rhs.clone()));
    op!("sum", B => |lhs, _rhs| B::float_sum(lhs.clone()));
    op!("relu", B => |lhs, _rhs| <B as ActivationOps<B>>::relu(lhs.clone()));
    op!("exp", B => |lhs, _rhs| B::float_exp(lhs.clone()));

    #[cfg(not(feature = "overlap"))]
    layers::run(&mut criterion);
    criterion.final_summary();
}

/// Two operands per backend, with equal values.
struct Operands {
    flex: (Primitive<Flex>, Primitive<Flex>),
    decorated: (Primitive<Virtual>, Primitive<Virtual>),
}

fn tensor<B: Backend<Device = FlexDevice>>() -> Primitive<B> {
    let values: Vec<f32> = (0..SIDE * SIDE).map(|index| index as f32 / 64.0).collect();
    B::float_from_data(TensorData::new(values, [SIDE, SIDE]), &FlexDevice)
}

fn compare(
    criterion: &mut criterion::Criterion,
    name: &str,
    mut flex: impl FnMut(),
    mut decorated: impl FnMut(),
) {
    if support::measures() {
        let title = format!("{name} 8x8, {CALLS} calls");
        paired(
            &title,
            PAIRS,
            Some(AT_MOST),
            ("flex", &mut flex),
            ("virtual", &mut decorated),
        );
        let mut metered = || {
            let _listening = Meter::new().listen();
            decorated();
        };
        paired(
            &title,
            PAIRS,
            None,
            ("flex", &mut flex),
            ("virtual, metered", &mut metered),
        );
    }
    let mut group = criterion.benchmark_group(format!("ops/{name}"));
    group.throughput(Throughput::Elements(CALLS as u64));
    group.bench_function("flex", |bencher| bencher.iter(&mut flex));
    group.bench_function("virtual", |bencher| bencher.iter(&mut decorated));
    group.finish();
}

/// Whole training steps of an MLP 8-8-8.
#[cfg(not(feature = "overlap"))]
mod layers {
    use burn::backend::Autodiff;
    use burn::nn::{Linear, LinearConfig};
    use burn::optim::{GradientsParams, Optimizer, SgdConfig};
    use burn::tensor::backend::AutodiffBackend;
    use burn::tensor::{Tensor, activation::relu};
    use burn_flex::{Flex, FlexDevice};
    use criterion::Criterion;

    use super::{SIDE, Virtual, paired, support};

    /// Steps of one sample.
    const STEPS: usize = 50;
    const PAIRS: usize = 100;

    pub(crate) fn run(criterion: &mut Criterion) {
        let mut flex = steps::<Autodiff<Flex>>();
        let mut decorated = steps::<Autodiff<Virtual>>();
        if support::measures() {
            paired(
                &format!("step, MLP 8-8-8, batch 8, {STEPS} steps"),
                PAIRS,
                None,
                ("flex", &mut flex),
                ("virtual", &mut decorated),
            );
        }
        let mut group = criterion.benchmark_group("ops/mlp step");
        group.throughput(criterion::Throughput::Elements(STEPS as u64));
        group.bench_function("flex", |bencher| bencher.iter(&mut flex));
        group.bench_function("virtual", |bencher| bencher.iter(&mut decorated));
        group.finish();
    }

    fn steps<B: AutodiffBackend<Device = FlexDevice>>() -> impl FnMut() {
        B::seed(&FlexDevice, 42);
        let layer = || LinearConfig::new(SIDE, SIDE).init::<B>(&FlexDevice);
        let mut trained: Option<[Linear<B>; 2]> = Some([layer(), layer()]);
        let mut optim = SgdConfig::new().init();
        let inputs = Tensor::<B, 2>::ones([SIDE, SIDE], &FlexDevice);
        move || {
            for _ in 0..STEPS {
                trained = trained.take().map(|layers| {
                    let [first, second] = &layers;
                    let hidden = relu(first.forward(inputs.clone()));
                    let loss = second.forward(hidden).powi_scalar(2).mean();
                    let gradients = GradientsParams::from_grads(loss.backward(), &layers);
                    optim.step(0.01, layers, gradients)
                });
            }
        }
    }
}
