//! Texts of `zpool status` and `zpool import` about a pool with a problem: its state, and what to
//! do.
//!
//! The states are those of OpenZFS, described in our own words. The message id (`see:`,
//! [`Reason::message_id`]) is OpenZFS's, so that its documentation is found. The lines of `zpool
//! import` are OpenZFS's to the letter, because scripts compare them.

use crate::health::Reason;

/// State and action for an imported pool. Each ends with a newline; further lines start with a tab.
pub fn imported(reason: Reason) -> Option<(String, String)> {
    let online = "Reconnect the missing devices, then run 'zpool online'.\n";
    let restore = "Destroy and re-create the pool, and restore it from a backup.\n";
    let (status, action) = match reason {
        Reason::Ok => return None,
        Reason::MissingDevR => (
            "Some devices are missing.  The pool has enough redundancy to work without\n\tthem, but is less protected \
             until they return.\n",
            online,
        ),
        Reason::MissingDevNr => (
            "Some devices are missing, and the pool does not have enough redundancy\n\tto work without them.\n",
            online,
        ),
        Reason::CorruptLabelR => (
            "Some devices have missing or foreign labels.  The pool has enough redundancy\n\tto work without them, but is \
             less protected.\n",
            "Replace the devices with 'zpool replace'.\n",
        ),
        Reason::CorruptLabelNr => (
            "Some devices have missing or foreign labels, and the pool does not have\n\tenough redundancy to work without \
             them.\n",
            restore,
        ),
        Reason::FailingDev => (
            "Some devices returned errors or wrong data.  All requests were served from\n\tother copies or parity, so \
             applications are not affected.\n",
            "If a device is failing, replace it with 'zpool replace'.  If the cause was\n\tcabling or power, clear the \
             errors with 'zpool clear'.\n",
        ),
        Reason::OfflineDev => (
            "Some devices were taken offline.  The pool works without them, but is less\n\tprotected.\n",
            "Bring them back with 'zpool online', or replace them with 'zpool replace'.\n",
        ),
        Reason::RemovedDev => (
            "Some devices were removed while in use.  The pool works without them, but\n\tis less \
             protected.\n",
            "Reconnect them and run 'zpool online', or replace them with\n\t'zpool replace'.\n",
        ),
        Reason::Resilvering => (
            "Some devices are being resilvered.  The pool can be used meanwhile, possibly\n\twith less protection.\n",
            "Wait for the resilver to finish ('zpool wait -t resilver').\n",
        ),
        Reason::RebuildScrub => (
            "Some devices were rebuilt sequentially, and their data has not been checked\n\tagainst its checksums yet.\n",
            "Check the data with 'zpool scrub'.\n",
        ),
        Reason::CorruptData => (
            "Some blocks are damaged and cannot be repaired.  Files may be affected.\n",
            "Restore the files that 'zpool status -v' lists, or else the whole pool, from\n\ta backup.\n",
        ),
        Reason::CorruptPool => ("The pool's metadata is damaged, and the pool cannot be opened.\n", restore),
        Reason::VersionOlder => (
            "The pool has an old format without feature flags.  It can be used, but some\n\tfunctions are not available.\n",
            "Upgrade it in OpenZFS with 'zpool upgrade'.  Afterwards, software without\n\tfeature flags cannot open it.\n",
        ),
        Reason::VersionNewer => (
            "The pool has a newer format than this version supports, and cannot be opened\n\there.\n",
            "Open it with newer software, or restore it from a backup.\n",
        ),
        Reason::FeatDisabled => (
            "Some supported features are not enabled.  The pool can be used without them.\n",
            "'zpool upgrade' enables them.  Afterwards, software without these features\n\tmay be unable to open the pool; see \
             zpool-features(7).\n",
        ),
        Reason::FeatSuperfluous => (
            "Some features are enabled that the property 'compatibility' does not request.\n",
            "Change 'compatibility', or the files in /etc/zfs/compatibility.d or\n\t/usr/share/zfs/compatibility.d \
             that it names.\n",
        ),
        Reason::CompatibilityError => (
            "The files that the property 'compatibility' names cannot be used.  The pool\n\tworks without them.\n",
            "Compare 'compatibility' with the files in /etc/zfs/compatibility.d and\n\t/usr/share/zfs/compatibility.d.\n",
        ),
        Reason::UnsupFeatRead => (
            "The pool cannot be opened here, because it uses features that this version\n\tdoes not support:\n",
            "Open it with software that supports them, or restore it from a backup.\n",
        ),
        Reason::FaultedDevR => (
            "Some devices are faulted after repeated errors.  The pool works without\n\tthem, but is less \
             protected.\n",
            "Replace the devices with 'zpool replace', or return them to service with\n\t'zpool clear'.\n",
        ),
        Reason::FaultedDevNr => (
            "Some devices are faulted after repeated errors, and the pool does not have\n\tenough redundancy to work without \
             them.\n",
            "If the devices work after 'zpool clear', copy all readable data.  Otherwise\n\tre-create the pool and restore it from a \
             backup.\n",
        ),
        Reason::Suspended => (
            "Devices refuse writes.  Reads continue as far as devices can be read; writes\n\twait.\n",
            "Make sure the devices are connected and not full, then run 'zpool clear'.\n",
        ),
        // OpenZFS has no such state: after a failed flush, it trusts devices to keep earlier
        // writes.
        Reason::SuspendedForGood => (
            "One or more devices failed to keep data that was written to them.  Reads\n\tcontinue, writes are refused.\n",
            "Make sure the affected devices are connected, then run 'zpool export'\n\tand 'zpool import'.\n",
        ),
        Reason::BadLog => (
            "The intent log cannot be read.  It may contain the latest synchronous writes.\n",
            "Reconnect the log device and run 'zpool online', or discard the log with\n\t'zpool clear'.\n",
        ),
        Reason::SuspendedMultihost => (
            "The pool is suspended because multihost writes failed or were delayed: another\n\tsystem could import it \
             undetected.  Reads continue, writes wait.\n",
            "Make sure the devices are connected, then run 'zpool clear', which first\n\tmakes sure that no other system has \
             the pool.\n",
        ),
        Reason::HostidActive => {
            ("The pool is in use by another system.\n", "Export the pool on the other system, then import it here.\n")
        }
        Reason::HostidRequired => (
            "The pool is shared by several systems, and this one has no hostid.\n",
            "Set a unique hostid with zgenhostid(8).\n",
        ),
        Reason::HostidMismatch => (
            "The pool was last used by another system, and may still be in use there.\n",
            "Export the pool on the other system, then import it here.\n",
        ),
        Reason::BadGuidSum => ("Some devices of the pool were not found.\n", online),
        Reason::Errata(number) => {
            let (what, action) = errata(number);
            return Some((format!("Errata #{number} detected.\n{what}"), action.to_owned()));
        }
    };
    Some((status.to_owned(), action.to_owned()))
}

/// A known defect, and how to get rid of it.
fn errata(number: u64) -> (&'static str, &'static str) {
    match number {
        1 => ("", "'zpool scrub' corrects it.\n"),
        3 => (
            "\tSome datasets are encrypted in a format that is only read.\n",
            "Copy them to new encrypted datasets, then destroy them.  Until then, mount\n\tthem with 'zfs mount -o ro'.\n",
        ),
        4 => (
            "\tEncrypted snapshots and bookmarks may lack what identifies their blocks, without\n\twhich 'zfs receive' of raw \
             streams could damage data.\n",
            "Enable the feature bookmark_v2.  If there are encrypted snapshots or bookmarks,\n\tcopy them by sending without \
             '-w', or destroy them.\n",
        ),
        _ => ("", ""),
    }
}

/// State of an importable pool. Further lines start with `indent`.
pub fn found(reason: Reason, indent: &str) -> Option<String> {
    Some(match reason {
        Reason::MissingDevR | Reason::MissingDevNr | Reason::BadGuidSum => {
            "One or more devices are missing from the system.\n".into()
        }
        Reason::CorruptLabelR | Reason::CorruptLabelNr => "One or more devices contains corrupted data.\n".into(),
        Reason::CorruptData => "The pool data is corrupted.\n".into(),
        Reason::OfflineDev => "One or more devices are offlined.\n".into(),
        Reason::CorruptPool => "The pool metadata is incomplete or corrupted.\n".into(),
        Reason::VersionOlder => "The pool is formatted using a legacy on-disk version.\n".into(),
        Reason::VersionNewer => "The pool is formatted using an incompatible version.\n".into(),
        Reason::FeatDisabled => format!(
            "Some supported features are not enabled on the pool.\n\t{indent}(Note that they may be intentionally \
             disabled if the\n\t{indent}'compatibility' property is set.)\n"
        ),
        Reason::FeatSuperfluous => format!(
            "One or more features are enabled on the pool despite not being\n\t{indent}requested by the \
             'compatibility' property.\n"
        ),
        Reason::CompatibilityError => {
            format!("Error reading or parsing the file(s) indicated by the 'compatibility'\n\t{indent}property.\n")
        }
        Reason::UnsupFeatRead => "The pool uses the following feature(s) not supported on this system:\n".into(),
        Reason::HostidMismatch => "The pool was last accessed by another system.\n".into(),
        Reason::HostidActive => "The pool is currently imported by another system.\n".into(),
        Reason::HostidRequired => {
            format!(
                "The pool has the multihost property on.  It cannot\n\t{indent}be safely imported when the system hostid is not set.\n"
            )
        }
        Reason::FaultedDevR | Reason::FaultedDevNr => "One or more devices are faulted.\n".into(),
        Reason::BadLog => "An intent log record cannot be read.\n".into(),
        Reason::Resilvering => "One or more devices were being resilvered.\n".into(),
        Reason::Errata(number) => format!("Errata #{number} detected.\n"),
        // A pool that is not imported has no failed writes.
        Reason::Suspended | Reason::SuspendedForGood | Reason::SuspendedMultihost => return None,
        Reason::Ok | Reason::FailingDev | Reason::RemovedDev | Reason::RebuildScrub => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_find_the_number_of_an_errata() {
        for (number, word) in [(3, "-o ro"), (4, "bookmark_v2")] {
            let (text, action) = imported(Reason::Errata(number)).expect("an advice");
            assert!(text.starts_with(&format!("Errata #{number} detected.\n")), "{text}");
            assert!(action.contains(word), "{action}");
        }
    }
}
