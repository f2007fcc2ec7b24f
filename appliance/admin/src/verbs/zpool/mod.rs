//! The verbs of zpool(8).

pub mod add;
pub mod attach;
pub mod checkpoint;
pub mod clear;
pub mod create;
pub mod destroy;
pub mod export;
pub mod freeze;
pub mod import;
mod imported_devices;
pub mod label_clear;
pub mod prefetch;
pub mod reguid;
pub mod remove;
pub mod scan;
pub mod set;
pub mod split;
pub mod states;
pub mod sweep;
pub mod sync;

use super::tally::Tally;
use super::{Invocation, Kind, PoolLease, Reason, Refusal};
use crate::state::Imported;
use crate::vdev_names;
use errors::Error;
use pool::status::{PoolStatus, VdevClass, VdevStatus};
use std::path::PathBuf;

/// All imported pools, read from the state folder.
fn imported(invocation: &Invocation<'_>) -> Result<Vec<Imported>, Refusal> {
    invocation.state.pools().map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))
}

/// The import record of the pool with that name.
fn record(invocation: &Invocation<'_>, name: &str) -> Result<Imported, Refusal> {
    let found = imported(invocation)?.into_iter().find(|record| record.name == name);
    found.ok_or_else(|| Refusal::new(Kind::NotFound, format!("cannot open '{name}': no such pool")))
}

/// The imported pools with these names, or all of them if there are no names. Names of pools that
/// are not imported are in `tally`.
fn records(invocation: &Invocation<'_>, names: &[String], tally: &mut Tally) -> Result<Vec<Imported>, Refusal> {
    let all = imported(invocation)?;
    if names.is_empty() {
        return Ok(all);
    }
    let mut found = Vec::new();
    for name in names {
        match all.iter().find(|record| record.name == *name) {
            Some(record) => found.push(record.clone()),
            None => tally.refuse(Refusal::new(Kind::NotFound, format!("cannot open '{name}': no such pool"))),
        }
    }
    Ok(found)
}

/// The state of the devices of an imported pool. The error is in the engine's own words.
fn status(invocation: &Invocation<'_>, record: &Imported, cannot: &str) -> Result<PoolStatus, Refusal> {
    let plain = |e: Error| Reason::new(Kind::of(&e), e.to_string()).refuse(cannot);
    invocation.open_to_read(record)?.status().map_err(plain)
}

/// A device of a pool, by name, path or guid.
fn device<'a>(status: &'a PoolStatus, name: &str) -> Result<&'a VdevStatus, Reason> {
    vdev_names::find(status, name).ok_or_else(|| Reason::new(Kind::NotFound, "no such device in pool"))
}

/// The state of the devices of a pool that is open for writing.
fn lease_status(pool: &PoolLease) -> Result<PoolStatus, Refusal> {
    pool.writer().shown().and_then(|pool| pool.status()).map_err(|e| Reason::from(e).alone())
}

/// Whether the device is a spare that replaces nothing.
fn is_idle_spare(vdev: &VdevStatus) -> bool {
    vdev.class == VdevClass::Spare
}

/// Notes the command in the history if all of it succeeded, and closes the pool if it was opened
/// for the verb.
fn finish(invocation: &Invocation<'_>, pool: PoolLease, tally: Tally) -> Result<(), Refusal> {
    let result = tally.finish();
    let noted = if result.is_ok() { pool.note_command(&invocation.command) } else { Ok(()) };
    let closed = pool.finish();
    noted.and(closed).map_err(|e| Reason::from(e).alone())?;
    result.map(drop)
}

/// Changes the list of paths where the devices of a pool are searched for.
fn change_places(
    invocation: &Invocation<'_>,
    record: &Imported,
    change: &dyn Fn(&mut Vec<PathBuf>),
) -> Result<(), Reason> {
    invocation.state.change(|pools| {
        pools.iter_mut().filter(|p| p.guid == record.guid).for_each(|p| change(&mut p.places));
    })?;
    if let Some(house) = &invocation.house {
        let mut record = record.clone();
        change(&mut record.places);
        house.reimported(record.guid, record);
    }
    Ok(())
}
