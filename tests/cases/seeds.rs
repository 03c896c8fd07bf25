//! Case 28: a job's seed is enough, whatever other threads draw.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor};
use burn_virtual::backend::Virtual;
use burn_virtual::models::Epoch;
use burn_virtual::nodes::{VirtualAutodiff, WeightsHash};

use crate::common::{OnFlex, OnNdArray, bits, hash, on_all, samples, weighted_loss};
use crate::loops::{Held, Loop, Plain, Report, State};
use crate::masks::{self, Seen};

/// Seeds this thread and draws from it.
fn draw<B: Backend>(seed: u64) -> Vec<u32> {
    let device = Default::default();
    B::seed(&device, seed);
    bits(Tensor::<B, 1>::random([5], Distribution::Default, &device))
}

/// Everything that a seed decides.
#[derive(Debug, PartialEq)]
struct Drawn {
    numbers: Vec<u32>,
    order: Vec<usize>,
    weights: WeightsHash,
    /// The dropout masks of three steps.
    masks: [Seen; 3],
}

fn draw_all<B: VirtualAutodiff>(seed: u64) -> Drawn {
    let ids: Vec<usize> = (0..100).collect();
    let (mut session, model) = masks::begin::<B>(seed, &[2, 2]);
    Drawn {
        numbers: draw::<B>(seed),
        order: Epoch::new(&ids, seed, 3).items().to_vec(),
        weights: hash(&model),
        masks: [(); 3].map(|()| masks::step(&mut session, &model)),
    }
}

/// Runs `work` while another thread seeds the backend, and the one inside it, with 7 and draws.
fn beside_a_thief<B: VirtualAutodiff, T>(work: impl FnOnce() -> T) -> T {
    // Also where the work panics, or the thread would never end.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    let thieving = Barrier::new(2);
    let steal = || {
        draw::<B>(7);
        draw::<<B::InnerBackend as Virtual>::Inner>(7);
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            steal();
            thieving.wait();
            while !done.load(Relaxed) {
                steal();
            }
        });
        thieving.wait();
        let _done = Done(&done);
        work()
    })
}

on_all! {
    case_28_seed_decides_all_draws
    case_28_draws_are_equal_while_another_thread_seeds_and_draws;
    case_28_losses_are_equal_when_two_loops_have_one_seed
    case_28_losses_are_equal_when_two_trainers_have_one_seed
    case_28_trainers_get_the_bits_they_get_alone_when_their_seeds_differ
}

fn case_28_seed_decides_all_draws<B: VirtualAutodiff>() {
    let (first, second, other) = (draw_all::<B>(42), draw_all::<B>(42), draw_all::<B>(7));
    assert_eq!(first, second);
    assert_ne!(first.numbers, other.numbers);
    assert_ne!(first.order, other.order);
    assert_ne!(first.weights, other.weights);
    for (first, other) in first.masks.iter().zip(&other.masks) {
        for (node, (masks, _)) in first {
            assert_ne!(masks, &other[node].0, "virtual node {node}");
        }
    }
}

fn case_28_draws_are_equal_while_another_thread_seeds_and_draws<B: VirtualAutodiff>() {
    let expected = draw_all::<B>(42);
    beside_a_thief::<B, _>(|| {
        for _ in 0..50 {
            assert_eq!(draw_all::<B>(42), expected);
        }
    });
}

#[test]
fn case_28_draws_are_equal_on_all_backends() {
    let expected = draw_all::<OnFlex>(42);
    assert_eq!(draw_all::<OnNdArray>(42), expected);
    #[cfg(feature = "wgpu")]
    assert_eq!(draw_all::<crate::common::OnWgpu>(42), expected);
}

/// Ten steps: what each reported, and what came of them.
fn train<B: VirtualAutodiff, L: Loop<B>>(seed: u64, shares: &[usize]) -> (Vec<Report>, State) {
    let mut job = L::begin(seed, shares);
    let steps = (0..10).map(|step| job.step(&samples(step, 9), weighted_loss));
    let reports = steps.collect();
    (reports, job.state())
}

/// Two jobs at once, each in a thread of its own.
fn train_both<B: VirtualAutodiff, L: Loop<B>>(
    jobs: [(u64, &[usize]); 2],
) -> [(Vec<Report>, State); 2] {
    let both_started = Barrier::new(2);
    thread::scope(|scope| {
        let threads = jobs.map(|(seed, shares)| {
            let both_started = &both_started;
            scope.spawn(move || {
                both_started.wait();
                train::<B, L>(seed, shares)
            })
        });
        threads.map(|thread| thread.join().unwrap())
    })
}

fn assert_one_seed_gives_equal_losses<B: VirtualAutodiff, L: Loop<B>>() {
    let alone = train::<B, L>(42, &[4]);
    let losses: Vec<u64> = alone.0.iter().map(|report| report.loss).collect();
    assert!(losses.windows(2).all(|two| two[0] != two[1]), "{losses:?}");
    let [first, second] =
        beside_a_thief::<B, _>(|| train_both::<B, L>([(42, &[2, 2]), (42, &[4])]));
    assert!(first == alone && second == alone);
}

fn case_28_losses_are_equal_when_two_loops_have_one_seed<B: VirtualAutodiff>() {
    assert_one_seed_gives_equal_losses::<B, Plain<B>>();
}

fn case_28_losses_are_equal_when_two_trainers_have_one_seed<B: VirtualAutodiff>() {
    assert_one_seed_gives_equal_losses::<B, Held<B>>();
}

fn case_28_trainers_get_the_bits_they_get_alone_when_their_seeds_differ<B: VirtualAutodiff>() {
    let train = train::<B, Held<B>>;
    let alone = [train(1, &[4]), train(2, &[4])];
    assert!(alone[0].0 != alone[1].0 && alone[0].1 != alone[1].1);
    let together =
        beside_a_thief::<B, _>(|| train_both::<B, Held<B>>([(1, &[1, 3]), (2, &[2, 2])]));
    assert!(together == alone);
}
