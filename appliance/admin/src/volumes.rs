//! Volumes for servers: each volume is open for writing once, and in use while a server has it.
//!
//! ```text
//!   NBD ── OwnedPool::volume ──> OpenVolume (counts as a use) ──┐
//!   .zfs/volume ── provider ────────────────────────────────────┴─ LiveFiles: one Volume per head
//! ```
//!
//! Invariants:
//!   * a volume in use is neither destroyed nor rolled back, and its pool is not exported: they are
//!     busy, as in OpenZFS
//!   * an intent log that a crash left in a volume is replayed when its pool is opened, as OpenZFS
//!     does when it creates the device

use crate::house::OwnedPool;
use crate::provider::{LiveFiles, files_of_volume};
use anyhow::Result;
use dataset::{Dataset, DatasetKind, KeyStore, ListOptions, LiveDatasets, intent_log};
use files::{Refusal, Volume};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// Datasets in use: number of users by object number.
#[derive(Default)]
pub(crate) struct Uses(Mutex<BTreeMap<u64, usize>>);

impl Uses {
    /// Adds a use of dataset `id`.
    pub fn begin(self: &Arc<Self>, id: u64) -> Use {
        *self.0.lock().entry(id).or_default() += 1;
        Use { of: self.clone(), id }
    }

    /// Whether the dataset is in use.
    pub fn has(&self, id: u64) -> bool {
        self.0.lock().contains_key(&id)
    }

    /// Any dataset that is in use.
    pub fn any(&self) -> Option<u64> {
        self.0.lock().keys().next().copied()
    }
}

/// One use; ends when dropped.
pub(crate) struct Use {
    of: Arc<Uses>,
    id: u64,
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut uses = self.of.0.lock();
        if let Some(count) = uses.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                uses.remove(&self.id);
            }
        }
    }
}

/// A volume, or a snapshot of one, that is in use until this is dropped.
pub struct OpenVolume {
    volume: Arc<Volume>,
    _use: Option<Use>,
}

impl OpenVolume {
    pub(crate) fn new(volume: Arc<Volume>, used: Option<Use>) -> Self {
        Self { volume, _use: used }
    }

    /// The volume, for a server that holds this.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }
}

impl Deref for OpenVolume {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl OwnedPool {
    /// Opens volume or snapshot `name` for a server, writable if possible.
    pub fn volume(&self, name: &str) -> Result<OpenVolume> {
        match self.writable() {
            Some(pool) => Ok(pool.volume(name)?),
            None => {
                let dataset = self.datasets()?.dataset(name)?;
                if let Some(notice) = crate::provider::unreplayed(&dataset, self.keys()) {
                    tracing::warn!(volume = name, "{notice}");
                }
                Ok(OpenVolume::new(Arc::new(read_only(&dataset, self.keys())?), None))
            }
        }
    }
}

/// Opens a snapshot, or a volume of a pool that is read-only.
pub(crate) fn read_only(dataset: &Dataset, keys: &KeyStore) -> files::Result<Volume> {
    files_of_volume(dataset)?;
    Volume::open(&dataset.objset(keys)?, dataset.name())
}

impl LiveFiles {
    /// Replays the intent logs that crashes left in volumes, so that sends, copies and snapshots
    /// include all durable changes. Volumes whose key is not loaded are replayed when they are
    /// opened.
    pub fn replay_volumes(&self) {
        if let Err(error) = replay_volumes(self.live()) {
            tracing::warn!(%error, "cannot replay the intent logs of volumes");
        }
    }
}

fn replay_volumes(live: &Arc<LiveDatasets>) -> files::Result<()> {
    let tree = live.synced()?;
    for dataset in tree.list(&[], &ListOptions::heads())?.entries.iter().filter_map(|e| e.dataset()) {
        // Damaged volumes do not block the others.
        let needs = |d: &Dataset| -> files::Result<bool> {
            Ok(d.kind()? == DatasetKind::Volume && intent_log::needs_replay(d)?)
        };
        if !needs(dataset).unwrap_or(false) || !live.keys().is_available(dataset).unwrap_or(false) {
            continue;
        }
        let replayed = live.open(dataset.name(), None).and_then(|volume| {
            let opened = Volume::open_live(&volume).map(drop);
            opened.and(live.close(&volume))
        });
        match replayed {
            Ok(()) => tracing::info!(volume = dataset.name(), "intent log replayed"),
            Err(error) => tracing::warn!(volume = dataset.name(), %error, "cannot replay its intent log"),
        }
    }
    Ok(())
}

impl crate::write::WritablePool {
    /// Opens volume or snapshot `name` for a server.
    pub fn volume(&self, name: &str) -> files::Result<OpenVolume> {
        let dataset = self.live.synced()?.dataset(name)?;
        self.files().volume(&dataset)
    }

    /// Fails with [`Refusal::Busy`] if the dataset is in use.
    pub fn check_unused(&self, name: &str) -> files::Result<()> {
        let id = self.live.synced()?.dataset(name)?.id();
        match self.files().uses().has(id) {
            true => Err(Refusal::Busy.at(name)),
            false => Ok(()),
        }
    }

    /// The name of a volume that is in use, if any.
    pub fn used_volume(&self) -> Option<String> {
        let id = self.files().uses().any()?;
        let found = self.live.synced().and_then(|tree| tree.dataset_by_id(id));
        Some(found.map_or_else(|_| format!("object {id}"), |dataset| dataset.name().to_owned()))
    }
}
