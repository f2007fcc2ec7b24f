//! Properties that determine where and how file systems are mounted: what changing them does to
//! mounts.

use super::{MountReport, Mounted, NotUnmounted, PoolMounts, Redacted, rules, text};

/// Properties that determine where and how a dataset is mounted.
const MOUNTING: [&str; 7] = ["mountpoint", "canmount", "readonly", "exec", "setuid", "devices", "sharenfs"];

/// Effect of a property change on mounts: prepared before it, completed after it.
pub struct Remount<'a> {
    mounts: PoolMounts<'a>,
    dataset: String,
    /// Unmounted datasets, to be mounted at their new places.
    unmounted: Vec<String>,
    /// Datasets that were mounted and stayed so.
    below: Vec<Mounted>,
    /// Datasets without a mount point, which may get one: the dataset and those that inherit from
    /// it.
    placeless: Vec<String>,
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
        let dataset = dataset.to_owned();
        let mut this =
            Remount { mounts: self, dataset, unmounted: Vec::new(), below: Vec::new(), placeless: Vec::new() };
        let moves = properties.iter().any(|(n, v)| *n == "mountpoint" || (*n, *v) == ("canmount", "off"));
        if moves {
            let unmounted = self.unmount_placed(&this.dataset, false).map_err(NotPrepared::Mounted)?;
            this.unmounted = unmounted.into_iter().map(|m| m.dataset).collect();
            let pool = self.house.import(self.record).map_err(NotPrepared::Broken)?;
            if self.is_automatic() {
                this.placeless = rules::placeless(&pool, &this.dataset).map_err(NotPrepared::Broken)?;
            }
        } else {
            this.below = self.below(&this.dataset).into_iter().filter(|m| !m.by_hand).collect();
        }
        Ok(Some(this))
    }
}

impl Remount<'_> {
    /// Called after they were set, or failed to be set.
    pub fn settle(self) -> MountReport {
        let Self { mounts, dataset, unmounted, below, placeless } = self;
        let Ok(pool) = mounts.house.import(mounts.record) else {
            return MountReport { failed: true, ..MountReport::default() };
        };
        let mut report = MountReport::default();
        let mut names = placeless;
        names.retain(|name| rules::plan(&pool, name, Redacted::Skip).is_ok_and(|plan| !plan.by_name));
        names.extend(unmounted);
        let changed =
            below.iter().any(|m| rules::plan(&pool, &m.dataset, Redacted::Skip).is_ok_and(|plan| plan != m.plan));
        if changed {
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
        report.merge(mounts.mount_again(&names));
        report
    }
}
