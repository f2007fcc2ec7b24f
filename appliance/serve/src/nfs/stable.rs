//! Files on stable storage that name clients of NFS.
//!
//! Invariants:
//!   * they are for their owner alone: they say who uses the server, and from where
//!   * a file is replaced as a whole, and a power cut does not bring the old one back

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Puts `contents` in the place of what is at `path`.
pub(super) fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    // One that an earlier version left behind may be readable for everyone.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Makes a folder for its owner alone; an earlier version may have made it for everyone.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_clients_is_closed_to_others_also_where_it_was_open() {
        let folder = std::env::temp_dir().join(format!("weir-nfs-stable-{}", std::process::id()));
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let file = folder.join("nfs-lock-clients");
        fs::create_dir_all(&folder).expect("a folder");
        for path in [&file, &file.with_extension("new")] {
            fs::write(path, "before").expect("written");
            fs::set_permissions(path, Permissions::from_mode(0o644)).expect("set");
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("set");
        make_folder(&folder).expect("made");
        replace(&file, b"now").expect("replaced");
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        assert_eq!(fs::read(&file).expect("there"), b"now");
        assert_eq!(fs::read_dir(&folder).expect("there").count(), 1);
        fs::remove_dir_all(&folder).expect("ours");
    }
}
