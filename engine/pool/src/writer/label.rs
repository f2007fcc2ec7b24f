//! The end of a txg: writes the configuration to the MOS and to the labels, and the uberblock.

use super::config;
use super::spa::{Shared, SyncTx, Writer};
use crate::config::VdevConfig;
use block::label::{Which, sync_configs, sync_uberblock};
use errors::{Error, Result};
use object::NewObject;
use ondisk::pool_dir::{config as key, directory};
use ondisk::uberblock::Uberblock;
use ondisk::{BlkPtr, Endian, ObjectType, Txg};

/// Block size of the packed configuration (`SPA_CONFIG_BLOCKSIZE`).
const CONFIG_BLOCK_BYTES: u32 = 16 << 10;
/// Software version in the uberblock (`SPA_VERSION`).
const SOFTWARE_VERSION: u64 = 5000;

/// Writes the complete configuration to the MOS.
pub(crate) fn write_mos_config(cx: &SyncTx<'_>) -> Result<()> {
    let shared = cx.shared;
    let packed = packed_config(shared, cx.txg());
    let id = match cx.directory_entry(directory::CONFIG)? {
        Some(id) => id,
        None => {
            let new = NewObject::new(ObjectType::PACKED_NVLIST, CONFIG_BLOCK_BYTES)
                .with_bonus(ObjectType::PACKED_NVLIST_SIZE, vec![0; 8]);
            let id = cx.mos().create_object(cx.tx(), &new)?.id();
            cx.directory()?.update_u64(cx.tx(), directory::CONFIG.as_bytes(), id)?;
            id
        }
    };
    let object = cx.mos().object(id)?;
    object.write_at(cx.tx(), 0, &packed)?;
    object.set_bonus(cx.tx(), (packed.len() as u64).to_le_bytes().to_vec())
}

impl Writer {
    /// The current configuration, packed as in the MOS: the entry of a cache file.
    pub fn packed_config(&self) -> Vec<u8> {
        packed_config(&self.shared, self.synced_txg())
    }
}

/// The complete configuration in `txg`, packed. Holds only one of the locks of identity and root at
/// a time.
fn packed_config(shared: &Shared, txg: u64) -> Vec<u8> {
    let identity = shared.config.identity.lock().clone();
    let root = shared.config.root.lock().clone();
    config::for_mos(&identity, &root, shared.features.for_label(), txg)
}

/// Sum of the guids of all devices, for the uberblock.
pub(crate) fn guid_sum(root: &VdevConfig) -> u64 {
    root.children.iter().map(guid_sum).fold(root.guid, u64::wrapping_add)
}

/// Makes the txg the pool's current state. All blocks reachable from `root` must be flushed.
///
/// # Panics
///
/// If a block of the txg was not flushed: after a power failure the pool would lead to what was
/// there before.
pub(crate) fn write(cx: &SyncTx<'_>, root: BlkPtr, config_dirty: bool) -> Result<()> {
    let shared = cx.shared;
    let unflushed = shared.store.unflushed(cx.txg());
    assert!(unflushed == 0, "{unflushed} blocks of txg {} were not flushed before its uberblock", cx.txg());
    let (identity, vdevs) = (shared.config.identity.lock().clone(), shared.config.root.lock().clone());
    let mut uberblock: Uberblock = shared.config.uberblock.lock().clone();
    let before = uberblock.txg.0;
    assert!(cx.txg() > before, "the uberblock of txg {} follows that of txg {before}", cx.txg());
    uberblock.txg = Txg(cx.txg());
    uberblock.version = identity.version;
    uberblock.timestamp = shared.now();
    uberblock.root = root;
    // A pool that was rewound to a checkpoint continues normally from there.
    uberblock.checkpoint_txg = Txg(0);
    uberblock.software_version = SOFTWARE_VERSION;
    uberblock.endian = Endian::Little;
    let heartbeats = &shared.background.heartbeats;
    let multihost = heartbeats.stamp();
    uberblock.multihost = Some(multihost);
    uberblock.guid_sum = guid_sum(&vdevs);
    let tree = shared.store.tree();
    let labels = |which: Which| {
        let features = shared.features.for_label();
        sync_configs(
            &tree,
            which,
            |top, leaf| {
                let top = vdevs.children.iter().find(|c| c.id == top.id)?;
                Some(config::for_label(&identity, &vdevs, top, leaf.guid, features.clone(), cx.txg()))
            },
            |top| vdevs.children.iter().any(|c| c.id == top.id && c.number(key::IS_LOG) != 0),
        )
    };
    if config_dirty {
        labels(Which::Even)?;
    }
    let tops: Vec<u32> = tree.tops.iter().map(|top| top.id as u32).collect();
    if tops.is_empty() {
        return Err(Error::invalid(shared.store.name(), "has no devices"));
    }
    sync_uberblock(&tree, &tops, &uberblock, multihost.is_on())?;
    heartbeats.synced(shared, &uberblock);
    *shared.config.uberblock.lock() = uberblock;
    if config_dirty {
        // The txg is on disk: labels that cannot be written now are written with the next
        // configuration.
        if let Err(e) = labels(Which::Odd) {
            tracing::warn!("{}: labels: {e}", shared.store.name());
        }
        shared.report_config();
    }
    Ok(())
}
