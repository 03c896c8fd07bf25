//! Case 12: where one virtual node is not finite, all ranks skip the step, and it leaves nothing
//! behind.

use burn_virtual::nodes::{LossSum, Skipped, VirtualAutodiff};

use crate::common::{Cnn, MAPPINGS, OnFlex, Sample, Samples, on_both, samples, weighted_loss};
use crate::loops::{Held, Loop, Plain, Report, State};

/// Where a batch of eight, two samples a virtual node, is not finite, and how.
#[derive(Clone, Copy, Debug)]
struct Fault {
    node: usize,
    value: f32,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// An input: batch norm makes NaN of it, infinite or not.
    Pixel,
    /// A factor of the loss, which becomes what it is.
    Factor,
}

fn faults() -> Vec<Fault> {
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let places = [Place::Pixel, Place::Factor];
    // Not on rank 0 of two; and held by the first argument of each addition, or by the last.
    let nodes = [2, 0, 3];
    nodes
        .into_iter()
        .flat_map(|node| values.map(|value| (node, value)))
        .flat_map(|(node, value)| places.map(|place| Fault { node, value, place }))
        .collect()
}

impl Fault {
    fn put(self, mut items: Vec<Sample>) -> Vec<Sample> {
        let item = &mut items[2 * self.node + 1];
        match self.place {
            Place::Pixel => item.pixels[0] = self.value,
            Place::Factor => item.weight = self.value,
        }
        items
    }

    fn skipped(self) -> Option<Skipped> {
        let nodes = vec![self.node];
        Some(Skipped::NotFinite { nodes })
    }
}

fn batch(step: u64) -> Vec<Sample> {
    samples(step, 8)
}

/// A factor of the loss is no weight of it: that would be refused.
fn loss<B: VirtualAutodiff>(model: &Cnn<B>, micro: Samples<B>) -> LossSum<B> {
    let weight = micro.targets.dims()[0] as f64;
    LossSum {
        weight,
        ..weighted_loss(model, micro)
    }
}

on_both! {
    case_12_weights_and_adam_are_those_before_the_skipped_step
    case_12_next_step_is_applied
}

fn case_12_weights_and_adam_are_those_before_the_skipped_step<B: VirtualAutodiff>() {
    for fault in faults() {
        assert_skip_changes_nothing::<B, Plain<B>>(fault);
        assert_skip_changes_nothing::<B, Held<B>>(fault);
    }
}

/// Two steps on two devices, and a third that is skipped.
fn assert_skip_changes_nothing<B: VirtualAutodiff, L: Loop<B>>(fault: Fault) {
    let mut job = L::begin(42, &[2, 2]);
    job.step(&batch(1), loss);
    let first = job.state();
    job.step(&batch(2), loss);
    let before = job.state();
    assert!(first.0 != before.0 && first.1 != before.1);
    assert_eq!(before.1.len(), 6, "parameters that Adam knows");

    let report = job.step(&fault.put(batch(3)), loss);
    assert_eq!(report.skipped, fault.skipped(), "{fault:?}");
    assert!(report.gradients.is_empty(), "{fault:?}");
    let text = report.skipped.unwrap().to_string();
    assert!(
        text.contains(&format!("virtual nodes [{}]", fault.node)),
        "{text}"
    );
    assert!(job.state() == before, "{fault:?}");
    assert_eq!(job.applied_steps(), 2);
}

fn case_12_next_step_is_applied<B: VirtualAutodiff>() {
    assert_next_step_is_applied::<B, Plain<B>>();
    assert_next_step_is_applied::<B, Held<B>>();
}

fn assert_next_step_is_applied<B: VirtualAutodiff, L: Loop<B>>() {
    let mut job = L::begin(42, &[2, 2]);
    job.step(&faults()[0].put(batch(3)), loss);
    let before = job.state();
    let report = job.step(&batch(4), loss);
    assert_eq!(report.skipped, None);
    assert!(f64::from_bits(report.loss).is_finite());
    assert!(f64::from_bits(report.norm).is_finite());
    let after = job.state();
    assert!(after.0 != before.0 && after.1 != before.1);
    assert_eq!(job.applied_steps(), 1);
}

/// Batches 1, 2 and 4, and before the last one the third as often as it says; what step 4 reported,
/// and what came of it.
fn run<L: Loop<OnFlex>>(shares: &[usize], bad: Option<Fault>, times: usize) -> (Report, State) {
    let mut job = L::begin(42, shares);
    job.step(&batch(1), loss);
    job.step(&batch(2), loss);
    if let Some(fault) = bad {
        for _ in 0..times {
            let report = job.step(&fault.put(batch(3)), loss);
            assert_eq!(report.skipped, fault.skipped(), "{fault:?}");
        }
    }
    let report = job.step(&batch(4), loss);
    (report, job.state())
}

fn assert_step_4_never_saw_batch_3<L: Loop<OnFlex>>() {
    let expected = run::<L>(&[4], None, 0);
    assert_eq!(expected.0.skipped, None);
    for shares in MAPPINGS {
        for fault in faults() {
            // Twice too: what the first skipped step left could be what the second one takes away.
            for times in [1, 2] {
                let got = run::<L>(shares, Some(fault), times);
                assert!(got == expected, "{shares:?}, {fault:?}, {times} times");
            }
        }
    }
}

#[test]
fn case_12_step_4_is_bitwise_that_of_a_run_without_batch_3() {
    let gradients = run::<Plain<OnFlex>>(&[2, 2], None, 0).0.gradients;
    assert_eq!(gradients.len(), 6);
    assert_step_4_never_saw_batch_3::<Plain<OnFlex>>();
}

#[test]
fn case_12_step_4_of_a_trainer_is_bitwise_that_of_a_run_without_batch_3() {
    assert_step_4_never_saw_batch_3::<Held<OnFlex>>();
}

#[test]
fn case_12_all_nodes_are_named_when_several_are_not_finite() {
    for shares in MAPPINGS {
        let mut job = Plain::<OnFlex>::begin(42, shares);
        let mut items = batch(9);
        items[1].weight = f32::NAN;
        items[6].pixels[0] = f32::INFINITY;
        let report = job.step(&items, loss);
        let nodes = vec![0, 3];
        assert_eq!(report.skipped, Some(Skipped::NotFinite { nodes }));
        assert!(report.skipped.unwrap().to_string().contains("[0, 3]"));
    }
}
