//! Weights files of the built-in models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use burn::module::Module;
use burn::tensor::backend::Backend;
use burn_virtual::nodes::{WeightsHash, load_weights, read_weights_metadata, save_weights};
use clap::ValueEnum;

use crate::args::Model;
use crate::error::RunError;

/// The key of the model's name in a file's metadata.
const MODEL: &str = "model";

/// The file that a run with `--out` leaves its weights in.
pub(crate) struct Output(PathBuf);

impl Output {
    /// Makes the folder, and tries it: a run shall not find out at its end that it can't write there.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, RunError> {
        let file = folder.join("weights.safetensors");
        let usable = || {
            fs::create_dir_all(folder)?;
            if file.is_dir() {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            tempfile::tempfile_in(folder).map(drop)
        };
        usable().map_err(|source| RunError::Out {
            path: folder.to_owned(),
            source,
        })?;
        Ok(Self(file))
    }

    /// Saves the weights of a model, and returns their hash.
    pub(crate) fn save<B: Backend, M: Module<B>>(
        &self,
        kind: Model,
        model: &M,
    ) -> Result<WeightsHash, RunError> {
        let metadata = BTreeMap::from([(MODEL.to_owned(), name(kind))]);
        Ok(save_weights(model, &self.0, &metadata)?)
    }
}

/// Loads a weights file into a model.
pub(crate) fn load<B: Backend, M: Module<B>>(
    kind: Model,
    model: &mut M,
    path: &Path,
) -> Result<WeightsHash, RunError> {
    // A file from elsewhere may not say whose weights it has: then its tensors decide.
    match read_weights_metadata(path)?.remove(MODEL) {
        Some(got) if got != name(kind) => Err(RunError::Model {
            path: path.to_owned(),
            expected: name(kind),
            got,
        }),
        _ => Ok(load_weights(model, path)?),
    }
}

/// The model's name on the command line.
fn name(kind: Model) -> String {
    let value = kind.to_possible_value();
    value
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}
