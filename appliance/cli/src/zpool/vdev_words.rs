//! The state of a device in the words of `zpool status`, `list` and `import`.

use admin::health::state_name;
use pool::status::{VdevAux, VdevState, VdevStatus};

/// The word for a device's state. Spares have their own words.
pub fn shown_state(vdev: &VdevStatus, is_spare: bool) -> &'static str {
    match (is_spare, vdev.aux, vdev.state) {
        (true, VdevAux::Spared, _) => "INUSE",
        (true, _, VdevState::Healthy) => "AVAIL",
        _ => state_name(vdev.state, vdev.aux),
    }
}

/// Whether all leaves are healthy and without errors.
pub fn is_healthy(vdev: &VdevStatus) -> bool {
    if !vdev.is_leaf() {
        return vdev.children.iter().all(is_healthy);
    }
    vdev.state == VdevState::Healthy
        && vdev.read_errors + vdev.write_errors + vdev.checksum_errors + vdev.slow_ios == 0
        && vdev.aux == VdevAux::None
}

/// Why a device is not healthy, as `zpool status` puts it; `None`: no reason is recorded.
pub fn aux_words(vdev: &VdevStatus) -> Option<&'static str> {
    Some(match vdev.aux {
        VdevAux::None => return None,
        VdevAux::OpenFailed => "cannot open",
        VdevAux::BadGuidSum => "missing device",
        VdevAux::NoReplicas => "insufficient replicas",
        VdevAux::VersionNewer => "newer version",
        VdevAux::UnsupFeat => "unsupported feature(s)",
        VdevAux::AshiftTooBig => "unsupported minimum blocksize",
        VdevAux::Spared | VdevAux::Active => "currently in use",
        VdevAux::ErrExceeded => "too many errors",
        VdevAux::IoFailure => "experienced I/O failures",
        VdevAux::BadLog => "bad intent log",
        VdevAux::External => "external device fault",
        VdevAux::SplitPool => "split into new pool",
        VdevAux::ChildrenOffline => "all children offline",
        VdevAux::BadLabel => "invalid label",
        _ => "corrupted data",
    })
}

/// `zpool import` has fewer words for the state of a device.
pub fn import_aux_words(vdev: &VdevStatus) -> Option<&'static str> {
    match vdev.aux {
        VdevAux::AshiftTooBig
        | VdevAux::Spared
        | VdevAux::IoFailure
        | VdevAux::BadLog
        | VdevAux::External
        | VdevAux::SplitPool => Some("corrupted data"),
        _ => aux_words(vdev),
    }
}
