//! `zpool attach`, `zpool replace`, `zpool detach`.
//!
//! Invariants:
//!   * the path of a new device is stored before it joins: after a crash in between, the import
//!     finds it if it belongs to the pool

use super::create::ashift;
use super::imported_devices::ImportedDevices;
use super::scan::{Follow, resilver_now};
use super::{change_places, device, is_idle_spare, record};
use crate::attach;
use crate::layout::{Group, Layout, Leaf, check_in_use};
use crate::state::Imported;
use crate::verbs::line::{assignments, line};
use crate::verbs::{Invocation, Kind, PoolLease, Reason, Refusal};
use pool::status::{PoolStatus, VdevClass, VdevStatus};
use pool::writer::Joins;
use std::time::Duration;

/// How often to check whether the caller has disconnected.
const LOOK: Duration = Duration::from_millis(200);
/// Exit code of these commands when the pool refuses: -1 of a C function.
const REFUSED: u8 = 255;
const ONLY_MIRRORS: &str = "only applicable to mirror and replacing vdevs";

/// A device that joins another one, or replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRequest {
    pub how: Joins,
    pub pool: String,
    /// A device of the pool.
    pub old: String,
    /// Path of the new device, or a spare of the pool.
    pub new: String,
    /// `ashift`, as a user writes it (`-o`).
    pub properties: Vec<(String, String)>,
    /// Use a device that seems to be in use (`-f`).
    pub force: bool,
    /// Rebuild in the order of addresses (`-s`).
    pub sequentially: bool,
    /// Wait for the resilver or the expansion (`-w`).
    pub wait: bool,
}

impl JoinRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let verb = if self.how == Joins::Attach { "zpool attach" } else { "zpool replace" };
        let flags = [(self.force, "-f"), (self.sequentially, "-s"), (self.wait, "-w")];
        line(verb, &flags, &assignments("-o", &self.properties), [&*self.pool, &*self.old, &*self.new])
    }

    fn cannot(&self) -> String {
        let Self { old, new, .. } = self;
        match self.how {
            Joins::Attach => format!("cannot attach {new} to {old}"),
            Joins::Replace => format!("cannot replace {old} with {new}"),
        }
    }

    fn refuse(&self, reason: Reason) -> Refusal {
        reason.refuse(&self.cannot()).with_code(REFUSED)
    }
}

/// The device that is attached, or that replaces another one.
struct NewLeaf {
    leaf: Leaf,
    /// Guid of the spare that it is.
    spare: Option<u64>,
}

/// Attaches or replaces. The process that owns the pool resilvers in the background. If no process
/// owns it, the verb does and returns then.
pub fn join(invocation: &Invocation<'_>, request: &JoinRequest, follow: &mut Follow<'_>) -> Result<(), Refusal> {
    let JoinRequest { how, pool: name, old, .. } = request;
    let ashift = ashift(&request.properties)?;
    let record = record(invocation, name)?;
    let status = invocation.open_to_read(&record)?.status().map_err(|e| Reason::from(e).alone())?;
    let new = new_leaf(invocation, &status, request)?;
    let found = device(&status, old).and_then(usable).map_err(|reason| request.refuse(reason))?;
    let (found, widens) = (found.guid, found.kind == "raidz" && *how == Joins::Attach);
    let Some(NewLeaf { leaf: new, spare }) = new else {
        return Err(request.refuse(Reason::new(Kind::Invalid, "new device must be a single disk")));
    };
    // A distributed spare has no path of its own.
    let is_new = !record.places.contains(&new.path) && !is_distributed(&status, spare);
    let stored = |reason: Reason| reason.refuse(&request.cannot());
    if is_new {
        change_places(invocation, &record, &|known| known.push(new.path.clone())).map_err(stored)?;
    }
    let joined = invocation
        .change(&record, |pool| Ok(attach::attach(pool, found, &new, *how, ashift, spare, request.sequentially)?));
    let Err(reason) = joined else {
        // From here on the pool is found with the new device.
        let record = super::record(invocation, name)?;
        return match widens {
            true => widen_now(invocation, &record, request.wait, follow),
            false => resilver_now(invocation, &record, request.wait, follow),
        };
    };
    let now = invocation.open_to_read(&record).ok().and_then(|pool| pool.status().ok());
    if is_new && now.is_some_and(|now| now.all_vdevs().len() == status.all_vdevs().len()) {
        change_places(invocation, &record, &|known| known.retain(|path| *path != new.path)).map_err(stored)?;
    }
    Err(request.refuse(reason))
}

/// A device that can have others beside it.
fn usable(found: &VdevStatus) -> Result<&VdevStatus, Reason> {
    match found.class {
        _ if is_idle_spare(found) => Err(Reason::new(Kind::Conflict, "device is reserved as a hot spare")),
        VdevClass::Cache => Err(Reason::new(Kind::Conflict, "device is in use as a cache")),
        _ => Ok(found),
    }
}

fn is_distributed(status: &PoolStatus, spare: Option<u64>) -> bool {
    status.spares.iter().any(|s| Some(s.guid) == spare && s.kind == "dspare")
}

/// Expands the raidz. The process that owns the pool does it in the background. If no process owns
/// the pool, the verb does it, scrubs what it moved, and returns then.
fn widen_now(
    invocation: &Invocation<'_>,
    record: &Imported,
    wait: bool,
    follow: &mut Follow<'_>,
) -> Result<(), Refusal> {
    let cannot = format!("cannot widen a raidz of {}", record.name);
    let pool = invocation.open(record).map_err(|reason| reason.refuse(&cannot))?;
    let done = widen(invocation, &pool, &record.name, wait, follow);
    let closed = pool.finish();
    done.and(closed).map_err(|e| Reason::from(e).refuse(&cannot))
}

fn widen(
    invocation: &Invocation<'_>,
    pool: &PoolLease,
    name: &str,
    wait: bool,
    follow: &mut Follow<'_>,
) -> anyhow::Result<()> {
    let (writer, stays) = (pool.writer(), pool.stays());
    let done = if stays { Ok(()) } else { writer.run_expansion() };
    while done.is_ok() && (wait || !stays) && writer.expansion_state().0 && writer.failure().is_none() {
        if (invocation.is_gone)() {
            break;
        }
        writer.wait_for_expansion(LOOK);
    }
    let scrubbed = if stays { Ok(()) } else { writer.run_scans() };
    if !stays && scrubbed.is_ok() {
        follow(name, pool);
    }
    Ok(done.and(scrubbed)?)
}

/// The device to add. `None`: the word does not name a single device.
fn new_leaf(
    invocation: &Invocation<'_>,
    status: &PoolStatus,
    request: &JoinRequest,
) -> Result<Option<NewLeaf>, Refusal> {
    let JoinRequest { how, new: word, force, .. } = request;
    let is_replacement = *how == Joins::Replace;
    if is_replacement
        && let Some(spare) = status.spares.iter().find(|s| s.kind == "dspare" && s.path.as_deref() == Some(word))
    {
        let leaf = Leaf { path: word.into(), is_disk: false };
        return Ok(Some(NewLeaf { leaf, spare: Some(spare.guid) }));
    }
    // A path identifies a device better than its last component.
    let layout = Layout::parse(std::slice::from_ref(word))?;
    let [top] = layout.tops.as_slice() else { return Ok(None) };
    let (Group::Single, [leaf]) = (top.group, top.leaves.as_slice()) else { return Ok(None) };
    let is_it = |spare: &&VdevStatus| spare.path.as_deref() == Some(&*leaf.name());
    if is_replacement && let Some(spare) = status.spares.iter().find(is_it) {
        return Ok(Some(NewLeaf { leaf: leaf.clone(), spare: Some(spare.guid) }));
    }
    check_in_use(&layout, *force, &ImportedDevices::new(invocation)?)?;
    Ok(Some(NewLeaf { leaf: leaf.clone(), spare: None }))
}

/// A device to detach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DetachRequest {
    pub pool: String,
    pub device: String,
}

impl DetachRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        line("zpool detach", &[], &[], [&*self.pool, &*self.device])
    }
}

/// Detaches a device from its mirror, `replacing` or `spare` vdev.
pub fn detach(invocation: &Invocation<'_>, request: &DetachRequest) -> Result<(), Refusal> {
    let record = record(invocation, &request.pool)?;
    let status = invocation.open_to_read(&record)?.status().map_err(|e| Reason::from(e).alone())?;
    let detached = device(&status, &request.device).and_then(usable).and_then(|found| match found.is_leaf() {
        true => invocation.change(&record, |pool| Ok(attach::detach(pool, found.guid)?)),
        false => Err(Reason::new(Kind::Invalid, ONLY_MIRRORS)),
    });
    detached.map_err(|reason| reason.refuse(&format!("cannot detach {}", request.device)).with_code(REFUSED))
}
