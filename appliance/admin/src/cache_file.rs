//! Cache files (`cachefile`): lists of imported pools with their devices, for `zpool import -c` and
//! for OpenZFS's zdb.
//!
//! Weir finds its imported pools by its own state folder. It writes a cache file only where
//! `cachefile` names one: OpenZFS's module imports the pools of the default file at boot, and two
//! systems must not import the same pool.
//!
//! Invariants:
//!   * entries of pools that are not imported here are kept
//!   * a file that is no cache file is not overwritten

use crate::state::{Imported, State};
use crate::write::WritablePool;
use anyhow::{Result, anyhow};
use host::durable;
use parking_lot::Mutex;
use pool::cache_file::{CacheFile, CachedPool};
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file of pools that have no `cachefile` of their own in OpenZFS. It is displayed as `-`.
pub const DEFAULT: &str = "/etc/zfs/zpool.cache";

/// Limit for the bytes of a cache file: the configurations of thousands of pools.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// One change at a time: several pools may be in one file.
static CHANGES: Mutex<()> = Mutex::new(());

/// The cache file of a pool, if it is to be in one.
fn of(record: &Imported) -> Option<&Path> {
    // OpenZFS does not list pools that may not be importable for writing.
    let file = record.cachefile.as_deref().filter(|_| !record.readonly)?;
    (!matches!(file, "" | "none")).then(|| Path::new(file))
}

/// Changes a file; `change` returns whether it changed anything. A file without pools is removed.
fn change(path: &Path, change: impl FnOnce(&mut CacheFile) -> Result<bool>) -> Result<()> {
    let _one = CHANGES.lock();
    let changed = open(path).and_then(|file| {
        let mut file = file.unwrap_or_default();
        match (change(&mut file)?, file.is_empty()) {
            (false, _) => Ok(()),
            (true, true) => Ok(fs::remove_file(path)?),
            (true, false) => Ok(durable::replace(path, &file.pack(), durable::PUBLIC)?),
        }
    });
    // A single text: of a chain of errors, a refusal contains only the innermost.
    changed.map_err(|error| anyhow!("{}: {error:#}", path.display()))
}

fn open(path: &Path) -> Result<Option<CacheFile>> {
    match contents(path) {
        Ok(bytes) if bytes.is_empty() => Err(anyhow!("is empty, and no cache file")),
        Ok(bytes) => Ok(Some(CacheFile::parse(&bytes)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The bytes of a regular file of at most [`FILE_BYTES_MAX`]. Does not wait for a FIFO.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let file =
        fs::OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Brings the entry of an open pool up to date.
pub fn update(record: &Imported, pool: &WritablePool) -> Result<()> {
    let Some(path) = of(record) else { return Ok(()) };
    change(path, |file| Ok(file.put(&pool.writer().packed_config())?))
}

/// [`update`], where a file that cannot be written is no reason to fail.
pub fn try_update(record: &Imported, pool: &WritablePool) {
    if let Err(error) = update(record, pool) {
        tracing::warn!(pool = record.name, error = %format!("{error:#}"), "cannot be noted in its cache file");
    }
}

/// Brings the entry of a pool up to date whose devices may have changed without a command: a
/// resilver that ends removes the replaced device.
pub fn refresh(state: &State, record: &Imported, pool: &WritablePool) -> Result<()> {
    let Some(path) = of(record) else { return Ok(()) };
    change(path, |file| {
        // An export removes the pool from the list first, and then from the file.
        let is_imported = state.pools()?.iter().any(|known| known.guid == record.guid && of(known) == Some(path));
        Ok(is_imported && file.put(&pool.writer().packed_config())?)
    })
}

/// Removes the entry of a pool that leaves its cache file.
pub fn remove(record: &Imported) {
    let Some(path) = of(record) else { return };
    if let Err(error) = change(path, |file| Ok(file.remove(record.guid))) {
        tracing::warn!(pool = record.name, error = %format!("{error:#}"), "remains in its cache file");
    }
}

/// The pools of a file.
pub fn read(path: &Path) -> Result<Vec<CachedPool>> {
    Ok(CacheFile::parse(&contents(path)?)?.pools()?)
}
