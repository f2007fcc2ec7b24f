//! Boot environments: systems that a machine can boot, each a file system with everything below it.
//!
//! ```text
//!   rpool/ROOT             the container
//!   rpool/ROOT/debian      an environment: `mountpoint=/`, `canmount=noauto`
//!   rpool/ROOT/debian/var  part of it: cloned, activated and destroyed with it
//!   rpool/home             shared by all environments
//! ```
//! The pool property `bootfs` selects the one to boot. Conventions: beadm(8) of illumos (`ROOT`,
//! `org.opensolaris.libbe:uuid`), bectl(8) of FreeBSD (the container is the parent of `bootfs`),
//! ZFSBootMenu (file systems with `mountpoint=/` anywhere, `org.zfsbootmenu:active`).

mod change;
mod files;
mod menu;

pub use change::{
    NewEnvironment, activate, check_name, clone_into, describe, forget_origins, is_automatic, named_snapshot,
    promote_dependents, settle_received, snapshot, snapshot_name,
};
pub use files::{Refreshed, refresh_menus, write_menus};
pub use menu::Change as MenuChange;

#[cfg(test)]
mod tests;

use anyhow::Result;
use dataset::property::{self, PropertyValue, Source};
use dataset::tree::Entry;
use dataset::{Dataset, DatasetKind, Datasets, ListOptions, View};
use std::sync::Arc;

/// Container of environments, below the pool's root.
pub const CONTAINER: &str = "ROOT";
/// UUID of an environment, as in beadm(8).
pub const UUID: &str = "org.opensolaris.libbe:uuid";
/// Whether an environment is kept until a user destroys it, as in beadm(8).
pub const POLICY: &str = "org.opensolaris.libbe:policy";
/// Whether ZFSBootMenu offers a file system: `on` includes one with a legacy mount point, `off`
/// hides it.
pub const OFFERED: &str = "org.zfsbootmenu:active";
/// The value of `canmount` to restore when an environment is activated.
pub const CANMOUNT: &str = "weir:canmount";
/// Description of an environment.
pub const DESCRIPTION: &str = "weir:description";

#[derive(Debug, Clone)]
pub struct Environment {
    /// Name: the last component of its root's name.
    pub name: String,
    /// Name of its pool.
    pub pool: String,
    /// File systems and volumes, the root first, each before those below it.
    pub parts: Vec<Part>,
    /// Whether the pool boots it.
    pub on_boot: bool,
}

/// A file system or volume of an environment.
#[derive(Debug, Clone)]
pub struct Part {
    /// Full name, such as `pool/ROOT/name`.
    pub name: String,
    /// Whether it is a volume.
    pub is_volume: bool,
    /// Whether a machine that runs the environment mounts it automatically: `canmount=on`, or
    /// marked so.
    pub automounts: bool,
    /// Space used, in bytes, including snapshots and descendants.
    pub used: u64,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Space referenced, in bytes.
    pub referenced: u64,
    /// The snapshot that it is a clone of.
    pub origin: Option<Snapshot>,
    /// Snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
}

/// A snapshot of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub name: String,
    /// Space used by the snapshot alone, in bytes.
    pub used: u64,
    /// Creation time, in seconds since 1970.
    pub created: u64,
}

impl Snapshot {
    fn of(snapshot: &Dataset) -> Result<Self> {
        let entry = Entry::Dataset(snapshot.clone());
        let number = |name| Ok::<_, anyhow::Error>(text(&entry, name)?.and_then(|v| v.raw.parse().ok()).unwrap_or(0));
        Ok(Self { name: snapshot.name().to_owned(), used: number("used")?, created: number("creation")? })
    }

    /// The name after the `@`.
    pub fn short(&self) -> &str {
        self.name.split_once('@').map_or("", |(_, short)| short)
    }
}

impl Environment {
    /// Full name of its root.
    pub fn root(&self) -> &str {
        self.parts.first().map_or("", |part| &part.name)
    }

    /// The root part, whose values apply to the whole environment.
    pub fn head(&self) -> Option<&Part> {
        self.parts.first()
    }

    /// Whether `dataset`, or the dataset of a snapshot, is one of its parts.
    pub fn has(&self, dataset: &str) -> bool {
        let head = dataset.split('@').next().unwrap_or(dataset);
        self.parts.iter().any(|part| part.name == head)
    }

    /// Parts without a snapshot called `short`. A snapshot of an environment is one of all its
    /// parts.
    pub fn without(&self, short: &str) -> Vec<&str> {
        let lacks = |part: &&Part| part.snapshots.iter().all(|s| s.short() != short);
        self.parts.iter().filter(lacks).map(|part| part.name.as_str()).collect()
    }
}

/// A property of a dataset; `None` if it has none.
fn text(entry: &Entry, name: &str) -> Result<Option<PropertyValue>> {
    Ok(property::get(entry, name, &View::default())?.map(|p| p.value))
}

/// A property of a dataset in its raw form, and whether it is set there.
fn set_here(entry: &Entry, name: &str) -> Result<Option<(String, bool)>> {
    let found = property::get(entry, name, &View::default())?;
    Ok(found.map(|p| (p.value.raw, matches!(p.source, Source::Local | Source::Received))))
}

/// A property of a dataset in its raw form.
pub fn property(datasets: &Arc<Datasets>, dataset: &str, name: &str) -> Result<Option<String>> {
    Ok(text(&datasets.entry(dataset)?, name)?.map(|v| v.raw))
}

/// Object number of the dataset in `bootfs`, if set.
fn boot_dataset(datasets: &Arc<Datasets>) -> Result<Option<u64>> {
    let all = datasets.pool().set_properties()?;
    Ok(all.into_iter().find(|(name, _)| name == "bootfs").and_then(|(_, value)| value.as_u64()).filter(|id| *id != 0))
}

/// The environments of a pool, by name. With `container`, only the children of that dataset.
pub fn find(datasets: &Arc<Datasets>, container: Option<&str>) -> Result<Vec<Environment>> {
    let pool = datasets.root().name().to_owned();
    let boot = boot_dataset(datasets)?;
    let boot_name = boot.and_then(|id| datasets.dataset_by_id(id).ok()).map(|d| d.name().to_owned());
    let usual = format!("{pool}/{CONTAINER}");
    let mut containers = vec![container.map_or(usual, str::to_owned)];
    if container.is_none()
        && let Some((above, _)) = boot_name.as_deref().and_then(|name| name.rsplit_once('/'))
        && above != pool
    {
        containers.push(above.to_owned());
    }
    let heads = datasets.list(&[&pool], &ListOptions::heads())?.entries;
    let is_child = |name: &str| name.rsplit_once('/').is_some_and(|(above, _)| containers.iter().any(|c| c == above));
    let mut roots: Vec<String> = Vec::new();
    for entry in &heads {
        let name = entry.name();
        let is_inside = containers.iter().any(|c| c == name || is_below(name, c));
        let is_root = match is_child(name) {
            true => entry.kind()? == DatasetKind::FileSystem,
            false => container.is_none() && !is_inside && name != pool && is_offered(entry)?,
        };
        if is_root {
            roots.push(name.to_owned());
        }
    }
    let mut found = Vec::new();
    for root in roots {
        let mut parts = Vec::new();
        for entry in heads.iter().filter(|e| e.name() == root || is_below(e.name(), &root)) {
            let Some(dataset) = entry.dataset() else { continue };
            parts.push(part(entry, dataset)?);
        }
        let name = last(&root).to_owned();
        found.push(Environment { name, pool: pool.clone(), parts, on_boot: boot_name.as_ref() == Some(&root) });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The last component of a dataset's name.
fn last(root: &str) -> &str {
    root.rsplit('/').next().unwrap_or(root)
}

fn is_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether ZFSBootMenu would offer a file system.
fn is_offered(entry: &Entry) -> Result<bool> {
    if entry.kind()? != DatasetKind::FileSystem {
        return Ok(false);
    }
    let offered = text(entry, OFFERED)?.map(|v| v.raw);
    Ok(match set_here(entry, "mountpoint")? {
        Some((place, true)) if place == "/" => {
            offered.as_deref() != Some("off") && text(entry, "canmount")?.is_none_or(|v| v.raw != "off")
        }
        Some((place, true)) if place == "legacy" => offered.as_deref() == Some("on"),
        _ => false,
    })
}

fn part(entry: &Entry, dataset: &Dataset) -> Result<Part> {
    let number = |name| Ok::<_, anyhow::Error>(text(entry, name)?.and_then(|v| v.raw.parse().ok()).unwrap_or(0));
    let visible = |s: &Dataset| !s.snapshot_name().is_some_and(dataset::name::is_hidden);
    let snapshots: Result<Vec<Snapshot>> =
        dataset.snapshots()?.iter().filter(|s| visible(s)).map(Snapshot::of).collect();
    Ok(Part {
        name: dataset.name().to_owned(),
        is_volume: entry.kind()? == DatasetKind::Volume,
        automounts: entry.kind()? == DatasetKind::FileSystem
            && (text(entry, "canmount")?.is_some_and(|v| v.raw == "on")
                || set_here(entry, CANMOUNT)?.is_some_and(|(value, here)| here && value == "on")),
        used: number("used")?,
        created: number("creation")?,
        referenced: number("referenced")?,
        origin: dataset.origin()?.as_ref().map(Snapshot::of).transpose()?,
        snapshots: snapshots?,
    })
}

/// File systems of the pool that are mounted in an environment's tree without being part of one,
/// with their mount points. They stay behind if an environment moves to another pool.
pub fn shared(datasets: &Arc<Datasets>, environments: &[Environment]) -> Result<Vec<(String, String)>> {
    let pool = datasets.root().name().to_owned();
    let mut found = Vec::new();
    for entry in datasets.list(&[&pool], &ListOptions::heads())?.entries {
        if entry.name() == pool || environments.iter().any(|e| e.has(entry.name())) {
            continue;
        }
        if entry.kind()? != DatasetKind::FileSystem || text(&entry, "canmount")?.is_some_and(|v| v.raw != "on") {
            continue;
        }
        match text(&entry, "mountpoint")?.map(|v| v.raw) {
            Some(place) if place.starts_with('/') => found.push((entry.name().to_owned(), place)),
            _ => {}
        }
    }
    Ok(found)
}
