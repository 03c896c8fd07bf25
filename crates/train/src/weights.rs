//! One hash over everything that training changes.

use std::collections::BTreeMap;
use std::fmt;

use burn::module::Module;
use burn::tensor::TensorData;
use burn::tensor::backend::Backend;
use sha2::{Digest, Sha256};

use crate::{TrainError, tensors};

/// The SHA-256 of a model's parameters and statistics, in the order of their module paths.
///
/// Per tensor: path, name of the type, shape, values. Texts and shapes are preceded by their length;
/// lengths and sizes take 8 bytes; everything is little-endian. A bool is a byte, however its backend
/// stores it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WeightsHash([u8; 32]);

// Values are hashed and saved as they lie in memory.
#[cfg(target_endian = "big")]
compile_error!("hashes and files of weights are little-endian, and so has the machine to be");

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
        Ok(Self::of_tensors(&tensors::read(model)?))
    }

    /// Hashes tensors by path, each of a [`tensors::plain`] type.
    pub(crate) fn of_tensors(tensors: &BTreeMap<String, TensorData>) -> Self {
        let mut hash = Sha256::new();
        for (path, data) in tensors {
            absorb(&mut hash, path, data);
        }
        Self(hash.finalize().into())
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
