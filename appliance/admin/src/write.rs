//! Opening an imported pool for writing: one process at a time.
//!
//! ```text
//!   devices locked ─> pool read as it is then ─> logs claimed ─> datasets live ─> verbs ─> synced, closed
//! ```
//!
//! Invariants:
//!   * a pool that another process has is left alone, and whoever asks is told which process that is

use crate::import::{self, OpenRequest};
use crate::keys::{self, KeyFile, KeySource};
use crate::provider::{DatasetProvider, LiveFiles};
use anyhow::{Context, Result};
use dataset::quota::Principal;
use dataset::{Dataset, KeyStore, LiveDatasets};
use files::namespace::Provider;

use pool::writer::WriteOptions;
use pool::{Error, FoundPool, OpenOptions, Refusal, Writer};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// A pool open for writing.
pub struct WritablePool {
    /// Its datasets; the txg engine is theirs.
    pub live: Arc<LiveDatasets>,
    /// Keys that are loaded.
    pub keys: Arc<KeyStore>,
    files: Arc<LiveFiles>,
}

/// Why a pool cannot be opened for writing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotWritable {
    /// Another process has it.
    #[error("pool is in use by another process{}", .0.as_ref().map(|p| format!(" ({p})")).unwrap_or_default())]
    InUse(Option<String>),
    /// It has something that we cannot keep right: what.
    #[error("unsupported {0}")]
    Unsupported(String),
}

fn write_options() -> WriteOptions {
    WriteOptions { claim_logs: Some(dataset::intent_log::claim_logs), ..WriteOptions::default() }
}

/// What makes file systems.
pub fn maker() -> dataset::write::FileSystemMaker {
    files::zpl::MAKER
}

/// Opens the pool with this identity.
pub fn open(request: &OpenRequest) -> Result<WritablePool> {
    let options = OpenOptions { rewind: request.rewind, name: request.name.clone(), ..OpenOptions::default() };
    open_with(request, &options)
}

/// The same, opened as `options` say.
pub fn open_with(request: &OpenRequest, options: &OpenOptions) -> Result<WritablePool> {
    let found = import::find(request)?;
    let writer = Writer::open(&found, options, &write_options()).map_err(|e| explain(e, &found))?;
    Ok(of_writer(writer, Arc::new(KeyStore::new())))
}

/// Opens a pool that was found.
pub fn open_found(found: &FoundPool, request: &OpenRequest) -> Result<WritablePool> {
    let options = OpenOptions { rewind: request.rewind, name: request.name.clone(), ..OpenOptions::default() };
    let writer = Writer::open(found, &options, &write_options()).map_err(|e| explain(e, found))?;
    Ok(of_writer(writer, Arc::new(KeyStore::new())))
}

pub(crate) fn of_writer(writer: Arc<Writer>, keys: Arc<KeyStore>) -> WritablePool {
    let live = LiveDatasets::new(writer, keys.clone());
    let files = LiveFiles::new(live.clone());
    WritablePool { live, keys, files }
}

/// Says of errors that have a common reason what that is.
fn explain(error: Error, found: &FoundPool) -> anyhow::Error {
    match error {
        Error::Refused { place, why: Refusal::Busy } => {
            let paths = std::iter::once(place.as_str()).chain(found.devices.iter().map(|d| d.device.name()));
            NotWritable::InUse(paths.filter_map(|p| lock_owner(Path::new(p))).next()).into()
        }
        Error::Unsupported { what, .. } => NotWritable::Unsupported(what).into(),
        error => error.into(),
    }
}

/// The process that has the file or device at `path` locked, as `weir, pid 123`, if the system tells.
pub fn lock_owner(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    let (dev, inode) = (meta.dev(), meta.ino());
    let major = ((dev >> 32) & 0xffff_f000) | ((dev >> 8) & 0xfff);
    let minor = ((dev >> 12) & 0xffff_ff00) | (dev & 0xff);
    let wanted = format!("{major:02x}:{minor:02x}:{inode}");
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 1234 08:02:131 0 EOF`
    let pid = table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words.as_slice() else { return None };
        (*file == wanted).then(|| pid.parse::<u32>().ok()).flatten()
    })?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(match name.trim() {
        "" => format!("pid {pid}"),
        name => format!("{name}, pid {pid}"),
    })
}

impl WritablePool {
    /// The txg engine.
    pub fn writer(&self) -> &Arc<Writer> {
        self.live.writer()
    }

    /// Notes a command in the pool's history.
    pub fn log_command(&self, command: &str) -> Result<()> {
        let command = command.to_owned();
        Ok(self.writer().task(move |cx| cx.history_command(&command))?)
    }

    /// The dataset `name`; if it is encrypted, with its key loaded from `source`.
    pub fn dataset(&self, name: &str, source: &KeySource<'_>) -> Result<Dataset> {
        let dataset = self.live.synced()?.dataset(name)?;
        if !self.keys.is_available(&dataset)? {
            keys::load(&self.keys, &dataset, source).with_context(|| format!("{name}: cannot load its key"))?;
        }
        Ok(dataset)
    }

    /// A dataset with all that can be shown beneath it, as [`crate::OpenPool::provider`]; file systems can be written.
    pub fn provider(&self, dataset: Dataset, key_files: &[KeyFile]) -> Arc<dyn Provider> {
        Arc::new(DatasetProvider::new(dataset, self.keys.clone(), key_files.into(), Some(self.files.clone())))
    }

    /// Sets quotas of users, groups and projects on a file system: whose, of which id, whether of objects, and how much; 0: none.
    pub fn set_quotas(&self, name: &str, quotas: &[(Principal, u64, bool, u64)]) -> Result<()> {
        let live = self.live.open(name, Some(files::zpl::owners_of))?;
        let files = files::FileSystem::mount(&live)?;
        for (principal, id, objects, limit) in quotas {
            files.set_quota(*principal, *id, *objects, *limit)?;
        }
        drop(files);
        Ok(self.live.close(&live)?)
    }

    fn close_files(&self) -> Result<()> {
        self.files.close()?;
        self.live.close_all().context("cannot close the datasets")
    }

    /// Brings everything to disk and lets go of the pool, which stays imported.
    pub fn close(self) -> Result<()> {
        self.close_files()?;
        self.writer().close().context("cannot sync the pool")
    }

    /// The same, and marks the pool as exported.
    pub fn export(self) -> Result<()> {
        self.close_files()?;
        self.writer().export().context("cannot export the pool")
    }

    /// The same, and marks it as destroyed.
    pub fn destroy(self) -> Result<()> {
        self.close_files()?;
        self.writer().destroy().context("cannot destroy the pool")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_device_locked_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("disk");
        std::fs::write(&path, [0; 4096]).expect("written");
        assert_eq!(lock_owner(&path), None);
        let held = pool::devices::open_for_writing(&path).expect("nobody else has it");
        if let Some(owner) = lock_owner(&path) {
            assert!(owner.ends_with(&format!("pid {}", std::process::id())), "{owner}");
        }
        drop(held);
    }
}
