//! Weights in a file: what comes back is what was saved, and what is wrong is refused whole.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use burn::backend::Autodiff;
use burn::module::{
    AutodiffModule, Initializer, Module, ModuleMapper, ModuleVisitor, Param, ParamId,
};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, LinearLayout};
use burn::tensor::backend::Backend;
use burn::tensor::quantization::QuantScheme;
use burn::tensor::{Bool, DType, Int, Tensor, TensorData, bf16, f16};
use burn_flex::{Flex, FlexDevice};
use burn_virtual_backend::VirtualBackend;
use burn_virtual_train::{
    LossSum, VirtualNodes, WeightsError, WeightsHash, id_of_path, load_weights,
    read_weights_metadata, save_weights,
};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

type V = VirtualBackend<Flex>;
type B = Autodiff<V>;

/// A lazy layer, one with mappers, one with statistics, and a parameter of every type.
#[derive(Module, Debug)]
struct Model<B: Backend> {
    layers: Vec<Linear<B>>,
    norm: BatchNorm<B>,
    double: Param<Tensor<B, 1>>,
    half: Param<Tensor<B, 1>>,
    brain: Param<Tensor<B, 1>>,
    table: Param<Tensor<B, 2, Int>>,
    bytes: Param<Tensor<B, 1, Int>>,
    mask: Param<Tensor<B, 1, Bool>>,
}

impl<B: Backend> Model<B> {
    fn new(device: &B::Device) -> Self {
        let float = |data: TensorData| {
            let options = (device, data.dtype);
            Param::from_tensor(Tensor::from_data(data, options))
        };
        let zeros = TensorData::from([[0_i64; 3]; 2]);
        Self {
            layers: vec![
                LinearConfig::new(2, 3).init(device),
                LinearConfig::new(3, 5)
                    .with_layout(LinearLayout::Col)
                    .init(device),
            ],
            norm: BatchNormConfig::new(3).init(device),
            double: float(TensorData::from([0.0_f64; 2])),
            half: float(TensorData::from([f16::ZERO; 3])),
            brain: float(TensorData::from([bf16::ZERO; 3])),
            table: Param::initialized(
                ParamId::new(),
                Tensor::from_data(zeros, (device, DType::I64)),
            ),
            bytes: Param::initialized(
                ParamId::new(),
                Tensor::from_data([0_u8; 3], (device, DType::U8)),
            ),
            mask: Param::initialized(ParamId::new(), Tensor::from_data([false; 3], device)),
        }
    }

    /// Values that no fresh model has.
    fn filled(device: &B::Device) -> Self {
        let mut model = Self::new(device);
        let nan = f64::from_bits(0x7ff8_dead_beef_0001);
        let fill = |param: Param<Tensor<B, 1>>, data: TensorData| {
            let options = (device, data.dtype);
            param.map(|_| Tensor::from_data(data, options).require_grad())
        };
        let half = [f16::MAX, f16::MIN_POSITIVE_SUBNORMAL, f16::NEG_ZERO];
        let brain = [bf16::MIN, bf16::INFINITY, bf16::EPSILON];
        model.double = fill(model.double, TensorData::from([nan, -0.0]));
        model.half = fill(model.half, TensorData::from(half));
        model.brain = fill(model.brain, TensorData::from(brain));
        let table = TensorData::from([[i64::MIN, -1, 0], [1, 2, i64::MAX]]);
        model.table = model
            .table
            .map(|_| Tensor::from_data(table, (device, DType::I64)));
        let bytes = [0_u8, 128, 255];
        model.bytes = model
            .bytes
            .map(|_| Tensor::from_data(bytes, (device, DType::U8)));
        model.mask = model
            .mask
            .map(|_| Tensor::from_data([true, false, true], device));
        model
    }
}

/// A model whose running statistics have moved.
fn trained() -> Model<B> {
    let model = Model::filled(&FlexDevice);
    move_statistics(&model.norm);
    // Lets the last of them in.
    let _valid = model.valid();
    model
}

fn move_statistics(norm: &BatchNorm<B>) {
    for row in [[1.0, 2.0, 3.0], [-3.0, 0.5, 8.0]] {
        norm.forward(Tensor::<B, 2>::from_floats([row, [0.0; 3]], &FlexDevice));
    }
}

#[derive(Default)]
struct Reader {
    path: Vec<String>,
    values: BTreeMap<String, TensorData>,
}

impl Reader {
    fn add(&mut self, data: TensorData) {
        self.values.insert(self.path.join("."), data);
    }
}

impl<B: Backend> ModuleVisitor<B> for Reader {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.add(param.val().into_data());
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<B, D, Int>>) {
        self.add(param.val().into_data());
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<B, D, Bool>>) {
        self.add(param.val().into_data());
    }
}

/// The values of a model by path; their equality is one of bits.
fn values<B: Backend, M: Module<B>>(model: &M) -> BTreeMap<String, TensorData> {
    let mut reader = Reader::default();
    model.visit(&mut reader);
    reader.values
}

fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    (folder, path)
}

fn nothing() -> BTreeMap<String, String> {
    BTreeMap::new()
}

/// Name, type, shape and bytes of a tensor in a file.
type Raw<'a> = (&'a str, Dtype, &'a [usize], &'a [u8]);

/// Writes a file with the format's own crate.
fn write(path: &Path, tensors: &[Raw<'_>]) {
    let mut views = Vec::new();
    for &(name, dtype, shape, bytes) in tensors {
        let view = TensorView::new(dtype, shape.to_vec(), bytes).unwrap();
        views.push((name, view));
    }
    let bytes = safetensors::serialize(views, None);
    fs::write(path, bytes.unwrap()).unwrap();
}

/// A layer of 2 inputs and 1 output, whose values are all one number.
fn layer<B: Backend>(value: f64) -> Linear<B> {
    LinearConfig::new(2, 1)
        .with_initializer(Initializer::Constant { value })
        .init(&B::Device::default())
}

/// The error of loading a file into [`layer`], which has to be as it was.
fn refused(path: &Path) -> WeightsError {
    let mut model = layer::<B>(3.0);
    let before = values(&model);
    let error = load_weights(&mut model, path).unwrap_err();
    assert_eq!(values(&model), before);
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    error
}

#[test]
fn weights_come_back_bit_for_bit_when_the_backend_is_autodiff() {
    let (_folder, path) = file();
    let model = trained();
    let saved = save_weights(&model, &path, &nothing()).unwrap();
    assert_eq!(saved, WeightsHash::of(&model).unwrap());

    let mut other = Model::<B>::new(&FlexDevice);
    assert_ne!(WeightsHash::of(&other.clone()).unwrap(), saved);
    assert_eq!(load_weights(&mut other, &path).unwrap(), saved);
    assert_eq!(values(&other), values(&model));
    assert_eq!(WeightsHash::of(&other).unwrap(), saved);
    assert_eq!(
        values::<V, _>(&other.valid()),
        values::<V, _>(&model.valid())
    );
}

#[test]
fn weights_come_back_bit_for_bit_when_the_backend_is_plain() {
    let (_folder, path) = file();
    let model: Model<V> = trained().valid();
    let saved = save_weights(&model, &path, &nothing()).unwrap();
    let mut other = Model::<V>::new(&FlexDevice);
    assert_eq!(load_weights(&mut other, &path).unwrap(), saved);
    assert_eq!(values(&other), values(&model));
    // The same file fits the model that trains.
    let mut trains = Model::<B>::new(&FlexDevice);
    assert_eq!(load_weights(&mut trains, &path).unwrap(), saved);
    assert_eq!(values(&trains), values(&model));
}

#[test]
fn file_is_read_by_others_when_saved() {
    let (_folder, path) = file();
    let model = trained();
    let metadata = BTreeMap::from([("model".to_owned(), "größe \"9\"".to_owned())]);
    let hash = save_weights(&model, &path, &metadata).unwrap();
    let bytes = fs::read(&path).unwrap();
    let (header, read) = SafeTensors::read_metadata(&bytes).unwrap();
    let expected = [
        ("format", "burn-virtual"),
        ("model", "größe \"9\""),
        ("weights_sha256", &hash.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(*read.metadata(), Some(HashMap::from(expected.clone())));
    assert_eq!(
        read_weights_metadata(&path).unwrap(),
        BTreeMap::from(expected)
    );

    let file = SafeTensors::deserialize(&bytes).unwrap();
    let values = values(&model);
    assert_eq!(file.len(), values.len());
    for (name, data) in &values {
        let view = file.tensor(name).unwrap();
        assert_eq!(view.shape(), data.shape.as_slice(), "{name}");
        assert_eq!(view.data(), data.as_bytes(), "{name}");
        // Aligned for readers that map the file.
        let offset = read.info(name).unwrap().data_offsets.0;
        assert_eq!((8 + header + offset) % data.dtype.size(), 0, "{name}");
    }
    assert!(values.contains_key("norm.running_mean"));
    assert_eq!(file.tensor("half").unwrap().dtype(), Dtype::F16);
    assert_eq!(file.tensor("mask").unwrap().dtype(), Dtype::BOOL);
}

#[test]
fn file_has_the_same_bytes_when_saved_again() {
    let (folder, path) = file();
    let again = folder.path().join("again");
    let model = trained();
    let metadata: BTreeMap<_, _> = (0..20)
        .map(|i| (format!("key {i}"), i.to_string()))
        .collect();
    save_weights(&model, &path, &metadata).unwrap();
    save_weights(&model, &again, &metadata).unwrap();
    assert_eq!(fs::read(path).unwrap(), fs::read(again).unwrap());
}

#[test]
fn file_of_another_program_loads_when_its_tensors_fit() {
    let (_folder, path) = file();
    let weight: Vec<u8> = [7.0_f32, 8.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let tensors: [Raw<'_>; 2] = [
        ("weight", Dtype::F32, &[2, 1], &weight),
        ("bias", Dtype::F32, &[1], &[0, 0, 128, 63]),
    ];
    write(&path, &tensors);
    let mut model = layer::<V>(0.0);
    let hash = load_weights(&mut model, &path).unwrap();
    assert_eq!(hash, WeightsHash::of(&model).unwrap());
    assert_eq!(model.weight.to_data(), TensorData::from([[7.0_f32], [8.0]]));
    assert_eq!(model.bias.unwrap().to_data(), TensorData::from([1.0_f32]));
    assert_eq!(read_weights_metadata(&path).unwrap(), BTreeMap::new());
}

#[test]
fn parameters_stay_trained_or_frozen_when_loaded() {
    let (_folder, path) = file();
    save_weights(&layer::<B>(1.0), &path, &nothing()).unwrap();
    let mut model = layer::<B>(2.0);
    model.weight = model.weight.set_require_grad(false);
    load_weights(&mut model, &path).unwrap();
    let bias = model.bias.unwrap();
    assert!(!model.weight.is_require_grad());
    assert!(bias.is_require_grad());
    assert_eq!(model.weight.id, id_of_path("weight"));
    assert_eq!(bias.id, id_of_path("bias"));
    let gradients = bias.val().powi_scalar(2).sum().backward();
    let gradient = bias.val().grad(&gradients).unwrap();
    assert_eq!(gradient.into_data(), TensorData::from([2.0_f32]));
}

/// A parameter of 2 by 3 that must not be made.
fn lazy<B: Backend>() -> Param<Tensor<B, 2>> {
    let init = |_: &B::Device, _| panic!("initial values were drawn");
    let device = B::Device::default();
    Param::uninitialized(ParamId::new(), init, device, true, [2, 3].into())
}

#[test]
fn lazy_parameters_are_not_drawn_when_loaded() {
    let (_folder, path) = file();
    let values = Tensor::<B, 2>::from_floats([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], &FlexDevice);
    save_weights(&Param::from_tensor(values.clone()), &path, &nothing()).unwrap();
    let mut model = lazy::<B>();
    load_weights(&mut model, &path).unwrap();
    assert_eq!(model.to_data(), values.into_data());
    assert!(model.is_require_grad());
}

#[test]
fn lazy_parameters_stay_lazy_when_the_file_is_refused() {
    let (_folder, path) = file();
    save_weights(&layer::<B>(1.0), &path, &nothing()).unwrap();
    let mut model = lazy::<B>();
    load_weights(&mut model, &path).unwrap_err();
    assert!(!model.is_initialized());
}

#[test]
fn lazy_parameters_load_when_a_mapper_changes_their_type() {
    let half = || LinearConfig::new(2, 3).init::<V>(&FlexDevice).weight;
    let half = || half().init_mapper(|tensor| tensor.cast(DType::F16));
    let (_folder, path) = file();
    let saved = save_weights(&half(), &path, &nothing()).unwrap();
    let mut model = half();
    assert_eq!(load_weights(&mut model, &path).unwrap(), saved);
    assert_eq!(model.dtype(), DType::F16);
}

#[test]
fn loaded_statistics_stay_when_a_forward_pass_left_others_behind() {
    let (_folder, path) = file();
    let saved = save_weights(&trained(), &path, &nothing()).unwrap();
    let mut model = Model::<B>::filled(&FlexDevice);
    move_statistics(&model.norm);
    move_statistics(&model.norm);
    assert_eq!(load_weights(&mut model, &path).unwrap(), saved);
    assert_eq!(WeightsHash::of::<V, _>(&model.valid()).unwrap(), saved);
    assert_eq!(WeightsHash::of(&model).unwrap(), saved);
}

#[test]
fn session_goes_on_when_weights_are_loaded() {
    let (_folder, path) = file();
    save_weights(&layer::<B>(1.0), &path, &nothing()).unwrap();
    let mut model = layer::<B>(2.0);
    let mut nodes = VirtualNodes::new(2).start(&mut model).unwrap();
    load_weights(&mut model, &path).unwrap();
    let inputs = Tensor::<B, 2>::ones([4, 2], &FlexDevice);
    let out = nodes
        .backward_batch(&model, &inputs, |model, micro| LossSum {
            weight: micro.dims()[0] as f64,
            sum: model.forward(micro).sum(),
        })
        .unwrap();
    assert_eq!((out.loss, out.grads.len()), (3.0, 2));
}

#[test]
fn loading_is_refused_when_there_is_no_file() {
    let (folder, path) = file();
    assert!(matches!(refused(&path), WeightsError::Read { .. }));
    assert!(matches!(refused(folder.path()), WeightsError::Read { .. }));
}

#[test]
fn loading_is_refused_when_it_is_no_safetensors_file() {
    let (_folder, path) = file();
    fs::write(&path, "a text of some lines\nthat are no weights\n").unwrap();
    assert!(matches!(
        refused(&path),
        WeightsError::HeaderTooLarge { .. }
    ));
    fs::write(&path, b"\x04\0\0\0\0\0\0\0{]  ").unwrap();
    assert!(matches!(
        refused(&path),
        WeightsError::NotSafetensors { .. }
    ));
    let deep = "[".repeat(1 << 20);
    let size = (deep.len() as u64).to_le_bytes();
    fs::write(&path, [&size, deep.as_bytes()].concat()).unwrap();
    assert!(matches!(
        refused(&path),
        WeightsError::NotSafetensors { .. }
    ));
}

#[test]
fn loading_is_refused_when_offsets_lie() {
    let (_folder, path) = file();
    let tensor = |shape: &str, offsets: &str| {
        format!(r#"{{"weight":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    for header in [
        tensor("[2,1]", "[0,4]"),
        tensor("[2,1]", "[8,0]"),
        tensor("[2,1]", "[4,12]"),
        tensor("[18446744073709551615,2]", "[0,8]"),
        tensor("[18446744073709551615]", "[0,18446744073709551615]"),
        tensor("[-1]", "[0,8]"),
    ] {
        let size = (header.len() as u64).to_le_bytes();
        fs::write(&path, [&size, header.as_bytes(), &[0; 8]].concat()).unwrap();
        let error = refused(&path);
        assert!(
            matches!(error, WeightsError::NotSafetensors { .. }),
            "{error}"
        );
    }
}

#[test]
fn loading_is_refused_when_the_header_is_too_large() {
    let (_folder, path) = file();
    fs::write(&path, 100_000_001_u64.to_le_bytes()).unwrap();
    let error = refused(&path);
    assert!(
        matches!(
            error,
            WeightsError::HeaderTooLarge {
                got: 100_000_001,
                ..
            }
        ),
        "{error}"
    );
    // As large as it may be, and not there: it is not waited or asked memory for.
    fs::write(&path, 100_000_000_u64.to_le_bytes()).unwrap();
    let error = refused(&path);
    assert!(
        matches!(
            error,
            WeightsError::Truncated {
                expected: 100_000_008,
                got: 8,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn loading_is_refused_when_bytes_follow() {
    let (_folder, path) = file();
    save_weights(&layer::<B>(1.0), &path, &nothing()).unwrap();
    fs::write(&path, [fs::read(&path).unwrap(), vec![0; 5]].concat()).unwrap();
    let error = refused(&path);
    assert!(
        matches!(error, WeightsError::NotSafetensors { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("5 bytes follow"), "{error}");
}

#[test]
fn loading_is_refused_when_the_tensors_are_others() {
    let (_folder, path) = file();
    let bias: Raw<'_> = ("bias", Dtype::F32, &[1], &[0; 4]);
    let names = ["a", "b", "c", "d", "e"].map(|name| (name, Dtype::U8, &[1][..], &[0][..]));
    write(&path, &[&[bias], &names[..]].concat());
    let error = refused(&path);
    let message = error.to_string();
    assert!(
        message.ends_with("missing `weight`; not in the model `a`, `b`, `c` and 2 more"),
        "{message}"
    );
    let WeightsError::Tensors {
        missing,
        unexpected,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(missing, ["weight"]);
    assert_eq!(unexpected, ["a", "b", "c", "d", "e"]);

    write(&path, &[bias]);
    let message = refused(&path).to_string();
    assert!(
        message.ends_with("missing `weight`; not in the model nothing"),
        "{message}"
    );
}

#[test]
fn loading_is_refused_when_a_shape_differs() {
    let (_folder, path) = file();
    let other = LinearConfig::new(3, 1).init::<V>(&FlexDevice);
    save_weights(&other, &path, &nothing()).unwrap();
    let WeightsError::Shape {
        tensor,
        expected,
        got,
        ..
    } = refused(&path)
    else {
        panic!("no error of shapes");
    };
    assert_eq!(
        (tensor.as_str(), expected, got),
        ("weight", vec![2, 1], vec![3, 1])
    );
}

#[test]
fn loading_is_refused_when_a_type_differs() {
    let (_folder, path) = file();
    let mut other = layer::<V>(1.0);
    other.bias = other
        .bias
        .map(|bias| bias.map(|bias| bias.cast(DType::F16)));
    save_weights(&other, &path, &nothing()).unwrap();
    let message = refused(&path).to_string();
    assert!(
        message.ends_with("tensor `bias` is of type f16, expected f32"),
        "{message}"
    );

    let tensors: [Raw<'_>; 2] = [
        ("weight", Dtype::F8_E4M3, &[2, 1], &[0; 2]),
        ("bias", Dtype::F32, &[1], &[0; 4]),
    ];
    write(&path, &tensors);
    let message = refused(&path).to_string();
    assert!(
        message.ends_with("tensor `weight` is of type f8_e4m3, expected f32"),
        "{message}"
    );
}

#[test]
fn loading_is_refused_when_a_bool_is_neither() {
    let (_folder, path) = file();
    let mask = |values| {
        Param::<Tensor<V, 1, Bool>>::initialized(
            ParamId::new(),
            Tensor::from_data(values, &FlexDevice),
        )
    };
    write(&path, &[("", Dtype::BOOL, &[3], &[0, 1, 2])]);
    let mut model = mask([true, true, false]);
    let error = load_weights(&mut model, &path).unwrap_err();
    assert!(
        matches!(error, WeightsError::NotBool { got: 2, .. }),
        "{error}"
    );
    assert_eq!(model.to_data(), TensorData::from([true, true, false]));
}

#[test]
fn loading_is_refused_when_a_value_was_changed() {
    let (_folder, path) = file();
    let saved = save_weights(&layer::<B>(1.0), &path, &nothing()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = refused(&path);
    let WeightsError::Hash { expected, got, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*expected, saved.to_string());
    assert_ne!(*got, saved);
    let message = error.to_string();
    assert!(
        message.contains(expected) && message.contains(&got.to_string()),
        "{message}"
    );
}

/// Saves a batch norm, and returns the bytes and a model of other values to load into.
fn saved_norm(path: &Path) -> (Vec<u8>, BatchNorm<B>) {
    let norm = BatchNormConfig::new(3).init(&FlexDevice);
    save_weights(&norm, path, &nothing()).unwrap();
    move_statistics(&norm);
    let _valid = norm.valid();
    (fs::read(path).unwrap(), norm)
}

#[test]
fn nothing_is_half_loaded_wherever_a_byte_was_changed() {
    let (_folder, path) = file();
    let (bytes, mut model) = saved_norm(&path);
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let before = values(&model);
    for position in 0..bytes.len() {
        for change in [1 << (position % 8), 0xff] {
            let mut changed = bytes.clone();
            changed[position] ^= change;
            fs::write(&path, changed).unwrap();
            if load_weights(&mut model, &path).is_err() {
                assert_eq!(values(&model), before);
                continue;
            }
            // Only a change beside names, shapes, types and values goes unseen.
            assert!(position < header, "byte {position}");
            let mut expected = BatchNormConfig::new(3).init::<B>(&FlexDevice);
            fs::write(&path, &bytes).unwrap();
            load_weights(&mut expected, &path).unwrap();
            assert_eq!(values(&model), values(&expected), "byte {position}");
            model = saved_norm(&path).1;
        }
    }
}

#[test]
fn nothing_is_loaded_wherever_the_file_ends() {
    let (_folder, path) = file();
    let (bytes, mut model) = saved_norm(&path);
    let before = values(&model);
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let error = load_weights(&mut model, &path).unwrap_err();
        assert!(matches!(error, WeightsError::Truncated { .. }), "{error}");
        assert_eq!(values(&model), before);
    }
    fs::write(&path, &bytes).unwrap();
    load_weights(&mut model, &path).unwrap();
    assert_ne!(values(&model), before);
}

#[test]
fn saving_is_refused_when_a_tensor_is_quantized() {
    let (_folder, path) = file();
    fs::write(&path, "old").unwrap();
    let mut model = LinearConfig::new(32, 32).init::<Flex>(&FlexDevice);
    model.weight = model
        .weight
        .map(|weight| weight.quantize_dynamic(&QuantScheme::default()));
    let error = save_weights(&model, &path, &nothing()).unwrap_err();
    let WeightsError::Quantized { tensor, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(tensor, "weight");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");

    // Nor does a file of floats become one of quantized tensors.
    let floats = LinearConfig::new(32, 32).init::<Flex>(&FlexDevice);
    save_weights(&floats, &path, &nothing()).unwrap();
    let message = load_weights(&mut model, &path).unwrap_err().to_string();
    assert!(
        message.ends_with("tensor `weight` is of type f32, expected qfloat"),
        "{message}"
    );
}

#[test]
fn saving_is_refused_when_metadata_has_a_key_of_the_file() {
    let (folder, path) = file();
    for key in ["format", "weights_sha256"] {
        let metadata = BTreeMap::from([(key.to_owned(), "mine".to_owned())]);
        let error = save_weights(&layer::<V>(1.0), &path, &metadata).unwrap_err();
        assert!(matches!(error, WeightsError::Reserved { .. }), "{error}");
        assert!(error.to_string().contains(key), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn saving_fails_by_name_when_there_is_no_such_folder() {
    let (folder, _) = file();
    let path = folder.path().join("none").join("weights");
    let error = save_weights(&layer::<V>(1.0), &path, &nothing()).unwrap_err();
    assert!(matches!(error, WeightsError::Write { .. }), "{error}");
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
}

/// Two parameters, and nothing that names them.
#[derive(Clone, Debug)]
struct Nameless<B: Backend>([Param<Tensor<B, 1>>; 2]);

impl<B: Backend> Module<B> for Nameless<B> {
    type Record = ();

    fn collect_devices(&self, devices: Vec<B::Device>) -> Vec<B::Device> {
        devices
    }

    fn fork(self, _device: &B::Device) -> Self {
        self
    }

    fn to_device(self, _device: &B::Device) -> Self {
        self
    }

    fn visit<W: ModuleVisitor<B>>(&self, visitor: &mut W) {
        self.0.iter().for_each(|param| visitor.visit_float(param));
    }

    fn map<M: ModuleMapper<B>>(self, mapper: &mut M) -> Self {
        Self(self.0.map(|param| mapper.map_float(param)))
    }

    fn load_record(self, _record: Self::Record) -> Self {
        self
    }

    fn into_record(self) -> Self::Record {}
}

#[test]
fn paths_that_are_not_one_tensors_are_refused() {
    let (_folder, path) = file();
    let one = || Param::from_tensor(Tensor::ones([1], &FlexDevice));
    let mut model: Nameless<V> = Nameless([one(), one()]);
    let error = save_weights(&model, &path, &nothing()).unwrap_err();
    assert!(matches!(error, WeightsError::Model { .. }), "{error}");
    assert!(!path.exists());

    write(&path, &[("", Dtype::F32, &[1], &[0; 4])]);
    let error = load_weights(&mut model, &path).unwrap_err();
    assert!(matches!(error, WeightsError::Model { .. }), "{error}");
    assert_eq!(model.0[0].to_data(), TensorData::from([1.0_f32]));
}

/// Where the process started by [`file_is_whole_whenever_the_process_was_killed`] saves to.
const SAVES_TO: &str = "BURN_VIRTUAL_TEST_SAVES_TO";

fn large(value: f64) -> Linear<V> {
    LinearConfig::new(300, 300)
        .with_initializer(Initializer::Constant { value })
        .init(&FlexDevice)
}

/// Not a test by itself: what is killed.
#[test]
fn saves_until_it_is_killed() {
    let Ok(path) = std::env::var(SAVES_TO) else {
        return;
    };
    let models = [large(1.0), large(2.0)];
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        for model in &models {
            save_weights(model, Path::new(&path), &nothing()).unwrap();
        }
    }
}

#[test]
fn file_is_whole_whenever_the_process_was_killed() {
    let (_folder, path) = file();
    let hashes = [1.0, 2.0].map(|value| WeightsHash::of(&large(value)).unwrap());
    for round in 0..8 {
        let old = save_weights(&large(0.0), &path, &nothing()).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "saves_until_it_is_killed"])
            .env(SAVES_TO, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Whole at every look, and killed at another place in each round.
        while load_weights(&mut large(3.0), &path).unwrap() == old {}
        sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let loaded = load_weights(&mut large(3.0), &path).unwrap();
        assert!(hashes.contains(&loaded), "{loaded}");
    }
}
