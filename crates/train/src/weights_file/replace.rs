//! Replacing a file by another that is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tempfile::Builder;

/// Writes a file beside `path`, and puts it there once it is on the disk. On an error, what was
/// there stays; if the process ends, a file `.*.tmp` may stay beside it.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    // Through a link, to the file that it names.
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let opened = open_folder(folder)?;
    let file = builder().tempfile_in(folder)?;
    let mut writer = BufWriter::new(file.as_file());
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    if let Ok(before) = fs::metadata(path) {
        file.as_file().set_permissions(before.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_folder(opened)
}

fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".").suffix(".tmp");
    // As of any new file; a temporary one would be for its owner's eyes only.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder
}

/// The folder, where a system lets folders be synced.
fn open_folder(folder: &Path) -> io::Result<Option<File>> {
    if cfg!(unix) {
        File::open(folder).map(Some)
    } else {
        Ok(None)
    }
}

/// The new name is on the disk when its folder is.
fn sync_folder(folder: Option<File>) -> io::Result<()> {
    match folder.map_or(Ok(()), |folder| folder.sync_all()) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_its_new_content_when_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for content in ["old", "new and longer", ""] {
            replace(&path, |file| file.write_all(content.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn old_file_stays_when_writing_fails_half_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let full = io::ErrorKind::StorageFull;
        let error = replace(&path, |file| {
            file.write_all(&[7; 100_000])?;
            Err(full.into())
        });
        assert_eq!(error.unwrap_err().kind(), full);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn folder_stays_when_a_file_is_to_take_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folder");
        fs::create_dir(&path).unwrap();
        replace(&path, |file| file.write_all(b"new")).unwrap_err();
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn file_is_as_readable_as_any_other_when_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, other) = (folder.path().join("ours"), folder.path().join("other"));
        replace(&ours, |_| Ok(())).unwrap();
        fs::write(&other, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&other));
    }
}
