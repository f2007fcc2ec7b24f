//! Automatic replacement: if a new device is found at the path of a failed one, and the pool
//! property `autoreplace` is on, the new device replaces it. OpenZFS's event daemon does the same
//! for disks (zfs_mod).
//!
//! Invariants:
//!   * a device with a label of any pool, or with contents that another system would recognise, is
//!     not used: an administrator has to decide
//!   * a device that an administrator took offline is not replaced

use crate::attach::attach;
use crate::layout::Leaf;
use crate::write::WritablePool;
use anyhow::Result;
use pool::devices::{self, PathKind};
use pool::status::{VdevAux, VdevState, VdevStatus};
use pool::writer::Joins;
use std::path::{Path, PathBuf};

/// Replaces failed devices with new ones at the same paths. Returns the paths.
pub fn replace(pool: &WritablePool) -> Result<Vec<String>> {
    let writer = pool.writer();
    let tree = writer.store().tree();
    let all_there = tree.leaves().iter().all(|leaf| leaf.is_open() && !leaf.is_gone() && !leaf.has_failed());
    if writer.failure().is_some() || all_there {
        return Ok(Vec::new());
    }
    let view = writer.pool()?;
    if !view.is_on("autoreplace")? {
        return Ok(Vec::new());
    }
    let status = view.status()?;
    let mut done = Vec::new();
    for lost in status.root.walk().into_iter().filter(|v| is_lost(v)) {
        let Some(path) = lost.path.as_deref().map(Path::new).filter(|path| is_blank(path)) else { continue };
        let leaf = Leaf { path: PathBuf::from(path), is_disk: devices::kind(path)? == PathKind::Disk };
        match attach(pool, lost.guid, &leaf, Joins::Replace, None, None, false) {
            Ok(()) => done.push(leaf.name()),
            Err(error) => tracing::debug!(device = leaf.name(), %error, "cannot replace the missing device with it"),
        }
    }
    Ok(done)
}

/// Whether a leaf's device is gone, or is another one. A leaf below `replacing` is being replaced
/// already.
fn is_lost(vdev: &VdevStatus) -> bool {
    let is_gone = match vdev.state {
        VdevState::CantOpen => matches!(vdev.aux, VdevAux::OpenFailed | VdevAux::BadLabel | VdevAux::CorruptData),
        VdevState::Removed => true,
        VdevState::Faulted => vdev.aux == VdevAux::ErrExceeded,
        _ => false,
    };
    vdev.is_leaf() && is_gone && matches!(vdev.kind.as_str(), "disk" | "file")
}

/// Whether there is a device at `path` that was never used.
fn is_blank(path: &Path) -> bool {
    let is_device = matches!(devices::kind(path), Ok(PathKind::Disk | PathKind::File));
    is_device && devices::labelled(path).is_none() && devices::foreign_contents(path).is_none()
}
