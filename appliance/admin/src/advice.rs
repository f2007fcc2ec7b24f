//! What `zpool status` and `zpool import` say of a pool that is not as it should be, and what to do about it.
//!
//! What OpenZFS means by each state, in our words; which page explains it (`see:`, [`Reason::message_id`]) is OpenZFS's number, so that it is
//! found. What `zpool import` says in a line are OpenZFS's words, which scripts compare.

use crate::health::Reason;

/// State and advice for an imported pool; each ends a line, and follows a tab on its further lines.
pub fn imported(reason: Reason) -> Option<(String, String)> {
    let online = "Connect what is missing, then run 'zpool online'.\n";
    let restore = "Make the pool anew, and restore it from a backup.\n";
    let (status, action) = match reason {
        Reason::Ok => return None,
        Reason::MissingDevR => (
            "Some devices are not there.  What they hold is on others too: everything\n\tcan be read and written, with less \
             protection.\n",
            online,
        ),
        Reason::MissingDevNr => (
            "Some devices are not there, and no others have what they hold.  The pool\n\tcannot go on without them.\n",
            online,
        ),
        Reason::CorruptLabelR => (
            "The labels of some devices are missing, or those of something else.  What\n\tthey held is on others too: the pool \
             goes on, with less protection.\n",
            "Put another device in its place with 'zpool replace'.\n",
        ),
        Reason::CorruptLabelNr => (
            "The labels of some devices are missing, or those of something else, and no\n\tothers have what they held.  The pool \
             cannot go on without them.\n",
            restore,
        ),
        Reason::FailingDev => (
            "Some devices failed, or gave wrong bytes.  What was asked for came from\n\tother copies or parity, so nobody has \
             noticed.\n",
            "If it is the device, put another one in its place with 'zpool replace'; if\n\tit was cable or power, forget the \
             errors with 'zpool clear'.\n",
        ),
        Reason::OfflineDev => (
            "Somebody took devices offline.  What they hold is on others too: the pool\n\tgoes on, with less protection.\n",
            "Take them in again with 'zpool online', or put others in their place with\n\t'zpool replace'.\n",
        ),
        Reason::RemovedDev => (
            "Devices went away while they were in use.  What they hold is on others too:\n\tthe pool goes on, with less \
             protection.\n",
            "Connect them and run 'zpool online', or put others in their place with\n\t'zpool replace'.\n",
        ),
        Reason::Resilvering => (
            "What devices missed is being written to them.  The pool can be used\n\tmeanwhile; its protection may be less.\n",
            "Wait until it is done ('zpool wait -t resilver').\n",
        ),
        Reason::RebuildScrub => (
            "What was written to new devices in the order of addresses was not compared\n\twith its checksums yet.\n",
            "Have it looked at with 'zpool scrub'.\n",
        ),
        Reason::CorruptData => (
            "Some blocks are damaged, and no copy of them is left.  Files may be\n\taffected.\n",
            "Restore the files that 'zpool status -v' names; if these are more than\n\tcan be restored, the whole pool.\n",
        ),
        Reason::CorruptPool => ("What the pool keeps of itself is damaged: it cannot be opened.\n", restore),
        Reason::VersionOlder => (
            "The pool has an old format, without feature flags.  It can be used, but\n\tnot all that this version offers.\n",
            "'zpool upgrade' brings it up to date.  Software that does not know feature\n\tflags cannot open it any more then.\n",
        ),
        Reason::VersionNewer => (
            "The pool has a newer format than this version knows, and cannot be opened\n\there.\n",
            "Open it where the software is newer, or restore it from a backup.\n",
        ),
        Reason::FeatDisabled => (
            "The pool lacks features that it could have.  It can be used without them.\n",
            "'zpool upgrade' adds them.  Software that does not know them may not open\n\tthe pool any more then; see \
             zpool-features(7).\n",
        ),
        Reason::UnsupFeatRead => (
            "The pool cannot be opened here, since it uses features that this version\n\tdoes not know:\n",
            "Open it where they are known, or restore it from a backup.\n",
        ),
        Reason::FaultedDevR => (
            "Some devices failed so often that they are not used any more.  What they\n\thold is on others too: the pool goes \
             on, with less protection.\n",
            "Put another device in its place with 'zpool replace', or use it again\n\twith 'zpool clear'.\n",
        ),
        Reason::FaultedDevNr => (
            "Some devices failed so often that they are not used any more, and no others\n\thave what they hold.  The pool cannot \
             go on without them.\n",
            "If 'zpool clear' gets them to work, copy away what can be read; else make\n\tthe pool anew, and restore it from a \
             backup.\n",
        ),
        Reason::Suspended => (
            "Devices do not take what has to be written.  Reading goes on as far as they\n\tcan be read; writing waits.\n",
            "Make sure that they are connected and have room, then run 'zpool clear'.\n",
        ),
        // OpenZFS has no such state: it trusts devices that failed to keep what they had taken.
        Reason::SuspendedForGood => (
            "One or more devices failed to keep what was written to them.  Reading\n\tgoes on, writing does not.\n",
            "Make sure the affected devices are connected, then run 'zpool export'\n\tand 'zpool import'.\n",
        ),
        Reason::BadLog => (
            "The intent log cannot be read: what was promised last may be in it.\n",
            "Connect its device and run 'zpool online', or go on without what it holds\n\twith 'zpool clear'.\n",
        ),
        Reason::HostidMismatch => (
            "Another system had the pool last, and may still have it.\n",
            "Export it wherever it is imported, then import it here.\n",
        ),
        Reason::BadGuidSum => ("Some devices of the pool are not known here.\n", online),
        Reason::Errata(number) => {
            let text = format!("The pool has a known flaw: errata #{number}.\n");
            let action = if number == 1 { "'zpool scrub' corrects it.\n" } else { "" };
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
        Reason::Ok | Reason::FailingDev | Reason::RemovedDev | Reason::RebuildScrub => return None,
    })
}
