//! Which file systems are mounted where: the rules of zfs(8), from properties.

use crate::OwnedPool;
use dataset::property::{self, Source};
use dataset::tree::Entry;
use dataset::{Dataset, DatasetKind, View};
use std::path::PathBuf;

/// Mount point and options of a file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub place: PathBuf,
    /// Only in an empty directory: `overlay=off`, without `-O`.
    pub needs_empty: bool,
    /// `readonly=on`, or `-o ro`.
    pub read_only: bool,
    /// `setuid=on`.
    pub setuid: bool,
    /// `devices=on`.
    pub devices: bool,
    /// `exec=off`.
    pub no_exec: bool,
    /// `-o noatime`: reading changes no access times, even with `atime=on`.
    pub no_atime: bool,
    /// Mounted only on explicit request: `canmount=noauto`.
    pub by_name: bool,
    /// NFS clients may change it too: `sharenfs` is not off.
    pub shared: bool,
}

impl Plan {
    /// Applies mount options, with commas between them. Fails with a message for options other than
    /// `ro`, `rw`, `suid`, `nosuid`, `dev`, `nodev`, `exec`, `noexec` and `noatime`.
    pub fn apply(&mut self, options: &str) -> Result<(), String> {
        for option in options.split(',') {
            match option {
                "ro" => self.read_only = true,
                "rw" => self.read_only = false,
                "suid" | "nosuid" => self.setuid = option == "suid",
                "dev" | "nodev" => self.devices = option == "dev",
                "exec" | "noexec" => self.no_exec = option == "noexec",
                "noatime" => self.no_atime = true,
                other => return Err(format!("unsupported: mount option '{other}'")),
            }
        }
        Ok(())
    }
}

/// Why a dataset is not mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotMounted {
    /// It is not a file system.
    NoFileSystem,
    /// `mountpoint=legacy`.
    Legacy,
    /// `mountpoint=none`.
    NoPlace,
    /// `canmount=off`.
    Never,
    /// Its key is not loaded.
    Locked,
    /// It was received from a redacted stream: programs would read what it lacks as zeros.
    Redacted,
    /// It cannot be read.
    Broken(String),
}

/// A property as text, including the pool's alternate root.
pub fn property(pool: &OwnedPool, dataset: &Dataset, name: &str) -> Option<String> {
    let record = pool.record();
    let view = View { altroot: record.altroot.as_deref(), ..View::default() };
    property::get(&Entry::Dataset(dataset.clone()), name, &view).ok().flatten().map(|p| p.value.raw)
}

/// Whether the mount point of `name` is the default or inherited, not set on the dataset itself:
/// `zfs destroy` removes such a directory with its file system. Facts: `remove_mountpoint` in
/// lib/libzfs/libzfs_mount.c.
pub fn is_placed_by_others(pool: &OwnedPool, name: &str) -> bool {
    let source = |dataset| Some(property::get(&Entry::Dataset(dataset), "mountpoint", &View::default()).ok()??.source);
    let dataset = pool.datasets().and_then(|all| Ok(all.dataset(name)?));
    matches!(dataset.ok().and_then(source), Some(Source::Default | Source::Inherited(_)))
}

/// What to do with file systems that were received from a redacted stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redacted {
    Skip,
    /// As `zfs mount -f`.
    Mount,
}

/// How the dataset `name` is to be mounted.
pub fn plan(pool: &OwnedPool, name: &str, redacted: Redacted) -> Result<Plan, NotMounted> {
    let broken = |e: &dyn std::fmt::Display| NotMounted::Broken(e.to_string());
    let dataset = pool.datasets().map_err(|e| broken(&format!("{e:#}")))?.dataset(name).map_err(|e| broken(&e))?;
    plan_of(pool, &dataset, redacted)
}

fn plan_of(pool: &OwnedPool, dataset: &Dataset, redacted: Redacted) -> Result<Plan, NotMounted> {
    let plan = plan_of_any(pool, dataset)?;
    match property(pool, dataset, "redacted").as_deref() {
        Some("1") if redacted == Redacted::Skip => Err(NotMounted::Redacted),
        _ => Ok(plan),
    }
}

/// How it is to be mounted, redacted or not.
fn plan_of_any(pool: &OwnedPool, dataset: &Dataset) -> Result<Plan, NotMounted> {
    let broken = |e: errors::Error| NotMounted::Broken(e.to_string());
    if dataset.kind().map_err(broken)? != DatasetKind::FileSystem {
        return Err(NotMounted::NoFileSystem);
    }
    let text = |name: &str| property(pool, dataset, name).unwrap_or_default();
    let place = match text("mountpoint").as_str() {
        "legacy" => return Err(NotMounted::Legacy),
        place if place.starts_with('/') => PathBuf::from(place),
        _ => return Err(NotMounted::NoPlace),
    };
    let canmount = text("canmount");
    // A dataset with an unfinished receive is not visible.
    if canmount == "off" || text("inconsistent") == "1" {
        return Err(NotMounted::Never);
    }
    if !pool.keys().is_available(dataset).map_err(broken)? {
        return Err(NotMounted::Locked);
    }
    Ok(Plan {
        place,
        needs_empty: text("overlay") == "off",
        read_only: text("readonly") == "on",
        setuid: text("setuid") == "on",
        devices: text("devices") == "on",
        no_exec: text("exec") == "off",
        no_atime: false,
        by_name: canmount == "noauto",
        shared: !matches!(text("sharenfs").as_str(), "off" | ""),
    })
}

/// The file system `name` and its descendants that inherit property `property` through it, parents
/// first: a change of the property concerns them.
pub fn heirs(pool: &OwnedPool, name: &str, property: &str) -> Result<Vec<String>, anyhow::Error> {
    if name.contains('@') {
        return Ok(Vec::new());
    }
    let listing = pool.datasets()?.list(&[name], &dataset::ListOptions::heads())?;
    let mut heirs: Vec<String> = Vec::new();
    for entry in &listing.entries {
        let Some(dataset) = entry.dataset().filter(|d| d.kind().is_ok_and(|kind| kind == DatasetKind::FileSystem))
        else {
            continue;
        };
        let source = property::get(entry, property, &View::default())?.map(|property| property.source);
        let through = |parent: &str| heirs.iter().any(|heir| heir == parent);
        let inherits = matches!(source, Some(Source::Default | Source::Inherited(_)))
            && dataset.name().rsplit_once('/').is_some_and(|(parent, _)| through(parent));
        if dataset.name() == name || inherits {
            heirs.push(dataset.name().to_owned());
        }
    }
    Ok(heirs)
}

/// A property of the dataset `name` as text, including the pool's alternate root.
pub fn text(pool: &OwnedPool, name: &str, property: &str) -> Option<String> {
    let dataset = pool.datasets().ok()?.dataset(name).ok()?;
    self::property(pool, &dataset, property)
}

/// The file systems of a pool that are mounted automatically, in mount order: parents before
/// children.
pub fn all(pool: &OwnedPool, redacted: Redacted) -> Result<Vec<(String, Plan)>, anyhow::Error> {
    let datasets = pool.datasets()?;
    let mut found = Vec::new();
    let options = dataset::ListOptions::heads();
    for entry in datasets.list(&[&pool.name()], &options)?.entries {
        let Some(dataset) = entry.dataset() else { continue };
        if let Ok(plan) = plan_of(pool, dataset, redacted)
            && !plan.by_name
        {
            found.push((dataset.name().to_owned(), plan));
        }
    }
    found.sort_by(|a, b| a.1.place.cmp(&b.1.place));
    Ok(found)
}
