//! One hash over everything that training changes.

use std::collections::BTreeMap;
use std::fmt;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{BasicOps, Bool, Int, Tensor, TensorData};
use sha2::{Digest, Sha256};

use crate::TrainError;
use crate::names::PathStack;

/// The SHA-256 of a model's parameters and statistics, in the order of their module paths.
///
/// Per tensor: path, name of the type, shape, values. Texts and shapes are preceded by their length;
/// lengths and sizes take 8 bytes; everything is little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WeightsHash([u8; 32]);

impl WeightsHash {
    /// Reads a model back from its device and hashes it.
    ///
    /// ```
    /// use burn::nn::LinearConfig;
    /// use burn_virtual_train::WeightsHash;
    ///
    /// let model = LinearConfig::new(2, 3).init::<burn_flex::Flex>(&Default::default());
    /// let hash = WeightsHash::of(&model)?;
    /// assert_eq!(hash, WeightsHash::of(&model.clone())?);
    /// assert_eq!(hash.to_string().len(), 64);
    /// # Ok::<(), burn_virtual_train::TrainError>(())
    /// ```
    ///
    /// # Errors
    /// [`TrainError::Device`] if the values can't be read, [`TrainError::SharedPath`] if two tensors
    /// have the same path.
    pub fn of<B: Backend, M: Module<B>>(model: &M) -> Result<Self, TrainError> {
        let mut reader = Reader::default();
        model.visit(&mut reader);
        if let Some(error) = reader.error {
            return Err(error);
        }
        let mut hash = Sha256::new();
        for (path, data) in &reader.tensors {
            absorb(&mut hash, path, data);
        }
        Ok(Self(hash.finalize().into()))
    }
}

impl fmt::Display for WeightsHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for WeightsHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn absorb(hash: &mut Sha256, path: &str, data: &TensorData) {
    for text in [path, data.dtype.name()] {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hash.update((data.shape.num_dims() as u64).to_le_bytes());
    for &size in data.shape.iter() {
        hash.update((size as u64).to_le_bytes());
    }
    hash.update(data.as_bytes());
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
                let path = self.path.path();
                if self.tensors.insert(path.clone(), data).is_some() {
                    self.error.get_or_insert(TrainError::SharedPath { path });
                }
            }
            Err(error) => {
                let (device, reason) = (format!("{device:?}"), error.to_string());
                self.error
                    .get_or_insert(TrainError::Device { device, reason });
            }
        }
    }
}

impl<B: Backend> ModuleVisitor<B> for Reader {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

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
