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
pub mod receive;
pub mod rollback;
pub mod send;
pub mod set;
pub mod share;
pub mod snapshot;
pub mod space;
pub mod upgrade;
pub mod values;
pub mod wait;

use crate::context::{Verb, for_anyone, for_delegates, for_owner, not_yet, version};
use dataset::quota::Principal;

const SNAPSHOT_USAGE: &[&str] = &["[-r] [-o property=value] ... filesystem@snapname|volume@snapname ..."];
const SPACE_USAGE: &[&str] = &["[-Hinp] [-o field,...] [-s field]... [-S field]... [-t type,...] filesystem|snapshot"];

/// All verbs of `weir zfs`.
pub static VERBS: &[Verb] = &[
    for_anyone("version", &["[-j]"], "Show versions", |cx, args| version(cx, "zfs", args)),
    for_anyone(
        "list",
        &["[-Hp] [-j [--json-int]] [-r|-d max] [-o property,...] [-s property]... [-S property]... [-t type,...] \
             [dataset] ..."],
        "Show datasets",
        list::run,
    ),
    for_anyone(
        "get",
        &["[-rHp] [-j [--json-int]] [-d max] [-o all|field,...] [-t type,...] [-s source,...] all|property,... \
             [dataset] ..."],
        "Show properties of datasets",
        get::run,
    ),
    for_anyone("holds", &["[-rHp] snapshot ..."], "List the holds on snapshots", holds::run),
    for_delegates("diff", &["[-FHth] snapshot [snapshot|filesystem]"], "Show what changed since a snapshot", diff::run),
    for_delegates("send", send::USAGE, "Write a send stream to standard output", send::run),
    for_delegates("receive", receive::USAGE, "Receive a send stream from standard input", receive::run),
    for_delegates("recv", receive::USAGE, "Receive a send stream from standard input", receive::run),
    for_anyone("userspace", SPACE_USAGE, "Show space by user", |cx, args| space::run(cx, args, Principal::User)),
    for_anyone("groupspace", SPACE_USAGE, "Show space by group", |cx, args| space::run(cx, args, Principal::Group)),
    for_anyone("projectspace", SPACE_USAGE, "Show space by project", |cx, args| {
        space::run(cx, args, Principal::Project)
    }),
    for_delegates("load-key", &["[-rn] [-L keylocation] -a|filesystem|volume"], "Load keys", keys::load),
    for_delegates("unload-key", &["[-r] -a|filesystem|volume"], "Unload keys", keys::unload),
    for_delegates(
        "create",
        &[
            "[-Pnpuv] [-o property=value] ... filesystem",
            "[-Pnpsv] [-b blocksize] [-o property=value] ... -V size volume",
        ],
        "Create file systems and volumes",
        create::create,
    ),
    for_delegates(
        "destroy",
        &[
            "[-fnpRrv] <filesystem|volume>",
            // zrepl looks for this spelling before it destroys several snapshots in one command.
            "[-dnpRrv] <filesystem|volume>@<snap>[%<snap>][,...]",
            "<filesystem|volume>#<bookmark>",
        ],
        "Destroy datasets, snapshots and bookmarks",
        destroy::destroy,
    ),
    for_delegates("snapshot", SNAPSHOT_USAGE, "Take snapshots atomically", snapshot::snapshot),
    for_delegates("snap", SNAPSHOT_USAGE, "Take snapshots atomically", snapshot::snapshot),
    for_delegates("rollback", &["[-rRf] snapshot"], "Roll back to a snapshot", rollback::rollback),
    for_delegates(
        "clone",
        &["[-pu] [-o property=value] ... snapshot filesystem|volume"],
        "Create a dataset from a snapshot",
        create::clone,
    ),
    for_delegates(
        "promote",
        &["clone-filesystem"],
        "Make a clone the owner of its origin's snapshots",
        rollback::promote,
    ),
    for_delegates("hold", &["[-r] tag snapshot ..."], "Place holds on snapshots", snapshot::hold),
    for_delegates("release", &["[-r] tag snapshot ..."], "Release holds on snapshots", snapshot::release),
    for_delegates(
        "bookmark",
        &["[-r] snapshot|bookmark bookmark"],
        "Create bookmarks, from which incremental streams can start",
        snapshot::bookmark,
    ),
    for_delegates(
        "rename",
        &[
            "[-f] filesystem|volume filesystem|volume",
            "-p [-f] filesystem|volume filesystem|volume",
            "-u [-f] filesystem filesystem",
            "[-r] snapshot snapshot",
        ],
        "Rename datasets",
        create::rename,
    ),
    for_delegates("set", &["[-u] property=value ... filesystem|volume|snapshot ..."], "Set properties", set::set),
    for_delegates(
        "inherit",
        &["[-rS] property filesystem|volume|snapshot ..."],
        "Inherit properties from the parent",
        set::inherit,
    ),
    for_delegates(
        "change-key",
        &[
            "[-l] [-o keyformat=value] [-o keylocation=value] [-o pbkdf2iters=value] filesystem|volume",
            "-i [-l] filesystem|volume",
        ],
        "Change the key of a dataset",
        set::change_key,
    ),
    for_owner(
        "mount",
        &["[-j]", "[-flOv] [-o opts] -a | -R filesystem | filesystem"],
        "Mount file systems with FUSE, or list the mounted ones",
        mount::run,
    ),
    for_owner("unmount", &["[-fu] <-a | filesystem|mountpoint>"], "Unmount file systems", mount::unmount),
    for_owner("umount", &["[-fu] <-a | filesystem|mountpoint>"], "Unmount file systems", mount::unmount),
    for_owner(
        "share",
        &["[-l] <-a [nfs|smb] | filesystem>"],
        "Share file systems according to sharenfs and sharesmb",
        share::share,
    ),
    for_owner("unshare", &["<-a [nfs|smb] | filesystem|mountpoint>"], "Stop sharing file systems", share::unshare),
    for_owner(
        "upgrade",
        &["", "-v", "[-r] [-V version] <-a | filesystem ...>"],
        "Raise the version of file systems",
        upgrade::run,
    ),
    not_yet("project"),
    for_delegates("allow", allow::ALLOW_USAGE, "Delegate permissions, or show what is delegated", allow::allow),
    for_delegates("unallow", allow::UNALLOW_USAGE, "Take back delegated permissions", allow::unallow),
    for_owner(
        "program",
        &["[-jn] [-t <instruction limit>] [-m <memory limit (b)>] <pool> <program file> [lua args...]"],
        "Run a Lua program that looks at datasets and changes them atomically",
        program::run,
    ),
    not_yet("redact"),
    not_yet("rewrite"),
    for_owner("wait", &["[-t activity] <filesystem>"], "Wait for background activity to finish", wait::run),
    not_yet("zone"),
    not_yet("unzone"),
    not_yet("jail"),
    not_yet("unjail"),
];
