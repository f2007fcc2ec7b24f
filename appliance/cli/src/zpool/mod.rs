//! `weir zpool`: the verbs of zpool(8), a file each. What they print is OpenZFS's, to the letter.

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
pub mod list;
pub mod names;
pub mod plan;
pub mod pools;
pub mod remove;
#[cfg(test)]
mod samples;
pub mod scrub;
pub mod set;
pub mod split;
pub mod states;
pub mod status;
mod status_json;
pub mod sweep;
pub mod values;
mod vdev_properties;
pub mod wait;
pub mod writing;

use crate::context::{Context, Outcome, Verb, version};

type Run = fn(&mut Context<'_>, &[String]) -> Outcome;

const fn verb(name: &'static str, usage: &'static [&'static str], about: &'static str, run: Run) -> Verb {
    Verb { name, usage, about, run: Some(run) }
}

const fn not_yet(name: &'static str) -> Verb {
    Verb { name, usage: &[], about: "", run: None }
}

/// All verbs.
pub static VERBS: &[Verb] = &[
    verb("version", &["[-j]"], "Show versions", |cx, args| version(cx, "zpool", args)),
    verb(
        "create",
        &[
            "[-fnd] [-o property=value] ... [-O file-system-property=value] ... [-m mountpoint] [-R root] [-t tempname] pool vdev ...",
        ],
        "Make a pool",
        create::run,
    ),
    verb(
        "add",
        &["[-fgLnP] [-o ashift=n] [--allow-in-use --allow-replication-mismatch --allow-ashift-mismatch] pool vdev ..."],
        "Add devices to a pool",
        add::run,
    ),
    verb(
        "import",
        &[
            "[-d dir|device]... [-D]",
            "[-d dir|device]... [-afmNt] [-D] [-F [-nX]] [-T txg] [-o property=value]... [-R root] -a",
            "[-d dir|device]... [-fmNt] [-D] [-F [-nX]] [-T txg] [--rewind-to-checkpoint] [-o property=value]... [-R root] pool|id [newpool]",
        ],
        "Find pools, or import them",
        import::run,
    ),
    verb("export", &["[-af] pool ..."], "Let go of pools, so that others can import them", export::run),
    verb("destroy", &["[-f] pool"], "Destroy a pool", destroy::destroy),
    verb("set", &["property=value pool", "property=value pool vdev"], "Set a property of a pool or a device", set::run),
    verb("clear", &["pool [vdev]"], "Forget errors, and try again what could not be written", clear::run),
    verb(
        "attach",
        &["[-fsw] [-o ashift=n] pool device new-device"],
        "Make mirrors, or widen mirrors and raidz",
        attach::attach,
    ),
    verb(
        "replace",
        &["[-fsw] [-o ashift=n] pool device [new-device]"],
        "Let one device take the place of another",
        attach::replace,
    ),
    verb("detach", &["pool device"], "Let a device leave a mirror", attach::detach),
    verb(
        "remove",
        &["[-npw] pool device ...", "-s pool"],
        "Remove devices; what is on them is moved away first",
        remove::run,
    ),
    verb("offline", &["[-ft] pool device ..."], "Take devices away for a while", states::offline),
    verb("online", &["[-e] pool device ..."], "Bring devices back", states::online),
    verb("reopen", &["[-n] [pool ...]"], "Look again for devices that are away", states::reopen),
    verb("upgrade", &["", "-v", "[-V version] -a | pool ..."], "Enable features", set::upgrade),
    verb("sync", &["[pool] ..."], "Bring everything to disk", destroy::sync),
    verb("reguid", &["[-g guid] pool"], "Give a pool another identity", destroy::reguid),
    verb("labelclear", &["[-f] vdev"], "Remove a pool's labels from a device", destroy::labelclear),
    verb(
        "list",
        &["[-gHLpPv] [-o property,...] [-j [--json-int] [--json-pool-key-guid]] [pool] ..."],
        "Show space and health of pools",
        list::run,
    ),
    verb(
        "iostat",
        &["[-T d|u] [-ghHLlnpPqvy] [[-lq]|[-w]] [[pool ...]|[pool vdev ...]|[vdev ...]] [[-n] interval [count]]"],
        "Show what pools and devices read and write",
        iostat::run,
    ),
    verb(
        "status",
        &[
            "[-dDegiLpPstvx] [-T d|u] [-j [--json-flat-vdevs] [--json-int] [--json-pool-key-guid]] [pool] ... [interval [count]]",
        ],
        "Show how pools and their devices are",
        status::run,
    ),
    verb(
        "get",
        &[
            "[-Hp] [-o all|field,...] [-j [--json-int] [--json-pool-key-guid]] all|property,... [pool] ...",
            "[-Hp] [-o all|field,...] [-j [--json-int]] all|property,... pool root|all-vdevs|vdev ...",
        ],
        "Show properties of pools and devices",
        get::run,
    ),
    verb(
        "wait",
        &["[-Hp] [-T d|u] [-t activity[,activity]...] pool [interval]"],
        "Wait until a pool has done what it does by itself",
        wait::run,
    ),
    verb("history", &["[-il] [pool] ..."], "Show what was done to pools", history::run),
    verb(
        "plan",
        &[
            "[-j] [--enclosures file] [--for balance|space|speed] [--spares n] [--random n --stream megabytes] [--pool name] device ...",
        ],
        "Advise how to make a pool of devices, and what that offers",
        plan::run,
    ),
    verb("events", &["[-vHf] [pool]", "-c"], "Show what happened to pools, and follow it", events::run),
    verb("checkpoint", &["[-d [-w]] pool"], "Make a state of the pool to go back to, or let it go", checkpoint::run),
    not_yet("prefetch"),
    verb(
        "split",
        &["[-gLlnP] [-o property=value] ... [-R root] pool newpool [device ...]"],
        "Make a pool of a side of each mirror",
        split::run,
    ),
    verb(
        "initialize",
        &["[-c | -s | -u | -w] pool [device ...]"],
        "Write to all that is free on devices",
        sweep::initialize,
    ),
    verb("resilver", &["pool ..."], "Bring devices what they missed, from the start", scrub::resilver),
    verb("scrub", &["[-e | -s | -p | -C] [-w] pool ..."], "Read everything and repair what is wrong", scrub::run),
    verb("trim", &["[-dw] [-r rate] [-c | -s] pool [device ...]"], "Tell devices what is free", sweep::trim),
    not_yet("ddtprune"),
];
