//! `weir zfs`: the verbs of zfs(8), one file each. The output matches OpenZFS to the letter.

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
pub mod receive;
pub mod rollback;
pub mod send;
pub mod set;
pub mod share;
pub mod snapshot;
pub mod space;
pub mod values;
pub mod wait;

use crate::context::{Context, Outcome, Verb, version};
use dataset::quota::Principal;

type Run = fn(&mut Context<'_>, &[String]) -> Outcome;

const fn verb(name: &'static str, usage: &'static [&'static str], about: &'static str, run: Run) -> Verb {
    Verb { name, usage, about, run: Some(run) }
}

const fn not_yet(name: &'static str) -> Verb {
    Verb { name, usage: &[], about: "", run: None }
}

const SNAPSHOT_USAGE: &[&str] = &["[-r] [-o property=value] ... filesystem@snapname|volume@snapname ..."];
const SPACE_USAGE: &[&str] = &["[-Hinp] [-o field,...] [-s field]... [-S field]... [-t type,...] filesystem|snapshot"];

/// All verbs of `weir zfs`.
pub static VERBS: &[Verb] = &[
    verb("version", &["[-j]"], "Show versions", |cx, args| version(cx, "zfs", args)),
    verb(
        "list",
        &["[-Hp] [-j [--json-int]] [-r|-d max] [-o property,...] [-s property]... [-S property]... [-t type,...] \
             [dataset] ..."],
        "Show datasets",
        list::run,
    ),
    verb(
        "get",
        &["[-rHp] [-j [--json-int]] [-d max] [-o all|field,...] [-t type,...] [-s source,...] all|property,... \
             [dataset] ..."],
        "Show properties of datasets",
        get::run,
    ),
    verb("holds", &["[-rHp] snapshot ..."], "List the holds on snapshots", holds::run),
    verb("diff", &["[-FHth] snapshot [snapshot|filesystem]"], "Show what changed since a snapshot", diff::run),
    verb("send", send::USAGE, "Write a send stream to standard output", send::run),
    verb("receive", receive::USAGE, "Receive a send stream from standard input", receive::run),
    verb("recv", receive::USAGE, "Receive a send stream from standard input", receive::run),
    verb("userspace", SPACE_USAGE, "Show space by user", |cx, args| space::run(cx, args, Principal::User)),
    verb("groupspace", SPACE_USAGE, "Show space by group", |cx, args| space::run(cx, args, Principal::Group)),
    verb("projectspace", SPACE_USAGE, "Show space by project", |cx, args| space::run(cx, args, Principal::Project)),
    verb("load-key", &["[-rn] [-L keylocation] -a|filesystem|volume"], "Load keys", keys::load),
    verb("unload-key", &["[-r] -a|filesystem|volume"], "Unload keys", keys::unload),
    verb(
        "create",
        &[
            "[-Pnpuv] [-o property=value] ... filesystem",
            "[-Pnpsv] [-b blocksize] [-o property=value] ... -V size volume",
        ],
        "Create file systems and volumes",
        create::create,
    ),
    verb(
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
    verb("snapshot", SNAPSHOT_USAGE, "Take snapshots atomically", snapshot::snapshot),
    verb("snap", SNAPSHOT_USAGE, "Take snapshots atomically", snapshot::snapshot),
    verb("rollback", &["[-rRf] snapshot"], "Roll back to a snapshot", rollback::rollback),
    verb(
        "clone",
        &["[-pu] [-o property=value] ... snapshot filesystem|volume"],
        "Create a dataset from a snapshot",
        create::clone,
    ),
    verb("promote", &["clone-filesystem"], "Make a clone the owner of its origin's snapshots", rollback::promote),
    verb("hold", &["[-r] tag snapshot ..."], "Place holds on snapshots", snapshot::hold),
    verb("release", &["[-r] tag snapshot ..."], "Release holds on snapshots", snapshot::release),
    verb(
        "bookmark",
        &["[-r] snapshot|bookmark bookmark"],
        "Create bookmarks, from which incremental streams can start",
        snapshot::bookmark,
    ),
    verb(
        "rename",
        &[
            "[-f] filesystem|volume filesystem|volume",
            "-p [-f] filesystem|volume filesystem|volume",
            "[-r] snapshot snapshot",
        ],
        "Rename datasets",
        create::rename,
    ),
    verb("set", &["[-u] property=value ... filesystem|volume|snapshot ..."], "Set properties", set::set),
    verb(
        "inherit",
        &["[-rS] property filesystem|volume|snapshot ..."],
        "Inherit properties from the parent",
        set::inherit,
    ),
    verb(
        "change-key",
        &[
            "[-l] [-o keyformat=value] [-o keylocation=value] [-o pbkdf2iters=value] filesystem|volume",
            "-i [-l] filesystem|volume",
        ],
        "Change the key of a dataset",
        set::change_key,
    ),
    verb(
        "mount",
        &["[-j]", "[-fO] [-o opts] -a | filesystem"],
        "Mount file systems with FUSE, or list the mounted ones",
        mount::run,
    ),
    verb("unmount", &["[-fu] <-a | filesystem|mountpoint>"], "Unmount file systems", mount::unmount),
    verb("umount", &["[-fu] <-a | filesystem|mountpoint>"], "Unmount file systems", mount::unmount),
    verb(
        "share",
        &["[-l] <-a [nfs|smb] | filesystem>"],
        "Share file systems according to sharenfs and sharesmb",
        share::share,
    ),
    verb("unshare", &["<-a [nfs|smb] | filesystem|mountpoint>"], "Stop sharing file systems", share::unshare),
    not_yet("upgrade"),
    not_yet("project"),
    not_yet("allow"),
    not_yet("unallow"),
    not_yet("program"),
    not_yet("redact"),
    not_yet("rewrite"),
    verb("wait", &["[-t activity] <filesystem>"], "Wait for background activity to finish", wait::run),
    not_yet("zone"),
    not_yet("unzone"),
    not_yet("jail"),
    not_yet("unjail"),
];
