//! From a file into a model: all is compared first, then all is applied.

use std::collections::{BTreeMap, BTreeSet};

use burn::module::{Module, ModuleMapper, Param, Parameter};
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, DType, Float, Int, Shape, Tensor, TensorData, get_device_settings};
use burn_virtual_backend::{Scope, enter};
use safetensors::tensor::TensorInfo;

use super::WeightsError;
use super::format::{WeightsFile, burn_dtype};
use crate::TrainError;
use crate::names::{PathStack, id_of_path, track_path};
use crate::tensors::plain;

/// Compares a file with a model; returns the types that the model's tensors have, by path.
pub(super) fn compare<B: Backend, M: Module<B>>(
    model: &M,
    file: &WeightsFile,
) -> Result<BTreeMap<String, DType>, WeightsError> {
    let mut comparison = Comparison {
        file,
        path: PathStack::default(),
        dtypes: BTreeMap::new(),
        missing: BTreeSet::new(),
        shared: None,
        differs: None,
    };
    // Mapped, not visited, though it changes nothing: this is how the tensors are replaced later.
    let _same = model.clone().map(&mut comparison);
    comparison.result()
}

/// Replaces the tensors of a model by those of the same paths.
pub(super) fn apply<B: Backend, M: Module<B>>(
    model: &mut M,
    tensors: BTreeMap<String, TensorData>,
    dtypes: &BTreeMap<String, DType>,
) {
    let typed = |(path, data): (String, TensorData)| {
        let dtype = dtypes.get(&path).copied().unwrap_or(data.dtype);
        let data = data.convert_dtype(dtype);
        (path, TensorData { dtype, ..data })
    };
    let mut filler = Filler {
        path: PathStack::default(),
        tensors: tensors.into_iter().map(typed).collect(),
        statistics: false,
    };
    *model = model.clone().map(&mut filler);
    // What a plain forward pass left for a running statistic would replace it at the next look: it
    // is let in now, and replaced in turn.
    let _record = model.clone().into_record();
    filler.statistics = true;
    *model = model.clone().map(&mut filler);
}

/// Shape and type of a tensor of the model.
struct Slot {
    shape: Vec<usize>,
    dtype: DType,
}

impl Slot {
    fn new(shape: Shape, dtype: DType) -> Self {
        let shape = shape.to_vec();
        Self { shape, dtype }
    }

    fn takes(&self, info: &TensorInfo) -> bool {
        self.shape == info.shape && burn_dtype(info.dtype) == Some(plain(self.dtype))
    }
}

struct Comparison<'a> {
    file: &'a WeightsFile,
    path: PathStack,
    dtypes: BTreeMap<String, DType>,
    missing: BTreeSet<String>,
    shared: Option<WeightsError>,
    /// The first tensor of another shape or type.
    differs: Option<WeightsError>,
}

impl Comparison<'_> {
    /// `likely` is known without making a lazy tensor, `actual` is not.
    fn compare(&mut self, likely: Slot, actual: impl FnOnce() -> Slot) {
        let path = self.path.path();
        let slot = match self.file.info(&path) {
            Some(info) if likely.takes(info) => likely,
            Some(info) => {
                let slot = actual();
                if !slot.takes(info) {
                    let error = different(self.file, &path, &slot, info);
                    self.differs.get_or_insert(error);
                }
                slot
            }
            None => {
                self.missing.insert(path.clone());
                likely
            }
        };
        if self.dtypes.insert(path.clone(), slot.dtype).is_some() {
            let error = WeightsError::model(self.file.path(), TrainError::SharedPath { path });
            self.shared.get_or_insert(error);
        }
    }

    fn result(self) -> Result<BTreeMap<String, DType>, WeightsError> {
        if let Some(error) = self.shared {
            return Err(error);
        }
        let mut unexpected = self.file.names();
        unexpected.retain(|name| !self.dtypes.contains_key(name));
        if !self.missing.is_empty() || !unexpected.is_empty() {
            return Err(WeightsError::Tensors {
                path: self.file.path().to_owned(),
                missing: self.missing.into_iter().collect(),
                unexpected,
            });
        }
        self.differs.map_or(Ok(self.dtypes), Err)
    }
}

fn different(file: &WeightsFile, tensor: &str, slot: &Slot, info: &TensorInfo) -> WeightsError {
    let (path, tensor) = (file.path().to_owned(), tensor.to_owned());
    if slot.shape != info.shape {
        let (expected, got) = (slot.shape.clone(), info.shape.clone());
        return WeightsError::Shape {
            path,
            tensor,
            expected,
            got,
        };
    }
    let expected = plain(slot.dtype).name().to_owned();
    let got = info.dtype.to_string().to_lowercase();
    WeightsError::Dtype {
        path,
        tensor,
        expected,
        got,
    }
}

/// One method a kind of tensor, with the type that one is made of by default.
macro_rules! compare {
    ($($name:ident: $kind:ty, $default:ident;)*) => {
        $(fn $name<const D: usize>(
            &mut self,
            param: Param<Tensor<B, D, $kind>>,
        ) -> Param<Tensor<B, D, $kind>> {
            let likely = if param.is_initialized() {
                Slot::new(param.shape(), param.dtype())
            } else {
                let settings = get_device_settings::<B>(&param.lazy_device());
                Slot::new(param.lazy_shape(), settings.$default.into())
            };
            // A mapper may change both when a lazy tensor is made. A clone shows it, whose values no
            // one sees: they come from a stream of their own.
            self.compare(likely, || {
                let _scope = enter(Scope::Init { seed: 0, parameter: 0 });
                let tensor = param.clone().into_value();
                Slot::new(tensor.shape(), tensor.dtype())
            });
            param
        })*
    };
}

impl<B: Backend> ModuleMapper<B> for Comparison<'_> {
    track_path!();

    compare! {
        map_float: Float, float_dtype;
        map_int: Int, int_dtype;
        map_bool: Bool, bool_dtype;
    }
}

struct Filler {
    path: PathStack,
    tensors: BTreeMap<String, TensorData>,
    /// Only what keeps an id of its own: running statistics.
    statistics: bool,
}

/// One method a kind of tensor.
macro_rules! fill {
    ($($name:ident: $kind:ty;)*) => {
        $(fn $name<const D: usize>(
            &mut self,
            param: Param<Tensor<B, D, $kind>>,
        ) -> Param<Tensor<B, D, $kind>> {
            let path = self.path.path();
            let id = id_of_path(&path);
            let Some(data) = self.tensors.get(&path) else {
                return param;
            };
            if self.statistics && param.id == id {
                return param;
            }
            let tensor = Tensor::<B, D, $kind>::from_data(
                data.clone(),
                (&param.lazy_device(), data.dtype),
            );
            // Keeps device, mappers and whether it is trained. What a mapper makes of a loaded
            // tensor is undone: it expects one of a record, and values were saved as they lay.
            param
                .transform_for_load(tensor.clone(), id)
                .map(|loaded| tensor.set_require_grad(loaded.is_require_grad()))
        })*
    };
}

impl<B: Backend> ModuleMapper<B> for Filler {
    track_path!();

    fill! {
        map_float: Float;
        map_int: Int;
        map_bool: Bool;
    }
}
