//! Models that are not the one the session was started with.

use burn::module::ParamId;
use burn::nn::LinearConfig;
use burn::optim::{AdamConfig, Optimizer};
use burn::tensor::{Tensor, TensorData};
use burn_virtual::nodes::{LossSum, TrainError, WeightsHash, id_of_path};

use crate::common::{
    Branchy, Cnn, MAPPINGS, Mlp, Net, SampleBatcher, StepTrace, hash, load, samples, save, start,
    train_step, weighted_loss, with_new_ids,
};
use crate::{B, Twins, job};

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
