//! What `zpool status` and `zpool import` say of a pool that is not as it should be, and what to do about it.
//!
//! The words are OpenZFS's: people look them up, and scripts compare them.

use crate::health::Reason;

/// State and advice for an imported pool; each ends a line, and follows a tab on its further lines.
pub fn imported(reason: Reason) -> Option<(String, String)> {
    let online = "Attach the missing device and online it using 'zpool online'.\n";
    let clear = "Determine if the device needs to be replaced, and clear the errors\n\tusing 'zpool clear' or replace \
                 the device with 'zpool replace'.\n";
    let recover = "Destroy and re-create the pool from\n\ta backup source.\n";
    let (status, action) = match reason {
        Reason::Ok => return None,
        Reason::MissingDevR => (
            "One or more devices could not be opened.  Sufficient replicas exist for\n\tthe pool to continue \
             functioning in a degraded state.\n",
            online,
        ),
        Reason::MissingDevNr => (
            "One or more devices could not be opened.  There are insufficient\n\treplicas for the pool to continue \
             functioning.\n",
            online,
        ),
        Reason::CorruptLabelR => (
            "One or more devices could not be used because the label is missing or\n\tinvalid.  Sufficient replicas \
             exist for the pool to continue\n\tfunctioning in a degraded state.\n",
            "Replace the device using 'zpool replace'.\n",
        ),
        Reason::CorruptLabelNr => (
            "One or more devices could not be used because the label is missing \n\tor invalid.  There are \
             insufficient replicas for the pool to continue\n\tfunctioning.\n",
            recover,
        ),
        Reason::FailingDev => (
            "One or more devices has experienced an unrecoverable error.  An\n\tattempt was made to correct the \
             error.  Applications are unaffected.\n",
            clear,
        ),
        Reason::OfflineDev => (
            "One or more devices has been taken offline by the administrator.\n\tSufficient replicas exist for the \
             pool to continue functioning in a\n\tdegraded state.\n",
            "Online the device using 'zpool online' or replace the device with\n\t'zpool replace'.\n",
        ),
        Reason::RemovedDev => (
            "One or more devices have been removed.\n\tSufficient replicas exist for the pool to continue \
             functioning in a\n\tdegraded state.\n",
            "Online the device using zpool online' or replace the device with\n\t'zpool replace'.\n",
        ),
        Reason::Resilvering => (
            "One or more devices is currently being resilvered.  The pool will\n\tcontinue to function, possibly in \
             a degraded state.\n",
            "Wait for the resilver to complete.\n",
        ),
        Reason::CorruptData => (
            "One or more devices has experienced an error resulting in data\n\tcorruption.  Applications may be \
             affected.\n",
            "Restore the file in question if possible.  Otherwise restore the\n\tentire pool from backup.\n",
        ),
        Reason::CorruptPool => {
            ("The pool metadata is incomplete or corrupted and the pool cannot be opened.\n", recover)
        }
        Reason::VersionOlder => (
            "The pool is formatted using a legacy on-disk format.  The pool can\n\tstill be used, but some features \
             are unavailable.\n",
            "Upgrade the pool using 'zpool upgrade'.  Once this is done, the\n\tpool will no longer be accessible on \
             software that does not support\n\tfeature flags.\n",
        ),
        Reason::VersionNewer => (
            "The pool has been upgraded to a newer, incompatible on-disk version.\n\tThe pool cannot be accessed on \
             this system.\n",
            "Access the pool from a system running more recent software, or\n\trestore the pool from backup.\n",
        ),
        Reason::FeatDisabled => (
            "Some supported and requested features are not enabled on the pool.\n\tThe pool can still be used, but \
             some features are unavailable.\n",
            "Enable all features using 'zpool upgrade'. Once this is done,\n\tthe pool may no longer be accessible \
             by software that does not support\n\tthe features. See zpool-features(7) for details.\n",
        ),
        Reason::UnsupFeatRead => (
            "The pool cannot be accessed on this system because it uses the\n\tfollowing feature(s) not supported on \
             this system:\n",
            "Access the pool from a system that supports the required feature(s),\n\tor restore the pool from \
             backup.\n",
        ),
        Reason::FaultedDevR => (
            "One or more devices are faulted in response to persistent errors.\n\tSufficient replicas exist for the \
             pool to continue functioning in a\n\tdegraded state.\n",
            "Replace the faulted device, or use 'zpool clear' to mark the device\n\trepaired.\n",
        ),
        Reason::FaultedDevNr => (
            "One or more devices are faulted in response to persistent errors.  There are insufficient replicas for \
             the pool to\n\tcontinue functioning.\n",
            "Destroy and re-create the pool from a backup source.  Manually marking the device\n\trepaired using \
             'zpool clear' may allow some data to be recovered.\n",
        ),
        Reason::Suspended => (
            "One or more devices are faulted in response to IO failures.\n",
            "Make sure the affected devices are connected, then run 'zpool clear'.\n",
        ),
        // OpenZFS has no such state: it trusts devices that failed to keep what they had taken.
        Reason::SuspendedForGood => (
            "One or more devices failed to keep what was written to them.  Reading\n\tgoes on, writing does not.\n",
            "Make sure the affected devices are connected, then run 'zpool export'\n\tand 'zpool import'.\n",
        ),
        Reason::BadLog => (
            "An intent log record could not be read.\n\tWaiting for administrator intervention to fix the faulted \
             pool.\n",
            "Either restore the affected device(s) and run 'zpool online',\n\tor ignore the intent log records by \
             running 'zpool clear'.\n",
        ),
        Reason::HostidMismatch => (
            "Mismatch between pool hostid and system hostid on imported pool.\n\tThis pool was previously imported \
             into a system with a different hostid,\n\tand then was verbatim imported into this system.\n",
            "Export this pool on all systems on which it is imported.\n\tThen import it to correct the mismatch.\n",
        ),
        Reason::BadGuidSum => ("One or more devices are missing from the system.\n", online),
        Reason::Errata(number) => {
            let text = format!("Errata #{number} detected.\n");
            let action = if number == 1 { "To correct the issue run 'zpool scrub'.\n" } else { "" };
            return Some((text, action.to_owned()));
        }
    };
    Some((status.to_owned(), action.to_owned()))
}

/// State of a pool that could be imported; `indent` stands before its further lines.
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
        Reason::UnsupFeatRead => "The pool uses the following feature(s) not supported on this system:\n".into(),
        Reason::HostidMismatch => "The pool was last accessed by another system.\n".into(),
        Reason::FaultedDevR | Reason::FaultedDevNr => "One or more devices are faulted.\n".into(),
        Reason::BadLog => "An intent log record cannot be read.\n".into(),
        Reason::Resilvering => "One or more devices were being resilvered.\n".into(),
        Reason::Errata(number) => format!("Errata #{number} detected.\n"),
        // Whoever finds a pool that is not imported has not tried to write to it.
        Reason::Suspended | Reason::SuspendedForGood => return None,
        Reason::Ok | Reason::FailingDev | Reason::RemovedDev => return None,
    })
}
