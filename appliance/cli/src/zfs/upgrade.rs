//! `zfs upgrade`: what [`admin::verbs::zfs::upgrade`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::verb::{Call, Verb, for_owner};
use crate::zfs::datasets::Pools;
use admin::verbs::zfs::upgrade::{self, UpgradeRequest, Versioned};
use dataset::write::{FILE_SYSTEM_VERSION, parse_version};
use std::fmt::Write;

/// The row of `zfs upgrade`.
pub static VERB: Verb = for_owner("upgrade", "Raise the version of file systems", run)
    .usage(&["", "-v", "[-r] [-V version] <-a | filesystem ...>"])
    .options(&[
        flag('r', "Upgrade all descendants too."),
        flag('v', "List the versions."),
        value('V', "version", ArgKind::Text, "Upgrade to this version instead of the newest one."),
        flag('a', "Upgrade all file systems of all pools."),
    ])
    .operands(&[ArgKind::Dataset])
    .history("zfs upgrade")
    .examples(&[
        ("zfs upgrade", "List file systems of older versions."),
        ("zfs upgrade -r tank", "Upgrade all file systems of a pool."),
    ]);

/// What the versions of file systems added, from 1 on.
const VERSIONS: [&str; FILE_SYSTEM_VERSION as usize] = [
    "Initial ZFS filesystem version",
    "Enhanced directory entries",
    "Case insensitive and filesystem user identifier (FUID)",
    "userquota, groupquota properties",
    "System attributes",
];

/// `zfs upgrade`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let version = parsed.last('V').map(parse_version).transpose();
    let version =
        version.map_err(|_| Failure::usage(format!("invalid version {}", parsed.last('V').unwrap_or_default())))?;
    let (all, names) = (parsed.has('a'), &parsed.operands);
    let selects = all || !names.is_empty();
    if !selects && (parsed.has('r') || version.is_some())
        || parsed.has('v') && (selects || parsed.has('r') || version.is_some())
        || all && !names.is_empty()
    {
        return Err(Failure::usage(""));
    }
    if parsed.has('v') {
        cx.print(&table());
        return Ok(0);
    }
    if !selects {
        cx.print(&format!("This system is currently running ZFS filesystem version {FILE_SYSTEM_VERSION}.\n\n"));
        let listed = shown(&upgrade::outdated(&cx.invocation(String::new()))?);
        cx.print(&listed);
        return Ok(0);
    }
    let (names, code) = Pools::new(cx).names(cx, names)?;
    let version = version.unwrap_or(FILE_SYSTEM_VERSION);
    let request = UpgradeRequest { file_systems: names, recursive: parsed.has('r'), version };
    let outcome = upgrade::run(&cx.invocation(call.history()), &request)?;
    outcome.errors.iter().for_each(|line| cx.complain(line));
    let mut out: String = outcome.notes.iter().map(|note| format!("{note}\n")).collect();
    let _ = writeln!(out, "{} filesystems upgraded", outcome.upgraded);
    if outcome.unchanged > 0 {
        let _ = writeln!(out, "{} filesystems already at this version", outcome.unchanged);
    }
    cx.print(&out);
    Ok(code.max(u8::from(outcome.failed)))
}

fn table() -> String {
    let mut out = "The following filesystem versions are supported:\n\nVER  DESCRIPTION\n".to_owned();
    let _ = writeln!(out, "---  {}", "-".repeat(56));
    for (version, what) in (1..).zip(VERSIONS) {
        let _ = writeln!(out, " {version}   {what}");
    }
    out + "\nFor more information on a particular version, including supported releases,\nsee the ZFS \
           Administration Guide.\n\n"
}

/// The file systems with other versions than the newest one.
fn shown(outdated: &[Versioned]) -> String {
    let (older, newer): (Vec<_>, Vec<_>) = outdated.iter().partition(|one| one.version < FILE_SYSTEM_VERSION);
    if outdated.is_empty() {
        return "All filesystems are formatted with the current version.\n".to_owned();
    }
    let mut out = String::new();
    let heads = [
        "The following filesystems are out of date, and can be upgraded.  After being\nupgraded, these filesystems (and \
         any 'zfs send' streams generated from\nsubsequent snapshots) will no longer be accessible by older software \
         versions.\n\n",
        "The following filesystems are formatted using a newer software version and\ncannot be accessed on the current \
         system.\n\n",
    ];
    for (head, list) in heads.into_iter().zip([older, newer]) {
        if list.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{head}\nVER  FILESYSTEM\n---  ------------");
        for one in list {
            let _ = writeln!(out, "{:2}   {}", one.version, one.name);
        }
    }
    out
}
