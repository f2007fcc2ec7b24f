//! An open pool.

use crate::config::VdevConfig;
use crate::feature::Features;
use crate::import::open::{self, OpenOptions, Opened};
use crate::import::search::{FoundPool, PoolState};
use crate::writer::ScanFigures;
use crate::{Error, Result};
use block::Store;
use object::ObjectSet;
use object::zap::Zap;
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::{config, directory};
use ondisk::uberblock::Uberblock;
use std::sync::Arc;

/// A pool, open for reading.
pub struct Pool {
    name: String,
    guid: u64,
    state: PoolState,
    label: Nvlist,
    opened: Opened,
    /// How far the scan is, of a pool that this process writes.
    pub(crate) scan_figures: Option<Arc<ScanFigures>>,
}

impl Pool {
    /// Opens the pool that a search found.
    pub fn open(found: &FoundPool, options: &OpenOptions) -> Result<Arc<Self>> {
        let opened = open::open(found, options)?;
        Ok(Arc::new(Self {
            name: options.name.clone().unwrap_or_else(|| found.name().to_owned()),
            guid: found.guid,
            state: found.state(),
            label: found.config().clone(),
            opened,
            scan_figures: None,
        }))
    }

    /// The same pool, opened at another txg.
    pub(crate) fn with(&self, name: String, guid: u64, opened: Opened, figures: Arc<ScanFigures>) -> Arc<Self> {
        let (state, label) = (self.state, self.label.clone());
        Arc::new(Self { name, guid, state, label, opened, scan_figures: Some(figures) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its identity.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// State that the labels tell: exported, or in use when it was last written.
    pub fn state(&self) -> PoolState {
        self.state
    }

    /// The uberblock that the pool can be wound back to (`zpool checkpoint`).
    pub fn checkpoint(&self) -> Result<Option<Uberblock>> {
        open::checkpoint(self.directory())
    }

    /// The newest label's configuration.
    pub fn label(&self) -> &Nvlist {
        &self.label
    }

    /// The configuration in the MOS.
    pub fn config(&self) -> &Nvlist {
        &self.opened.config
    }

    /// The devices as configured: the root of the tree.
    pub fn root_vdev(&self) -> &VdevConfig {
        &self.opened.root
    }

    /// Hot spares, as configured.
    pub fn spares(&self) -> &[VdevConfig] {
        &self.opened.spares
    }

    /// Level-2 cache devices, as configured.
    pub fn caches(&self) -> &[VdevConfig] {
        &self.opened.caches
    }

    /// The uberblock in use.
    pub fn uberblock(&self) -> &Uberblock {
        &self.opened.uberblock
    }

    /// On-disk version: 1 to 28, or 5000 with feature flags.
    pub fn version(&self) -> u64 {
        self.opened.config.get_u64(config::VERSION).unwrap_or(self.opened.uberblock.version)
    }

    /// Devices and blocks.
    pub fn store(&self) -> &Arc<Store> {
        &self.opened.store
    }

    /// The pool's own objects.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        &self.opened.mos
    }

    /// The object directory of the MOS.
    pub fn directory(&self) -> &Zap {
        &self.opened.directory
    }

    /// The features.
    pub fn features(&self) -> &Features {
        &self.opened.features
    }

    /// What a person should know of how the pool was opened.
    pub fn warnings(&self) -> &[String] {
        &self.opened.warnings
    }

    /// Object number of the root dataset's directory.
    pub fn root_dir(&self) -> Result<u64> {
        self.directory()
            .lookup_u64(directory::ROOT_DATASET)?
            .ok_or_else(|| Error::corrupt(self.name.clone(), "the object directory has no root_dataset"))
    }

    /// By number of the top-level device: bytes shown to users for 512 allocated ones. `used` and its like count so, in order
    /// that parity does not show.
    pub fn deflate_ratios(&self) -> Vec<u64> {
        let deflates = self.deflates();
        let ratio = |v: &Arc<block::vdev::Vdev>| match self.root_vdev().children.iter().find(|top| top.id == v.id) {
            Some(top) if deflates => crate::usable::deflate_ratio(top),
            _ => 512,
        };
        self.store().tree().tops.iter().map(ratio).collect()
    }
}
