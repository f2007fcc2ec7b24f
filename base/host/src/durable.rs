//! Atomic replacement of the files that the state folder holds, and folders closed to other users.
//!
//! Invariants:
//!   * a reader finds either the old contents or the new ones
//!   * once [`replace`] has returned, a power cut does not bring the old contents back
//!   * after an error the old contents are still there, and no temporary file is left behind

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Mode of files with secrets, file names or user names: for the owner only.
pub const PRIVATE: u32 = 0o600;
/// Mode of other files: readable by everyone who can enter the folder.
pub const PUBLIC: u32 = 0o644;

/// Replaces the file at `path` with `contents`; creates its folder if missing.
pub fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let fresh = temporary_path(path);
    let written = write(&fresh, contents, mode).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// Opens the file of a lock for its owner only; creates it if missing. Any user who can open it can
/// hold the lock and keep the owner from taking it. An earlier version may have created it for
/// everyone.
pub fn lock_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(PRIVATE).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(PRIVATE))?;
    }
    Ok(file)
}

fn write(fresh: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    match fs::remove_file(fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(fresh)?;
    file.write_all(contents)?;
    file.sync_all()
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Creates a folder for its owner only. If it exists, removes access for others from it and its
/// contents, since an earlier version may have created them for everyone.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let restrict = |path: &Path, mode: u32| -> io::Result<()> {
        match fs::symlink_metadata(path)?.permissions().mode() & 0o077 {
            0 => Ok(()),
            _ => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        }
    };
    restrict(folder, 0o700)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => make_private(&entry.path())?,
            kind if kind.is_file() => restrict(&entry.path(), PRIVATE)?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_for_those_it_is_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/er/file.json");
        replace(&path, b"one", PRIVATE).expect("written");
        assert_eq!(mode(&path), 0o600);
        // Left behind by a killed process, and readable by everyone.
        for wanted in [PRIVATE, PUBLIC] {
            fs::write(temporary_path(&path), "half").expect("written");
            fs::set_permissions(temporary_path(&path), fs::Permissions::from_mode(0o644)).expect("set");
            replace(&path, b"two", wanted).expect("written");
            assert_eq!(fs::read(&path).expect("read"), b"two");
            // The umask can only remove bits.
            assert_eq!(mode(&path) & !wanted, 0);
            assert_eq!(mode(&path) & 0o600, 0o600);
        }
        assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("read").count(), 1);
    }

    #[test]
    fn on_an_error_the_old_contents_stay_and_no_files_are_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::create_dir(&path).expect("made");
        fs::write(path.join("inside"), "x").expect("written");
        assert!(replace(&path, b"two", PRIVATE).is_err(), "a folder is no file");
        assert!(path.join("inside").exists() && !temporary_path(&path).exists());
    }

    #[test]
    fn a_lock_file_is_made_private_also_if_it_was_public() {
        let folder = tempfile::tempdir().expect("a folder");
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "").expect("written");
        fs::set_permissions(&old, fs::Permissions::from_mode(0o644)).expect("set");
        for path in [&new, &old] {
            lock_file(path).expect("opened");
            assert_eq!(mode(path), 0o600, "{}", path.display());
        }
    }

    #[test]
    fn public_files_of_earlier_versions_are_made_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let (below, file) = (folder.path().join("a/b"), folder.path().join("a/b/ops"));
        fs::create_dir_all(&below).expect("made");
        fs::write(&file, "x").expect("written");
        for (path, mode) in [(&file, 0o644), (&below, 0o755), (&folder.path().join("a"), 0o755)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        }
        make_private(&folder.path().join("a")).expect("set");
        assert_eq!((mode(&file), mode(&below), mode(&folder.path().join("a"))), (0o600, 0o700, 0o700));
    }
}
