//! Random streams: a function of the scope and the draw number, and of nothing else.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use burn_backend::{Backend, Distribution, FloatDType, IntDType, Shape, TensorData, bf16, f16};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_virtual_backend::{Fault, Scope, VirtualBackend, enter, take_fault};

use common::{read_float, read_int};

type V = VirtualBackend<Flex>;
type N = VirtualBackend<NdArray>;

const NODE: Scope = Scope::Node {
    seed: 42,
    step: 7,
    node: 3,
};
const FLOATS: [FloatDType; 4] = [
    FloatDType::F64,
    FloatDType::F32,
    FloatDType::F16,
    FloatDType::BF16,
];
const INTS: [IntDType; 8] = [
    IntDType::I64,
    IntDType::I32,
    IntDType::I16,
    IntDType::I8,
    IntDType::U64,
    IntDType::U32,
    IntDType::U16,
    IntDType::U8,
];

fn draw<B: Backend>(
    shape: impl Into<Shape>,
    distribution: Distribution,
    dtype: FloatDType,
) -> TensorData {
    let tensor = B::float_random(shape.into(), distribution, &B::Device::default(), dtype);
    read_float::<B>(tensor)
}

fn draw_int<B: Backend>(
    shape: impl Into<Shape>,
    distribution: Distribution,
    dtype: IntDType,
) -> TensorData {
    let tensor = B::int_random(shape.into(), distribution, &B::Device::default(), dtype);
    read_int::<B>(tensor)
}

fn f32s(shape: impl Into<Shape>, distribution: Distribution) -> Vec<f32> {
    draw::<V>(shape, distribution, FloatDType::F32)
        .to_vec()
        .unwrap()
}

fn uniform() -> Vec<f32> {
    f32s([8], Distribution::Default)
}

fn mask() -> Vec<f32> {
    f32s([64], Distribution::Bernoulli(0.5))
}

fn in_scope<R>(scope: Scope, task: impl FnOnce() -> R) -> R {
    let _scope = enter(scope);
    task()
}

fn node(seed: u64, step: u64, node: u64) -> Scope {
    Scope::Node { seed, step, node }
}

#[test]
fn draws_of_one_scope_repeat() {
    let two = || (uniform(), uniform());
    let (first, second) = in_scope(NODE, two);
    assert_ne!(first, second);
    assert_eq!(in_scope(NODE, two), (first, second));
}

#[test]
fn draw_count_follows_operations_not_elements() {
    let second = |shape: usize| {
        in_scope(NODE, || {
            f32s([shape], Distribution::Default);
            uniform()
        })
    };
    assert_eq!(second(1), second(1000));
    let after_int = in_scope(NODE, || {
        draw_int::<V>([3], Distribution::Default, IntDType::I32);
        uniform()
    });
    assert_eq!(after_int, second(1));
}

#[test]
fn every_field_of_the_scope_changes_the_draw() {
    let draws = [
        node(42, 7, 3),
        node(43, 7, 3),
        node(42, 8, 3),
        node(42, 7, 4),
        node(7, 42, 3),
        node(42, 3, 7),
        Scope::Init {
            seed: 42,
            parameter: 0,
        },
        Scope::Seeded { seed: 42 },
        node(42, 0, 0),
    ]
    .map(|scope| in_scope(scope, uniform));
    for (index, one) in draws.iter().enumerate() {
        for other in &draws[index + 1..] {
            assert_ne!(one, other);
        }
    }
}

#[test]
fn masks_of_any_two_nodes_differ() {
    let masks = [0, 1, 2, 3].map(|id| in_scope(node(42, 0, id), mask));
    for (id, one) in masks.iter().enumerate() {
        assert!(one.iter().all(|value| *value == 0.0 || *value == 1.0));
        for other in &masks[id + 1..] {
            assert_ne!(one, other);
        }
    }
}

#[test]
fn masks_do_not_depend_on_order_or_thread() {
    let forward = [0, 1, 2, 3].map(|id| in_scope(node(42, 5, id), mask));
    let mut backward = [3, 2, 1, 0].map(|id| in_scope(node(42, 5, id), mask));
    backward.reverse();
    assert_eq!(forward, backward);
    let threads = [0, 1, 2, 3].map(|id| {
        std::thread::spawn(move || in_scope(node(42, 5, id), mask))
            .join()
            .unwrap()
    });
    assert_eq!(forward, threads);
}

// The values below were computed from the description of the generator (ChaCha8 under the key
// (seed, step, node, draw), kind of scope as stream) by a program of its own, not by this crate.
#[test]
fn generator_gives_the_values_of_its_description() {
    let _scope = enter(NODE);
    assert_eq!(
        f32s([4], Distribution::Uniform(-1.0, 1.0)),
        [0.30253246, -0.5409, -0.3333135, 0.57040125]
    );
    assert_eq!(
        f32s([4], Distribution::Default),
        [0.7716583, 0.99874234, 0.6349535, 0.33082616]
    );
    assert_eq!(
        f32s([12], Distribution::Bernoulli(0.5)),
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    );
    assert_eq!(
        f32s([4], Distribution::Normal(0.0, 1.0)),
        [1.353392, -0.68893206, -0.48626527, 1.0934159]
    );
    assert_eq!(
        draw_int::<V>([4], Distribution::Uniform(-100.0, 100.0), IntDType::I32),
        TensorData::from([8_i32, -41, 12, -25])
    );
    assert_eq!(
        draw_int::<V>([4], Distribution::Default, IntDType::I8),
        TensorData::from([-96_i8, -37, -12, -113])
    );
}

#[test]
fn seeded_and_init_scopes_give_the_values_of_their_description() {
    let seeded = in_scope(Scope::Seeded { seed: 42 }, || {
        f32s([3], Distribution::Default)
    });
    assert_eq!(seeded, [0.09984827, 0.34825444, 0.08834785]);
    let init = in_scope(
        Scope::Init {
            seed: 42,
            parameter: 0,
        },
        || f32s([3], Distribution::Default),
    );
    assert_eq!(init, [0.9073272, 0.7768638, 0.3753268]);
}

#[test]
fn reseeding_repeats_the_draw() {
    let device = Default::default();
    V::seed(&device, 42);
    let first = (uniform(), uniform());
    V::seed(&device, 42);
    assert_eq!((uniform(), uniform()), first);
    V::seed(&device, 7);
    assert_ne!(uniform(), first.0);
}

#[test]
fn reseeding_repeats_the_draw_while_another_thread_seeds_and_draws() {
    let device = Default::default();
    V::seed(&device, 42);
    let alone = (uniform(), mask());
    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                V::seed(&Default::default(), 7);
                uniform();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..50 {
            let before = rounds.load(Ordering::Relaxed);
            V::seed(&device, 42);
            // At least one whole round of the other thread lies between the seed and the draw.
            while rounds.load(Ordering::Relaxed) < before + 2 {
                std::thread::yield_now();
            }
            assert_eq!((uniform(), mask()), alone);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn draw_inside_a_step_outside_any_node_leaves_a_stray_draw() {
    assert_eq!(take_fault(), None);
    let scope = enter(Scope::Step { step: 9 });
    let values = uniform();
    assert_eq!(values.len(), 8);
    drop(scope);
    let stray = take_fault();
    assert_eq!(stray, Some(Fault::Draw { step: 9 }));
    assert!(stray.unwrap().to_string().contains("step 9"));
    assert_eq!(take_fault(), None);
}

#[test]
fn integer_draw_inside_a_step_leaves_a_stray_draw() {
    in_scope(Scope::Step { step: 4 }, || {
        draw_int::<V>([2], Distribution::Uniform(0.0, 5.0), IntDType::I32)
    });
    assert_eq!(take_fault(), Some(Fault::Draw { step: 4 }));
}

#[test]
fn seeding_inside_a_job_is_refused_and_changes_nothing() {
    let straight = in_scope(node(42, 1, 0), || [uniform(), uniform()]);
    let seeded = in_scope(node(42, 1, 0), || {
        let first = uniform();
        V::seed(&Default::default(), 7);
        [first, uniform()]
    });
    assert_eq!(take_fault(), Some(Fault::Seed));
    assert_eq!(seeded, straight);
}

#[test]
fn initial_values_differ_when_parameters_do() {
    let of = |parameter| {
        in_scope(
            Scope::Init {
                seed: 42,
                parameter,
            },
            uniform,
        )
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn draw_inside_a_node_inside_a_step_leaves_nothing() {
    let _step = enter(Scope::Step { step: 9 });
    in_scope(node(1, 9, 0), uniform);
    assert_eq!(take_fault(), None);
}

#[test]
fn stray_draw_stays_on_its_thread() {
    in_scope(Scope::Step { step: 1 }, uniform);
    let other = std::thread::spawn(take_fault).join().unwrap();
    assert_eq!(other, None);
    assert_eq!(take_fault(), Some(Fault::Draw { step: 1 }));
}

#[test]
fn scopes_nest_and_restore_the_draw_number() {
    let _outer = enter(node(42, 0, 0));
    let straight = {
        let _again = enter(node(42, 0, 0));
        [uniform(), uniform(), uniform()]
    };
    let first = uniform();
    let inner = in_scope(node(42, 0, 1), || {
        let before = uniform();
        in_scope(
            Scope::Init {
                seed: 1,
                parameter: 0,
            },
            uniform,
        );
        [before, uniform()]
    });
    assert_eq!(inner, in_scope(node(42, 0, 1), || [uniform(), uniform()]));
    assert_eq!([first, uniform(), uniform()], straight);
}

#[test]
fn scope_entered_after_a_seed_gives_the_seeded_stream_back() {
    let device = Default::default();
    V::seed(&device, 5);
    let straight = [uniform(), uniform()];
    V::seed(&device, 5);
    let first = uniform();
    in_scope(NODE, uniform);
    assert_eq!([first, uniform()], straight);
}

#[test]
fn thread_without_a_stream_draws_from_the_inner_backend() {
    // A fresh thread: nothing was seeded there.
    std::thread::spawn(|| {
        let (first, second) = (uniform(), uniform());
        assert_ne!(first, second);
        assert!(first.iter().chain(&second).all(|x| (0.0..1.0).contains(x)));
    })
    .join()
    .unwrap();
}

#[test]
fn seeding_one_thread_leaves_another_thread_without_a_stream() {
    V::seed(&Default::default(), 42);
    let seeded = uniform();
    let other = std::thread::spawn(uniform).join().unwrap();
    assert_ne!(other, seeded);
}

/// Mean and variance of 100,000 draws.
fn moments(distribution: Distribution, dtype: FloatDType) -> (f64, f64) {
    const COUNT: usize = 100_000;
    let values: Vec<f64> = in_scope(NODE, || draw::<V>([COUNT], distribution, dtype))
        .iter::<f64>()
        .collect();
    assert_eq!(values.len(), COUNT);
    let mean = values.iter().sum::<f64>() / COUNT as f64;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / COUNT as f64;
    (mean, variance)
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{found} is not within {tolerance} of {expected}"
    );
}

#[test]
fn float_draws_have_mean_and_variance_of_their_distribution() {
    for dtype in FLOATS {
        let (mean, variance) = moments(Distribution::Default, dtype);
        assert_near(mean, 0.5, 0.005);
        assert_near(variance, 1.0 / 12.0, 0.001);
        let (mean, variance) = moments(Distribution::Uniform(-2.0, 4.0), dtype);
        assert_near(mean, 1.0, 0.03);
        assert_near(variance, 3.0, 0.05);
        let (mean, variance) = moments(Distribution::Bernoulli(0.3), dtype);
        assert_near(mean, 0.3, 0.006);
        assert_near(variance, 0.21, 0.003);
        let (mean, variance) = moments(Distribution::Normal(1.0, 2.0), dtype);
        assert_near(mean, 1.0, 0.03);
        assert_near(variance, 4.0, 0.08);
    }
}

#[test]
fn normal_draws_reach_both_tails_in_their_shares() {
    let values = in_scope(NODE, || f32s([100_000], Distribution::Normal(0.0, 1.0)));
    let share = |keep: fn(&f32) -> bool| {
        values.iter().filter(|x| keep(x)).count() as f64 / values.len() as f64
    };
    assert_near(share(|x| x.abs() < 1.0), 0.6827, 0.006);
    assert_near(share(|x| *x > 2.0), 0.0228, 0.002);
    assert_near(share(|x| *x < -2.0), 0.0228, 0.002);
    assert!(values.iter().all(|x| x.is_finite()));
}

#[test]
fn bernoulli_of_zero_and_one_are_constant() {
    let _scope = enter(NODE);
    assert!(
        f32s([1000], Distribution::Bernoulli(0.0))
            .iter()
            .all(|x| *x == 0.0)
    );
    assert!(
        f32s([1000], Distribution::Bernoulli(1.0))
            .iter()
            .all(|x| *x == 1.0)
    );
}

#[test]
fn uniform_draws_stay_below_high_in_every_float_type() {
    let _scope = enter(NODE);
    for dtype in FLOATS {
        // Narrow and wide, with ends that a half-precision value would round to.
        for (low, high) in [
            (0.0, 1.0),
            (-1.0, 1.0),
            (1.0, 1.01),
            (-3.0, -2.99),
            (100.0, 101.0),
        ] {
            let data = draw::<V>([100_000], Distribution::Uniform(low, high), dtype);
            // `low` itself may be no value of the type.
            let floor = match dtype {
                FloatDType::BF16 => bf16::from_f64(low).to_f64(),
                FloatDType::F16 => f16::from_f64(low).to_f64(),
                FloatDType::F32 => f64::from(low as f32),
                _ => low,
            };
            for value in data.iter::<f64>() {
                assert!(
                    floor <= value && value < high,
                    "{value} in {low}..{high}, {dtype:?}"
                );
            }
        }
    }
}

#[test]
fn default_draws_stay_below_one_in_every_float_type() {
    let _scope = enter(NODE);
    for dtype in FLOATS {
        let data = draw::<V>([100_000], Distribution::Default, dtype);
        assert!(data.iter::<f64>().all(|value| (0.0..1.0).contains(&value)));
        let largest = data.iter::<f64>().fold(0.0, f64::max);
        assert!(largest > 0.99, "{dtype:?}: {largest}");
    }
}

#[test]
fn integer_draws_fill_their_range_evenly() {
    let _scope = enter(NODE);
    for dtype in INTS {
        let data = draw_int::<V>([70_000], Distribution::Uniform(3.0, 10.0), dtype);
        let mut counts = [0_u32; 7];
        for value in data.iter::<i64>() {
            counts[usize::try_from(value - 3).unwrap()] += 1;
        }
        for count in counts {
            assert_near(f64::from(count), 10_000.0, 500.0);
        }
    }
}

#[test]
fn negative_integer_draws_honour_both_bounds() {
    let _scope = enter(NODE);
    for dtype in [IntDType::I64, IntDType::I32, IntDType::I16, IntDType::I8] {
        let data = draw_int::<V>([10_000], Distribution::Uniform(-5.0, -1.0), dtype);
        let values: Vec<i64> = data.iter().collect();
        assert_eq!(values.iter().min(), Some(&-5));
        assert_eq!(values.iter().max(), Some(&-2));
    }
}

#[test]
fn default_integer_draws_cover_the_whole_type() {
    let _scope = enter(NODE);
    let bytes = draw_int::<V>([10_000], Distribution::Default, IntDType::U8);
    let mut seen = [false; 256];
    for value in bytes.iter::<i64>() {
        seen[usize::try_from(value).unwrap()] = true;
    }
    assert!(seen.iter().all(|seen| *seen));
    let words = draw_int::<V>([100], Distribution::Default, IntDType::I64);
    assert!(words.iter::<i64>().any(|value| value < i64::MIN / 2));
    assert!(words.iter::<i64>().any(|value| value > i64::MAX / 2));
}

#[test]
fn integer_bernoulli_and_normal_draws_have_their_mean() {
    let _scope = enter(NODE);
    let mean = |data: TensorData| data.iter::<f64>().sum::<f64>() / 100_000.0;
    for dtype in INTS {
        let data = draw_int::<V>([100_000], Distribution::Bernoulli(0.25), dtype);
        assert_near(mean(data), 0.25, 0.006);
        // Truncation towards zero takes half off on average where all values are positive.
        let data = draw_int::<V>([100_000], Distribution::Normal(60.0, 5.0), dtype);
        assert_near(mean(data), 59.5, 0.1);
    }
}

#[test]
fn empty_and_scalar_shapes_draw_as_many_values_as_they_hold() {
    let _scope = enter(NODE);
    for distribution in [
        Distribution::Default,
        Distribution::Bernoulli(0.5),
        Distribution::Uniform(0.0, 2.0),
        Distribution::Normal(0.0, 1.0),
    ] {
        for shape in [vec![0], vec![3, 0], vec![1], vec![2, 1, 3]] {
            let shape = Shape::from(shape);
            let data = draw::<V>(shape.clone(), distribution, FloatDType::F32);
            assert_eq!(data.shape, shape);
            let data = draw_int::<V>(shape.clone(), distribution, IntDType::I32);
            assert_eq!(data.shape, shape);
        }
    }
}

#[test]
fn normal_draw_of_an_odd_count_begins_that_of_an_even_count() {
    let odd = in_scope(NODE, || f32s([7], Distribution::Normal(0.0, 1.0)));
    let even = in_scope(NODE, || f32s([8], Distribution::Normal(0.0, 1.0)));
    assert_eq!(odd, even[..7]);
}

#[test]
fn draws_have_the_same_bits_on_ndarray_and_flex() {
    let distributions = [
        Distribution::Default,
        Distribution::Bernoulli(0.3),
        Distribution::Uniform(1.0, 9.0),
        Distribution::Normal(20.0, 3.0),
    ];
    for distribution in distributions {
        // NdArray stores no half precision.
        for dtype in [FloatDType::F64, FloatDType::F32] {
            let flex = in_scope(NODE, || draw::<V>([33, 3], distribution, dtype));
            let ndarray = in_scope(NODE, || draw::<N>([33, 3], distribution, dtype));
            assert_eq!(flex.dtype, ndarray.dtype);
            assert_eq!(
                flex.as_bytes(),
                ndarray.as_bytes(),
                "{distribution:?} {dtype:?}"
            );
        }
        for dtype in INTS {
            let flex = in_scope(NODE, || draw_int::<V>([33, 3], distribution, dtype));
            let ndarray = in_scope(NODE, || draw_int::<N>([33, 3], distribution, dtype));
            assert_eq!(flex.dtype, ndarray.dtype);
            assert_eq!(
                flex.as_bytes(),
                ndarray.as_bytes(),
                "{distribution:?} {dtype:?}"
            );
        }
    }
}

#[test]
fn draws_have_the_dtype_asked_for() {
    let _scope = enter(NODE);
    for dtype in FLOATS {
        let data = draw::<V>([2], Distribution::Default, dtype);
        assert_eq!(data.dtype, dtype.into());
    }
    for dtype in INTS {
        let data = draw_int::<V>([2], Distribution::Default, dtype);
        assert_eq!(data.dtype, dtype.into());
    }
}

/// What a draw with unusable parameters says when it refuses.
fn refusal(distribution: Distribution) -> String {
    let refused = std::panic::catch_unwind(|| in_scope(NODE, || f32s([2], distribution)));
    *refused.unwrap_err().downcast::<String>().unwrap()
}

#[test]
fn unusable_parameters_are_refused_by_value() {
    assert!(refusal(Distribution::Bernoulli(1.5)).contains("1.5"));
    assert!(refusal(Distribution::Bernoulli(f64::NAN)).contains("NaN"));
    assert!(refusal(Distribution::Uniform(2.0, 1.0)).contains("2..1"));
    assert!(refusal(Distribution::Uniform(0.0, f64::INFINITY)).contains("inf"));
    assert!(refusal(Distribution::Normal(0.0, -1.0)).contains("-1"));
}
