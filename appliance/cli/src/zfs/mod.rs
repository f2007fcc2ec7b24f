//! `weir zfs`: the verbs of zfs(8), a file each. What they print is OpenZFS's, to the letter.

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

/// All verbs.
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
    verb("holds", &["[-rHp] snapshot ..."], "Show what keeps snapshots from being destroyed", holds::run),
    verb("diff", &["[-FHth] snapshot [snapshot|filesystem]"], "Show what changed since a snapshot", diff::run),
    verb("send", send::USAGE, "Write snapshots as a stream to standard output", send::run),
    verb("receive", receive::USAGE, "Make a snapshot of the stream on standard input", receive::run),
    verb("recv", receive::USAGE, "Make a snapshot of the stream on standard input", receive::run),
    verb("userspace", SPACE_USAGE, "Show space by user", |cx, args| space::run(cx, args, Principal::User)),
    verb("groupspace", SPACE_USAGE, "Show space by group", |cx, args| space::run(cx, args, Principal::Group)),
    verb("projectspace", SPACE_USAGE, "Show space by project", |cx, args| space::run(cx, args, Principal::Project)),
    verb("load-key", &["[-rn] [-L keylocation] -a|filesystem|volume"], "Load keys", keys::load),
    verb("unload-key", &["[-r] -a|filesystem|volume"], "Forget keys", keys::unload),
    verb(
        "create",
        &[
            "[-Pnpuv] [-o property=value] ... filesystem",
            "[-Pnpsv] [-b blocksize] [-o property=value] ... -V size volume",
        ],
        "Make file systems and volumes",
        create::create,
    ),
    verb(
        "destroy",
        &[
            "[-fnpRrv] <filesystem|volume>",
            // zrepl looks for this spelling before it names several snapshots at once.
            "[-dnpRrv] <filesystem|volume>@<snap>[%<snap>][,...]",
            "<filesystem|volume>#<bookmark>",
        ],
        "Destroy datasets, snapshots and bookmarks",
        destroy::destroy,
    ),
    verb("snapshot", SNAPSHOT_USAGE, "Take snapshots, all in one moment", snapshot::snapshot),
    verb("snap", SNAPSHOT_USAGE, "Take snapshots, all in one moment", snapshot::snapshot),
    verb("rollback", &["[-rRf] snapshot"], "Go back to a snapshot", rollback::rollback),
    verb(
        "clone",
        &["[-pu] [-o property=value] ... snapshot filesystem|volume"],
        "Make a dataset that begins as a snapshot is",
        create::clone,
    ),
    verb("promote", &["clone-filesystem"], "Have a clone take over the snapshots that it stands on", rollback::promote),
    verb("hold", &["[-r] tag snapshot ..."], "Keep snapshots from being destroyed", snapshot::hold),
    verb("release", &["[-r] tag snapshot ..."], "Let go of held snapshots", snapshot::release),
    verb(
        "bookmark",
        &["[-r] snapshot|bookmark bookmark"],
        "Keep what an incremental stream starts from",
        snapshot::bookmark,
    ),
    verb(
        "rename",
        &[
            "[-f] filesystem|volume filesystem|volume",
            "-p [-f] filesystem|volume filesystem|volume",
            "[-r] snapshot snapshot",
        ],
        "Give datasets other names",
        create::rename,
    ),
    verb("set", &["[-u] property=value ... filesystem|volume|snapshot ..."], "Set properties", set::set),
    verb("inherit", &["[-rS] property filesystem|volume|snapshot ..."], "Have properties inherited", set::inherit),
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
        "Mount file systems with FUSE, or show what is",
        mount::run,
    ),
    verb("unmount", &["[-fu] -a | filesystem|mountpoint"], "Unmount file systems", mount::unmount),
    verb("umount", &["[-fu] -a | filesystem|mountpoint"], "Unmount file systems", mount::unmount),
    verb("share", &["-a [nfs|smb] | filesystem"], "Let clients have file systems, as sharenfs says", share::share),
    verb("unshare", &["-a [nfs] | filesystem|mountpoint"], "Take file systems from NFS clients", share::unshare),
    not_yet("upgrade"),
    not_yet("project"),
    not_yet("allow"),
    not_yet("unallow"),
    not_yet("program"),
    not_yet("redact"),
    not_yet("rewrite"),
    verb("wait", &["[-t activity] <filesystem>"], "Wait until what goes on in the background has ended", wait::run),
    not_yet("zone"),
    not_yet("unzone"),
    not_yet("jail"),
    not_yet("unjail"),
];
