//! The dirty time log of each device: the txgs that it missed while it was unavailable.
//!
//! ZFS name: DTL. The log is a space map whose offsets are txgs. A device that came back holds old
//! bytes for blocks born in these txgs, which is no damage.

use crate::config::VdevConfig;
use block::Store;
use errors::Result;
use object::ObjectSet;
use ondisk::pool_dir::config;
use std::sync::Arc;

/// Limit for the ranges of a device. If there are more, one range from the first to the last is
/// used.
const RANGES_MAX: usize = 4096;

/// Loads the DTLs of all leaves. An unreadable DTL causes only false alarms, so it gives a warning.
pub fn load(store: &Arc<Store>, mos: &ObjectSet, root: &VdevConfig, warnings: &mut Vec<String>) {
    let tree = store.tree();
    for c in root.leaves() {
        let id = c.number(config::DTL);
        let Some(leaf) = tree.find(c.guid).and_then(|v| v.log()) else { continue };
        match if id == 0 { Ok(Vec::new()) } else { ranges(mos, id) } {
            Ok(ranges) => leaf.set_stale(ranges),
            Err(e) => warnings.push(format!("{}: the log of missed txgs cannot be read: {e}", c.display_name())),
        }
    }
}

fn ranges(mos: &ObjectSet, id: u64) -> Result<Vec<(u64, u64)>> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    crate::space::for_each_entry(&mos.object(id)?, |e| {
        let (first, end) = (e.offset, e.offset.saturating_add(e.run));
        if e.is_alloc {
            if first < end {
                ranges.push((first, end - 1));
            }
        } else {
            ranges.retain(|(a, b)| *b < first || *a >= end);
        }
    })?;
    ranges.sort_unstable();
    if ranges.len() > RANGES_MAX {
        ranges = vec![(ranges[0].0, ranges.iter().map(|r| r.1).max().unwrap_or(0))];
    }
    Ok(ranges)
}
