//! Reading a model's tensors back to the host: what is hashed, and what is saved.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{BasicOps, Bool, BoolStore, DType, Int, Tensor, TensorData};

use crate::TrainError;
use crate::names::{PathStack, track_path};

/// Parameters and running statistics by module path, each of a [`plain`] type.
///
/// # Errors
/// [`TrainError::Device`] if the values can't be read, [`TrainError::SharedPath`] if two tensors
/// have the same path.
pub(crate) fn read<B: Backend, M: Module<B>>(
    model: &M,
) -> Result<BTreeMap<String, TensorData>, TrainError> {
    let mut reader = Reader::default();
    model.visit(&mut reader);
    reader.error.map_or(Ok(reader.tensors), Err)
}

/// The type that values have outside of their backend. How it stores a bool, and with how many bits
/// it computes in a `flex32`, is its own affair.
pub(crate) fn plain(dtype: DType) -> DType {
    match dtype {
        DType::Bool(_) => DType::Bool(BoolStore::Native),
        DType::Flex32 => DType::F32,
        other => other,
    }
}

#[derive(Default)]
struct Reader {
    path: PathStack,
    tensors: BTreeMap<String, TensorData>,
    error: Option<TrainError>,
}

impl Reader {
    fn read<B: Backend, const D: usize, K: BasicOps<B>>(&mut self, tensor: Tensor<B, D, K>) {
        let device = tensor.device();
        match tensor.try_into_data() {
            Ok(data) => {
                let (path, dtype) = (self.path.path(), plain(data.dtype));
                let data = data.convert_dtype(dtype);
                if self.tensors.insert(path.clone(), data).is_some() {
                    self.error.get_or_insert(TrainError::SharedPath { path });
                }
            }
            Err(error) => {
                let error = TrainError::device(&device, error.to_string());
                self.error.get_or_insert(error);
            }
        }
    }
}

impl<B: Backend> ModuleVisitor<B> for Reader {
    track_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.read(param.val());
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<B, D, Int>>) {
        self.read(param.val());
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<B, D, Bool>>) {
        self.read(param.val());
    }
}
