//! Moving a job to other devices in mid-run changes nothing.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn::optim::Optimizer;
use burn_virtual::models::{Digit, Digits, DigitsBatch, DigitsBatcher, DigitsCnn, DigitsCnnConfig};
use burn_virtual::nodes::{Session, VirtualNodes, WeightsHash, cross_entropy_sum};

use common::{Mlp, Net, OnFlex, StepTrace, adam, devices, hash, samples, train_step};

type B = OnFlex;

/// Thirty batches of sixteen; the last one of each epoch is shorter.
fn batches() -> Vec<Vec<Digit>> {
    let digits = Digits::load().unwrap();
    let few = |epoch| digits.epoch(42, epoch).items()[..150].to_vec();
    let epochs = (0..3).map(few);
    epochs
        .flat_map(|items| items.chunks(16).map(<[_]>::to_vec).collect::<Vec<_>>())
        .collect()
}

/// Thirty steps of Adam; `phases` says how many virtual nodes each rank has, ten steps each.
fn train(phases: [&[usize]; 3]) -> (Vec<u64>, WeightsHash) {
    let config = DigitsCnnConfig::new().with_channels([2, 3]).with_hidden(8);
    let mut model: DigitsCnn<B> = config.init(&Default::default());
    let first = phases[0];
    let mut session = VirtualNodes::new(4)
        .devices(devices::<B>(first.len()))
        .shares(first.iter().copied())
        .start(&mut model)
        .unwrap();
    let mut optim = adam::<B, DigitsCnn<B>>();
    let mut losses = Vec::new();
    for (step, items) in batches().into_iter().enumerate() {
        if step > 0 && step % 10 == 0 {
            let shares = phases[step / 10];
            session
                .resize_to(devices::<B>(shares.len()), shares.iter().copied())
                .unwrap();
            assert_eq!(session.placement().ranks(), shares.len());
        }
        let loss = |model: &DigitsCnn<B>, micro: DigitsBatch<B>| {
            cross_entropy_sum(model.forward(micro.images), micro.targets)
        };
        let out = session
            .backward(&model, &items, &DigitsBatcher, loss)
            .unwrap();
        losses.push(out.loss.to_bits());
        model = optim.step(0.01, model, out.grads);
    }
    assert_eq!((session.applied_steps(), session.virtual_nodes()), (30, 4));
    (losses, hash(&model))
}

#[test]
fn losses_and_weights_are_bitwise_equal_when_resized_in_mid_run() {
    let expected = train([&[4], &[4], &[4]]);
    let losses: Vec<f64> = expected
        .0
        .iter()
        .map(|&bits| f64::from_bits(bits))
        .collect();
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(
        mean(&losses[20..]) < mean(&losses[..10]),
        "it does not learn: {losses:?}"
    );

    let down = train([&[1, 1, 1, 1], &[2, 2], &[2, 1, 1]]);
    assert_eq!(down.0, expected.0);
    assert_eq!(down.1, expected.1);
    assert_eq!(train([&[4], &[1, 3], &[1, 1, 1, 1]]), expected);
}

/// A step, then a refused resize, then a step: the trace of a session that was never asked.
fn refused(resize: impl Fn(&mut Session<B>) -> String) -> String {
    let run = |ask: bool| {
        let mut model = Mlp::<B>::init(&Default::default());
        let mut session = VirtualNodes::new(4)
            .devices(devices::<B>(2))
            .start(&mut model)
            .unwrap();
        let mut optim = adam::<B, Mlp<B>>();
        let mut trace: Vec<StepTrace> = Vec::new();
        let mut text = String::new();
        for step in 0..2 {
            let done;
            (model, done) = train_step(&mut session, model, &mut optim, &samples(step, 6)).unwrap();
            trace.push(done);
            if ask && step == 0 {
                let (placement, probe) = (session.placement().clone(), session.probe());
                text = resize(&mut session);
                assert_eq!((session.placement(), session.probe()), (&placement, probe));
                assert_eq!(session.applied_steps(), 1);
            }
        }
        ((trace, hash(&model)), text)
    };
    let (got, text) = run(true);
    assert_eq!(got, run(false).0);
    text
}

#[test]
fn session_is_unchanged_when_resized_to_no_device() {
    let text = refused(|session| session.resize([]).unwrap_err().to_string());
    assert!(text.contains("0 ranks"), "{text}");
}

#[test]
fn session_is_unchanged_when_resized_to_more_devices_than_nodes() {
    let text = refused(|session| session.resize(devices::<B>(5)).unwrap_err().to_string());
    assert!(text.contains('5') && text.contains('4'), "{text}");
}

#[test]
fn session_is_unchanged_when_shares_do_not_sum() {
    let text = refused(|session| {
        session
            .resize_to(devices::<B>(2), [2, 3])
            .unwrap_err()
            .to_string()
    });
    assert!(text.contains('5') && text.contains('4'), "{text}");
}

#[test]
fn session_is_unchanged_when_a_rank_gets_no_node() {
    let text = refused(|session| {
        session
            .resize_to(devices::<B>(2), [4, 0])
            .unwrap_err()
            .to_string()
    });
    assert!(text.contains("rank 1"), "{text}");
}

#[test]
fn session_is_unchanged_when_shares_and_devices_differ_in_number() {
    let text = refused(|session| {
        session
            .resize_to(devices::<B>(3), [2, 2])
            .unwrap_err()
            .to_string()
    });
    assert!(text.contains('2') && text.contains('3'), "{text}");
}
