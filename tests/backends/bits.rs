//! A GPU repeats its bits: on every placement, moved in mid-run or not, and from run to run.

use burn::module::ParamId;
use burn::optim::AdamConfig;
use burn_virtual::backend::autotunes;
use burn_virtual::nodes::{VirtualAutodiff, WeightsHash};

use crate::common::{
    Cnn, MAPPINGS, Net, StepTrace, adam_state, devices, hash, on_gpus, samples, start, train_step,
};

/// What each step reported, then weights and running statistics, and the state of Adam.
type Outcome = (Vec<StepTrace>, WeightsHash, Vec<(ParamId, Vec<u8>)>);

/// Trains a convolution, a batch norm, a dropout and a linear layer with Adam: four virtual nodes,
/// `shares[rank]` on each rank, and other shares from the steps of `moves` on.
fn train<B: VirtualAutodiff>(steps: u64, shares: &[usize], moves: &[(u64, &[usize])]) -> Outcome {
    let mut model = Cnn::<B>::init(&Default::default());
    let mut session = start(shares, &mut model);
    let mut optim = AdamConfig::new().init::<B, Cnn<B>>();
    let mut traces = Vec::new();
    for step in 0..steps {
        if let Some((_, shares)) = moves.iter().find(|(at, _)| *at == step) {
            let devices = devices::<B>(shares.len());
            session.resize_to(devices, shares.iter().copied()).unwrap();
        }
        let (next, trace) =
            train_step(&mut session, model, &mut optim, &samples(step, 10)).unwrap();
        model = next;
        traces.push(trace);
    }
    assert!(traces.windows(2).all(|two| two[0].loss != two[1].loss));
    (traces, hash(&model), adam_state(&optim))
}

#[test]
fn gpus_of_this_build_do_not_choose_their_kernels_by_timing_them() {
    assert!(!autotunes());
}

on_gpus! {
    weights_are_equal_for_every_placement
    weights_are_equal_when_moved_in_mid_run
    case_29_weights_are_equal_from_run_to_run_over_50_steps
}

fn weights_are_equal_for_every_placement<B: VirtualAutodiff>() {
    let expected = train::<B>(8, &[4], &[]);
    for shares in &MAPPINGS[1..] {
        assert_eq!(train::<B>(8, shares, &[]), expected, "{shares:?}");
    }
}

fn weights_are_equal_when_moved_in_mid_run<B: VirtualAutodiff>() {
    let moves: [(u64, &[usize]); 4] = [(2, &[1, 1, 1, 1]), (3, &[3, 1]), (5, &[2, 2]), (6, &[4])];
    let moved = train::<B>(8, &[1, 3], &moves);
    assert_eq!(moved, train::<B>(8, &[4], &[]));
}

fn case_29_weights_are_equal_from_run_to_run_over_50_steps<B: VirtualAutodiff>() {
    assert_eq!(train::<B>(50, &[4], &[]), train::<B>(50, &[4], &[]));
}
