//! Nothing but the model, the data, the virtual nodes, the batch, the seed and the optimizer decides
//! the result: random jobs on random placements against one device.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn::module::AutodiffModule;
use burn::optim::Optimizer;
use burn_virtual::nodes::{Session, TrainError, WeightsHash};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof};
use proptest::sample::subsequence;

use common::{
    Branchy, Cnn, Mlp, Net, OnFlex, Sample, StepTrace, adam, devices, freeze, hash, samples, sgd,
    start, train_step, trained_ids,
};

type B = OnFlex;

const MOST_SAMPLES: usize = 33;
const STEPS: u64 = 3;

#[derive(Clone, Debug)]
struct Job {
    batch: usize,
    weights: Vec<f32>,
    /// Per step, which parameters are frozen.
    frozen: Vec<u32>,
    seed: u64,
}

/// Two placements of the same virtual nodes; the second is taken after the first step.
#[derive(Clone, Debug)]
struct Placed {
    first: Vec<usize>,
    second: Vec<usize>,
}

fn jobs() -> impl Strategy<Value = Job> {
    let weight = prop_oneof![1 => Just(0.0_f32), 5 => 0.01_f32..3.0];
    // Few parameters are frozen at a time; now and then all of them.
    let mask = prop_oneof![
        2 => Just(0),
        4 => (any::<u32>(), any::<u32>()).prop_map(|(left, right)| left & right),
        1 => Just(u32::MAX),
    ];
    let parts = (
        0..=MOST_SAMPLES,
        vec(weight, MOST_SAMPLES),
        vec(mask, STEPS as usize),
        any::<u32>(),
    );
    parts.prop_map(|(batch, weights, frozen, seed)| Job {
        batch,
        weights,
        frozen,
        seed: seed.into(),
    })
}

fn placed() -> impl Strategy<Value = Placed> {
    (1..=12_usize)
        .prop_flat_map(|nodes| (shares(nodes), shares(nodes)))
        .prop_map(|(first, second)| Placed { first, second })
}

/// Cuts the virtual nodes into 1 to 6 ranges, anywhere.
fn shares(nodes: usize) -> impl Strategy<Value = Vec<usize>> {
    let cuts: Vec<usize> = (1..nodes).collect();
    let most = cuts.len().min(5);
    subsequence(cuts, 0..=most).prop_map(move |mut cuts| {
        cuts.push(nodes);
        let starts = std::iter::once(0).chain(cuts.clone());
        starts.zip(cuts).map(|(start, end)| end - start).collect()
    })
}

fn batch(job: &Job, step: u64) -> Vec<Sample> {
    // The second batch is a shorter one.
    let size = if step == 1 {
        job.batch.div_ceil(2)
    } else {
        job.batch
    };
    let mut items = samples(job.seed + step, size);
    for (item, weight) in items.iter_mut().zip(&job.weights) {
        item.weight = *weight;
    }
    items
}

/// What each step reported, and the weights and statistics after it.
type Trace = Vec<(StepTrace, WeightsHash)>;

fn run<M, O>(job: &Job, placed: &Placed, mut optim: O) -> Result<Trace, TrainError>
where
    M: AutodiffModule<B> + Net<B>,
    M::InnerModule: Send,
    O: Optimizer<M, B>,
{
    let mut model = M::init(&Default::default());
    let mut session: Session<B> = start(&placed.first, &mut model);
    let ids = trained_ids(&model);
    let mut trace = Trace::new();
    for step in 0..STEPS {
        model = freeze(model, &ids, job.frozen[step as usize]);
        let done;
        (model, done) = train_step(&mut session, model, &mut optim, &batch(job, step))?;
        trace.push((done, hash(&model)));
        if step == 0 {
            let second = &placed.second;
            session.resize_to(devices::<B>(second.len()), second.iter().copied())?;
        }
    }
    Ok(trace)
}

fn check<M, O>(
    job: &Job,
    placed: &Placed,
    optim: impl Fn() -> O,
) -> Result<(), proptest::test_runner::TestCaseError>
where
    M: AutodiffModule<B> + Net<B>,
    M::InnerModule: Send,
    O: Optimizer<M, B>,
{
    let nodes = vec![placed.first.iter().sum()];
    let alone = Placed {
        first: nodes.clone(),
        second: nodes,
    };
    let got = run::<M, O>(job, placed, optim());
    match run::<M, O>(job, &alone, optim()) {
        Ok(expected) => prop_assert_eq!(got.unwrap(), expected),
        Err(error) => {
            prop_assert_eq!(job.batch, 0, "{}", error);
            assert!(matches!(error, TrainError::EmptyBatch), "{error}");
            assert!(matches!(got, Err(TrainError::EmptyBatch)), "{got:?}");
        }
    }
    Ok(())
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest::proptest! {
    #![proptest_config(config())]

    #[test]
    fn bits_are_those_of_one_device_for_an_mlp_with_dropout(job in jobs(), placed in placed()) {
        check::<Mlp<B>, _>(&job, &placed, sgd)?;
        check::<Mlp<B>, _>(&job, &placed, adam)?;
    }

    #[test]
    fn bits_are_those_of_one_device_for_a_cnn_with_batch_norm(job in jobs(), placed in placed()) {
        check::<Cnn<B>, _>(&job, &placed, sgd)?;
        check::<Cnn<B>, _>(&job, &placed, adam)?;
    }

    #[test]
    fn bits_are_those_of_one_device_when_branches_depend_on_data(job in jobs(), placed in placed()) {
        check::<Branchy<B>, _>(&job, &placed, sgd)?;
        check::<Branchy<B>, _>(&job, &placed, adam)?;
    }
}

/// The comparison above would also hold if nothing decided the result.
#[test]
fn bits_differ_when_seed_batch_or_virtual_nodes_do() {
    let job = Job {
        batch: 9,
        weights: vec![1.0; MOST_SAMPLES],
        frozen: vec![0; 3],
        seed: 1,
    };
    let last = |job: &Job, nodes: usize| {
        let placed = Placed {
            first: vec![nodes],
            second: vec![nodes],
        };
        run::<Cnn<B>, _>(job, &placed, adam())
            .unwrap()
            .pop()
            .unwrap()
    };
    let expected = last(&job, 4);
    assert_ne!(
        last(
            &Job {
                seed: 2,
                ..job.clone()
            },
            4
        ),
        expected
    );
    assert_ne!(
        last(
            &Job {
                batch: 10,
                ..job.clone()
            },
            4
        ),
        expected
    );
    assert_ne!(last(&job, 5), expected);
}
