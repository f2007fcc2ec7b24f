//! `weir zpool`: the verbs of zpool(8), one file each. The output matches OpenZFS to the letter.

pub mod add;
pub mod attach;
pub mod checkpoint;
pub mod clear;
pub mod create;
mod dedup;
pub mod destroy;
pub mod events;
pub mod export;
pub mod get;
pub mod history;
pub mod import;
mod info_json;
pub mod iostat;
mod iostat_counts;
pub mod list;
pub mod plan;
pub mod pools;
pub mod remove;
#[cfg(test)]
mod samples;
mod script_columns;
pub mod scrub;
pub mod set;
pub mod split;
pub mod states;
pub mod status;
mod status_json;
mod status_options;
pub mod sweep;
pub mod values;
mod vdev_properties;
mod vdev_words;
pub mod wait;
pub mod writing;

use crate::context::{Callers, Verb, for_anyone, for_owner, not_yet, version};

/// All verbs of `weir zpool`.
pub static VERBS: &[Verb] = &[
    for_anyone("version", &["[-j]"], "Show versions", |cx, args| version(cx, "zpool", args)),
    for_owner(
        "create",
        &[
            "[-fnd] [-o property=value] ... [-O file-system-property=value] ... [-m mountpoint] [-R root] [-t tempname] pool vdev ...",
        ],
        "Create a pool",
        create::run,
    ),
    for_owner(
        "add",
        &["[-fgLnP] [-o ashift=n] [--allow-in-use --allow-replication-mismatch --allow-ashift-mismatch] pool vdev ..."],
        "Add devices to a pool",
        add::run,
    ),
    for_owner(
        "import",
        &[
            "[-d dir|device]... | -c cachefile [-Ds]",
            "[-d dir|device]... | -c cachefile [-aflmNst] [-D] [-F [-nX]] [-T txg] [-o property=value]... [-R root] -a",
            "[-d dir|device]... | -c cachefile [-flmNst] [-D] [-F [-nX]] [-T txg] [--rewind-to-checkpoint] [-o property=value]... [-R root] pool|id [newpool]",
        ],
        "Find pools, or import them",
        import::run,
    ),
    for_owner("export", &["[-af] pool ..."], "Export pools so that another system can import them", export::run),
    for_owner("destroy", &["[-f] pool"], "Destroy a pool", destroy::destroy),
    for_owner(
        "set",
        &["property=value pool", "property=value pool vdev"],
        "Set a property of a pool or a device",
        set::run,
    ),
    for_owner("clear", &["pool [vdev]"], "Clear error counters and resume a suspended pool", clear::run),
    for_owner(
        "attach",
        &["[-fsw] [-o ashift=n] pool device new-device"],
        "Attach a device to a disk or mirror, or expand a raidz",
        attach::attach,
    ),
    for_owner("replace", &["[-fsw] [-o ashift=n] pool device [new-device]"], "Replace a device", attach::replace),
    for_owner("detach", &["pool device"], "Detach a device from a mirror", attach::detach),
    for_owner(
        "remove",
        &["[-npw] pool device ...", "-s pool"],
        "Remove devices, after moving their data to the others",
        remove::run,
    ),
    for_owner("offline", &["[-ft] pool device ..."], "Take devices offline", states::offline),
    for_owner("online", &["[-e] pool device ..."], "Bring devices online", states::online),
    for_owner("reopen", &["[-n] [pool ...]"], "Reopen devices, and look for missing ones", states::reopen),
    for_owner("upgrade", &["", "-v", "[-V version] -a | pool ..."], "Enable features", set::upgrade),
    for_owner("sync", &["[pool] ..."], "Write all pending data to disk", destroy::sync),
    for_owner(
        "freeze",
        &["pool"],
        "Keep the state on disk from now on, to test the replay of intent logs",
        destroy::freeze,
    ),
    for_owner("reguid", &["[-g guid] pool"], "Give a pool a new GUID", destroy::reguid),
    for_owner("labelclear", &["[-f] vdev"], "Remove a pool's labels from a device", destroy::labelclear),
    for_anyone(
        "list",
        &["[-gHLpPv] [-o property,...] [-j [--json-int] [--json-pool-key-guid]] [pool] ..."],
        "Show space and health of pools",
        list::run,
    ),
    for_anyone(
        "iostat",
        &[
            "[-T d|u] [-ghHLlnpPqvy] [-c [script1[,script2]...] | -lq | -rw] [[pool ...]|[pool vdev ...]|[vdev ...]] [[-n] interval [count]]",
        ],
        "Show I/O statistics of pools and devices",
        iostat::run,
    ),
    for_anyone(
        "status",
        &[
            "[-dDegiLpPstvx] [-c [script1[,script2]...]] [-T d|u] [-j [--json-flat-vdevs] [--json-int] [--json-pool-key-guid]] [pool] ... [interval [count]]",
        ],
        "Show the state of pools and their devices",
        status::run,
    ),
    for_anyone(
        "get",
        &[
            "[-Hp] [-o all|field,...] [-j [--json-int] [--json-pool-key-guid]] all|property,... [pool] ...",
            "[-Hp] [-o all|field,...] [-j [--json-int]] all|property,... pool root|all-vdevs|vdev ...",
        ],
        "Show properties of pools and devices",
        get::run,
    ),
    for_anyone(
        "wait",
        &["[-Hp] [-T d|u] [-t activity[,activity]...] pool [interval]"],
        "Wait for background activity to finish",
        wait::run,
    ),
    for_anyone("history", &["[-il] [pool] ..."], "Show the command history of pools", history::run),
    for_owner(
        "plan",
        &[
            "[-j] [--enclosures file] [--for balance|space|speed] [--spares n] [--random n --stream megabytes] [--pool name] device ...",
        ],
        "Recommend a pool layout for devices, with its space and rates",
        plan::run,
    ),
    Verb {
        callers: Callers::AnyoneUnless(events::clears),
        ..for_anyone("events", &["[-vHf] [pool]", "-c"], "Show or follow the events of pools", events::run)
    },
    for_owner("checkpoint", &["[-d [-w]] pool"], "Create or discard a checkpoint of a pool", checkpoint::run),
    not_yet("prefetch"),
    for_owner(
        "split",
        &["[-gLlnP] [-o property=value] ... [-R root] pool newpool [device ...]"],
        "Split one side of each mirror into a new pool",
        split::run,
    ),
    for_owner(
        "initialize",
        &["[-c | -s | -u | -w] pool [device ...]"],
        "Write a pattern to all unallocated space",
        sweep::initialize,
    ),
    for_owner("resilver", &["pool ..."], "Start a resilver, or restart a running one", scrub::resilver),
    for_owner("scrub", &["[-e | -s | -p | -C] [-w] pool ..."], "Check all data and repair damage", scrub::run),
    for_owner("trim", &["[-dw] [-r rate] [-c | -s] pool [device ...]"], "TRIM all unallocated space", sweep::trim),
    not_yet("ddtprune"),
];
