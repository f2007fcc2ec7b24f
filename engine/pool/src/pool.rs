//! An open pool.

use crate::config::VdevConfig;
use crate::feature::Features;
use crate::import::open::{self, OpenOptions, Opened};
use crate::import::search::{FoundPool, PoolState};
use crate::writer::ScanFigures;
use block::Store;
use errors::{Error, Result};
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
    /// Progress of the scan, if this process writes the pool.
    pub(crate) scan_figures: Option<Arc<ScanFigures>>,
}

impl Pool {
    /// Opens a pool that a search found, for reading.
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

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// State in the newest label: exported, or in use when it was last written.
    pub fn state(&self) -> PoolState {
        self.state
    }

    /// Uberblock of the checkpoint to which the pool can be rewound (`zpool checkpoint`).
    pub fn checkpoint(&self) -> Result<Option<Uberblock>> {
        open::checkpoint(self.directory())
    }

    /// Configuration in the newest label.
    pub fn label(&self) -> &Nvlist {
        &self.label
    }

    /// Configuration in the MOS.
    pub fn config(&self) -> &Nvlist {
        &self.opened.config
    }

    /// Root of the device tree, as configured.
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

    /// The devices and their blocks.
    pub fn store(&self) -> &Arc<Store> {
        &self.opened.store
    }

    /// The pool's own object set.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        &self.opened.mos
    }

    /// The object directory of the MOS.
    pub fn directory(&self) -> &Zap {
        &self.opened.directory
    }

    pub fn features(&self) -> &Features {
        &self.opened.features
    }

    /// Problems with opening the pool that the user should know.
    pub fn warnings(&self) -> &[String] {
        &self.opened.warnings
    }

    /// Object number of the root dataset's DSL directory.
    pub fn root_dir(&self) -> Result<u64> {
        self.directory()
            .lookup_u64(directory::ROOT_DATASET)?
            .ok_or_else(|| Error::corrupt(self.name.clone(), "the object directory has no root_dataset"))
    }
}
