//! A job in several processes: each has its own model and session, and only messages in common. Here
//! the processes are threads, over memory and over TCP; crates/cli has real ones.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use std::thread;
use std::time::Duration;

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use burn_virtual::distributed::{Reduce, Transport, memory, tcp};
use burn_virtual::nodes::{Session, TrainError, VirtualNodes, WeightsHash};

use common::{
    Branchy, Cnn, Mlp, Net, OnFlex, Sample, SampleBatcher, StepTrace, adam, devices, hash, samples,
    start, train_step, weighted_loss,
};

type B = OnFlex;
type Ends = Vec<Box<dyn Transport>>;

const STEPS: u64 = 4;

fn in_memory(world: usize) -> Ends {
    let ends = memory::group(world).into_iter();
    ends.map(|end| Box::new(end) as Box<dyn Transport>)
        .collect()
}

fn over_tcp(world: usize) -> Ends {
    let ends = tcp::group(world).unwrap().into_iter();
    ends.map(|end| Box::new(end) as Box<dyn Transport>)
        .collect()
}

/// Runs one process for each end: all at once, and what each comes to.
fn processes<T: Send>(ends: Ends, run: impl Fn(usize, Box<dyn Transport>) -> T + Sync) -> Vec<T> {
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = ends
            .into_iter()
            .enumerate()
            .map(|(rank, end)| scope.spawn(move || run(rank, end)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn settings(shares: &[usize]) -> VirtualNodes<Vec<burn_flex::FlexDevice>> {
    VirtualNodes::new(shares.iter().sum())
        .devices(devices::<B>(1))
        .shares(shares.iter().copied())
        .timeout(Duration::from_secs(5))
        .first_timeout(Duration::from_secs(20))
}

fn batch(step: u64) -> Vec<Sample> {
    samples(7 + step, 11 + step as usize)
}

type Trace = Vec<(StepTrace, WeightsHash)>;

fn train<M: Net<B> + burn::module::AutodiffModule<B>>(
    session: &mut Session<B>,
    mut model: M,
) -> (Trace, M)
where
    M::InnerModule: Send,
{
    let mut optim = adam();
    let mut trace = Trace::new();
    for step in 0..STEPS {
        let done;
        (model, done) = train_step(session, model, &mut optim, &batch(step)).unwrap();
        trace.push((done, hash(&model)));
    }
    (trace, model)
}

fn alone<M: Net<B> + burn::module::AutodiffModule<B>>(nodes: usize) -> Trace
where
    M::InnerModule: Send,
{
    let mut model = M::init(&Default::default());
    let mut session = start(&[nodes], &mut model);
    train(&mut session, model).0
}

fn assert_as_alone<M: Net<B> + burn::module::AutodiffModule<B>>(ends: Ends, shares: &[usize])
where
    M::InnerModule: Send,
{
    let expected = alone::<M>(shares.iter().sum());
    for (rank, trace) in processes(ends, |_, end| {
        let mut model = M::init(&Default::default());
        let mut session = settings(shares).start_in(&mut model, [end]).unwrap();
        let (trace, model) = train(&mut session, model);
        let common = session.common_weights(&model).unwrap();
        assert_eq!(common, trace.last().unwrap().1);
        trace
    })
    .into_iter()
    .enumerate()
    {
        assert_eq!(trace, expected, "rank {rank} of {shares:?}");
    }
}

#[test]
fn bits_are_those_of_one_process_whatever_each_runs() {
    for shares in [&[4, 4][..], &[3, 3, 2], &[1, 7], &[5, 1, 1, 1]] {
        assert_as_alone::<Cnn<B>>(in_memory(shares.len()), shares);
        assert_as_alone::<Branchy<B>>(in_memory(shares.len()), shares);
    }
}

#[test]
fn bits_are_those_of_one_process_over_tcp() {
    for shares in [&[2, 2, 2, 2][..], &[3, 5]] {
        assert_as_alone::<Mlp<B>>(over_tcp(shares.len()), shares);
    }
}

#[test]
fn process_may_host_several_ranks() {
    let shares = [3, 2, 2, 1];
    let expected = alone::<Cnn<B>>(8);
    let mut ends = in_memory(4);
    let last = ends.split_off(3);
    let traces = thread::scope(|scope| {
        let threads = [ends, last].map(|ends| {
            scope.spawn(move || {
                let mut model = Cnn::init(&Default::default());
                let settings = settings(&shares).devices(devices::<B>(ends.len()));
                let mut session = settings.start_in(&mut model, ends).unwrap();
                train(&mut session, model).0
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(traces, [expected.clone(), expected]);
}

#[test]
fn scores_are_summed_over_processes() {
    let items = batch(0);
    let score = |model: &<Mlp<B> as burn::module::AutodiffModule<B>>::InnerModule,
                 micro: common::Samples<_>| {
        [
            micro.weight,
            weighted_loss(model, micro).sum.into_scalar().into(),
        ]
    };
    let mut model = Mlp::<B>::init(&Default::default());
    let mut session: Session<B> = start(&[5], &mut model);
    let expected: [f64; 2] = session
        .evaluate(&model, &items, &SampleBatcher, score)
        .unwrap();
    let got = processes(in_memory(2), |_, end| {
        let mut model = Mlp::<B>::init(&Default::default());
        let mut session = settings(&[2, 3]).start_in(&mut model, [end]).unwrap();
        session
            .evaluate(&model, &items, &SampleBatcher, score)
            .unwrap()
    });
    assert_eq!(got, [expected, expected]);
}

/// All ranks of a call for the fewest bytes have the same bits, run after run; along a whole tree of
/// aligned shares, halving adds in the tree's order.
#[test]
fn other_reductions_give_all_ranks_the_same_bits() {
    let run = |reduce, shares: &[usize]| {
        processes(in_memory(shares.len()), |_, end| {
            let mut model = Cnn::<B>::init(&Default::default());
            let settings = settings(shares).reduce(reduce);
            let mut session = settings.start_in(&mut model, [end]).unwrap();
            train(&mut session, model).0
        })
    };
    for reduce in [Reduce::Ring, Reduce::HalvingDoubling] {
        for shares in [&[2, 3, 3][..], &[1, 2, 3, 1, 1]] {
            let traces = run(reduce, shares);
            assert!(traces.iter().all(|trace| *trace == traces[0]), "{reduce}");
            assert_eq!(run(reduce, shares), traces);
            let ordered = alone::<Cnn<B>>(8);
            for ((got, _), (expected, _)) in traces[0].iter().zip(&ordered).take(1) {
                let [got, expected] = [got, expected].map(|trace| f64::from_bits(trace.norm));
                assert!(
                    (got - expected).abs() <= 1e-5 * expected,
                    "{got} {expected}"
                );
            }
        }
    }
    let halving = run(Reduce::HalvingDoubling, &[2, 2, 2, 2]);
    assert_eq!(halving[3], alone::<Cnn<B>>(8));
}

/// Errors of all ranks, where each starts with settings and a model of its own.
fn refused<M: burn::module::AutodiffModule<B>>(
    world: usize,
    start: impl Fn(usize) -> (VirtualNodes<Vec<burn_flex::FlexDevice>>, M) + Sync,
) -> Vec<String> {
    processes(in_memory(world), |rank, end| {
        let (settings, mut model) = start(rank);
        settings
            .start_in(&mut model, [end])
            .unwrap_err()
            .to_string()
    })
}

fn mlp() -> Mlp<B> {
    Mlp::init(&Default::default())
}

#[test]
fn every_rank_is_told_which_one_was_started_otherwise() {
    let errors = refused(3, |rank| {
        let seed = if rank == 2 { 43 } else { 42 };
        (settings(&[2, 2, 2]).seed(seed), mlp())
    });
    let text = "rank 2 differs from rank 0 in its seed: expected 42, got 43";
    assert_eq!(errors, [text; 3]);

    let errors = refused(2, |rank| {
        let settings = settings(&[2, 2]);
        match rank {
            0 => (settings, mlp()),
            _ => (settings.clip_norm(0.5), mlp()),
        }
    });
    let text = "rank 1 differs from rank 0 in its norm to clip at: expected None, got Some(0.5)";
    assert_eq!(errors, [text; 2]);

    let errors = refused(2, |rank| (settings(&[[2, 2], [1, 3]][rank]), mlp()));
    let text =
        "rank 1 differs from rank 0 in its placement: expected [0..2][2..4], got [0..1][1..4]";
    assert_eq!(errors, [text; 2]);
}

#[test]
fn every_rank_is_told_what_else_differs() {
    let errors = refused(2, |rank| {
        let rate = [0.1, 0.2][rank];
        (settings(&[1, 1]).agree_on("learning rate", rate), mlp())
    });
    let text = "rank 1 differs from rank 0 in its learning rate: expected 0.1, got 0.2";
    assert_eq!(errors, [text; 2]);
}

#[derive(Module, Debug)]
struct Weight<B: burn::tensor::backend::Backend> {
    matrix: Param<Tensor<B, 2>>,
}

#[test]
fn every_rank_is_told_which_one_has_another_model() {
    let weight = |shape: [usize; 2], value: f32| Weight::<B> {
        matrix: Param::from_data(TensorData::new(vec![value; 12], shape), &Default::default()),
    };
    let errors = refused(2, |rank| {
        (settings(&[1, 1]), weight([[2, 6], [3, 4]][rank], 1.0))
    });
    let text = "rank 1 differs from rank 0 in its tensor `matrix`: \
                expected parameter of [2, 6], f32, got parameter of [3, 4], f32";
    assert_eq!(errors, [text; 2]);

    let errors = refused(2, |rank| (settings(&[1, 1]), weight([2, 6], rank as f32)));
    for error in errors {
        assert!(
            error.starts_with("rank 1 differs from rank 0 in its initial weights"),
            "{error}"
        );
    }
}

/// One process steps on a batch of its own, so that it fails alone or notices: the others must not
/// wait for the deadline, and all name it.
fn assert_closed(odd: fn() -> Vec<Sample>, own: &str, heard: &str) {
    let errors = processes(in_memory(3), |rank, end| {
        let mut model = mlp();
        let mut session = settings(&[2, 1, 1]).start_in(&mut model, [end]).unwrap();
        let (model, _) = train_step(&mut session, model, &mut adam(), &batch(0)).unwrap();
        let items = if rank == 1 { odd() } else { batch(1) };
        let mut step = |items: &[Sample]| {
            let result = session.backward(&model, items, &SampleBatcher, weighted_loss);
            result.unwrap_err()
        };
        let error = step(&items);
        // It stays closed, and a step that would have been all right says why.
        assert!(step(&batch(1)).to_string().contains("closed by rank"));
        error
    });
    assert!(errors[1].to_string().contains(own), "{}", errors[1]);
    for error in [&errors[0], &errors[2]] {
        let text = error.to_string();
        assert!(text.contains(heard), "{text}");
    }
}

#[test]
fn all_ranks_fail_when_one_cannot_begin_its_step() {
    let own = "the batch is empty";
    assert_closed(Vec::new, own, own);
}

#[test]
fn all_ranks_fail_when_one_has_another_batch() {
    // Two ranks may notice at once, or one hears of the other's words.
    assert_closed(|| samples(1, 5), "samples", "samples");
}

#[test]
fn failure_of_a_virtual_node_is_told_to_all_processes() {
    let errors = processes(in_memory(2), |rank, end| {
        let mut model = mlp();
        let mut session = settings(&[2, 2]).start_in(&mut model, [end]).unwrap();
        let loss = |model: &Mlp<B>, micro| {
            assert!(rank == 0, "no luck");
            weighted_loss(model, micro)
        };
        session
            .backward(&model, &batch(0), &SampleBatcher, loss)
            .unwrap_err()
    });
    let own = "rank 1, step 0, virtual node 2: user code panicked: no luck";
    assert_eq!(errors[1].to_string(), own);
    assert!(!errors[1].is_consequence());
    assert!(errors[0].to_string().contains(own), "{}", errors[0]);
    assert!(errors[0].is_consequence());
}

#[test]
fn what_needs_all_ranks_here_is_refused() {
    let errors = processes(in_memory(2), |_, end| {
        let mut model = mlp();
        let mut session = settings(&[1, 1]).start_in(&mut model, [end]).unwrap();
        session.resize(devices::<B>(2)).unwrap_err()
    });
    let text = "resizing: expected all ranks in this process, got 1 of 2";
    assert_eq!(errors[0].to_string(), text);
}

#[test]
fn ends_that_do_not_fit_are_refused() {
    let refused = |ends: Ends| {
        let mut model = mlp();
        let settings = VirtualNodes::new(4).devices(devices::<B>(2));
        match settings.start_in::<B, _, _>(&mut model, ends) {
            Err(error @ TrainError::Transports { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let swapped: Ends = in_memory(3).into_iter().rev().skip(1).collect();
    assert_eq!(
        refused(swapped),
        "transports: expected ends in the order of their ranks, got rank 1 before rank 0"
    );
    assert_eq!(
        refused(in_memory(3)),
        "transports: expected one for each of 2 devices, got 3"
    );
    let mixed = [in_memory(2).remove(0), in_memory(3).remove(1)];
    assert_eq!(
        refused(mixed.into()),
        "transports: expected ends of one group of 2 ranks, got one of 3"
    );
}

#[test]
fn every_rank_gets_what_all_bring() {
    let got = processes(in_memory(3), |rank, end| {
        let mut model = mlp();
        let mut session = settings(&[1, 1, 1]).start_in(&mut model, [end]).unwrap();
        session.gather(vec![vec![rank as u8; rank]]).unwrap()
    });
    assert_eq!(got, vec![vec![vec![], vec![1], vec![2, 2]]; 3]);
}
