//! A step that fails between two that do not.

use burn_virtual::nodes::{NodeError, Session, TrainError, WeightsHash};

use crate::common::{Cnn, MAPPINGS, Net, Sample, StepTrace, adam, hash, samples, train_step};
use crate::{B, job};

/// What is wrong with a batch of eight; sample 5 is in virtual node 2 of 4.
pub(crate) fn with_sample_5(step: u64, change: impl Fn(&mut Sample)) -> Vec<Sample> {
    let mut items = samples(step, 8);
    change(&mut items[5]);
    items
}

/// The text of an error inside a virtual node, which has to be of a kind.
#[track_caller]
pub(crate) fn node_error(error: &TrainError, is_kind: fn(&NodeError) -> bool) -> String {
    assert!(
        matches!(error, TrainError::Node { source, .. } if is_kind(source)),
        "{error}"
    );
    error.to_string()
}

/// A step, then `bad`, then a step; the trace of a session that never saw `bad`. The session, the
/// model and the optimizer are used again after the failure.
pub(crate) fn assert_failure_leaves_no_trace(
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

pub(crate) fn at(shares: &[usize], step: u64, node: usize) -> String {
    format!(
        "rank {}, step {step}, virtual node {node}: ",
        rank_of(shares, node)
    )
}
