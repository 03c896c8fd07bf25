//! `Predictor`: results in order and with the same bits for every placement, and what it refuses.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::cell::Cell;
use std::panic::panic_any;

use burn::backend::Autodiff;
use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};
use burn_virtual_backend::{Meter, VirtualBackend};
use burn_virtual_train::{
    LossSum, NodeError, Predictor, RankMemory, TrainError, VirtualNodes, WeightsHash,
};

type V = VirtualBackend<Flex>;
type B = Autodiff<V>;

const WIDTH: usize = 4;

type Item = [f32; WIDTH];

/// Irregular values, other ones for each index.
fn item(index: usize) -> Item {
    std::array::from_fn(|column| ((index * WIDTH + column) as f32 * 1.7).sin())
}

fn items(count: usize) -> Vec<Item> {
    (0..count).map(item).collect()
}

struct Rows;

impl<B: Backend> Batcher<B, Item, Tensor<B, 2>> for Rows {
    fn batch(&self, items: Vec<Item>, device: &B::Device) -> Tensor<B, 2> {
        assert!(!items.is_empty(), "a virtual node without samples was run");
        let data = TensorData::new(items.concat(), [items.len(), WIDTH]);
        Tensor::from_data(data, device)
    }
}

#[derive(Module, Debug)]
struct Mlp<B: Backend> {
    hidden: Linear<B>,
    output: Linear<B>,
}

impl<B: Backend> Mlp<B> {
    fn forward(&self, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        self.output.forward(self.hidden.forward(rows).tanh())
    }
}

/// Equal to any other: drawn from one seed.
fn mlp(hidden: usize) -> Mlp<B> {
    B::seed(&FlexDevice, 42);
    let model = Mlp {
        hidden: LinearConfig::new(WIDTH, hidden).init(&FlexDevice),
        output: LinearConfig::new(hidden, 3).init(&FlexDevice),
    };
    model.forward(Tensor::zeros([1, WIDTH], &FlexDevice));
    model
}

fn predictor(virtual_nodes: usize, ranks: usize) -> Predictor<V, Mlp<V>> {
    predictor_of(&mlp(7), virtual_nodes, ranks)
}

fn predictor_of<M: AutodiffModule<B>>(
    model: &M,
    virtual_nodes: usize,
    ranks: usize,
) -> Predictor<V, M::InnerModule> {
    VirtualNodes::new(virtual_nodes)
        .devices(vec![FlexDevice; ranks])
        .predictor(model)
        .unwrap()
}

fn forward(model: &Mlp<V>, micro: Tensor<V, 2>) -> Tensor<V, 2> {
    model.forward(micro)
}

fn rows(items: &[Item]) -> Tensor<V, 2> {
    Rows.batch(items.to_vec(), &FlexDevice)
}

fn values<const D: usize>(tensor: Tensor<V, D>) -> Vec<f32> {
    tensor.into_data().to_vec().unwrap()
}

fn bits<const D: usize>(tensor: Tensor<V, D>) -> Vec<u32> {
    values(tensor).into_iter().map(f32::to_bits).collect()
}

#[track_caller]
fn assert_close(got: &[f32], expected: &[f32], case: &str) {
    assert_eq!(got.len(), expected.len(), "{case}");
    for (got, expected) in got.iter().zip(expected) {
        assert!(
            (got - expected).abs() <= 1e-6,
            "{case}: {got}, not {expected}"
        );
    }
}

#[test]
fn results_are_those_of_the_unsplit_batch_for_any_nodes_ranks_and_batch() {
    let model = mlp(7).valid();
    let unsplit: Vec<_> = (1..=20)
        .map(|batch| values(model.forward(rows(&items(batch)))))
        .collect();
    for virtual_nodes in 1..=9 {
        let mut alone: Vec<Vec<u32>> = Vec::new();
        for ranks in 1..=4.min(virtual_nodes) {
            let mut predictor = predictor(virtual_nodes, ranks);
            for batch in 1..=20 {
                let case = format!("{virtual_nodes} nodes, {ranks} ranks, batch {batch}");
                let got = predictor.predict(&items(batch), &Rows, forward).unwrap();
                assert_eq!(got.dims(), [batch, 3], "{case}");
                assert_close(&values(got.clone()), &unsplit[batch - 1], &case);
                if ranks == 1 {
                    alone.push(bits(got));
                } else {
                    assert_eq!(bits(got), alone[batch - 1], "{case}");
                }
            }
        }
    }
}

#[test]
fn results_keep_order_and_bits_when_shares_are_uneven() {
    let items = items(13);
    let expected = predictor(5, 1).predict(&items, &Rows, forward).unwrap();
    for shares in [&[4, 1][..], &[1, 4], &[1, 3, 1], &[2, 1, 1, 1]] {
        let mut predictor = VirtualNodes::new(5)
            .devices(vec![FlexDevice; shares.len()])
            .shares(shares.iter().copied())
            .predictor(&mlp(7))
            .unwrap();
        let got = predictor.predict(&items, &Rows, forward).unwrap();
        assert_eq!(bits(got), bits(expected.clone()), "{shares:?}");
    }
}

#[test]
fn ready_tensors_are_split_like_items() {
    let items = items(11);
    let expected = predictor(3, 2).predict(&items, &Rows, forward).unwrap();
    let got = predictor(3, 2)
        .predict_batch(&rows(&items), forward)
        .unwrap();
    assert_eq!(bits(got), bits(expected));
}

#[test]
fn tuples_and_lists_are_joined_in_order() {
    let items = items(10);
    let mut predictor = predictor(4, 3);
    let (outputs, firsts, sizes) = predictor
        .predict(&items, &Rows, |model, micro| {
            let rows = micro.dims()[0];
            let firsts: Vec<f32> = values(micro.clone())
                .chunks(WIDTH)
                .map(|row| row[0])
                .collect();
            (model.forward(micro), firsts, vec![rows; rows])
        })
        .unwrap();
    assert_eq!(outputs.dims(), [10, 3]);
    let expected: Vec<_> = items.iter().map(|item| item[0]).collect();
    assert_eq!(firsts, expected);
    assert_eq!(sizes, [3, 3, 3, 3, 3, 3, 2, 2, 2, 2]);
}

#[test]
fn only_nodes_with_samples_run_when_the_batch_is_small() {
    let mut predictor = predictor(9, 4);
    let sizes = predictor.predict(&items(2), &Rows, |_, micro: Tensor<V, 2>| {
        vec![micro.dims()[0]]
    });
    assert_eq!(sizes.unwrap(), [1, 1]);
}

#[test]
fn empty_batches_are_refused() {
    let mut predictor = predictor(4, 2);
    let error = predictor.predict(&[], &Rows, forward).unwrap_err();
    assert!(matches!(error, TrainError::EmptyBatch), "{error}");
    let empty = Tensor::<V, 2>::zeros([0, WIDTH], &FlexDevice);
    let error = predictor.predict_batch(&empty, forward).unwrap_err();
    assert!(matches!(error, TrainError::EmptyBatch), "{error}");
}

#[test]
fn unequal_batches_are_refused() {
    let unequal = (rows(&items(3)), rows(&items(4)));
    let error = predictor(2, 1)
        .predict_batch(&unequal, |model, (micro, _)| model.forward(micro))
        .unwrap_err();
    let expected = matches!(
        error,
        TrainError::UnequalBatch {
            expected: 3,
            got: 4
        }
    );
    assert!(expected, "{error}");
}

#[test]
fn predictors_are_refused_when_devices_and_nodes_do_not_fit() {
    let start = |nodes: VirtualNodes<Vec<FlexDevice>>| nodes.predictor(&mlp(7)).map(|_| ());
    let nodes = VirtualNodes::new(2).devices(vec![FlexDevice; 3]);
    assert!(matches!(start(nodes), Err(TrainError::Plan(_))));
    let nodes = VirtualNodes::new(2).devices(Vec::new());
    assert!(matches!(start(nodes), Err(TrainError::Plan(_))));
    let nodes = VirtualNodes::new(2).devices([FlexDevice]).shares([1, 1]);
    assert!(matches!(start(nodes), Err(TrainError::Shares { .. })));
}

/// Fails on the item of index 7 of [`items`], which the fourth of five virtual nodes gets.
fn fail_on_seven(micro: &Tensor<V, 2>) {
    let rows = values(micro.clone());
    assert!(
        !rows.chunks(WIDTH).any(|row| *row == item(7)),
        "no number seven"
    );
}

#[track_caller]
fn assert_panicked(error: &TrainError, rank: usize, batch: u64, node: usize, text: &str) {
    let TrainError::Node {
        source: NodeError::Panicked(got),
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert!(got.contains(text), "{got}");
    let place = format!("rank {rank}, step {batch}, virtual node {node}: ");
    assert!(error.to_string().starts_with(&place), "{error}");
}

#[test]
fn panics_of_the_model_are_named_and_the_predictor_goes_on() {
    let mut predictor = predictor(5, 2);
    let before = bits(predictor.predict(&items(10), &Rows, forward).unwrap());
    let error = predictor
        .predict(&items(10), &Rows, |model, micro| {
            fail_on_seven(&micro);
            model.forward(micro)
        })
        .unwrap_err();
    // Nodes 0..3 are on rank 0.
    assert_panicked(&error, 1, 1, 3, "no number seven");
    let after = predictor.predict(&items(10), &Rows, forward).unwrap();
    assert_eq!(bits(after), before);
}

#[test]
fn panics_of_the_batcher_are_named() {
    struct Broken;
    impl Batcher<V, Item, Tensor<V, 2>> for Broken {
        fn batch(&self, items: Vec<Item>, device: &FlexDevice) -> Tensor<V, 2> {
            let rows = Rows.batch(items, device);
            fail_on_seven(&rows);
            rows
        }
    }
    let error = predictor(5, 5)
        .predict(&items(10), &Broken, forward)
        .unwrap_err();
    assert_panicked(&error, 3, 0, 3, "no number seven");
}

#[test]
fn results_that_do_not_fit_together_are_an_error_that_names_the_batch() {
    let mut predictor = predictor(3, 2);
    predictor.predict(&items(6), &Rows, forward).unwrap();
    // As many columns as the micro-batch has rows: three, two and two.
    let square = |_: &Mlp<V>, micro: Tensor<V, 2>| {
        let [rows, _] = micro.dims();
        Tensor::<V, 2>::zeros([rows, rows], &FlexDevice)
    };
    let error = predictor.predict(&items(7), &Rows, square).unwrap_err();
    assert!(matches!(error, TrainError::Join { step: 1, .. }), "{error}");
    assert!(error.to_string().starts_with("step 1: "), "{error}");
    // The same columns everywhere: nothing is wrong with that.
    let joined = predictor.predict(&items(6), &Rows, square).unwrap();
    assert_eq!(joined.dims(), [6, 2]);
}

#[test]
fn results_of_another_number_of_samples_are_refused() {
    let mut predictor = predictor(2, 1);
    let text = |result: Result<(), TrainError>| result.unwrap_err().to_string();
    let mean = |model: &Mlp<V>, micro| model.forward(micro).mean_dim(0);
    let error = text(predictor.predict(&items(5), &Rows, mean).map(drop));
    let expected = "virtual node 0: the results of 1 samples for a micro-batch of 3";
    assert!(error.contains(expected), "{error}");
    // One too many in the first virtual node and one too few in the second: the total would fit.
    let shifted = |_: &Mlp<V>, micro: Tensor<V, 2>| match micro.dims()[0] {
        3 => (vec![0; 3], vec![0; 4]),
        _ => (vec![0; 2], vec![0; 1]),
    };
    let error = text(predictor.predict(&items(5), &Rows, shifted).map(drop));
    assert!(
        error.contains("the results of 4 samples for a micro-batch of 3"),
        "{error}"
    );
}

#[test]
fn streams_give_the_results_of_their_batches() {
    let items = items(23);
    let mut predictor = predictor(4, 2);
    let expected: Vec<_> = items
        .chunks(10)
        .map(|batch| bits(predictor.predict(batch, &Rows, forward).unwrap()))
        .collect();
    let got: Vec<_> = predictor
        .stream(items, 10, &Rows, forward)
        .unwrap()
        .map(|result| bits(result.unwrap()))
        .collect();
    assert_eq!(got, expected);
    assert_eq!(got.len(), 3);
    let empty = predictor.stream(Vec::<Item>::new(), 10, &Rows, forward);
    assert_eq!(empty.unwrap().count(), 0);
}

#[test]
fn streams_are_refused_when_the_batch_size_is_zero() {
    let mut predictor = predictor(4, 2);
    let Err(error) = predictor.stream(items(3), 0, &Rows, forward) else {
        panic!("a batch size of 0");
    };
    let expected = matches!(
        error,
        TrainError::Setting {
            what: "batch size",
            ..
        }
    );
    assert!(expected, "{error}");
}

#[test]
fn streams_pull_one_batch_at_a_time() {
    let pulled = Cell::new(0);
    // Without an end: whoever reads ahead never comes back.
    let endless = (0..).map(|index| {
        pulled.set(pulled.get() + 1);
        item(index)
    });
    let mut predictor = predictor(4, 2);
    let mut stream = predictor.stream(endless, 10, &Rows, forward).unwrap();
    assert_eq!(pulled.get(), 0);
    for batch in 1..=3 {
        assert_eq!(stream.next().unwrap().unwrap().dims(), [10, 3]);
        assert_eq!(pulled.get(), 10 * batch);
    }
}

#[test]
fn streams_end_after_the_first_error() {
    let pulled = Cell::new(0);
    let counted = (0..).map(|index| {
        pulled.set(pulled.get() + 1);
        item(index)
    });
    let mut predictor = predictor(2, 2);
    let fails = |model: &Mlp<V>, micro: Tensor<V, 2>| {
        fail_on_seven(&micro);
        model.forward(micro)
    };
    let mut stream = predictor.stream(counted, 4, &Rows, fails).unwrap();
    assert!(stream.next().unwrap().is_ok());
    // Items 4 to 7, of which the second node gets 6 and 7.
    assert_panicked(
        &stream.next().unwrap().unwrap_err(),
        1,
        1,
        1,
        "no number seven",
    );
    assert!(stream.next().is_none());
    assert!(stream.next().is_none());
    assert_eq!(pulled.get(), 8);
    drop(stream);
    assert!(predictor.predict(&items(4), &Rows, forward).is_ok());
}

#[test]
fn streams_ask_no_more_of_an_iterator_that_has_ended() {
    let mut pulls = 0;
    // Would go on after its end, as iterators may.
    let odd = std::iter::from_fn(|| {
        pulls += 1;
        (pulls != 5).then(|| item(pulls))
    });
    let mut predictor = predictor(2, 1);
    let stream = predictor.stream(odd, 10, &Rows, forward).unwrap();
    let rows: Vec<_> = stream.map(|result| result.unwrap().dims()[0]).collect();
    assert_eq!(rows, [4]);
    assert_eq!(pulls, 5);
}

#[derive(Module, Debug)]
struct Normed<B: Backend> {
    norm: BatchNorm<B>,
}

/// A batch norm whose running statistics have moved.
fn normed() -> Normed<B> {
    let mut model = Normed::<B> {
        norm: BatchNormConfig::new(WIDTH).init(&FlexDevice),
    };
    let mut nodes = VirtualNodes::new(2).start(&mut model).unwrap();
    for _ in 0..3 {
        nodes
            .backward(&model, &items(8), &Rows, |model: &Normed<B>, micro| {
                LossSum {
                    weight: 1.0,
                    sum: model.norm.forward::<2>(micro).sum(),
                }
            })
            .unwrap();
    }
    model
}

#[test]
fn running_statistics_are_used_and_not_changed() {
    let trained = normed();
    let model = trained.valid();
    let before = WeightsHash::of::<B, _>(&trained).unwrap();
    let items = items(9);
    let whole = model.norm.forward(rows(&items));
    // The statistics of a model that was never trained change nothing.
    let untrained = values(rows(&items));
    assert!((values(whole.clone())[0] - untrained[0]).abs() > 1e-3);

    let mut predictor = predictor_of(&trained, 4, 3);
    for _ in 0..2 {
        let got = predictor
            .predict(&items, &Rows, |model, micro| model.norm.forward::<2>(micro))
            .unwrap();
        assert_close(&values(got), &values(whole.clone()), "batch norm");
    }
    assert_eq!(WeightsHash::of::<B, _>(&trained).unwrap(), before);
}

#[test]
fn random_numbers_are_the_same_for_every_placement() {
    let noise = |ranks: usize| {
        let mut predictor = predictor(4, ranks);
        let mut draw = || {
            let noise = predictor.predict(&items(10), &Rows, |_, micro: Tensor<V, 2>| {
                micro.random_like(Distribution::Default)
            });
            bits(noise.unwrap())
        };
        [draw(), draw()]
    };
    let [first, second] = noise(1);
    for ranks in 2..=4 {
        assert_eq!(noise(ranks), [first.clone(), second.clone()]);
    }
    // Other ones in every batch, and in every virtual node.
    assert_ne!(first, second);
    assert_ne!(first[..2 * WIDTH], first[3 * WIDTH..5 * WIDTH]);
}

#[test]
fn lazy_parameters_are_drawn_from_the_seed() {
    let run = |seed: u64, before: u64| {
        V::seed(&FlexDevice, before);
        let model: Linear<B> = LinearConfig::new(WIDTH, 3).init(&FlexDevice);
        let mut predictor = VirtualNodes::new(2).seed(seed).predictor(&model).unwrap();
        let got = predictor.predict(&items(4), &Rows, |model: &Linear<V>, micro| {
            model.forward(micro)
        });
        bits(got.unwrap())
    };
    assert_eq!(run(1, 1), run(1, 2));
    assert_ne!(run(1, 1), run(2, 1));
}

/// The memory of one batch of 64, per rank.
fn memory(virtual_nodes: usize, ranks: usize) -> Vec<RankMemory> {
    let mut predictor = predictor_of(&mlp(100), virtual_nodes, ranks);
    predictor.predict(&items(64), &Rows, forward).unwrap();
    predictor.memory().to_vec()
}

#[test]
fn memory_is_all_zero_without_a_meter() {
    assert_eq!(memory(8, 2), [RankMemory::default(); 2]);
}

#[test]
fn activations_are_an_eighth_when_split_over_eight_nodes() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let [whole] = memory(1, 1)[..] else {
        panic!("one rank");
    };
    // The hidden layer's output; at most its input and the result of what is done to it beside it.
    let hidden = 64 * 4 * 100;
    assert!(
        (hidden..=2 * hidden + 64 * 4 * WIDTH).contains(&whole.activations),
        "{whole:?}"
    );
    for ranks in [1, 3] {
        for rank in memory(8, ranks) {
            let share = rank.activations as f64 / whole.activations as f64;
            assert!((0.12..0.13).contains(&share), "{share}");
            assert_eq!(rank.parameters, 4 * (WIDTH * 100 + 100 + 300 + 3));
            assert!(rank.peak >= rank.parameters + rank.activations, "{rank:?}");
            assert!(rank.peak < whole.peak, "{rank:?}");
            assert_eq!((rank.optimizer, rank.gradients), (0, 0));
        }
    }
}

#[test]
fn panics_without_a_text_are_errors_too() {
    let error = predictor(2, 2)
        .predict(&items(4), &Rows, |_, _: Tensor<V, 2>| -> Vec<u8> {
            panic_any(7)
        })
        .unwrap_err();
    assert_panicked(&error, 0, 0, 0, "a value that is no text");
}

#[test]
fn ranks_on_one_device_share_the_model() {
    let meter = Meter::new();
    let _listening = meter.listen();
    let model = mlp(100);
    let peak = |ranks: usize| {
        let mut predictor = predictor_of(&model, 4, ranks);
        predictor.predict(&items(64), &Rows, forward).unwrap();
        predictor
            .memory()
            .iter()
            .map(|rank| rank.peak)
            .max()
            .unwrap()
    };
    assert!(peak(4) <= peak(1));
}
