//! Mounts that a verb works on: those of its own process, or those of `weir mount`.

use crate::context::Context;
use crate::mount_process::places;
use admin::mounts::{Mounted, Plan, PoolMounts, cannot_unmount};
use admin::state::Imported;
use daemon::Owner;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The owner of the pool, if it is this process.
pub fn owner(cx: &Context<'_>, guid: u64) -> Option<Arc<Owner>> {
    cx.owner.clone().filter(|owner| owner.house.owns(guid))
}

/// Mounted datasets and their mount points: those of this process if it owns pools, else all of
/// Weir's.
pub fn mounted(cx: &Context<'_>) -> Vec<(String, String)> {
    match &cx.owner {
        Some(owner) => {
            let place = |m: Mounted| (m.dataset, m.place.display().to_string());
            owner.mounts.list().into_iter().map(place).collect()
        }
        None => crate::mount_table::mounted(),
    }
}

/// How the datasets are mounted that this process mounted according to their properties.
pub fn plans(cx: &Context<'_>) -> HashMap<String, Plan> {
    let all = cx.owner.iter().flat_map(|owner| owner.mounts.list()).filter(|m| !m.by_hand);
    all.map(|m| (m.dataset, m.plan)).collect()
}

/// Whether a mount belongs to a pool of this state directory: another user may have mounted a pool
/// with the same name.
pub fn is_ours(cx: &Context<'_>, records: &[Imported], dataset: &str, place: &str) -> bool {
    if cx.owner.is_some() {
        return true;
    }
    let record = records.iter().find(|r| r.name == admin::verbs::pool_of(dataset));
    // For a pool that is only read, nothing is recorded.
    record.is_some_and(|r| r.readonly || places(&cx.state, r).iter().any(|p| p == Path::new(place)))
}

/// Unmounts all datasets of a pool. The error is OpenZFS's message.
pub fn release(cx: &Context<'_>, record: &Imported, force: bool) -> Result<(), String> {
    cx.invocation(String::new()).unmount_all(record, force).map_err(|e| cannot_unmount(&e))
}

/// The mounts of a pool that this process owns.
pub fn of<'a>(owner: &'a Arc<Owner>, record: &'a Imported) -> PoolMounts<'a> {
    PoolMounts::new(&**owner, &owner.house, record)
}

/// Unmounts a dataset and its descendants in this process. The error is OpenZFS's message.
pub fn unmount_below(owner: &Arc<Owner>, record: &Imported, dataset: &str, force: bool) -> Result<(), String> {
    of(owner, record).unmount_below(dataset, force).map(drop).map_err(|e| cannot_unmount(&e))
}

/// The same for datasets mounted according to their properties. Either all are unmounted or none.
/// Returns their names.
pub fn unmount_placed(
    owner: &Arc<Owner>,
    record: &Imported,
    dataset: &str,
    force: bool,
) -> Result<Vec<String>, String> {
    let unmounted = of(owner, record).unmount_placed(dataset, force).map_err(|e| cannot_unmount(&e))?;
    Ok(unmounted.into_iter().map(|m| m.dataset).collect())
}

/// Mounts datasets that were unmounted for a change, according to their current properties. Reports
/// failures and returns the exit code.
pub fn mount_again(cx: &mut Context<'_>, owner: &Arc<Owner>, record: &Imported, names: &[String]) -> u8 {
    let report = of(owner, record).mount_again(names);
    cx.report(report)
}
