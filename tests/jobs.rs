//! Jobs in one process do not see each other.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use std::sync::Barrier;
use std::thread;

use burn_virtual::nodes::{Session, VirtualNodes, WeightsHash};

use common::{
    Cnn, MAPPINGS, Net, OnFlex, SampleBatcher, Samples, StepTrace, adam, devices, hash, samples,
    start, train_step, weighted_loss,
};

type B = OnFlex;

/// Ten steps of a model with dropout and running statistics.
fn train(seed: u64, shares: &[usize]) -> (Vec<StepTrace>, WeightsHash) {
    let mut model = Cnn::<B>::init(&Default::default());
    let mut session = VirtualNodes::new(4)
        .seed(seed)
        .devices(devices::<B>(shares.len()))
        .shares(shares.iter().copied())
        .start(&mut model)
        .unwrap();
    let mut optim = adam::<B, Cnn<B>>();
    let mut trace = Vec::new();
    for step in 0..10 {
        let done;
        (model, done) = train_step(&mut session, model, &mut optim, &samples(step, 9)).unwrap();
        trace.push(done);
    }
    (trace, hash(&model))
}

#[test]
fn jobs_get_the_bits_they_get_alone_when_they_run_together() {
    let alone = [train(1, &[4]), train(2, &[4])];
    assert_ne!(alone[0], alone[1]);
    for shares in MAPPINGS {
        let both_started = Barrier::new(2);
        let together = thread::scope(|scope| {
            let job = |seed| {
                let both_started = &both_started;
                scope.spawn(move || {
                    both_started.wait();
                    train(seed, shares)
                })
            };
            let jobs = [job(1), job(2)];
            jobs.map(|job| job.join().unwrap())
        });
        assert_eq!(together, alone, "{shares:?}");
    }
}

/// Loss, how many were right, and how many there were.
fn evaluate(session: &mut Session<B>, model: &Cnn<B>, count: usize) -> [u64; 3] {
    type Inner = <B as burn::tensor::backend::AutodiffBackend>::InnerBackend;
    let score = |model: &Cnn<Inner>, micro: Samples<Inner>| {
        let rows = micro.targets.dims()[0];
        let guesses = model.logits(micro.images.clone()).argmax(1).reshape([rows]);
        let right = guesses.equal(micro.targets.clone()).int().sum().into_data();
        let loss = weighted_loss(model, micro).sum.into_data();
        [
            loss.iter().next().unwrap(),
            right.iter().next().unwrap(),
            rows as f64,
        ]
    };
    let sums = session
        .evaluate(model, &samples(99, count), &SampleBatcher, score)
        .unwrap();
    sums.map(f64::to_bits)
}

#[test]
fn sums_are_those_of_one_device_for_every_batch_size() {
    let run = |shares: &[usize]| {
        let mut model = Cnn::<B>::init(&Default::default());
        let mut session = start(shares, &mut model);
        let mut optim = adam::<B, Cnn<B>>();
        let mut seen = Vec::new();
        for count in 0..=17 {
            let sums = evaluate(&mut session, &model, count);
            assert_eq!(f64::from_bits(sums[2]), count as f64);
            let before = hash(&model);
            let items = samples(count as u64, count + 1);
            let done;
            (model, done) = train_step(&mut session, model, &mut optim, &items).unwrap();
            assert_ne!(hash(&model), before);
            seen.push((sums, done, hash(&model)));
        }
        seen
    };
    let expected = run(&[4]);
    for shares in MAPPINGS {
        assert_eq!(run(shares), expected, "{shares:?}");
    }
}

#[test]
fn evaluation_changes_nothing() {
    let run = |evaluations: usize| {
        let mut model = Cnn::<B>::init(&Default::default());
        let mut session = start(&[2, 2], &mut model);
        let mut optim = adam::<B, Cnn<B>>();
        for step in 0..3 {
            let before = hash(&model);
            for _ in 0..evaluations {
                evaluate(&mut session, &model, 7);
            }
            assert_eq!(hash(&model), before);
            (model, _) = train_step(&mut session, model, &mut optim, &samples(step, 6)).unwrap();
        }
        hash(&model)
    };
    assert_eq!(run(2), run(0));
}
