//! Weights as a safetensors file: parameters and running statistics by module path.

mod error;
mod format;
mod load;
mod replace;

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use burn::tensor::backend::Backend;

pub use error::WeightsError;
use format::WeightsFile;

use crate::{WeightsHash, tensors};

/// Says in a file's metadata what wrote it.
const FORMAT: (&str, &str) = ("format", "burn-virtual");

/// The key of the hash in a file's metadata.
const HASH: &str = "weights_sha256";

/// Saves parameters and running statistics, the same that [`WeightsHash`] hashes, as a safetensors
/// file; returns their hash, which the file holds as well.
///
/// `metadata` is what the file shall say beside its `"format"` and `"weights_sha256"`, as the name of
/// the model. Equal weights and metadata give equal bytes.
///
/// The file is written beside its path and takes its place when it is whole and on the disk: whatever
/// goes wrong before that, even the end of the process, leaves what was there.
///
/// Values are saved as they lie in the model, not as a Burn record would have them: a `Linear` of
/// `LinearLayout::Col` keeps its own shape. In a plain Burn loop running statistics lag one step
/// behind until they are read for validation (`model.valid()`); in a session they don't.
///
/// ```
/// use std::collections::BTreeMap;
/// use burn::nn::{Linear, LinearConfig};
/// use burn_flex::Flex;
/// use burn_virtual_train::{WeightsHash, load_weights, save_weights};
///
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("weights.safetensors");
/// let model: Linear<Flex> = LinearConfig::new(2, 3).init(&Default::default());
/// let metadata = BTreeMap::from([("model".to_owned(), "linear".to_owned())]);
/// let saved = save_weights(&model, &path, &metadata)?;
///
/// let mut other: Linear<Flex> = LinearConfig::new(2, 3).init(&Default::default());
/// assert_eq!(load_weights(&mut other, &path)?, saved);
/// assert_eq!(WeightsHash::of(&other)?, saved);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WeightsError::Reserved`] if `metadata` has a key of the file's own, [`WeightsError::Model`] if
/// the model can't be read, [`WeightsError::Quantized`] if a tensor of it is quantized,
/// [`WeightsError::HeaderTooLarge`] and [`WeightsError::Write`] if there can be no such file.
pub fn save_weights<B: Backend, M: Module<B>>(
    model: &M,
    path: impl AsRef<Path>,
    metadata: &BTreeMap<String, String>,
) -> Result<WeightsHash, WeightsError> {
    let path = path.as_ref();
    let reserved = [FORMAT.0, HASH];
    if let Some(key) = reserved.into_iter().find(|&key| metadata.contains_key(key)) {
        let path = path.to_owned();
        return Err(WeightsError::Reserved { path, key });
    }
    let tensors = tensors::read(model).map_err(|source| WeightsError::model(path, source))?;
    let hash = WeightsHash::of_tensors(&tensors);
    let mut metadata = metadata.clone();
    metadata.insert(FORMAT.0.to_owned(), FORMAT.1.to_owned());
    metadata.insert(HASH.to_owned(), hash.to_string());
    format::write(path, &tensors, &metadata)?;
    Ok(hash)
}

/// Loads a safetensors file of parameters and running statistics into a model; returns their hash.
///
/// Everything is checked before anything is loaded: the file has exactly the tensors of the model, of
/// the same shapes and types, and where its metadata has a `"weights_sha256"`, that is the hash of
/// what was read. On an error the model is as it was.
///
/// Each tensor stays on its device, and is trained or frozen as before. Parameters get the ids of
/// their paths, [`id_of_path`](crate::id_of_path), so that a session knows them without `adopt`.
/// Parameters that are still lazy are loaded without drawing their initial values, unless a mapper of
/// theirs makes other shapes or types of these. (Of a model made by `valid`, Burn forgets which
/// parameters its original trains.)
///
/// Files of other programs load too, if they name their tensors by the same paths.
///
/// # Errors
/// [`WeightsError::Read`], [`WeightsError::NotSafetensors`], [`WeightsError::HeaderTooLarge`] and
/// [`WeightsError::Truncated`] if it is no such file; [`WeightsError::Tensors`],
/// [`WeightsError::Shape`] and [`WeightsError::Dtype`] if it is one of another model;
/// [`WeightsError::NotBool`] and [`WeightsError::Hash`] if its values aren't those that were saved;
/// [`WeightsError::Model`] if two tensors of the model have the same path.
pub fn load_weights<B: Backend, M: Module<B>>(
    model: &mut M,
    path: impl AsRef<Path>,
) -> Result<WeightsHash, WeightsError> {
    let path = path.as_ref();
    let file = WeightsFile::open(path)?;
    let expected = file.metadata().remove(HASH);
    let dtypes = load::compare(model, &file)?;
    let tensors = file.read()?;
    let hash = WeightsHash::of_tensors(&tensors);
    if let Some(expected) = expected.filter(|expected| *expected != hash.to_string()) {
        let (path, got) = (path.to_owned(), hash);
        return Err(WeightsError::Hash {
            path,
            expected,
            got,
        });
    }
    load::apply(model, tensors, &dtypes);
    Ok(hash)
}

/// What the header of a safetensors file says beside its tensors; of a file by [`save_weights`] that
/// is `"format"`, `"weights_sha256"` and what its caller added. Reads no values.
///
/// # Errors
/// [`WeightsError::Read`], [`WeightsError::NotSafetensors`], [`WeightsError::HeaderTooLarge`] and
/// [`WeightsError::Truncated`] if it is no such file.
pub fn read_weights_metadata(
    path: impl AsRef<Path>,
) -> Result<BTreeMap<String, String>, WeightsError> {
    let path = path.as_ref();
    Ok(WeightsFile::open(path)?.metadata())
}
