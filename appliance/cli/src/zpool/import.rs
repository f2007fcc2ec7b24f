//! `zpool import`: lists the pools that could be imported, and imports them: what
//! [`admin::verbs::zpool::import`] does, in OpenZFS's words.
//!
//! Two options ask for what happens anyway: all devices are searched (`-s`), as there is no cache
//! of known ones, and `-F` tries every uberblock (`-X`).

use super::vdev_words::import_aux_words;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, long_flag, value};
use crate::number::ctime;
use crate::verb::{Call, Verb, for_owner};
use admin::advice;
use admin::health::{self, Reason, state_name};
use admin::import::{self, Candidate, OpenRequest};
use admin::pool_properties::{self, When};
use admin::vdev_names::{NameOptions, vdev_name, width};
use admin::verbs::Invocation;
use admin::verbs::zpool::import::{Detail, ImportRefusal, ImportRequest, Rewound, find, plan, search};
use pool::mmp::Owner;
use pool::property::full_name;
use pool::status::{PoolStatus, VdevAux, VdevClass, VdevState, VdevStatus};
use pool::{FoundPool, PoolState};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The row of `zpool import`.
pub static VERB: Verb = for_owner("import", "Find pools, or import them", run)
    .usage(&[
        "[-d dir|device]... | -c cachefile [-Ds]",
        "[-d dir|device]... | -c cachefile [-aflmNst] [-D] [-F [-nX]] [-T txg] [-o property=value]... [-R root] -a",
        "[-d dir|device]... | -c cachefile [-flmNst] [-D] [-F [-nX]] [-T txg] [--rewind-to-checkpoint] [-o property=value]... [-R root] pool|id [newpool]",
    ])
    .options(&[
        flag('a', "Import all pools that are found."),
        value('c', "cachefile", ArgKind::File, "Consider the pools that this cache file lists."),
        value('d', "dir|device", ArgKind::File, "Search this directory, or look at this device.").repeated(),
        flag('D', "Find destroyed pools instead; with -f, import them."),
        flag('f', "Import pools that another system appears to use."),
        flag('F', "Go back to the last state that can be opened, and discard later changes."),
        flag('l', "Load the keys of encrypted datasets before mounting them."),
        flag('m', "Import a pool without its missing log device, whose changes are lost."),
        flag('n', "With -F, find out whether going back would work, and import nothing."),
        flag('N', "Mount no file systems."),
        value('o', "property=value", ArgKind::PoolAssignment, "Set a property of the pool, where some apply to this import only; or mount with these options, such as ro.").repeated(),
        value('R', "root", ArgKind::File, "Put this directory before all mount points (altroot), and set cachefile=none."),
        flag('s', "Search all devices, which Weir always does."),
        flag('t', "Use the new name for this import only, and do not store it."),
        value('T', "txg", ArgKind::Text, "Open the pool in the state of this transaction group."),
        flag('V', "Import the pool verbatim.").refused("unsupported: 'zpool import' with '-V'"),
        flag('X', "With -F, try every state that is still on disk, which Weir always does."),
        long_flag('K', "rewind-to-checkpoint", "Go back to the pool's checkpoint, and discard later changes."),
    ])
    .operands(&[ArgKind::Text])
    .history("zpool import")
    .examples(&[
        ("zpool import", "List the pools that could be imported."),
        ("zpool import -d /srv/images tank", "Import the pool tank from files in a directory."),
    ]);

/// `zpool import`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    check(parsed)?;
    let invocation = cx.invocation(call.history());
    let request = request(cx, parsed)?;
    if !parsed.operands.is_empty() {
        let found = find(&invocation, &request)?;
        return import_one(cx, &invocation, &request, parsed, found);
    }
    let found = search(&invocation, &request)?.found;
    if found.is_empty() {
        cx.complain("no pools available to import");
    }
    if !parsed.has('a') {
        list(cx, found, &request);
        return Ok(0);
    }
    let mut code = 0;
    for pool in found {
        if cx.client.is_gone() {
            return Ok(1);
        }
        code |= import_one(cx, &invocation, &request, parsed, pool)?;
    }
    Ok(code)
}

fn request(cx: &Context<'_>, parsed: &Parsed) -> Result<ImportRequest, Failure> {
    let option = |name: &str| {
        let pairs = parsed.all('o').filter_map(|option| option.split_once('='));
        pairs.filter(|(given, _)| full_name(given) == name).last().map(|(_, value)| value.to_owned())
    };
    let mut request = ImportRequest {
        pool: parsed.operands.first().cloned().unwrap_or_default(),
        new_name: parsed.operands.get(1).cloned(),
        places: places(cx, parsed)?,
        destroyed: parsed.has('D'),
        force: parsed.has('f'),
        without_log: parsed.has('m'),
        temporary_name: parsed.has('t'),
        no_mount: parsed.has('N'),
        mount_options: mount_options(parsed).map(str::to_owned),
        readonly: option("readonly").as_deref() == Some("on"),
        altroot: parsed.last('R').map(str::to_owned).or_else(|| option("altroot")),
        cachefile: option("cachefile"),
        txg: parsed.last('T').and_then(|t| t.parse().ok()),
        rewind: parsed.has('F'),
        checkpoint: parsed.has('K'),
        only: None,
    };
    if let Some(file) = parsed.last('c') {
        let file = cx.client.absolute(Path::new(file)).map_err(|e| Failure::failed(format!("{file}: {e}")))?;
        request.of_cache_file(&file)?;
    }
    Ok(request)
}

fn check(parsed: &Parsed) -> Result<(), Failure> {
    let usage = |message: &str| Err(Failure::usage(message));
    if parsed.has('l') && parsed.has('N') {
        return usage("-l is incompatible with -N");
    }
    if (parsed.has('n') || parsed.has('X')) && !parsed.has('F') {
        return usage("-n or -X only meaningful with -F");
    }
    if parsed.operands.len() > if parsed.has('a') { 0 } else { 2 } {
        return usage("too many arguments");
    }
    if parsed.has('c') && parsed.has('d') {
        return usage("-c is incompatible with -d");
    }
    if parsed.has('c') && parsed.has('s') {
        return usage("-c is incompatible with -s");
    }
    if parsed.last('T').is_some_and(|t| t.parse::<u64>().is_err()) {
        return usage(&format!("invalid txg value '{}'", parsed.last('T').unwrap_or_default()));
    }
    for option in parsed.all('o') {
        let Some((name, value)) = option.split_once('=') else { continue };
        let known = is_of_import(name);
        if !known && !pool_properties::is_known(name) {
            return Err(Failure::failed(format!("property '{name}' is not a valid pool or vdev property")));
        }
        if full_name(name) == "readonly" && !matches!(value, "on" | "off") {
            return Err(Failure::failed("cannot import: 'readonly' must be one of 'on | off'"));
        }
    }
    Ok(())
}

/// The `-o` that is no property: mount options. The last one counts.
fn mount_options(parsed: &Parsed) -> Option<&str> {
    parsed.all('o').filter(|option| !option.contains('=')).last()
}

/// Whether a property is in effect while the pool is imported, and not stored in it.
fn is_of_import(name: &str) -> bool {
    matches!(full_name(name), "readonly" | "altroot" | "cachefile")
}

/// The properties of `-o` that are stored in the pool, as `property=value`.
fn stored(parsed: &Parsed) -> impl Iterator<Item = (&str, &str)> {
    parsed.all('o').filter_map(|option| option.split_once('=')).filter(|(name, _)| !is_of_import(name))
}

/// Checks the values of properties that will be set on the pool, and of those of the import.
/// Facts: zpool_valid_proplist in lib/libzfs/libzfs_pool.c.
fn check_stored(parsed: &Parsed, pool: &str) -> Result<(), Failure> {
    let of_import = parsed.all('o').filter_map(|option| option.split_once('='));
    let of_import = of_import.filter(|(name, _)| matches!(full_name(name), "cachefile" | "altroot"));
    let root = parsed.last('R').map(|root| ("altroot", root));
    for (name, value) in stored(parsed).chain(of_import).chain(root) {
        let when = if matches!(full_name(name), "bootfs" | "altroot") { When::Create } else { When::Set };
        pool_properties::parse(name, value, when)
            .map_err(|reason| Failure::from(reason.refuse(&format!("cannot import pool '{pool}'"))))?;
    }
    Ok(())
}

/// Checks properties for the import of a pool that does not exist yet.
pub(super) fn check_properties(options: &[&str], pool: &str) -> Result<(), Failure> {
    let given = options.iter().map(|option| ('o', (*option).to_owned())).collect();
    let parsed = Parsed { given, ..Parsed::default() };
    check(&parsed)?;
    check_stored(&parsed, pool)
}

/// The folders and devices to search; none: the default.
fn places(cx: &Context<'_>, parsed: &Parsed) -> Result<Vec<PathBuf>, Failure> {
    let mut places: Vec<PathBuf> = parsed.all('d').map(PathBuf::from).collect();
    if places.is_empty()
        && let Some(path) = cx.client.variable("ZPOOL_IMPORT_PATH")
    {
        places = std::env::split_paths(&path).collect();
    }
    // Store absolute paths: later commands run in other directories.
    let whole = |p: PathBuf| cx.client.absolute(&p).map_err(|e| Failure::failed(format!("{}: {e}", p.display())));
    places.into_iter().map(whole).collect()
}

fn list(cx: &mut Context<'_>, found: Vec<FoundPool>, request: &ImportRequest) {
    for (i, pool) in found.into_iter().enumerate() {
        if i > 0 {
            cx.print("\n");
        }
        let open = OpenRequest {
            guid: pool.guid,
            places: request.places(),
            txg: request.txg,
            rewind: request.rewind || request.txg.is_some(),
            checkpoint: request.checkpoint,
            ..OpenRequest::default()
        };
        let candidate = import::examine_shared(pool, &open, &|| cx.client.is_gone());
        cx.print(&show(&candidate));
    }
}

fn import_one(
    cx: &mut Context<'_>,
    invocation: &Invocation<'_>,
    request: &ImportRequest,
    parsed: &Parsed,
    found: FoundPool,
) -> Outcome {
    let name = request.new_name.clone().unwrap_or_else(|| found.name().to_owned());
    check_stored(parsed, found.name())?;
    let plan = match plan(invocation, request, found) {
        Ok(plan) => plan,
        Err(refused) => {
            print_refusal(cx, &refused);
            return Ok(refused.refusal.code);
        }
    };
    if let Some(rewound) = plan.rewound {
        print_rewound(cx, &name, rewound, parsed.has('n'));
    }
    if parsed.has('n') {
        return Ok(0);
    }
    let client = cx.client;
    let ask: &admin::keys::Ask<'_> = &|question| client.key(question);
    let outcome = match plan.run(invocation, parsed.has('l').then_some(ask)) {
        Ok(outcome) => outcome,
        Err(refusal) => {
            cx.complain(&refusal.message);
            return Ok(refusal.code);
        }
    };
    let mut code = 0;
    if let Some(keys) = outcome.keys {
        code |= crate::zfs::keys::report(cx, keys, "loaded", false)?;
    }
    code |= cx.report(outcome.report);
    let assignments: Vec<String> = stored(parsed).map(|(name, value)| format!("{name}={value}")).collect();
    Ok(code | super::set::assign(cx, &name, &assignments))
}

/// Prints why a pool is not imported.
fn print_refusal(cx: &mut Context<'_>, refused: &ImportRefusal) {
    let mut message = refused.refusal.message.clone();
    match &refused.detail {
        None => {}
        Some(Detail::Lost) => cx.print("\tDestroy and re-create the pool from\n\ta backup source.\n"),
        Some(Detail::Features(error)) => {
            cx.print("This pool uses the following feature(s) not supported by this system:\n");
            cx.print(&format!("\t{error}\n"));
        }
        Some(Detail::Logs(logs)) => {
            let mut out =
                "The devices below are missing or corrupted, use '-m' to import the pool anyway:\n".to_owned();
            for log in logs {
                let names = NameOptions::default();
                let _ = writeln!(out, "\t    {} [log]", vdev_name(log, names));
                for leaf in &log.children {
                    let _ = writeln!(out, "\t      {}", leaf.path.clone().unwrap_or_else(|| vdev_name(leaf, names)));
                }
            }
            cx.print(&(out + "\n"));
        }
        // With the time in the zone of the caller.
        Some(Detail::LastHost { name, host, hostid, accessed }) => {
            message = format!(
                "cannot import '{name}': pool was previously in use from another system.\nLast accessed by {host} \
                 (hostid={hostid:x}) at {}\nThe pool can be imported, use 'zpool import -f' to import the pool.",
                ctime(*accessed)
            );
        }
    }
    cx.complain(&message);
}

/// Prints which transactions an older uberblock leaves out.
fn print_rewound(cx: &mut Context<'_>, name: &str, rewound: Rewound, dry_run: bool) {
    let Rewound { newest, shown } = rewound;
    let date = ctime(shown);
    let (mut text, verb) = match dry_run {
        true => (format!("Would be able to return {name} to its state as of {date}.\n"), "Would discard"),
        false => (format!("Pool {name} returned to its state as of {date}.\n"), "Discarded"),
    };
    match newest.saturating_sub(shown) {
        0 => {}
        loss @ 1..=120 => {
            let _ = writeln!(text, "{verb} approximately {loss} seconds of transactions.");
        }
        loss => {
            let _ = writeln!(text, "{verb} approximately {} minutes of transactions.", loss.saturating_add(30) / 60);
        }
    }
    cx.print(&text);
}

/// The description of a pool that could be imported.
pub fn show(candidate: &Candidate) -> String {
    let problem = candidate.problem.as_ref().map(ToString::to_string);
    let (name, needs_force) = (candidate.found.name(), import::needs_force(&candidate.found));
    let mut reason = reason(&candidate.status, needs_force);
    if candidate.problem.as_ref().and_then(|e| e.refusal()) == Some(errors::Refusal::NoHostId) {
        reason = Reason::HostidRequired;
    }
    let found = Found { name, label_state: candidate.label_state, owner: candidate.owner.as_ref() };
    describe(found, &candidate.status, reason, problem.as_deref())
}

/// The most important problem of a pool; `needs_force`: another system used it last.
fn reason(status: &PoolStatus, needs_force: bool) -> Reason {
    match health::reason(status, true) {
        Reason::Ok | Reason::VersionOlder | Reason::FeatDisabled if needs_force => Reason::HostidMismatch,
        reason => reason,
    }
}

/// A pool as its labels describe it.
struct Found<'a> {
    name: &'a str,
    label_state: PoolState,
    /// The other host that uses it.
    owner: Option<&'a Owner>,
}

fn describe(found: Found<'_>, status: &PoolStatus, reason: Reason, problem: Option<&str>) -> String {
    let Found { name, label_state, owner } = found;
    let indent = if status.comment.is_some() { " " } else { "" };
    let destroyed = if label_state == PoolState::Destroyed { " (DESTROYED)" } else { "" };
    let mut out = format!(
        "{indent}  pool: {}\n{indent}    id: {}\n{indent} state: {}{destroyed}\n",
        name,
        status.guid,
        health::pool_state(status)
    );
    if let Some(text) = advice::found(reason, indent) {
        let _ = write!(out, "{indent}status: {text}");
        if let (Reason::UnsupFeatRead, Some(problem)) = (reason, problem) {
            let _ = writeln!(out, "\t{indent}{problem}");
        }
    }
    let _ = write!(out, "{indent}action: {}", action(status.root.state, reason, owner, indent));
    if let Some(comment) = &status.comment {
        let _ = writeln!(out, "comment: {comment}");
    }
    if status.root.state == VdevState::CantOpen && status.root.aux == VdevAux::CorruptData {
        match label_state {
            PoolState::Destroyed => {
                let _ = writeln!(out, "\t{indent}The pool was destroyed, but can be imported using the '-Df' flags.");
            }
            PoolState::Exported => {}
            _ => {
                let _ = writeln!(
                    out,
                    "\t{indent}The pool may be active on another system, but can be imported using\n\t{indent}the '-f' \
                     flag."
                );
            }
        }
    }
    if let Some(id) = reason.message_id() {
        let _ = writeln!(out, "{indent}   see: https://openzfs.github.io/openzfs-docs/msg/{id}");
    }
    config(&mut out, name, status, indent);
    if reason == Reason::BadGuidSum {
        let _ = writeln!(
            out,
            "\n\t{indent}Additional devices are known to be part of this pool, though their\n\t{indent}exact \
             configuration cannot be determined."
        );
    }
    out
}

fn action(state: VdevState, reason: Reason, owner: Option<&Owner>, indent: &str) -> String {
    match (state, reason) {
        (VdevState::Healthy, Reason::VersionOlder | Reason::FeatDisabled) => format!(
            "The pool can be imported using its name or numeric identifier, though\n\t{indent}some features will not \
             be available without an explicit 'zpool upgrade'.\n"
        ),
        (VdevState::Healthy, Reason::HostidMismatch) => {
            format!("The pool can be imported using its name or numeric identifier and\n\t{indent}the '-f' flag.\n")
        }
        (VdevState::Healthy, _) => "The pool can be imported using its name or numeric identifier.\n".into(),
        (VdevState::Degraded, _) => format!(
            "The pool can be imported despite missing or damaged devices.  The\n\t{indent}fault tolerance of the pool \
             may be compromised if imported.\n"
        ),
        (_, Reason::VersionNewer) => format!(
            "The pool cannot be imported.  Access the pool on a system running newer\n\t{indent}software, or recreate \
             the pool from backup.\n"
        ),
        (_, Reason::UnsupFeatRead) => format!(
            "The pool cannot be imported. Access the pool on a system that supports\n\t{indent}the required \
             feature(s), or recreate the pool from backup.\n"
        ),
        (_, Reason::MissingDevR | Reason::MissingDevNr | Reason::BadGuidSum) => {
            format!("The pool cannot be imported. Attach the missing\n\t{indent}devices and try again.\n")
        }
        (_, Reason::HostidActive) => {
            let (host, hostid) = owner.map_or(("<unknown>", 0), |owner| (&owner.host, owner.hostid));
            format!(
                "The pool must be exported from {host} (hostid={hostid:x})\n\t{indent}before it can be safely imported.\n"
            )
        }
        (_, Reason::HostidRequired) => "Set a unique system hostid with the zgenhostid(8) command.\n".into(),
        (_, Reason::CorruptPool) => format!(
            "The pool cannot be imported due to missing or damaged devices.  Ensure\n\t{indent}all devices are present \
             and not in use by another subsystem.\n"
        ),
        _ => "The pool cannot be imported due to damaged devices or data.\n".into(),
    }
}

fn config(out: &mut String, name: &str, status: &PoolStatus, indent: &str) {
    let names = NameOptions::default();
    let others = status.caches.iter().chain(&status.spares).map(|v| width(v, 2, names)).max().unwrap_or(0);
    let name_width = width(&status.root, 0, names).max(others).max(name.len()).max(10);
    let _ = write!(out, "{indent}config:\n\n");
    device(out, &status.root, name, 0, name_width);
    for (list, heading) in [(&status.caches, "cache"), (&status.spares, "spares")] {
        for (i, vdev) in list.iter().enumerate() {
            if i == 0 {
                let _ = writeln!(out, "\t{heading}");
            }
            let _ = writeln!(out, "\t  {}", vdev_name(vdev, names));
        }
    }
    for (class, heading) in [(VdevClass::Dedup, "dedup"), (VdevClass::Special, "special"), (VdevClass::Log, "logs")] {
        for (i, vdev) in status.root.children.iter().filter(|c| c.class == class && c.kind != "hole").enumerate() {
            if i == 0 {
                let _ = writeln!(out, "\t{heading}\t");
            }
            device(out, vdev, &vdev_name(vdev, names), 2, name_width);
        }
    }
}

fn device(out: &mut String, vdev: &VdevStatus, name: &str, depth: usize, name_width: usize) {
    if matches!(vdev.kind.as_str(), "missing" | "hole") {
        return;
    }
    let rest = name_width.saturating_sub(depth);
    let _ = write!(out, "\t{:depth$}{name:rest$}  {}", "", state_name(vdev.state, vdev.aux));
    if let Some(words) = import_aux_words(vdev) {
        let _ = write!(out, "  {words}");
    }
    out.push('\n');
    for child in vdev.children.iter().filter(|c| c.class == vdev.class) {
        device(out, child, &vdev_name(child, NameOptions::default()), depth + 2, name_width);
    }
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
