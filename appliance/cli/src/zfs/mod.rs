//! `weir zfs`: the verbs of zfs(8), one file each. The output matches OpenZFS to the letter.

pub mod allow;
pub mod create;
pub mod datasets;
pub mod destroy;
pub mod diff;
pub mod flow;
pub mod get;
pub mod holds;
mod info_json;
pub mod keys;
pub mod list;
pub mod mount;
pub mod program;
pub mod project;
pub mod receive;
pub mod redact;
pub mod rollback;
pub mod send;
pub mod set;
pub mod share;
pub mod snapshot;
pub mod space;
pub mod upgrade;
pub mod values;
pub mod wait;

use crate::verb::{Verb, not_yet};
use crate::version;

/// All verbs of `weir zfs`, in the order of the help.
pub static VERBS: &[&Verb] = &[
    &version::ZFS,
    &list::VERB,
    &get::VERB,
    &holds::VERB,
    &diff::VERB,
    &send::VERB,
    &receive::RECEIVE,
    &receive::RECV,
    &space::USER,
    &space::GROUP,
    &space::PROJECT,
    &keys::LOAD,
    &keys::UNLOAD,
    &create::CREATE,
    &destroy::VERB,
    &snapshot::SNAPSHOT,
    &snapshot::SNAP,
    &rollback::ROLLBACK,
    &create::CLONE,
    &rollback::PROMOTE,
    &snapshot::HOLD,
    &snapshot::RELEASE,
    &snapshot::BOOKMARK,
    &create::RENAME,
    &set::SET,
    &set::INHERIT,
    &set::CHANGE_KEY,
    &mount::MOUNT,
    &mount::UNMOUNT,
    &mount::UMOUNT,
    &share::SHARE,
    &share::UNSHARE,
    &upgrade::VERB,
    &project::VERB,
    &allow::ALLOW,
    &allow::UNALLOW,
    &program::VERB,
    &redact::VERB,
    &not_yet("rewrite", "Rewrite the blocks of files"),
    &wait::VERB,
    &not_yet("zone", "Attach a file system to a namespace"),
    &not_yet("unzone", "Detach a file system from a namespace"),
    &not_yet("jail", "Attach a file system to a jail"),
    &not_yet("unjail", "Detach a file system from a jail"),
];
