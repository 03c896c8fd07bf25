//! Case 6: a virtual node whose targets are all ignored adds nothing; a step with no other is
//! skipped.

use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;
use burn::tensor::backend::Backend;
use burn_virtual::nodes::{
    CrossEntropy, IntoLossSum, LossError, LossSum, Skipped, VirtualAutodiff,
};

use crate::common::{
    Cnn, MAPPINGS, Net, OnFlex, OneParam, Sample, SampleBatcher, Samples, assert_all_close,
    assert_close, gradient, on_both, samples, start,
};
use crate::loops::{Held, Loop, Plain, Report, State};

const IGNORED: u8 = 255;

/// Eight samples of two classes, two a virtual node.
fn two_classes() -> Vec<Sample> {
    let mut items = samples(3, 8);
    items.iter_mut().for_each(|item| item.label %= 2);
    items
}

/// Two logits a row, from weights of zero: every one of them is 0.
fn logits<B: Backend>(model: &OneParam<B>, images: Tensor<B, 2>) -> Tensor<B, 2> {
    let rows = images.dims()[0];
    images.slice([0..rows, 0..2]) * model.w.val().unsqueeze::<2>()
}

/// One step on four virtual nodes, of which node 2 has nothing that counts.
fn assert_node_2_adds_nothing<B: VirtualAutodiff, L: IntoLossSum<B>>(
    items: &[Sample],
    loss: impl Fn(&OneParam<B>, Samples<B>) -> L + Sync,
) {
    for shares in MAPPINGS {
        let mut model = OneParam::<B>::new(&[0.0, 0.0]);
        let mut session = start(shares, &mut model);
        let out = session.backward(&model, items, &SampleBatcher, &loss);
        let out = out.unwrap();
        assert_eq!((out.skipped.as_ref(), out.weight), (None, 6.0));
        // To 1e-6: 0.693147.
        assert_close(out.loss, std::f64::consts::LN_2);
        assert_all_close(&gradient(&out, &model.w).unwrap(), &slopes());
    }
}

/// The mean over the six rows that count of half the pixel, less the pixel where it is its class's.
fn slopes() -> [f32; 2] {
    let items = two_classes();
    let counted = || items[..4].iter().chain(&items[6..]);
    [0, 1].map(|class| {
        let slope = |item: &Sample| {
            let hit = f32::from(u8::from(usize::from(item.label) == class));
            (0.5 - hit) * item.pixels[class]
        };
        counted().map(slope).sum::<f32>() / 6.0
    })
}

on_both! {
    case_06_loss_is_that_of_the_other_nodes_when_one_has_only_padding
    case_06_loss_is_that_of_the_other_nodes_when_one_divides_zero_by_zero
    case_06_weights_and_adam_are_untouched_when_all_is_padding
    case_06_next_step_is_applied
}

fn case_06_loss_is_that_of_the_other_nodes_when_one_has_only_padding<B: VirtualAutodiff>() {
    let mut items = two_classes();
    items[4..6].iter_mut().for_each(|item| item.label = IGNORED);
    let cross_entropy = CrossEntropy::new().with_padding([IGNORED.into()]);
    assert_node_2_adds_nothing::<B, _>(&items, |model, micro| {
        cross_entropy.sum(logits(model, micro.images), micro.targets)
    });
}

/// A mean over what counts, and no check for nothing: NaN where all is ignored.
fn unchecked_mean<B: Backend>(model: &OneParam<B>, micro: Samples<B>) -> LossSum<B> {
    let rows = micro.targets.dims()[0];
    let targets = micro.targets.reshape([rows, 1]);
    let picked = log_softmax(logits(model, micro.images), 1).gather(1, targets);
    let sum = (picked.reshape([rows]) * micro.weights.clone()).sum().neg();
    LossSum::from_mean(sum / micro.weights.sum(), micro.weight)
}

fn case_06_loss_is_that_of_the_other_nodes_when_one_divides_zero_by_zero<B: VirtualAutodiff>() {
    let mut items = two_classes();
    items[4..6].iter_mut().for_each(|item| item.weight = 0.0);
    assert_node_2_adds_nothing::<B, _>(&items, unchecked_mean);
}

/// Cross entropy that leaves out the ignored rows.
fn padded_loss<B: Backend>(model: &Cnn<B>, micro: Samples<B>) -> Result<LossSum<B>, LossError> {
    let cross_entropy = CrossEntropy::new().with_padding([IGNORED.into()]);
    cross_entropy.sum(model.logits(micro.images), micro.targets)
}

fn all_ignored(step: u64) -> Vec<Sample> {
    let mut items = samples(step, 8);
    items.iter_mut().for_each(|item| item.label = IGNORED);
    items
}

fn assert_no_items(report: &Report) {
    assert_eq!(report.skipped, Some(Skipped::NoItems));
    assert_eq!(f64::from_bits(report.weight), 0.0);
    assert_eq!(Skipped::NoItems.to_string(), "no items");
    assert!(report.gradients.is_empty());
}

fn case_06_weights_and_adam_are_untouched_when_all_is_padding<B: VirtualAutodiff>() {
    for shares in MAPPINGS {
        assert_untouched::<B, Plain<B>>(shares);
        assert_untouched::<B, Held<B>>(shares);
    }
}

fn assert_untouched<B: VirtualAutodiff, L: Loop<B>>(shares: &[usize]) {
    let mut job = L::begin(42, shares);
    job.step(&samples(1, 8), padded_loss);
    let before = job.state();
    assert_eq!(before.1.len(), 6, "parameters that Adam knows");
    assert_no_items(&job.step(&all_ignored(2), padded_loss));
    assert!(job.state() == before, "{shares:?}");
    assert_eq!(job.applied_steps(), 1);
}

fn case_06_next_step_is_applied<B: VirtualAutodiff>() {
    assert_next_step_is_applied::<B, Plain<B>>();
    assert_next_step_is_applied::<B, Held<B>>();
}

fn assert_next_step_is_applied<B: VirtualAutodiff, L: Loop<B>>() {
    let mut job = L::begin(42, &[2, 2]);
    assert_no_items(&job.step(&all_ignored(2), padded_loss));
    let before = job.state();
    let report = job.step(&samples(3, 8), padded_loss);
    assert_eq!(report.skipped, None);
    assert!(f64::from_bits(report.loss).is_finite());
    let after = job.state();
    assert!(after.0 != before.0 && after.1 != before.1);
    assert_eq!(job.applied_steps(), 1);
}

/// A step, and another one after those that have nothing.
fn run<L: Loop<OnFlex>>(shares: &[usize], empty: usize) -> (Report, State) {
    let mut job = L::begin(42, shares);
    job.step(&samples(1, 8), padded_loss);
    for _ in 0..empty {
        assert_no_items(&job.step(&all_ignored(2), padded_loss));
    }
    let report = job.step(&samples(3, 8), padded_loss);
    (report, job.state())
}

#[test]
fn case_06_next_step_is_bitwise_that_of_a_run_without_the_empty_one() {
    let plain = run::<Plain<OnFlex>>(&[4], 0);
    let held = run::<Held<OnFlex>>(&[4], 0);
    assert_eq!(
        (plain.0.skipped.as_ref(), plain.0.gradients.len()),
        (None, 6)
    );
    for shares in MAPPINGS {
        for empty in [1, 2] {
            assert!(run::<Plain<OnFlex>>(shares, empty) == plain, "{shares:?}");
            assert!(run::<Held<OnFlex>>(shares, empty) == held, "{shares:?}");
        }
    }
}
