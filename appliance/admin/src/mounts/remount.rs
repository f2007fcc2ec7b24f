//! Properties that determine where and how file systems are mounted: what changing them does to
//! mounts.

use super::{MountReport, Mounted, NotUnmounted, Plan, PoolMounts, Redacted, rules, text};

/// Properties that determine where and how a dataset is mounted.
const MOUNTING: [&str; 8] = ["mountpoint", "canmount", "readonly", "exec", "setuid", "devices", "sharenfs", "sharesmb"];

/// Properties of which a change mounts file systems that are not mounted.
const PLACING: [&str; 3] = ["mountpoint", "sharenfs", "sharesmb"];

/// Effect of a property change on mounts: prepared before it, completed after it.
pub struct Remount<'a> {
    mounts: PoolMounts<'a>,
    dataset: String,
    /// A mount point changes.
    moves: bool,
    /// Unmounted datasets, to be mounted at their new places.
    unmounted: Vec<String>,
    /// Datasets that were mounted and stayed so.
    below: Vec<Mounted>,
    /// Datasets that the change mounts if they are not mounted, unless their `canmount` forbids it:
    /// those whose mount point changes, and those that become shared.
    concerned: Vec<String>,
}

/// Why a property change cannot be prepared.
pub enum NotPrepared {
    Mounted(NotUnmounted),
    Broken(anyhow::Error),
}

impl<'a> PoolMounts<'a> {
    /// Called before `properties` of `dataset` are set, with full names. `None`: they do not affect
    /// mounts.
    pub fn prepare(self, dataset: &str, properties: &[(&str, &str)]) -> Result<Option<Remount<'a>>, NotPrepared> {
        if !properties.iter().any(|(n, _)| MOUNTING.contains(n)) {
            return Ok(None);
        }
        let moves = properties.iter().any(|(n, _)| *n == "mountpoint");
        let mut this = Remount {
            mounts: self,
            dataset: dataset.to_owned(),
            moves,
            unmounted: Vec::new(),
            below: Vec::new(),
            concerned: Vec::new(),
        };
        if moves || properties.contains(&("canmount", "off")) {
            let unmounted = self.unmount_placed(&this.dataset, false).map_err(NotPrepared::Mounted)?;
            this.unmounted = unmounted.into_iter().map(|m| m.dataset).collect();
        } else {
            this.below = self.below(&this.dataset).into_iter().filter(|m| !m.by_hand).collect();
        }
        let pool = self.house.import(self.record).map_err(NotPrepared::Broken)?;
        for (name, _) in properties.iter().filter(|(name, _)| self.is_automatic() && PLACING.contains(name)) {
            let heirs = rules::heirs(&pool, &this.dataset, name).map_err(NotPrepared::Broken)?;
            this.concerned.extend(heirs.into_iter().filter(|heir| !this.concerned.contains(heir)).collect::<Vec<_>>());
        }
        Ok(Some(this))
    }
}

impl Remount<'_> {
    /// Called after they were set, or failed to be set (not `changed`). The properties are set even
    /// if a file system cannot be mounted at its new place, so the report has lines and no failure.
    /// Facts: `changelist_postfix` in lib/libzfs/libzfs_changelist.c.
    pub fn settle(self, changed: bool) -> MountReport {
        let Self { mounts, dataset, moves, unmounted, below, concerned } = self;
        let Ok(pool) = mounts.house.import(mounts.record) else {
            return MountReport { failed: true, ..MountReport::default() };
        };
        let mut report = MountReport::default();
        let shares = |plan: &Plan, name: &str| {
            plan.shared || rules::text(&pool, name, "sharesmb").is_some_and(|options| options != "off")
        };
        let mut names: Vec<String> = if changed { concerned } else { Vec::new() };
        names.retain(|name| {
            let is_due = |plan: Plan| !plan.by_name && (moves || shares(&plan, name)) && !mounts.is_mounted(name);
            rules::plan(&pool, name, Redacted::Skip).is_ok_and(is_due)
        });
        names.extend(unmounted.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        let differs =
            below.iter().any(|m| rules::plan(&pool, &m.dataset, Redacted::Skip).is_ok_and(|plan| plan != m.plan));
        if differs {
            match mounts.mounter.unmount_placed(mounts.record.guid, &dataset, false) {
                Ok(unmounted) => names.extend(unmounted.into_iter().map(|m| m.dataset)),
                Err((place, error)) => {
                    let (place, why) = (place.display(), text(&error));
                    report.add(format!("weir: '{place}' stays mounted as it was until it is unmounted: {why}"), false);
                    // Those that were unmounted before the one that failed.
                    let still = mounts.below(&dataset);
                    let is_gone = |m: &&Mounted| still.iter().all(|s| s.dataset != m.dataset);
                    names.extend(below.iter().filter(is_gone).map(|m| m.dataset.clone()));
                }
            }
        }
        // What is mounted in another one comes after it.
        names.sort_by_cached_key(|name| rules::plan(&pool, name, Redacted::Mount).ok().map(|plan| plan.place));
        report.merge(mounts.mount_again(&names));
        MountReport { failed: false, ..report }
    }
}
