//! Health of a pool: the most important problem in its status.
//!
//! The order of the checks is OpenZFS's (lib/libzfs/libzfs_status.c), and scripts rely on it.

use pool::status::{FeatureSet, PoolStatus, Progress, ScanKind, VdevAux, VdevState, VdevStatus};

/// The most important problem of a pool. ZFS name: zpool_status_t.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    Ok,
    /// A resilver is running.
    Resilvering,
    /// A sequential rebuild has not been scrubbed since.
    RebuildScrub,
    /// Another system used the pool last, and did not export it.
    HostidMismatch,
    /// Another system has the pool imported.
    HostidActive,
    /// The pool is for several hosts, and this one has no ID.
    HostidRequired,
    /// The pool was written by a newer version.
    VersionNewer,
    /// The pool uses features that Weir does not know.
    UnsupFeatRead,
    /// Some devices are unknown.
    BadGuidSum,
    /// Writes fail; they are retried after `zpool clear`.
    Suspended,
    /// Writes fail, and the devices may have lost data that they had accepted.
    SuspendedForGood,
    /// Heartbeats were late: another system could have imported the pool.
    SuspendedMultihost,
    /// The intent log cannot be read.
    BadLog,
    /// Devices are faulted, and no redundancy is left.
    FaultedDevNr,
    /// Devices are missing, and no redundancy is left.
    MissingDevNr,
    /// Labels are damaged, and no redundancy is left.
    CorruptLabelNr,
    /// The pool's own metadata is damaged.
    CorruptPool,
    /// The error log names files that are damaged.
    CorruptData,
    /// Devices are faulted; redundancy is left.
    FaultedDevR,
    /// Devices are missing; redundancy is left.
    MissingDevR,
    /// Labels are damaged; redundancy is left.
    CorruptLabelR,
    /// Devices had errors, but are in service.
    FailingDev,
    OfflineDev,
    RemovedDev,
    /// The pool has a known erratum.
    Errata(u64),
    /// The pool has a version before feature flags.
    VersionOlder,
    /// Some supported features are disabled.
    FeatDisabled,
    /// Some features are enabled that `compatibility` does not request.
    FeatSuperfluous,
    /// The files that `compatibility` names cannot be used.
    CompatibilityError,
}

impl Reason {
    /// OpenZFS's message id, the last part of the URL after `see:`; `None` if `zpool status` shows
    /// none.
    pub fn message_id(self) -> Option<&'static str> {
        Some(match self {
            Self::MissingDevR => "ZFS-8000-2Q",
            Self::MissingDevNr => "ZFS-8000-3C",
            Self::CorruptLabelR => "ZFS-8000-4J",
            Self::CorruptLabelNr => "ZFS-8000-5E",
            Self::BadGuidSum => "ZFS-8000-6X",
            Self::CorruptPool => "ZFS-8000-72",
            Self::CorruptData => "ZFS-8000-8A",
            Self::FailingDev => "ZFS-8000-9P",
            Self::VersionNewer => "ZFS-8000-A5",
            Self::HostidMismatch | Self::HostidActive | Self::HostidRequired => "ZFS-8000-EY",
            Self::SuspendedMultihost => "ZFS-8000-MM",
            Self::Suspended | Self::SuspendedForGood => "ZFS-8000-HC",
            Self::BadLog => "ZFS-8000-K4",
            Self::Errata(_) => "ZFS-8000-ER",
            _ => return None,
        })
    }

    /// Whether `zpool status -x` ignores it.
    pub fn is_healthy(self) -> bool {
        matches!(
            self,
            Self::Ok | Self::VersionOlder | Self::FeatDisabled | Self::FeatSuperfluous | Self::CompatibilityError
        )
    }
}

/// State of a device, as `zpool status` prints it.
pub fn state_name(state: VdevState, aux: VdevAux) -> &'static str {
    match (state, aux) {
        (VdevState::Closed | VdevState::Offline, _) => "OFFLINE",
        (VdevState::Removed, _) => "REMOVED",
        (VdevState::CantOpen, VdevAux::CorruptData | VdevAux::BadLog) => "FAULTED",
        (VdevState::CantOpen, VdevAux::SplitPool) => "SPLIT",
        (VdevState::CantOpen, _) => "UNAVAIL",
        (VdevState::Faulted, _) => "FAULTED",
        (VdevState::Degraded, _) => "DEGRADED",
        (VdevState::Healthy, _) => "ONLINE",
        (VdevState::Unknown, _) => "UNKNOWN",
    }
}

/// State of a pool, as `zpool status` prints it.
pub fn pool_state(status: &PoolStatus) -> &'static str {
    if status.suspended.is_some() { "SUSPENDED" } else { state_name(status.root.state, status.root.aux) }
}

/// Whether a rebuild finished, and no scrub has finished or is running since.
fn lacks_scrub(status: &PoolStatus) -> bool {
    let ended = status.rebuilds().filter(|(_, r)| r.progress() == Progress::Finished).map(|(_, r)| r.now.end_time);
    let Some(rebuilt) = ended.max() else { return false };
    status.scan.as_ref().is_none_or(|scan| match scan.state {
        Progress::None => true,
        Progress::Finished => scan.kind == ScanKind::Scrub && rebuilt > scan.end_time,
        _ => false,
    })
}

/// The most important problem of a pool that is imported, or (`importing`) could be.
pub fn reason(status: &PoolStatus, importing: bool) -> Reason {
    let (state, aux) = (status.root.state, status.root.aux);
    let cannot_open = state == VdevState::CantOpen;
    let missing = |v: &VdevStatus| v.state == VdevState::CantOpen && v.aux == VdevAux::OpenFailed;
    let broken = |v: &VdevStatus| v.state == VdevState::CantOpen;
    let faulted = |v: &VdevStatus| v.state == VdevState::Faulted;
    let errors = |v: &VdevStatus| {
        v.state == VdevState::Degraded || v.read_errors != 0 || v.write_errors != 0 || v.checksum_errors != 0
    };
    let any = |problem: &dyn Fn(&VdevStatus) -> bool| has_problem(status, problem);
    let (scan, suspended) = (status.scan.as_ref(), status.suspended.as_ref());
    match () {
        () if scan.is_some_and(|s| s.kind == ScanKind::Resilver && s.state == Progress::Active) => Reason::Resilvering,
        () if status.rebuilds().any(|(_, r)| r.progress() == Progress::Active) => Reason::Resilvering,
        () if lacks_scrub(status) => Reason::RebuildScrub,
        () if cannot_open && aux == VdevAux::Active => Reason::HostidActive,
        () if cannot_open && aux == VdevAux::VersionNewer => Reason::VersionNewer,
        () if cannot_open && aux == VdevAux::UnsupFeat => Reason::UnsupFeatRead,
        () if cannot_open && aux == VdevAux::BadGuidSum => Reason::BadGuidSum,
        () if suspended.is_some_and(|s| s.until_reopened) => Reason::SuspendedForGood,
        () if suspended.is_some_and(|s| s.is_multihost) => Reason::SuspendedMultihost,
        () if suspended.is_some() => Reason::Suspended,
        () if cannot_open && aux == VdevAux::BadLog => Reason::BadLog,
        () if cannot_open && any(&faulted) => Reason::FaultedDevNr,
        () if cannot_open && any(&missing) => Reason::MissingDevNr,
        () if cannot_open && any(&broken) => Reason::CorruptLabelNr,
        () if cannot_open && aux == VdevAux::CorruptData => Reason::CorruptPool,
        () if !importing && status.error_count != 0 => Reason::CorruptData,
        () if any(&faulted) => Reason::FaultedDevR,
        () if any(&missing) => Reason::MissingDevR,
        () if any(&broken) => Reason::CorruptLabelR,
        () if !importing && any(&errors) => Reason::FailingDev,
        () if any(&|v| v.state == VdevState::Offline) => Reason::OfflineDev,
        () if any(&|v| v.state == VdevState::Removed) => Reason::RemovedDev,
        () if status.errata != 0 => Reason::Errata(status.errata),
        () if status.version < 5000 && status.compatibility.as_deref() != Some("legacy") => Reason::VersionOlder,
        () if status.version < 5000 => Reason::Ok,
        () => match status.feature_set {
            FeatureSet::AsRequested => Reason::Ok,
            FeatureSet::Lacking => Reason::FeatDisabled,
            FeatureSet::Superfluous => Reason::FeatSuperfluous,
            FeatureSet::Unknown => Reason::CompatibilityError,
        },
    }
}

/// Whether a leaf or a cache device has the problem. Devices below `replacing` do not count,
/// because they are being replaced.
fn has_problem(status: &PoolStatus, problem: &dyn Fn(&VdevStatus) -> bool) -> bool {
    fn below(vdev: &VdevStatus, problem: &dyn Fn(&VdevStatus) -> bool) -> bool {
        match vdev.kind.as_str() {
            "replacing" | "hole" | "indirect" => false,
            _ if vdev.is_leaf() => problem(vdev),
            _ => vdev.children.iter().any(|c| below(c, problem)),
        }
    }
    below(&status.root, problem) || status.caches.iter().any(|c| below(c, problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pool::status::Suspended;

    fn pool(leaf: VdevStatus, state: VdevState) -> PoolStatus {
        let mirror = VdevStatus { kind: "mirror".into(), state, children: vec![leaf], ..VdevStatus::default() };
        let root = VdevStatus { kind: "root".into(), state, children: vec![mirror], ..VdevStatus::default() };
        PoolStatus { version: 5000, root, ..PoolStatus::default() }
    }

    #[test]
    fn a_missing_device_is_worse_without_copies() {
        let gone = VdevStatus { state: VdevState::CantOpen, aux: VdevAux::OpenFailed, ..VdevStatus::default() };
        assert_eq!(reason(&pool(gone.clone(), VdevState::Degraded), false), Reason::MissingDevR);
        assert_eq!(reason(&pool(gone, VdevState::CantOpen), false), Reason::MissingDevNr);
    }

    #[test]
    fn that_a_pool_cannot_write_is_more_pressing_than_why() {
        let gone = VdevStatus { state: VdevState::CantOpen, aux: VdevAux::OpenFailed, ..VdevStatus::default() };
        let mut status = pool(gone, VdevState::CantOpen);
        for (until_reopened, expected) in [(false, Reason::Suspended), (true, Reason::SuspendedForGood)] {
            status.suspended = Some(Suspended { why: "disk: gone".into(), until_reopened, is_multihost: false });
            assert_eq!((reason(&status, false), pool_state(&status)), (expected, "SUSPENDED"));
            assert!(!expected.is_healthy() && expected.message_id() == Some("ZFS-8000-HC"));
        }
        status.suspended = Some(Suspended { why: "late".into(), until_reopened: false, is_multihost: true });
        let reason = reason(&status, false);
        assert_eq!((reason, reason.message_id()), (Reason::SuspendedMultihost, Some("ZFS-8000-MM")));
    }

    #[test]
    fn damaged_files_are_more_pressing_than_damaged_devices() {
        let bad = VdevStatus { checksum_errors: 4, ..VdevStatus::default() };
        let mut status = pool(bad, VdevState::Healthy);
        assert_eq!(reason(&status, false), Reason::FailingDev);
        assert_eq!(reason(&status, true), Reason::Ok);
        status.error_count = 1;
        assert_eq!(reason(&status, false), Reason::CorruptData);
        assert_eq!(reason(&status, false).message_id(), Some("ZFS-8000-8A"));
    }

    #[test]
    fn old_pools_and_pools_without_features_are_healthy_for_x() {
        let mut status = pool(VdevStatus::default(), VdevState::Healthy);
        assert_eq!(reason(&status, false), Reason::Ok);
        status.feature_set = FeatureSet::Lacking;
        assert_eq!(reason(&status, false), Reason::FeatDisabled);
        status.version = 28;
        assert_eq!(reason(&status, false), Reason::VersionOlder);
        assert!(reason(&status, false).is_healthy());
    }
}
