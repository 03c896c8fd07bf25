//! The folder of a launch: one folder a rank, with its log files and the file of its error.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::LaunchError;
use super::redirect::Which;
use super::settings::Settings;

/// The folder of a launch.
pub(super) struct Logs {
    folder: PathBuf,
    /// Where nobody asked for logs, it goes when this does.
    temporary: Option<TempDir>,
}

impl Logs {
    /// Makes the folders of all ranks of this node.
    pub(super) fn open(settings: &Settings) -> Result<Self, LaunchError> {
        let Some(log_dir) = &settings.output.log_dir else {
            return Self::temporary(settings).map_err(|source| LaunchError::System {
                what: "a temporary folder",
                source,
            });
        };
        let at = |path: &Path| {
            let path = path.to_owned();
            |source| LaunchError::LogDir { path, source }
        };
        let folder = std::path::absolute(log_dir).map_err(at(log_dir))?;
        let folder = folder.join(&settings.run_id).join("attempt_0");
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let logs = Self {
            folder,
            temporary: None,
        };
        for local_rank in 0..settings.local_world {
            let path = logs.of(local_rank);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return Err(LaunchError::LogsThere { path });
                }
                made => made.map_err(at(&path))?,
            }
        }
        Ok(logs)
    }

    fn temporary(settings: &Settings) -> io::Result<Self> {
        let temporary = tempfile::Builder::new().prefix("burn-virtual-").tempdir()?;
        let logs = Self {
            folder: temporary.path().to_owned(),
            temporary: Some(temporary),
        };
        (0..settings.local_world).try_for_each(|rank| fs::create_dir(logs.of(rank)))?;
        Ok(logs)
    }

    /// The folder, if it goes when this does.
    pub(super) fn temporary_folder(&self) -> Option<&Path> {
        self.temporary.as_ref().map(TempDir::path)
    }

    fn of(&self, local_rank: usize) -> PathBuf {
        self.folder.join(local_rank.to_string())
    }

    /// Where a process tells of its error.
    pub(super) fn error_file(&self, local_rank: usize) -> PathBuf {
        self.of(local_rank).join("error.json")
    }

    /// The path of a log file.
    pub(super) fn path(&self, local_rank: usize, which: Which) -> PathBuf {
        self.of(local_rank).join(format!("{}.log", which.name()))
    }

    /// A new log file.
    pub(super) fn create(&self, local_rank: usize, which: Which) -> Result<File, LaunchError> {
        let path = self.path(local_rank, which);
        File::create_new(&path).map_err(|source| LaunchError::LogDir { path, source })
    }
}
