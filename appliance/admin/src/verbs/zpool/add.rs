//! `zpool add`: adds devices to a pool.
//!
//! Invariants:
//!   * the paths of the new devices are stored before the devices join: after a crash in between,
//!     the import finds them if they belong to the pool

use super::create::ashift;
use super::imported_devices::ImportedDevices;
use super::{change_places, record};
use crate::add;
use crate::house;
use crate::layout::{Layout, Leaf, Purpose, Wrong, check_in_use, check_replication};
use crate::state::Imported;
use crate::verbs::line::{assignments, line};
use crate::verbs::{Invocation, Reason, Refusal};
use crate::view;
use pool::property::{SetValue, Source};
use pool::status::PoolStatus;
use std::path::PathBuf;

/// Operands and options of `zpool add`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddRequest {
    pub pool: String,
    /// The devices, or what is wrong with them, which is reported after what is wrong with the
    /// rest.
    pub layout: Result<Layout, Wrong>,
    /// `ashift`, as a user writes it (`-o`).
    pub properties: Vec<(String, String)>,
    /// All of what follows (`-f`).
    pub force: bool,
    /// Use devices that seem to be in use.
    pub allow_in_use: bool,
    /// Mix kinds of redundancy.
    pub allow_replication_mismatch: bool,
    /// Mix allocation units, `ashift`.
    pub allow_ashift_mismatch: bool,
}

/// A request that has passed all checks that need no open device.
pub struct AddPlan {
    record: Imported,
    cannot: String,
    /// Status of the pool before the change.
    pub status: PoolStatus,
    pub layout: Layout,
    ashift: Option<u8>,
    same_ashift: bool,
}

impl AddRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [
            (self.force, "-f"),
            (self.allow_in_use, "--allow-in-use"),
            (self.allow_replication_mismatch, "--allow-replication-mismatch"),
            (self.allow_ashift_mismatch, "--allow-ashift-mismatch"),
        ];
        let words = self.layout.as_ref().map(Layout::words).unwrap_or_default();
        let operands = std::iter::once(&self.pool).chain(&words).map(String::as_str);
        line("zpool add", &flags, &assignments("-o", &self.properties), operands)
    }
}

/// Checks the layout against the pool and against the use of the devices. Changes nothing.
pub fn plan(invocation: &Invocation<'_>, request: AddRequest) -> Result<AddPlan, Refusal> {
    let AddRequest { pool: name, properties, force, .. } = &request;
    let record = record(invocation, name)?;
    let pool = invocation.open_to_read(&record)?;
    let failed = |e: anyhow::Error| Refusal::new(Reason::from(&e).kind, format!("cannot open '{name}': {e:#}"));
    let view = view::view(&pool, &house::facts(&record)).map_err(failed)?;
    drop(pool);
    let mut ashift = ashift(properties)?;
    if properties.is_empty()
        && let (Some(Source::Local), Some(SetValue::Number(n))) =
            (view.properties.get("ashift").map(|p| p.source), view.properties.set.get("ashift"))
    {
        ashift = u8::try_from(*n).ok().filter(|n| *n > 0);
    }
    let layout = request.layout.clone()?;
    check_in_use(&layout, *force || request.allow_in_use, &ImportedDevices::new(invocation)?)?;
    let pool_level = add::replication(&view.status);
    let has_blocks = layout.tops.iter().any(|top| top.purpose != Purpose::Log);
    if !force && !request.allow_replication_mismatch && has_blocks && pool_level.is_some() {
        check_replication(&layout, pool_level)?;
    }
    Ok(AddPlan {
        record,
        cannot: format!("cannot add to '{name}'"),
        status: view.status,
        layout,
        ashift,
        same_ashift: !force && !request.allow_ashift_mismatch,
    })
}

impl AddPlan {
    /// Adds the devices to the pool, and their paths to its entry in the list of imported pools.
    pub fn run(self, invocation: &Invocation<'_>) -> Result<(), Refusal> {
        let Self { record, cannot, status, layout, ashift, same_ashift } = self;
        let paths = layout.leaves().map(|leaf: &Leaf| leaf.path.clone());
        let places: Vec<PathBuf> = paths.filter(|path| !record.places.contains(path)).collect();
        let stored = |reason: Reason| reason.refuse(&cannot);
        change_places(invocation, &record, &|known| known.extend(places.iter().cloned())).map_err(stored)?;
        let added = invocation.change(&record, |pool| Ok(add::add(pool, &layout, ashift, same_ashift)?));
        if added.is_err() && is_unchanged(invocation, &record, &status) {
            change_places(invocation, &record, &|known| known.retain(|path| !places.contains(path))).map_err(stored)?;
        }
        added.map_err(stored)
    }
}

/// Whether the pool has the same number of devices as `before`. `false` if it cannot be read: then
/// the new devices may have joined.
fn is_unchanged(invocation: &Invocation<'_>, record: &Imported, before: &PoolStatus) -> bool {
    let count = |s: &PoolStatus| (s.root.children.len(), s.spares.len(), s.caches.len());
    let now = invocation.open_to_read(record).ok().and_then(|pool| pool.status().ok());
    now.is_some_and(|now| count(&now) == count(before))
}
