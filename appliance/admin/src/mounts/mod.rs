//! Mounts of the pools that this process owns: what is unmounted before a change, and mounted
//! again after it.
//!
//! FUSE belongs to the daemon, which implements [`Mounter`]. Where file systems are mounted:
//! [`rules`].
//!
//! Invariants:
//!   * a change for which a file system cannot be unmounted does not happen: those unmounted before
//!     it are mounted again
//!   * failures to mount are reported, and change the exit code only for root: other users cannot
//!     create most mount points, and can use their pools anyway. Setting a property never fails
//!     because of them

mod remount;
pub mod rules;

pub use remount::{NotPrepared, Remount};
pub use rules::{NotMounted, Plan, Redacted};

use crate::state::Imported;
use crate::{House, OwnedPool};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Guid of the pool.
    pub pool: u64,
    /// Name of the dataset.
    pub dataset: String,
    pub place: PathBuf,
    /// How it was mounted.
    pub plan: Plan,
    /// Mounted by `weir mount`, with the datasets below it, at any place.
    pub by_hand: bool,
}

/// The place of a mount, and why it cannot be unmounted.
pub type NotUnmounted = (PathBuf, io::Error);

/// What mounts and unmounts file systems of this process's pools.
pub trait Mounter: Send + Sync {
    /// Whether file systems are mounted when they are created or imported.
    fn is_automatic(&self) -> bool;
    /// Mounts of a dataset and its descendants in a pool, parents first.
    fn below(&self, pool: u64, dataset: &str) -> Vec<Mounted>;
    fn mount(&self, pool: &OwnedPool, dataset: &str, plan: &Plan) -> io::Result<()>;
    /// Unmounts a dataset of a pool and its descendants, children first. All their data is on disk
    /// on return.
    fn unmount_below(&self, pool: u64, dataset: &str, force: bool) -> Result<Vec<Mounted>, NotUnmounted>;
    /// The same for datasets mounted according to their properties: manual mounts stay.
    fn unmount_placed(&self, pool: u64, dataset: &str, force: bool) -> Result<Vec<Mounted>, NotUnmounted>;
    /// The same for a change after which they are mounted again at the same places.
    fn unmount_briefly(&self, pool: u64, dataset: &str, force: bool) -> Result<Vec<Mounted>, NotUnmounted> {
        self.unmount_placed(pool, dataset, force)
    }
    /// Updates the names of mounted datasets after those at and below `from` were renamed.
    fn renamed(&self, pool: u64, from: &str, to: &str);
    /// Removes destroyed datasets from the mounts that showed them.
    fn forget(&self, pool: &OwnedPool, destroyed: &[Mounted]);
}

/// What mounting reports: lines for a person, and whether a file system is not mounted that must
/// be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountReport {
    pub lines: Vec<String>,
    pub failed: bool,
}

impl MountReport {
    fn add(&mut self, line: String, is_failure: bool) {
        self.lines.push(line);
        self.failed |= is_failure;
    }

    /// Adds what another report says.
    pub fn merge(&mut self, other: Self) {
        self.lines.extend(other.lines);
        self.failed |= other.failed;
    }
}

/// The mounts of a pool that this process owns.
#[derive(Clone, Copy)]
pub struct PoolMounts<'a> {
    mounter: &'a dyn Mounter,
    house: &'a House,
    record: &'a Imported,
}

impl<'a> PoolMounts<'a> {
    /// `house` owns the pool `record`.
    pub fn new(mounter: &'a dyn Mounter, house: &'a House, record: &'a Imported) -> Self {
        Self { mounter, house, record }
    }

    pub fn is_automatic(&self) -> bool {
        self.mounter.is_automatic()
    }

    /// Mounts of a dataset and its descendants, parents first.
    pub fn below(&self, dataset: &str) -> Vec<Mounted> {
        self.mounter.below(self.record.guid, dataset)
    }

    /// Whether a dataset is mounted.
    pub fn is_mounted(&self, dataset: &str) -> bool {
        self.below(dataset).iter().any(|m| m.dataset == dataset)
    }

    /// Unmounts a dataset and its descendants. After an error, some of them may be unmounted.
    pub fn unmount_below(&self, dataset: &str, force: bool) -> Result<Vec<Mounted>, NotUnmounted> {
        self.mounter.unmount_below(self.record.guid, dataset, force)
    }

    /// The same for datasets mounted according to their properties: manual mounts stay. Either all
    /// are unmounted or none.
    pub fn unmount_placed(&self, dataset: &str, force: bool) -> Result<Vec<Mounted>, NotUnmounted> {
        self.or_again(dataset, || self.mounter.unmount_placed(self.record.guid, dataset, force))
    }

    /// The same for a change after which they are mounted again at the same places.
    pub fn unmount_briefly(&self, dataset: &str, force: bool) -> Result<Vec<Mounted>, NotUnmounted> {
        self.or_again(dataset, || self.mounter.unmount_briefly(self.record.guid, dataset, force))
    }

    /// Mounts again what was unmounted before something could not be.
    fn or_again(
        &self,
        dataset: &str,
        unmount: impl FnOnce() -> Result<Vec<Mounted>, NotUnmounted>,
    ) -> Result<Vec<Mounted>, NotUnmounted> {
        let before = self.below(dataset);
        let result = unmount();
        if result.is_err() {
            let still = self.below(dataset);
            let gone = before.into_iter().filter(|b| still.iter().all(|s| s.dataset != b.dataset));
            self.mount_again(&gone.map(|m| m.dataset).collect::<Vec<_>>());
        }
        result
    }

    /// Mounts unmounted datasets again, according to their current properties. Datasets that are
    /// not to be mounted are skipped.
    pub fn mount_again(&self, names: &[String]) -> MountReport {
        let mut report = MountReport::default();
        let pool = match self.house.import(self.record) {
            Ok(pool) => pool,
            Err(_) => return MountReport { failed: true, ..report },
        };
        for name in names {
            // One that is redacted was mounted on request.
            let result = match rules::plan(&pool, name, Redacted::Mount) {
                Ok(plan) => self.mounter.mount(&pool, name, &plan).map_err(|e| text(&e)),
                Err(NotMounted::Broken(why)) => Err(why),
                Err(_) => Ok(()),
            };
            if let Err(why) = result {
                report.add(format!("cannot mount '{name}': {why}"), true);
            }
        }
        report
    }

    /// Mounts a dataset because it was created, or because its properties changed.
    fn mount_automatically(&self, pool: &OwnedPool, dataset: &str, plan: &Plan, report: &mut MountReport) {
        let Err(error) = self.mounter.mount(pool, dataset, plan) else { return };
        let (place, why) = (plan.place.display(), text(&error));
        match rustix::process::geteuid().is_root() {
            true => report.add(format!("cannot mount '{place}': {why}"), true),
            false => report.add(format!("weir: '{dataset}' is not mounted at '{place}': {why}"), false),
        }
    }

    /// Mounts all automatically mounted file systems of the pool that are not mounted yet, until
    /// `is_gone`. `options`: mount options that replace what properties say.
    pub fn mount_all(&self, pool: &OwnedPool, options: Option<&str>, is_gone: &dyn Fn() -> bool) -> MountReport {
        let mut report = MountReport::default();
        if !self.is_automatic() {
            return report;
        }
        let all = match rules::all(pool, Redacted::Skip) {
            Ok(all) => all,
            Err(error) => {
                report.add(format!("cannot mount '{}': {error:#}", pool.name()), true);
                return report;
            }
        };
        // Asked again for each: a mount may show other file systems too.
        for (dataset, mut plan) in all {
            if self.is_mounted(&dataset) {
                continue;
            }
            if is_gone() {
                report.failed = true;
                return report;
            }
            match options.map_or(Ok(()), |options| plan.apply(options)) {
                Ok(()) => self.mount_automatically(pool, &dataset, &plan, &mut report),
                Err(why) => report.add(format!("cannot mount '{dataset}': {why}"), true),
            }
        }
        report
    }

    /// Mounts a file system that was just created, after those above it that are not mounted.
    pub fn mount_new(&self, name: &str) -> MountReport {
        let mut report = MountReport::default();
        if !self.is_automatic() {
            return report;
        }
        let Ok(pool) = self.house.import(self.record) else { return report };
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for dataset in ends.map(|end| &name[..end]).filter(|d| d.contains('/') && !self.is_mounted(d)) {
            if let Some(plan) = rules::plan(&pool, dataset, Redacted::Skip).ok().filter(|plan| !plan.by_name) {
                self.mount_automatically(&pool, dataset, &plan, &mut report);
            }
        }
        if report.failed {
            report.lines.push("filesystem successfully created, but not mounted".to_owned());
        }
        report
    }

    /// Whether a dataset's mount point is not set on it: `zfs destroy` removes the directory of
    /// such a mount.
    pub fn is_placed_by_others(&self, dataset: &str) -> bool {
        self.house.opened(self.record.guid).is_some_and(|pool| rules::is_placed_by_others(&pool, dataset))
    }

    /// Updates the names of mounted datasets after those at and below `from` were renamed.
    pub fn renamed(&self, from: &str, to: &str) {
        self.mounter.renamed(self.record.guid, from, to);
    }

    /// Removes destroyed datasets from the mounts that showed them.
    pub fn forget(&self, destroyed: &[Mounted]) {
        if let Ok(pool) = self.house.import(self.record) {
            self.mounter.forget(&pool, destroyed);
        }
    }
}

/// Why a file system with `overlay=off` is not mounted, in OpenZFS's words.
pub const NOT_EMPTY: &str = "directory is not empty";

/// Whether a directory exists and is not empty.
pub fn has_entries(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

/// OpenZFS's message for a mount that cannot be unmounted.
pub fn cannot_unmount((place, error): &NotUnmounted) -> String {
    format!("cannot unmount '{}': {}", place.display(), text(error))
}

/// Message of the operating system for a failed mount or unmount, without the error number.
pub fn text(error: &io::Error) -> String {
    let text = match error.kind() {
        ErrorKind::ResourceBusy => "pool or dataset is busy".to_owned(),
        _ => host::os_text(error),
    };
    // The caller prints the place.
    let why = text.strip_prefix("cannot mount at ").and_then(|rest| Some(rest.split_once(": ")?.1));
    why.unwrap_or(&text).to_owned()
}

/// Whether a dataset is `above` or one of its descendants.
pub fn is_at_or_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
