//! What cannot be right is refused by name, and nothing of a step that failed is applied.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use std::time::Duration;

use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module, Param, ParamId};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, Optimizer};
use burn::tensor::activation::log_softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Int, Tensor, TensorData};
use burn_virtual::backend::{Scope, enter};
use burn_virtual::nodes::{
    LossError, LossSum, NodeError, Session, Skipped, StepOutput, TrainError, VirtualNodes,
    WeightsHash, cross_entropy_sum, id_of_path,
};

use common::{
    Branchy, Cnn, MAPPINGS, Mlp, Net, OnFlex, OneParam, Sample, SampleBatcher, Samples, StepTrace,
    adam, assert_close, devices, gradient, hash, load, samples, save, start, train_step, values,
    vector, weighted_loss, with_new_ids,
};

type B = OnFlex;

/// A wait that should never happen ends here.
const LIMIT: Duration = Duration::from_secs(5);

fn job(shares: &[usize], model: &mut impl AutodiffModule<B>) -> Session<B> {
    VirtualNodes::new(shares.iter().sum())
        .devices(devices::<B>(shares.len()))
        .shares(shares.iter().copied())
        .timeout(LIMIT)
        .start(model)
        .unwrap()
}

// --- Starting -----------------------------------------------------------------------------------

fn refused_start(nodes: usize, ranks: usize, shares: Option<Vec<usize>>) -> String {
    let mut model = OneParam::<B>::new(&[1.0]);
    let id = model.w.id;
    let mut settings = VirtualNodes::new(nodes).devices(devices::<B>(ranks));
    if let Some(shares) = shares {
        settings = settings.shares(shares);
    }
    let error = settings.start(&mut model).err().unwrap();
    assert_eq!(model.w.id, id);
    error.to_string()
}

#[test]
fn start_is_refused_without_virtual_nodes() {
    let text = refused_start(0, 1, None);
    assert!(text.contains("0 virtual nodes"), "{text}");
    let mut model = OneParam::<B>::new(&[1.0]);
    let error = VirtualNodes::new(0)
        .start::<B, _>(&mut model)
        .err()
        .unwrap();
    assert_eq!(error.to_string(), text);
}

#[test]
fn start_is_refused_without_devices() {
    let text = refused_start(4, 0, None);
    assert!(text.contains("0 ranks"), "{text}");
}

#[test]
fn start_is_refused_with_more_devices_than_virtual_nodes() {
    let text = refused_start(4, 7, None);
    assert!(
        text.contains("7 ranks") && text.contains("4 virtual nodes"),
        "{text}"
    );
}

#[test]
fn start_is_refused_when_shares_are_wrong() {
    for (ranks, shares, parts) in [
        (2, vec![3, 2], ["4", "5"]),
        (2, vec![1, 1], ["4", "2"]),
        (2, vec![4, 0], ["rank 1", "at least one"]),
        (3, vec![2, 2], ["2 shares", "3 devices"]),
        (2, vec![usize::MAX, 5], ["4", "18446744073709551615"]),
    ] {
        let text = refused_start(4, ranks, Some(shares));
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[derive(Module, Debug)]
struct Twins<B: Backend> {
    first: Linear<B>,
    others: Vec<Linear<B>>,
}

#[test]
fn start_is_refused_by_both_paths_when_one_id_stands_twice() {
    let device = Default::default();
    let first: Linear<B> = LinearConfig::new(2, 2).with_bias(false).init(&device);
    let other = LinearConfig::new(2, 2).with_bias(false).init(&device);
    let id = first.weight.id;
    let mut model = Twins {
        others: vec![other, first.clone()],
        first,
    };
    let error = VirtualNodes::new(2)
        .start::<B, _>(&mut model)
        .err()
        .unwrap();
    assert!(
        matches!(error, TrainError::DuplicateParameter { .. }),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("`first.weight`") && text.contains("`others.1.weight`"),
        "{text}"
    );
    assert_eq!((model.first.weight.id, model.others[1].weight.id), (id, id));
}

// --- Batches ------------------------------------------------------------------------------------

#[test]
fn step_works_when_the_batch_is_smaller_than_the_nodes() {
    let run = |shares: &[usize]| {
        let mut model = Cnn::<B>::init(&Default::default());
        let mut session = job(shares, &mut model);
        let (model, trace) = train_step(&mut session, model, &mut adam(), &samples(1, 2)).unwrap();
        assert_eq!(trace.skipped, None);
        (trace, hash(&model))
    };
    for shares in MAPPINGS {
        assert_eq!(run(shares), run(&[4]));
    }
}

#[test]
fn step_is_refused_when_the_batch_is_empty() {
    let mut model = Mlp::<B>::init(&Default::default());
    let mut session = job(&[2, 2], &mut model);
    let none = train_step(&mut session, model.clone(), &mut adam(), &[]).unwrap_err();
    assert!(matches!(none, TrainError::EmptyBatch), "{none}");
    let empty = Tensor::<B, 2>::zeros([0, 16], &Default::default());
    let loss = |model: &Mlp<B>, rows: Tensor<B, 2>| LossSum {
        sum: model.logits(rows).sum(),
        weight: 1.0,
    };
    let none = session.backward_batch(&model, &empty, loss).unwrap_err();
    assert!(matches!(none, TrainError::EmptyBatch), "{none}");
    assert_eq!(session.applied_steps(), 0);
}

#[test]
fn step_is_refused_when_tensors_of_a_batch_differ_in_length() {
    let device = Default::default();
    let mut model = Mlp::<B>::init(&device);
    let mut session = job(&[2, 2], &mut model);
    let images = Tensor::<B, 2>::zeros([5, 16], &device);
    let targets = Tensor::<B, 1, Int>::zeros([4], &device);
    let batch = (images.clone(), targets);
    let loss = |model: &Mlp<B>, (images, targets): (Tensor<B, 2>, Tensor<B, 1, Int>)| {
        cross_entropy_sum(model.logits(images), targets)
    };
    let error = session.backward_batch(&model, &batch, loss).unwrap_err();
    assert!(
        matches!(
            error,
            TrainError::UnequalBatch {
                expected: 5,
                got: 4
            }
        ),
        "{error}"
    );
    let batch = (images, Tensor::<B, 1, Int>::zeros([5], &device));
    session.backward_batch(&model, &batch, loss).unwrap();
}

// --- Virtual nodes that fail --------------------------------------------------------------------

/// What is wrong with a batch of eight; sample 5 is in virtual node 2 of 4.
fn with_sample_5(step: u64, change: impl Fn(&mut Sample)) -> Vec<Sample> {
    let mut items = samples(step, 8);
    change(&mut items[5]);
    items
}

/// A step, then `bad`, then a step; the trace of a session that never saw `bad`. The session, the
/// model and the optimizer are used again after the failure.
fn assert_failure_leaves_no_trace(
    bad: impl Fn(&mut Session<B>, &Cnn<B>) -> Option<String>,
    expected: impl Fn(&[usize]) -> Vec<String>,
) {
    let run = |shares: &[usize], fail: bool| {
        let mut model = Cnn::<B>::init(&Default::default());
        let mut session = job(shares, &mut model);
        let mut optim = adam();
        let mut trace: Vec<(StepTrace, WeightsHash)> = Vec::new();
        for step in 0..3 {
            let done;
            (model, done) = train_step(&mut session, model, &mut optim, &samples(step, 8)).unwrap();
            trace.push((done, hash(&model)));
            if fail && step < 2 {
                let before = hash(&model);
                let text = bad(&mut session, &model).unwrap_or_default();
                if step == 0 {
                    for part in expected(shares) {
                        assert!(text.contains(&part), "no {part:?} in {text:?}");
                    }
                }
                assert_eq!(hash(&model), before);
                assert_eq!(session.applied_steps(), step + 1);
            }
        }
        trace
    };
    for shares in MAPPINGS {
        assert_eq!(run(shares, true), run(&[4], false), "{shares:?}");
    }
}

/// The rank that runs a virtual node.
fn rank_of(shares: &[usize], node: usize) -> usize {
    let ends = shares.iter().scan(0, |end, share| {
        *end += share;
        Some(*end)
    });
    ends.take_while(|end| *end <= node).count()
}

fn at(shares: &[usize], step: u64, node: usize) -> String {
    format!(
        "rank {}, step {step}, virtual node {node}: ",
        rank_of(shares, node)
    )
}

#[test]
fn target_out_of_range_is_named_by_rank_step_and_node() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let items = with_sample_5(9, |item| item.label = 7);
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            cross_entropy_sum(model.logits(micro.images), micro.targets)
        };
        let error = session
            .backward(model, &items, &SampleBatcher, loss)
            .unwrap_err();
        let TrainError::Node {
            node: 2,
            source: NodeError::Loss(source),
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(
            *source,
            LossError::Target {
                row: 1,
                target: 7,
                classes: 3
            }
        );
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![
            at(shares, 1, 2),
            "target 7".into(),
            "row 1".into(),
            "0..3".into(),
        ]
    });
}

#[test]
fn logits_and_targets_of_different_length_are_named() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            cross_entropy_sum(model.logits(micro.images), micro.targets.narrow(0, 0, 1))
        };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![
            at(shares, 1, 0),
            "logits have 2 rows".into(),
            "1 targets".into(),
        ]
    });
}

/// Panics on sample 5, on whatever thread runs it.
fn explode(micro: &Samples<B>) {
    let first: Vec<f32> = micro.images.clone().into_data().iter::<f32>().collect();
    assert!(
        first.iter().all(|&pixel| pixel != 77.0),
        "boom in the model"
    );
}

#[test]
fn panic_in_the_model_is_named_by_rank_step_and_node() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let items = with_sample_5(9, |item| item.pixels[3] = 77.0);
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            explode(&micro);
            weighted_loss(model, micro)
        };
        let error = session
            .backward(model, &items, &SampleBatcher, loss)
            .unwrap_err();
        assert!(
            matches!(
                &error,
                TrainError::Node {
                    source: NodeError::Panicked(_),
                    ..
                }
            ),
            "{error}"
        );
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 2), "panicked: boom in the model".into()]
    });
}

#[test]
fn panics_on_every_rank_are_one_error() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |_: &Cnn<B>, _: Samples<B>| -> LossSum<B> { panic!("boom everywhere") };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 0), "boom everywhere".into()]
    });
}

/// A batcher that will not take an item.
struct Picky;

impl<B: Backend> Batcher<B, Sample, Samples<B>> for Picky {
    fn batch(&self, items: Vec<Sample>, device: &B::Device) -> Samples<B> {
        assert!(
            items.iter().all(|item| item.label < 9),
            "boom in the batcher"
        );
        SampleBatcher.batch(items, device)
    }
}

#[test]
fn panic_in_the_batcher_is_named_by_rank_step_and_node() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let items = with_sample_5(9, |item| item.label = 9);
        let error = session
            .backward(model, &items, &Picky, weighted_loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 2), "panicked: boom in the batcher".into()]
    });
}

#[test]
fn panic_in_an_evaluation_is_named_by_rank_step_and_node() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let items = with_sample_5(9, |item| item.label = 9);
        let error = session
            .evaluate(model, &items, &Picky, |_, _| [1.0])
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 2), "panicked: boom in the batcher".into()]
    });
}

#[test]
fn weight_that_is_negative_or_not_finite_is_refused() {
    for weight in [f64::NAN, f64::INFINITY, -1.0] {
        let bad = |session: &mut Session<B>, model: &Cnn<B>| {
            let items = with_sample_5(9, |item| item.weight = 50.0);
            let loss = |model: &Cnn<B>, micro: Samples<B>| {
                let heavy = micro.weight > 50.0;
                let loss = weighted_loss(model, micro);
                LossSum {
                    weight: if heavy { weight } else { loss.weight },
                    ..loss
                }
            };
            let error = session
                .backward(model, &items, &SampleBatcher, loss)
                .unwrap_err();
            assert!(
                matches!(
                    &error,
                    TrainError::Node {
                        source: NodeError::Weight(_),
                        ..
                    }
                ),
                "{error}"
            );
            Some(error.to_string())
        };
        assert_failure_leaves_no_trace(bad, |shares| {
            vec![at(shares, 1, 2), format!("got {weight}")]
        });
    }
}

/// A draw inside a step but outside a virtual node.
fn stray_draw() {
    let _scope = enter(Scope::Step { step: 9 });
    drop(Tensor::<B, 1>::random(
        [2],
        Distribution::Default,
        &Default::default(),
    ));
}

#[test]
fn random_operation_outside_a_node_is_refused() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            stray_draw();
            weighted_loss(model, micro)
        };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        assert!(
            matches!(
                &error,
                TrainError::Node {
                    source: NodeError::Stream(_),
                    ..
                }
            ),
            "{error}"
        );
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![
            at(shares, 1, 0),
            "inside step 9 but outside any virtual node".into(),
        ]
    });
}

/// Seeded in the loss, every virtual node would draw the same mask.
#[test]
fn seeding_the_backend_in_a_node_is_refused() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |model: &Cnn<B>, micro: Samples<B>| {
            B::seed(&Default::default(), 7);
            weighted_loss(model, micro)
        };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| vec![at(shares, 1, 0), "seeded".into()]);
}

/// The fault belongs to the step that panicked after it, not to the next one.
#[test]
fn random_operation_outside_a_node_is_forgotten_when_its_node_panics() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let loss = |_: &Cnn<B>, _: Samples<B>| -> LossSum<B> {
            stray_draw();
            panic!("boom after a draw")
        };
        let error = session
            .backward(model, &samples(9, 8), &SampleBatcher, loss)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 0), "boom after a draw".into()]
    });
}

#[test]
fn random_operation_outside_a_node_is_refused_in_an_evaluation() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let score = |_: &Cnn<_>, _: Samples<_>| {
            stray_draw();
            [1.0]
        };
        let error = session
            .evaluate(model, &samples(9, 8), &SampleBatcher, score)
            .unwrap_err();
        Some(error.to_string())
    };
    assert_failure_leaves_no_trace(bad, |shares| {
        vec![at(shares, 1, 0), "outside any virtual node".into()]
    });
}

// --- Steps that are skipped ---------------------------------------------------------------------

/// Nothing of a skipped step is applied: the gradients are empty, and `optim.step` does nothing.
#[track_caller]
fn assert_skipped(out: StepOutput, reason: &Skipped) -> Option<String> {
    assert_eq!(out.skipped.as_ref(), Some(reason));
    assert!(out.grads.is_empty());
    Some(reason.to_string())
}

#[test]
fn case_12_step_is_skipped_by_all_when_one_node_is_not_finite() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for node in [0, 2, 3] {
            let bad = |session: &mut Session<B>, model: &Cnn<B>| {
                let mut items = samples(9, 8);
                items[2 * node].pixels[0] = value;
                let out = session
                    .backward(model, &items, &SampleBatcher, weighted_loss)
                    .unwrap();
                let before = hash(model);
                let text = assert_skipped(
                    session
                        .backward(model, &items, &SampleBatcher, weighted_loss)
                        .unwrap(),
                    &Skipped::NotFinite { nodes: vec![node] },
                );
                let model = adam::<B, Cnn<B>>().step(0.1, model.clone(), out.grads);
                assert_eq!(hash(&model), before);
                text
            };
            assert_failure_leaves_no_trace(bad, |_| vec![format!("virtual nodes [{node}]")]);
        }
    }
}

#[test]
fn case_12_all_nodes_are_named_when_several_are_not_finite() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let mut items = samples(9, 8);
        items[1].weight = f32::NAN;
        items[6].pixels[0] = f32::INFINITY;
        let loss = |model: &Cnn<B>, micro: Samples<B>| LossSum {
            weight: 2.0,
            ..weighted_loss(model, micro)
        };
        let out = session
            .backward(model, &items, &SampleBatcher, loss)
            .unwrap();
        assert_skipped(out, &Skipped::NotFinite { nodes: vec![0, 3] })
    };
    assert_failure_leaves_no_trace(bad, |_| vec!["[0, 3]".into()]);
}

fn one_param(
    shares: &[usize],
    values: &[f32],
    loss: impl Fn(Tensor<B, 1>) -> Tensor<B, 1> + Sync,
) -> StepOutput {
    let mut model = OneParam::<B>::new(&[1.0]);
    let mut session = job(shares, &mut model);
    let inputs = Tensor::<B, 1>::from_data(values, &Default::default());
    let loss = |model: &OneParam<B>, micro: Tensor<B, 1>| {
        let weight = micro.dims()[0] as f64;
        LossSum {
            sum: loss(model.w.val() * micro).sum(),
            weight,
        }
    };
    let out = session.backward_batch(&model, &inputs, loss).unwrap();
    assert_eq!(session.applied_steps(), u64::from(out.skipped.is_none()));
    out
}

#[test]
fn step_is_skipped_when_only_the_gradient_is_not_finite() {
    for shares in MAPPINGS {
        // The slope of a root at zero, times zero.
        let out = one_param(shares, &[1.0, 4.0, 0.0, 9.0], Tensor::sqrt);
        assert!(out.loss.is_finite());
        assert_skipped(out, &Skipped::NotFinite { nodes: vec![2] });
    }
}

#[test]
fn step_is_skipped_when_only_the_sum_overflows() {
    for shares in MAPPINGS {
        let out = one_param(shares, &[3e38, 3e38, 1.0, 1.0], |product| product);
        assert_skipped(out, &Skipped::NotFinite { nodes: vec![] });
        let out = one_param(shares, &[3e38, 0.0, 1.0, 1.0], |product| product);
        assert_eq!(out.skipped, None);
    }
}

#[derive(Module, Debug)]
struct Normed<B: Backend> {
    norm: BatchNorm<B>,
}

/// A variance that overflows divides its batch to zero: loss and gradients are finite.
#[test]
fn step_is_skipped_when_only_a_statistic_is_not_finite() {
    let device = Default::default();
    for shares in MAPPINGS {
        let mut model = Normed::<B> {
            norm: BatchNormConfig::new(1).init(&device),
        };
        let mut session = job(shares, &mut model);
        let column = [1.0, 2.0, 3.0, 4.0, 1e30, -1e30, 5.0, 7.0];
        let rows = Tensor::<B, 1>::from_data(column, &device).reshape([8, 1]);
        let loss = |model: &Normed<B>, rows: Tensor<B, 2>| LossSum {
            weight: rows.dims()[0] as f64,
            sum: model.norm.forward(rows).sum(),
        };
        let before = hash(&model);
        let out = session.backward_batch(&model, &rows, loss).unwrap();
        assert_skipped(out, &Skipped::NotFinite { nodes: vec![2] });
        assert_eq!(hash(&model), before);
        assert_eq!(session.applied_steps(), 0);
        assert_eq!(values(model.norm.running_var.value()), [1.0]);
    }
}

#[test]
fn case_06_step_is_skipped_when_no_item_counts() {
    let bad = |session: &mut Session<B>, model: &Cnn<B>| {
        let mut items = samples(9, 8);
        items.iter_mut().for_each(|item| item.weight = 0.0);
        let out = session
            .backward(model, &items, &SampleBatcher, weighted_loss)
            .unwrap();
        assert_eq!(out.weight, 0.0);
        assert_skipped(out, &Skipped::NoItems)
    };
    assert_failure_leaves_no_trace(bad, |_| vec!["no items".into()]);
}

/// Scores rows against weights of zero: every logit is 0.
#[derive(Module, Debug)]
struct Flat<B: Backend> {
    w: Param<Tensor<B, 1>>,
}

#[test]
fn case_06_loss_is_finite_when_one_node_has_only_ignored_targets() {
    for shares in MAPPINGS {
        let mut model = Flat::<B> {
            w: vector(&[0.0, 0.0]),
        };
        let mut session = job(shares, &mut model);
        let mut items = samples(3, 8);
        items.iter_mut().for_each(|item| item.label %= 2);
        items[4..6].iter_mut().for_each(|item| item.weight = 0.0);
        let loss = |model: &Flat<B>, micro: Samples<B>| {
            let rows = micro.targets.dims()[0];
            let logits = micro.images.slice([0..rows, 0..2]) * model.w.val().unsqueeze::<2>();
            let picked = log_softmax(logits, 1).gather(1, micro.targets.reshape([rows, 1]));
            // A mean over what counts, and no check for nothing: 0/0 where all are ignored.
            let mean =
                (picked.reshape([rows]) * micro.weights.clone()).sum().neg() / micro.weights.sum();
            LossSum {
                sum: mean * micro.weight,
                weight: micro.weight,
            }
        };
        let out = session
            .backward(&model, &items, &SampleBatcher, loss)
            .unwrap();
        assert_eq!((out.skipped.as_ref(), out.weight), (None, 6.0));
        assert_close(out.loss, std::f64::consts::LN_2);
        assert!(
            gradient(&out, &model.w)
                .unwrap()
                .iter()
                .all(|value| value.is_finite())
        );
    }
}

// --- Models that changed ------------------------------------------------------------------------

#[test]
fn another_model_is_refused_by_the_path_that_differs() {
    let device = Default::default();
    let mut model = Twins::<B> {
        first: LinearConfig::new(2, 2).with_bias(false).init(&device),
        others: vec![LinearConfig::new(2, 2).with_bias(false).init(&device)],
    };
    let mut session = job(&[2, 2], &mut model);
    let inputs = Tensor::<B, 2>::ones([8, 2], &device);
    let mut step = |model: &Twins<B>| {
        let loss = |model: &Twins<B>, rows: Tensor<B, 2>| LossSum {
            weight: rows.dims()[0] as f64,
            sum: model.first.forward(rows).sum(),
        };
        session
            .backward_batch(model, &inputs, loss)
            .map(drop)
            .map_err(|error| {
                assert!(matches!(error, TrainError::ModelChanged { .. }), "{error}");
                error.to_string()
            })
    };

    let mut shorter = model.clone();
    shorter.others.clear();
    let text = step(&shorter).unwrap_err();
    assert!(
        text.contains("`others.0.weight`") && text.contains("nothing"),
        "{text}"
    );

    let mut longer = model.clone();
    longer
        .others
        .push(LinearConfig::new(2, 2).with_bias(false).init(&device));
    let text = step(&longer).unwrap_err();
    assert!(text.contains("expected nothing"), "{text}");

    let mut wider = model.clone();
    let id = wider.others[0].weight.id;
    wider.others[0] = LinearConfig::new(2, 3).with_bias(false).init(&device);
    wider.others[0].weight.id = id;
    let text = step(&wider).unwrap_err();
    assert!(text.contains("[2, 2]") && text.contains("[2, 3]"), "{text}");

    let mut other_id = model.clone();
    other_id.first.weight.id = ParamId::new();
    let text = step(&other_id).unwrap_err();
    assert!(
        text.contains("`first.weight`") && text.contains("adopt"),
        "{text}"
    );

    step(&model).unwrap();
}

#[test]
fn model_of_another_type_is_refused() {
    let mut model = Mlp::<B>::init(&Default::default());
    let mut session = job(&[2, 2], &mut model);
    let other = Branchy::<B>::init(&Default::default());
    let error = session
        .backward(&other, &samples(1, 8), &SampleBatcher, weighted_loss)
        .unwrap_err();
    assert!(matches!(error, TrainError::ModelChanged { .. }), "{error}");
}

/// Three steps; then, half of the time, the model is loaded into a new one from a record with ids of
/// its own, and the optimizer from its record; then three more.
fn train_with_reload(shares: &[usize], reload: bool) -> Vec<(StepTrace, WeightsHash)> {
    let mut model = Cnn::<B>::init(&Default::default());
    let mut session = start(shares, &mut model);
    let mut optim = AdamConfig::new().init::<B, Cnn<B>>();
    let mut trace = Vec::new();
    for step in 0..6 {
        let items = samples(step, 8);
        if reload && step == 3 {
            let record = save(&with_new_ids(model.clone()));
            let mut loaded = load(Cnn::<B>::init(&Default::default()), &record);
            let error = session
                .backward(&loaded, &items, &SampleBatcher, weighted_loss)
                .unwrap_err();
            assert!(matches!(error, TrainError::ModelChanged { .. }), "{error}");
            assert!(error.to_string().contains("adopt"), "{error}");
            session.adopt(&mut loaded).unwrap();
            assert_eq!(hash(&loaded), hash(&model));
            assert_eq!(loaded.norm.gamma.id, id_of_path("norm.gamma"));
            model = loaded;
            optim = AdamConfig::new().init().load_record(optim.to_record());
        }
        let done;
        (model, done) = train_step(&mut session, model, &mut optim, &items).unwrap();
        trace.push((done, hash(&model)));
    }
    trace
}

#[test]
fn loaded_model_goes_on_bitwise_when_adopted() {
    let expected = train_with_reload(&[4], false);
    for shares in MAPPINGS {
        assert_eq!(train_with_reload(shares, true), expected, "{shares:?}");
    }
}

#[test]
fn adopt_is_refused_when_one_id_stands_twice() {
    let device = Default::default();
    let linear = || LinearConfig::new(2, 2).with_bias(false).init(&device);
    let mut model = Twins::<B> {
        first: linear(),
        others: vec![linear()],
    };
    let mut session = job(&[2, 2], &mut model);
    let mut broken = model.clone();
    broken.others[0] = broken.first.clone();
    let error = session.adopt(&mut broken).unwrap_err();
    assert!(
        matches!(error, TrainError::DuplicateParameter { .. }),
        "{error}"
    );

    // The session still knows the model that it was started with.
    let inputs = Tensor::<B, 2>::from_data(TensorData::from([[1.0_f32, 2.0]; 4]), &device);
    let loss = |model: &Twins<B>, rows: Tensor<B, 2>| LossSum {
        weight: rows.dims()[0] as f64,
        sum: model.first.forward(rows).sum(),
    };
    assert_eq!(
        session
            .backward_batch(&model, &inputs, loss)
            .unwrap()
            .grads
            .len(),
        1
    );
}
