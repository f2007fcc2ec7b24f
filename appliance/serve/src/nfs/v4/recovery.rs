//! The clients that may reclaim after a restart: names of clients that held state, on stable
//! storage (RFC 8881 section 8.4.2.1).
//!
//! A name is recorded before the client learns that it holds state, so a crash never loses one.
//! Names show who uses the server, so only the owner can read them.
//! Each name has a file, whose name is a hash of the client's name.

use host::durable;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Stores the names of clients.
pub trait ClientRecords: Send + Sync {
    fn load(&self) -> Vec<Vec<u8>>;
    /// Adds a name. It is on stable storage when this returns.
    fn add(&self, name: &[u8]);
    fn remove(&self, name: &[u8]);
}

/// Stores nothing: no client may reclaim after a restart.
#[derive(Debug, Default)]
pub struct NoRecords;

impl ClientRecords for NoRecords {
    fn load(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
    fn add(&self, _: &[u8]) {}
    fn remove(&self, _: &[u8]) {}
}

/// Stores a file for each client in a directory.
#[derive(Debug)]
pub struct FolderRecords {
    folder: PathBuf,
}

/// Maximum length of a client name (`NFS4_OPAQUE_LIMIT`).
const NAME_BYTES_MAX: u64 = 1024;
/// Maximum number of names: as many as the server accepts clients.
const RECORDS_MAX: usize = 4096;

impl FolderRecords {
    /// Uses this directory, which is created if necessary.
    pub fn open(folder: &Path) -> io::Result<Self> {
        durable::make_private(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        let hash = blake3::hash(name);
        self.folder.join(format!("{}.client", hash.to_hex()))
    }

    fn store(&self, name: &[u8]) -> io::Result<()> {
        durable::replace(&self.path(name), name, durable::PRIVATE)
    }

    fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)?.take(RECORDS_MAX) {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "client") {
                let mut name = Vec::new();
                File::open(&path)?.take(NAME_BYTES_MAX).read_to_end(&mut name)?;
                names.push(name);
            }
        }
        Ok(names)
    }
}

impl ClientRecords for FolderRecords {
    fn load(&self) -> Vec<Vec<u8>> {
        self.names().unwrap_or_else(|error| {
            tracing::error!(folder = %self.folder.display(), %error, "cannot read which NFS clients may reclaim");
            Vec::new()
        })
    }

    fn add(&self, name: &[u8]) {
        if let Err(error) = self.store(name) {
            tracing::error!(folder = %self.folder.display(), %error, "cannot remember an NFS client: it will not be able to reclaim");
        }
    }

    fn remove(&self, name: &[u8]) {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(folder = %self.folder.display(), %error, "cannot forget an NFS client");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_and_are_forgotten() {
        let folder = std::env::temp_dir().join(format!("weir-nfs4-records-{}", std::process::id()));
        let records = FolderRecords::open(&folder).unwrap();
        records.add(b"one");
        records.add(b"t/w\0o");
        records.add(b"one");
        let mut names = FolderRecords::open(&folder).unwrap().load();
        names.sort();
        assert_eq!(names, [b"one".to_vec(), b"t/w\0o".to_vec()]);
        records.remove(b"one");
        records.remove(b"never");
        assert_eq!(records.load(), [b"t/w\0o".to_vec()]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
