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
use crate::provider::{LiveFiles, read_only_volume, unreplayed};
use crate::volume_use::OpenVolume;
use crate::write::WritablePool;
use anyhow::Result;
use dataset::{Dataset, DatasetKind, ListOptions, LiveDatasets, intent_log};
use errors::Refusal;
use files::Volume;
use std::sync::Arc;

impl OwnedPool {
    /// Opens volume or snapshot `name` for a server, writable if possible.
    pub fn volume(&self, name: &str) -> Result<OpenVolume> {
        match self.writable() {
            Some(pool) => Ok(pool.volume(name)?),
            None => {
                let dataset = self.datasets()?.dataset(name)?;
                if let Some(notice) = unreplayed(&dataset, self.keys()) {
                    tracing::warn!(volume = name, "{notice}");
                }
                Ok(OpenVolume::new(Arc::new(read_only_volume(&dataset, self.keys())?), None))
            }
        }
    }
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

fn replay_volumes(live: &Arc<LiveDatasets>) -> errors::Result<()> {
    let tree = live.synced()?;
    for dataset in tree.list(&[], &ListOptions::heads())?.entries.iter().filter_map(|e| e.dataset()) {
        // Damaged volumes do not block the others.
        let needs = |d: &Dataset| -> errors::Result<bool> {
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

impl WritablePool {
    /// Opens volume or snapshot `name` for a server.
    pub fn volume(&self, name: &str) -> errors::Result<OpenVolume> {
        let dataset = self.live.synced()?.dataset(name)?;
        self.files().volume(&dataset)
    }

    /// Fails with [`Refusal::Busy`] if the dataset is in use.
    pub fn check_unused(&self, name: &str) -> errors::Result<()> {
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
