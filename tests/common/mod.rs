//! What the test files share: backends, small models and their data, and how a run is compared.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part; a panic is how a test fails"
)]

use burn::backend::Autodiff;
use burn::data::dataloader::batcher::Batcher;
use burn::module::{AutodiffModule, Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d,
};
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{Adam, AdamConfig, GradientsParams, Optimizer, SgdConfig};
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Recorder};
use burn::tensor::activation::{log_softmax, relu};
use burn::tensor::backend::Backend;
use burn::tensor::{ElementConversion, Int, Tensor, TensorData};
use burn_flex::Flex;
use burn_ndarray::NdArray;
#[cfg(feature = "cuda")]
use burn_virtual::backend::Cuda;
#[cfg(all(feature = "wgpu", feature = "fusion"))]
use burn_virtual::backend::FusedWgpu;
use burn_virtual::backend::VirtualBackend;
#[cfg(feature = "wgpu")]
use burn_virtual::backend::Wgpu;
use burn_virtual::nodes::{
    LossSum, Session, StepOutput, TrainError, VirtualAutodiff, VirtualNodes, WeightsHash,
};

pub(crate) type OnFlex = Autodiff<VirtualBackend<Flex>>;
pub(crate) type OnNdArray = Autodiff<VirtualBackend<NdArray>>;
#[cfg(feature = "wgpu")]
pub(crate) type OnWgpu = Autodiff<VirtualBackend<Wgpu>>;
#[cfg(feature = "cuda")]
pub(crate) type OnCuda = Autodiff<VirtualBackend<Cuda>>;
#[cfg(all(feature = "wgpu", feature = "fusion"))]
pub(crate) type OnFusedWgpu = Autodiff<VirtualBackend<FusedWgpu>>;

/// Four virtual nodes on one to four devices: how many each device runs.
pub(crate) const MAPPINGS: [&[usize]; 5] = [&[4], &[2, 2], &[1, 1, 1, 1], &[3, 1], &[1, 2, 1]];

/// The same test on both CPU backends.
#[allow(unused_macros, reason = "each test file uses a part")]
macro_rules! on_both {
    ($($name:ident)*) => {
        $crate::common::on_all! { @flex $($name)* }
        $crate::common::on_all! { @ndarray $($name)* }
    };
}
#[allow(unused_imports, reason = "each test file uses a part")]
pub(crate) use on_both;

/// The same test on every backend of the build. What stands after a semicolon holds only where bits
/// repeat: not on ndarray.
#[allow(unused_macros, reason = "each test file uses a part")]
macro_rules! on_all {
    (@flex $($name:ident)*) => {
        mod flex {
            $(#[test]
            fn $name() {
                super::$name::<crate::common::OnFlex>();
            })*
        }
    };
    (@ndarray $($name:ident)*) => {
        mod ndarray {
            $(#[test]
            fn $name() {
                super::$name::<crate::common::OnNdArray>();
            })*
        }
    };
    ($($name:ident)* $(; $($repeating:ident)*)?) => {
        $crate::common::on_all! { @flex $($name)* $($($repeating)*)? }
        $crate::common::on_all! { @ndarray $($name)* }
        $crate::common::on_gpus! { $($name)* $($($repeating)*)? }
    };
}
#[allow(unused_imports, reason = "each test file uses a part")]
pub(crate) use on_all;

/// The same test on every GPU backend of the build. Those of CUDA run where they are asked for:
/// `cargo test ... cuda -- --ignored`.
#[allow(unused_macros, reason = "each test file uses a part")]
macro_rules! on_gpus {
    ($($name:ident)*) => {
        #[cfg(feature = "wgpu")]
        mod wgpu {
            $(#[test]
            fn $name() {
                super::$name::<crate::common::OnWgpu>();
            })*
        }
        #[cfg(feature = "cuda")]
        mod cuda {
            $(#[test]
            #[ignore = "needs an NVIDIA GPU"]
            fn $name() {
                super::$name::<crate::common::OnCuda>();
            })*
        }
    };
}
#[allow(unused_imports, reason = "each test file uses a part")]
pub(crate) use on_gpus;

pub(crate) fn devices<B: Backend>(count: usize) -> Vec<B::Device> {
    vec![B::Device::default(); count]
}

/// A job with `shares[rank]` virtual nodes on each rank.
pub(crate) fn start<B: VirtualAutodiff, M: AutodiffModule<B>>(
    shares: &[usize],
    model: &mut M,
) -> Session<B> {
    VirtualNodes::new(shares.iter().sum())
        .devices(devices::<B>(shares.len()))
        .shares(shares.iter().copied())
        .start(model)
        .unwrap()
}

pub(crate) fn hash<B: Backend, M: Module<B>>(model: &M) -> WeightsHash {
    WeightsHash::of(model).unwrap()
}

pub(crate) fn values<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

pub(crate) fn bits<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<u32> {
    values(tensor).into_iter().map(f32::to_bits).collect()
}

/// The gradient of a parameter, if the step gave it one.
pub(crate) fn gradient<B: VirtualAutodiff, const D: usize>(
    out: &StepOutput,
    param: &Param<Tensor<B, D>>,
) -> Option<Vec<f32>> {
    out.grads.get::<B::InnerBackend, D>(param.id).map(values)
}

#[track_caller]
pub(crate) fn assert_close(got: f64, expected: f64) {
    assert!(
        (got - expected).abs() <= 1e-6 * expected.abs().max(1.0),
        "{got}, not {expected}"
    );
}

#[track_caller]
pub(crate) fn assert_all_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert_close((*got).into(), (*expected).into());
    }
}

/// One id at two paths is refused, and both are named.
#[track_caller]
pub(crate) fn assert_duplicate(error: &TrainError, paths: [&str; 2]) {
    assert!(
        matches!(error, TrainError::DuplicateParameter { .. }),
        "{error}"
    );
    let text = error.to_string();
    for path in paths {
        assert!(text.contains(&format!("`{path}`")), "{text}");
    }
}

/// In `[0, 1)`, irregular (the finaliser of SplitMix64).
pub(crate) fn fraction(index: u64) -> f32 {
    let mut word = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((word ^ (word >> 31)) >> 40) as f32 / (1_u32 << 24) as f32
}

/// A model as bytes, and back into another model.
pub(crate) fn save<B: Backend, M: Module<B>>(model: &M) -> Vec<u8> {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    Recorder::<B>::record(&recorder, model.clone().into_record(), ()).unwrap()
}

pub(crate) fn load<B: Backend, M: Module<B>>(model: M, bytes: &[u8]) -> M {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    let device = B::Device::default();
    model.load_record(Recorder::<B>::load(&recorder, bytes.to_vec(), &device).unwrap())
}

/// The state of an Adam as bytes, in the order of parameter ids: a record as a whole has none.
pub(crate) fn adam_state<B: VirtualAutodiff, M: AutodiffModule<B>>(
    optim: &OptimizerAdaptor<Adam, M, B>,
) -> Vec<(ParamId, Vec<u8>)> {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    let records = optim.to_record().into_iter();
    let mut states: Vec<_> = records
        .map(|(id, record)| {
            let bytes = Recorder::<B>::record(&recorder, record, ()).unwrap();
            (id, bytes)
        })
        .collect();
    states.sort_unstable();
    states
}

/// The smallest model: a vector, or a number, times what it is given.
#[derive(Module, Debug)]
pub(crate) struct OneParam<B: Backend> {
    pub(crate) w: Param<Tensor<B, 1>>,
}

impl<B: Backend> OneParam<B> {
    pub(crate) fn new(values: &[f32]) -> Self {
        Self { w: vector(values) }
    }
}

pub(crate) fn vector<B: Backend>(values: &[f32]) -> Param<Tensor<B, 1>> {
    Param::from_data(
        TensorData::new(values.to_vec(), [values.len()]),
        &Default::default(),
    )
}

/// A 4 x 4 image, its class of three, and how much it counts.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) pixels: [f32; 16],
    pub(crate) label: u8,
    pub(crate) weight: f32,
}

pub(crate) const CLASSES: usize = 3;

/// `count` samples of weight 1, other ones for each `seed`.
pub(crate) fn samples(seed: u64, count: usize) -> Vec<Sample> {
    let sample = |index: usize| {
        let first = (seed << 32) + 17 * index as u64;
        Sample {
            pixels: std::array::from_fn(|pixel| 2.0 * fraction(first + pixel as u64) - 1.0),
            label: (fraction(first + 16) * CLASSES as f32) as u8,
            weight: 1.0,
        }
    };
    (0..count).map(sample).collect()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleBatcher;

#[derive(Clone, Debug)]
pub(crate) struct Samples<B: Backend> {
    pub(crate) images: Tensor<B, 2>,
    pub(crate) targets: Tensor<B, 1, Int>,
    pub(crate) weights: Tensor<B, 1>,
    pub(crate) weight: f64,
}

impl<B: Backend> Batcher<B, Sample, Samples<B>> for SampleBatcher {
    fn batch(&self, items: Vec<Sample>, device: &B::Device) -> Samples<B> {
        let rows = items.len();
        assert!(rows > 0, "a virtual node without samples was run");
        let pixels: Vec<f32> = items.iter().flat_map(|item| item.pixels).collect();
        let labels: Vec<i32> = items.iter().map(|item| item.label.into()).collect();
        let weights: Vec<f32> = items.iter().map(|item| item.weight).collect();
        Samples {
            images: Tensor::from_data(TensorData::new(pixels, [rows, 16]), device),
            targets: Tensor::from_data(TensorData::new(labels, [rows]), device),
            weight: weights.iter().map(|&weight| f64::from(weight)).sum(),
            weights: Tensor::from_data(TensorData::new(weights, [rows]), device),
        }
    }
}

/// Cross entropy, each row counting as much as its weight says.
pub(crate) fn weighted_loss<B: Backend, N: Net<B>>(net: &N, micro: Samples<B>) -> LossSum<B> {
    let rows = micro.targets.dims()[0];
    let logits = log_softmax(net.logits(micro.images), 1);
    let picked = logits
        .gather(1, micro.targets.reshape([rows, 1]))
        .reshape([rows]);
    LossSum {
        sum: (picked * micro.weights).sum().neg(),
        weight: micro.weight,
    }
}

/// A model for [`Sample`]s.
pub(crate) trait Net<B: Backend>: Module<B> {
    fn init(device: &B::Device) -> Self;
    fn logits(&self, images: Tensor<B, 2>) -> Tensor<B, 2>;
}

#[derive(Module, Debug)]
pub(crate) struct Mlp<B: Backend> {
    hidden: Linear<B>,
    output: Linear<B>,
    dropout: Dropout,
}

impl<B: Backend> Net<B> for Mlp<B> {
    fn init(device: &B::Device) -> Self {
        Self {
            hidden: LinearConfig::new(16, 6).init(device),
            output: LinearConfig::new(6, CLASSES).init(device),
            dropout: DropoutConfig::new(0.3).init(),
        }
    }

    fn logits(&self, images: Tensor<B, 2>) -> Tensor<B, 2> {
        self.output
            .forward(self.dropout.forward(relu(self.hidden.forward(images))))
    }
}

#[derive(Module, Debug)]
pub(crate) struct Cnn<B: Backend> {
    conv: Conv2d<B>,
    pub(crate) norm: BatchNorm<B>,
    output: Linear<B>,
    dropout: Dropout,
}

impl<B: Backend> Net<B> for Cnn<B> {
    fn init(device: &B::Device) -> Self {
        Self {
            conv: Conv2dConfig::new([1, 2], [3, 3])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .init(device),
            norm: BatchNormConfig::new(2).init(device),
            output: LinearConfig::new(32, CLASSES).init(device),
            dropout: DropoutConfig::new(0.3).init(),
        }
    }

    fn logits(&self, images: Tensor<B, 2>) -> Tensor<B, 2> {
        let rows = images.dims()[0];
        let x = self
            .norm
            .forward(self.conv.forward(images.reshape([rows, 1, 4, 4])));
        let x = self.dropout.forward(relu(x));
        self.output.forward(x.reshape([rows, 32]))
    }
}

/// Uses one of two layers, as the first pixel says; the other one gets no gradient.
#[derive(Module, Debug)]
pub(crate) struct Branchy<B: Backend> {
    bright: Linear<B>,
    dark: Linear<B>,
    output: Linear<B>,
}

impl<B: Backend> Net<B> for Branchy<B> {
    fn init(device: &B::Device) -> Self {
        Self {
            bright: LinearConfig::new(16, 5).init(device),
            dark: LinearConfig::new(16, 5).init(device),
            output: LinearConfig::new(5, CLASSES).init(device),
        }
    }

    fn logits(&self, images: Tensor<B, 2>) -> Tensor<B, 2> {
        let first: f32 = images.clone().slice([0..1, 0..1]).into_scalar().elem();
        let branch = if first > 0.3 {
            &self.bright
        } else {
            &self.dark
        };
        self.output.forward(branch.forward(images).tanh())
    }
}

pub(crate) fn adam<B: VirtualAutodiff, M: AutodiffModule<B>>() -> impl Optimizer<M, B> {
    AdamConfig::new().init()
}

pub(crate) fn sgd<B: VirtualAutodiff, M: AutodiffModule<B>>() -> impl Optimizer<M, B> {
    SgdConfig::new()
        .with_momentum(Some(MomentumConfig::new()))
        .init()
}

/// One step of a job and its optimizer.
pub(crate) fn train_step<B, M, O>(
    session: &mut Session<B>,
    model: M,
    optim: &mut O,
    items: &[Sample],
) -> Result<(M, StepTrace), TrainError>
where
    B: VirtualAutodiff,
    M: AutodiffModule<B> + Net<B>,
    M::InnerModule: Send,
    O: Optimizer<M, B>,
{
    let out = session.backward(&model, items, &SampleBatcher, weighted_loss)?;
    let trace = StepTrace::of(&out);
    Ok((optim.step(0.05, model, out.grads), trace))
}

/// Everything a step reports, to the last bit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepTrace {
    pub(crate) loss: u64,
    pub(crate) weight: u64,
    pub(crate) norm: u64,
    pub(crate) gradients: usize,
    pub(crate) skipped: Option<burn_virtual::nodes::Skipped>,
}

impl StepTrace {
    pub(crate) fn of(out: &StepOutput) -> Self {
        Self {
            // Any NaN will do.
            loss: if out.loss.is_nan() {
                u64::MAX
            } else {
                out.loss.to_bits()
            },
            weight: out.weight.to_bits(),
            norm: out.norm.to_bits(),
            gradients: out.grads.len(),
            skipped: out.skipped.clone(),
        }
    }
}

/// The ids of the parameters that are trained, in module order.
pub(crate) fn trained_ids<B: Backend, M: Module<B>>(model: &M) -> Vec<ParamId> {
    struct Ids(Vec<ParamId>);
    impl<B: Backend> ModuleVisitor<B> for Ids {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if param.is_require_grad() {
                self.0.push(param.id);
            }
        }
    }
    let mut ids = Ids(Vec::new());
    model.visit(&mut ids);
    ids.0
}

/// The bits of every gradient that a step gave the model, in module order.
pub(crate) fn gradient_bits<B: VirtualAutodiff, M: Module<B>>(
    model: &M,
    gradients: &GradientsParams,
) -> Vec<Vec<u32>> {
    struct Bits<'a>(&'a GradientsParams, Vec<Vec<u32>>);
    impl<B: VirtualAutodiff> ModuleVisitor<B> for Bits<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            let gradient = self.0.get::<B::InnerBackend, D>(param.id);
            self.1.extend(gradient.map(bits));
        }
    }
    let mut visitor = Bits(gradients, Vec::new());
    model.visit(&mut visitor);
    visitor.1
}

/// Freezes the parameters of `ids` whose bit is set in `mask`, and thaws the others.
pub(crate) fn freeze<B: Backend, M: Module<B>>(model: M, ids: &[ParamId], mask: u32) -> M {
    struct Freezer<'a>(&'a [ParamId], u32);
    impl<B: Backend> ModuleMapper<B> for Freezer<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
            match self.0.iter().position(|id| *id == param.id) {
                Some(index) => param.set_require_grad(self.1 >> index & 1 == 0),
                None => param,
            }
        }
    }
    model.map(&mut Freezer(ids, mask))
}

/// Gives every parameter a new id, as loading a plain Burn record of another process does.
pub(crate) fn with_new_ids<B: Backend, M: Module<B>>(model: M) -> M {
    struct Renamer;
    impl<B: Backend> ModuleMapper<B> for Renamer {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
            let (_, tensor, mapper) = param.consume();
            Param::from_mapped_value(ParamId::new(), tensor, mapper)
        }
    }
    model.map(&mut Renamer)
}
