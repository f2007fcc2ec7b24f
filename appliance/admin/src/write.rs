//! Opens an imported pool for writing, in one process at a time.
//!
//! ```text
//!   lock devices ─> read the current pool ─> claim logs ─> datasets live
//!                ─> operations ─> sync, close
//! ```
//!
//! Invariants:
//!   * a pool that another process has open is not touched, and the error names that process

use crate::import::{self, OpenRequest};
use crate::keys::{self, KeyFile, KeySource};
use crate::provider::{DatasetProvider, LiveFiles};
use anyhow::{Context, Result};
use dataset::quota::Principal;
use dataset::{Dataset, KeyStore, LiveDatasets};
use files::namespace::Provider;
use files::zpl::Version;

use errors::{Error, Refusal};
use pool::writer::WriteOptions;
use pool::{FoundPool, OpenOptions, Writer};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pool that is open for writing.
pub struct WritablePool {
    /// The datasets, which hold the txg engine.
    pub live: Arc<LiveDatasets>,
    pub keys: Arc<KeyStore>,
    files: Arc<LiveFiles>,
    /// Number of calls of [`WritablePool::close_dataset`].
    closings: AtomicU64,
}

impl WritablePool {
    /// Replays what logs of volumes hold.
    pub(crate) fn replay_volumes(&self) {
        self.files.replay_volumes();
    }
}

/// Why a pool cannot be opened for writing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotWritable {
    /// Another process has the pool open.
    #[error("pool is in use by another process{}", .0.as_ref().map(|p| format!(" ({p})")).unwrap_or_default())]
    InUse(Option<String>),
    /// The pool has something that Weir cannot write: what it is.
    #[error("unsupported {0}")]
    Unsupported(String),
}

/// Whether an error means that another process has the pool open.
pub fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<NotWritable>(), Some(NotWritable::InUse(_)))
}

/// Whether an error means that another host has, or may have, the pool.
pub fn is_elsewhere(error: &anyhow::Error) -> bool {
    let refusal = error.downcast_ref::<Error>().and_then(Error::refusal);
    matches!(refusal, Some(Refusal::ImportedElsewhere | Refusal::NoHostId))
}

fn write_options() -> WriteOptions {
    WriteOptions { claim_logs: Some(dataset::intent_log::claim_logs), ..WriteOptions::default() }
}

/// The functions that fill a new file system: those of the ZPL.
pub fn maker() -> dataset::write::FileSystemMaker {
    files::zpl::MAKER
}

/// As for reading, but without a txg: writing can only continue from the newest one.
fn options(request: &OpenRequest) -> OpenOptions {
    OpenOptions { txg: None, ..import::options(request) }
}

/// Opens the pool of the request for writing.
pub fn open(request: &OpenRequest) -> Result<WritablePool> {
    let options = options(request);
    open_with(request, &options)
}

/// As [`open`], with other options.
pub fn open_with(request: &OpenRequest, options: &OpenOptions) -> Result<WritablePool> {
    let found = import::find(request)?;
    let writer = Writer::open(&found, options, &write_options()).map_err(|e| explain(e, &found))?;
    Ok(imported(of_writer(writer, Arc::new(KeyStore::new()))))
}

/// Opens a found pool for writing.
pub fn open_found(found: &FoundPool, request: &OpenRequest) -> Result<WritablePool> {
    let options = options(request);
    let writer = Writer::open(found, &options, &write_options()).map_err(|e| explain(e, found))?;
    Ok(imported(of_writer(writer, Arc::new(KeyStore::new()))))
}

pub(crate) fn of_writer(writer: Arc<Writer>, keys: Arc<KeyStore>) -> WritablePool {
    let live = LiveDatasets::new(writer, keys.clone());
    let files = LiveFiles::new(live.clone());
    WritablePool { live, keys, files, closings: AtomicU64::new(0) }
}

/// Replays the intent logs of volumes, and reports the import as an event.
fn imported(pool: WritablePool) -> WritablePool {
    pool.files.replay_volumes();
    pool.writer().store().reporter().sysevent(block::zevent::class::POOL_IMPORT, |_| ());
    pool
}

/// Replaces errors that have a common cause with an explanation.
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

/// The process that has locked the file or device at `path`, such as `weir, pid 123`, if the system
/// reports it.
pub fn lock_owner(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    if meta.file_type().is_block_device() {
        return device_owner(path);
    }
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

/// A process other than this one that has the block device open, as far as permissions show. The
/// kernel reserves such a device for one writer until the last process closes it, and does not
/// report which process that is.
fn device_owner(path: &Path) -> Option<String> {
    let path = std::fs::canonicalize(path).ok()?;
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let numbers = processes.filter_map(|p| p.file_name().into_string().ok());
    numbers.filter(|n| n.bytes().all(|b| b.is_ascii_digit()) && *n != own).find_map(|pid| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let mut links = files.filter_map(|f| std::fs::read_link(f.ok()?.path()).ok());
        links.any(|link| link == path).then(|| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{}, pid {pid}", name.trim())
        })
    })
}

impl WritablePool {
    pub(crate) fn files(&self) -> &LiveFiles {
        &self.files
    }

    pub fn writer(&self) -> &Arc<Writer> {
        self.live.writer()
    }

    /// Adds a command to the pool history, and waits for the txg.
    pub fn log_command(&self, command: &str) -> Result<()> {
        let command = command.to_owned();
        Ok(self.writer().task(move |cx| cx.history_command(&command))?)
    }

    /// As [`WritablePool::log_command`], without waiting for the txg, as OpenZFS does. Readers of
    /// the history sync first.
    pub fn note_command(&self, command: &str) -> Result<()> {
        let command = command.to_owned();
        Ok(self.writer().task_later(move |cx| cx.history_command(&command))?)
    }

    /// The dataset `name`. If it is encrypted, loads its key from `source`.
    pub fn dataset(&self, name: &str, source: &KeySource<'_>) -> Result<Dataset> {
        let dataset = self.live.synced()?.dataset(name)?;
        if !self.keys.is_available(&dataset)? {
            keys::load(&self.keys, &dataset, source).with_context(|| format!("{name}: cannot load its key"))?;
        }
        Ok(dataset)
    }

    /// A dataset with everything to show below it, as [`crate::OpenPool::provider`]; file systems
    /// can be written.
    pub fn provider(&self, dataset: Dataset, key_files: &[KeyFile]) -> Arc<dyn Provider> {
        Arc::new(DatasetProvider::new(dataset, self.keys.clone(), key_files.into(), Some(self.files.clone())))
    }

    /// Sets user, group and project quotas on a file system: principal, id, whether it limits
    /// objects, and the limit (0 for none).
    pub fn set_quotas(&self, name: &str, quotas: &[(Principal, u64, bool, u64)]) -> Result<()> {
        if quotas.is_empty() {
            return Ok(());
        }
        let files = self.files.written(&self.live.synced()?.dataset(name)?)?;
        for (principal, id, objects, limit) in quotas {
            files.set_quota(*principal, *id, *objects, *limit)?;
        }
        Ok(self.writer().sync()?)
    }

    /// Raises the ZPL version of a file system.
    pub fn upgrade_files(&self, name: &str, version: u64) -> Result<()> {
        let files = self.files.written(&self.live.synced()?.dataset(name)?)?;
        let before = files.version();
        files.upgrade(Version(version))?;
        if before != Version(version) {
            dataset::write::note_upgrade(&self.live, name, (before.0, version))?;
        }
        Ok(self.writer().sync()?)
    }

    /// Changes whenever files are closed. File trees built before may contain some of them.
    pub fn closings(&self) -> u64 {
        self.closings.load(Ordering::SeqCst)
    }

    /// Closes the files of a dataset, so that it can be destroyed or its key unloaded. No server
    /// may use them any more.
    pub fn close_dataset(&self, name: &str) -> Result<()> {
        self.closings.fetch_add(1, Ordering::SeqCst);
        match self.live.synced()?.dataset(name) {
            Ok(dataset) => self.files.close_one(dataset.id(), name),
            Err(errors::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Closes datasets that are still open since they were last used, so that they are not busy.
    pub fn close_idle(&self, is_used: &dyn Fn(&str) -> bool) -> Result<()> {
        for id in self.files.idle() {
            let Some(name) = self.live.get(id).map(|live| live.name()) else { continue };
            if !is_used(&name) {
                self.closings.fetch_add(1, Ordering::SeqCst);
                match self.files.close_one(id, &name) {
                    // It is used by now.
                    Err(e) if is_busy(&e) => {}
                    closed => closed?,
                }
            }
        }
        Ok(())
    }

    /// Closes everything, even after an error: a part that cannot be written must not keep the rest
    /// open.
    fn close_files(&self) -> Result<()> {
        let files = self.files.close();
        let datasets = self.live.close_all().context("cannot close the datasets");
        files.and(datasets)
    }

    /// Syncs and closes the pool, which stays imported.
    pub fn close(&self) -> Result<()> {
        let files = self.close_files();
        files.and(self.writer().close().context("cannot sync the pool"))
    }

    /// As [`WritablePool::close`], and marks the pool as exported.
    pub fn export(&self) -> Result<()> {
        let files = self.close_files();
        files.and(self.writer().export().context("cannot export the pool"))
    }

    /// As [`WritablePool::close`], and marks the pool as destroyed.
    pub fn destroy(&self) -> Result<()> {
        let files = self.close_files();
        files.and(self.writer().destroy().context("cannot destroy the pool"))
    }
}

fn is_busy(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Refused { why: Refusal::Busy, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_locks_a_device_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("disk");
        std::fs::write(&path, [0; 4096]).expect("written");
        assert_eq!(lock_owner(&path), None);
        let held = pool::devices::open_for_writing(&path).expect("no other process holds it");
        if let Some(owner) = lock_owner(&path) {
            assert!(owner.ends_with(&format!("pid {}", std::process::id())), "{owner}");
        }
        drop(held);
    }
}
