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
        let refused = |path: &Path, source| {
            let path = path.to_owned();
            RunError::Out { path, source }
        };
        if file.is_dir() {
            let source = io::Error::from(io::ErrorKind::IsADirectory);
            return Err(refused(&file, source));
        }
        rehearse(folder).map_err(|source| refused(folder, source))?;
        Ok(Self(file))
    }

    /// Saves the weights of a model.
    pub(crate) fn save<B: Backend, M: Module<B>>(
        &self,
        kind: Model,
        model: &M,
    ) -> Result<(), RunError> {
        let metadata = BTreeMap::from([(MODEL.to_owned(), name(kind))]);
        save_weights(model, &self.0, &metadata)?;
        Ok(())
    }
}

/// Does to a folder what saving will.
fn rehearse(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::File::open(folder)?;
    tempfile::NamedTempFile::new_in(folder)?.close()
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
            // It is a text from a file, and goes to a terminal.
            got: got.escape_debug().take(80).collect(),
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
