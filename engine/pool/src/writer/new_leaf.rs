//! A device that is to be attached: what it must fit, and its configuration.

use crate::config::VdevConfig;
use errors::{Error, Result};
use host::device::Device;
use ondisk::label::{END_BYTES, START_BYTES, usable_bytes};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;
use std::sync::Arc;

/// Number of txgs in flight (`TXG_CONCURRENT_STATES`): their blocks may be written by threads that
/// do not know the new device.
pub(crate) const TXGS_UNDER_WAY: u64 = 3;

/// A device that is to be attached.
#[derive(Clone)]
pub struct NewLeaf {
    /// `disk` or `file`, or `dspare`.
    pub kind: &'static str,
    pub path: String,
    /// The device, open for writing. A distributed spare has none.
    pub device: Option<Arc<dyn Device>>,
    /// log2 of its smallest write unit in bytes.
    pub ashift: u8,
    /// Guid, if it is one of the pool's hot spares.
    pub spare: Option<u64>,
    /// Fill it by a sequential rebuild, in the order of addresses and without reading block
    /// pointers. A scrub follows.
    pub sequentially: bool,
}

/// Refuses a device that is too small to become a child of a top-level device, or has larger
/// sectors.
pub(crate) fn check_fits(new: &NewLeaf, top: &VdevConfig) -> Result<()> {
    let refuse = |what: &str| Err(Error::invalid(new.path.as_str(), what));
    // A distributed spare is as large as any other child.
    let Some(device) = &new.device else { return Ok(()) };
    let bytes = usable_bytes(device.size_bytes()).saturating_sub(START_BYTES + END_BYTES);
    if bytes < needed_bytes(top) {
        return refuse("device is too small");
    }
    if u64::from(new.ashift) > top.number(config::ASHIFT) {
        return refuse("The new device cannot have a higher alignment requirement than the top-level vdev.");
    }
    Ok(())
}

/// Allocatable bytes that a leaf below `top` must have: its share of all metaslabs
/// (`vdev_get_min_asize`).
fn needed_bytes(top: &VdevConfig) -> u64 {
    let shift = top.number(config::METASLAB_SHIFT).min(63);
    let all = top.number(config::ASIZE) >> shift << shift;
    match top.kind.as_str() {
        "raidz" => all.div_ceil(top.children.len().max(1) as u64),
        // Rows of 16 MiB are spread over the children; the configured size is a multiple of a row.
        "draid" => {
            let spares = top.number(config::DRAID_NSPARES) as usize;
            let data = top.children.len().saturating_sub(spares).max(1) as u64;
            all.div_ceil(data).next_multiple_of(16 << 20)
        }
        _ => all,
    }
}

/// The configuration of the new leaf, which becomes a child of another device in `txg`.
pub(crate) fn leaf_config(new: &NewLeaf, guid: u64, txg: u64) -> VdevConfig {
    let mut all = Nvlist::new();
    all.put(config::TYPE, new.kind);
    all.put(config::ID, 0u64);
    all.put(config::GUID, guid);
    all.put(config::PATH, new.path.as_str());
    if new.kind == "disk" {
        all.put(config::WHOLE_DISK, 0u64);
    }
    if new.spare.is_some() {
        all.put(config::IS_SPARE, 1u64);
    }
    all.put(if new.sequentially { config::REBUILD_TXG } else { config::RESILVER_TXG }, txg);
    VdevConfig { kind: new.kind.into(), id: 0, guid, path: Some(new.path.clone()), all, children: Vec::new() }
}
