//! `zpool import`: lists the pools that could be imported, and imports them: it marks them as in
//! use by this host and stores them in the list of imported pools.
//!
//! A pool with features that Weir cannot write is imported read-only, with the reason. Nothing is
//! written to such a pool, nor to one imported with `-o readonly=on` or at an older txg (`-T`,
//! `-F`).

use super::names::{NameOptions, vdev_name, width};
use super::pools::request;
use super::status::import_aux_words;
use super::writing::{command_line, is_in_use, reason as reason_of};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::number::ctime;
use crate::state::Imported;
use admin::advice;
use admin::health::{self, Reason, state_name};
use admin::import::{self, Candidate, LabelState, OpenRequest};
use admin::status::{PoolStatus, VdevAux, VdevClass, VdevState, VdevStatus};
use pool::FoundPool;
use pool::property::full_name;
use std::fmt::Write;
use std::path::PathBuf;

const OPTIONS: Options = Options { short: "aCc:d:DEfFlmnNo:R:stT:VX", long: &[("rewind-to-checkpoint", false, 'K')] };

/// The error of a rewind to a checkpoint that does not exist.
const NO_CHECKPOINT: &str = "checkpoint does not exist";
/// Where devices are searched for by default.
const DEFAULT_PLACES: &[&str] = &["/dev"];

/// `zpool import`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    check(&parsed)?;
    let command = command_line("zpool import", args);
    let places = places(cx, &parsed)?;
    let destroyed = parsed.has('D');
    let imported = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
    let wanted_state = |p: &FoundPool| (p.state() == LabelState::Destroyed) == destroyed;
    let mut found: Vec<FoundPool> = import::search(&places);
    let any = !found.is_empty();
    found.retain(|p| imported.iter().all(|i| i.guid != p.guid));
    let Some(wanted) = parsed.operands.first() else {
        found.retain(wanted_state);
        return if parsed.has('a') {
            import_all(cx, found, &parsed, &places, &command)
        } else {
            list(cx, found, &parsed, &places)
        };
    };
    let guid = wanted.parse::<u64>().ok();
    let exists = imported.iter().any(|p| p.name == *wanted || Some(p.guid) == guid);
    let new_name = parsed.operands.get(1);
    if exists && any && new_name.is_none_or(|n| n == wanted) {
        cx.complain(&format!("cannot import '{wanted}': a pool with that name already exists"));
        cx.complain("use the form 'zpool import <pool | id> <newpool>' to give it a new name");
        return Ok(1);
    }
    let mut matching: Vec<FoundPool> =
        found.into_iter().filter(|p| p.name() == wanted || Some(p.guid) == guid).filter(wanted_state).collect();
    if matching.len() > 1 {
        cx.complain(&format!("cannot import '{wanted}': more than one matching pool"));
        cx.complain("import by numeric ID instead");
        return Ok(1);
    }
    let Some(pool) = matching.pop() else {
        cx.complain(&format!("cannot import '{wanted}': no such pool available"));
        return Ok(1);
    };
    import_one(cx, pool, new_name.cloned(), &parsed, &places, &command)
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
    for (letter, name) in [('c', "-c"), ('V', "-V")] {
        if parsed.has(letter) {
            return Err(Failure::failed(format!("unsupported: 'zpool import' with '{name}'")));
        }
    }
    if parsed.last('T').is_some_and(|t| t.parse::<u64>().is_err()) {
        return usage(&format!("invalid txg value '{}'", parsed.last('T').unwrap_or_default()));
    }
    for option in parsed.all('o') {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let known = matches!(full_name(name), "readonly" | "altroot" | "cachefile");
        if option.contains('=') && !known && admin::property::find(name).is_none() && !name.starts_with("feature@") {
            return Err(Failure::failed(format!("property '{name}' is not a valid pool or vdev property")));
        }
        if full_name(name) == "readonly" && !matches!(value, "on" | "off") {
            return Err(Failure::failed("cannot import: 'readonly' must be one of 'on | off'"));
        }
    }
    Ok(())
}

fn places(cx: &Context<'_>, parsed: &Parsed) -> Result<Vec<PathBuf>, Failure> {
    let mut places: Vec<PathBuf> = parsed.all('d').map(PathBuf::from).collect();
    if places.is_empty()
        && let Some(path) = cx.client.variable("ZPOOL_IMPORT_PATH")
    {
        places = std::env::split_paths(&path).collect();
    }
    if places.is_empty() {
        places = DEFAULT_PLACES.iter().map(PathBuf::from).collect();
    }
    // Store absolute paths: later commands run in other directories.
    let whole = |p: PathBuf| cx.client.absolute(&p).map_err(|e| Failure::failed(format!("{}: {e}", p.display())));
    places.into_iter().map(whole).collect()
}

fn open_request(parsed: &Parsed, places: &[PathBuf], guid: u64) -> OpenRequest {
    OpenRequest {
        guid,
        places: places.to_vec(),
        txg: parsed.last('T').and_then(|t| t.parse().ok()),
        rewind: parsed.has('F') || parsed.has('T'),
        checkpoint: parsed.has('K'),
        name: None,
        temporary_name: false,
        offline: Vec::new(),
    }
}

fn list(cx: &mut Context<'_>, found: Vec<FoundPool>, parsed: &Parsed, places: &[PathBuf]) -> Outcome {
    if found.is_empty() {
        cx.complain("no pools available to import");
        return Ok(0);
    }
    for (i, pool) in found.into_iter().enumerate() {
        if i > 0 {
            cx.print("\n");
        }
        let request = open_request(parsed, places, pool.guid);
        let candidate = import::examine(pool, &request);
        cx.print(&show(&candidate));
    }
    Ok(0)
}

fn import_all(
    cx: &mut Context<'_>,
    found: Vec<FoundPool>,
    parsed: &Parsed,
    places: &[PathBuf],
    command: &str,
) -> Outcome {
    if found.is_empty() {
        cx.complain("no pools available to import");
    }
    let mut code = 0;
    for pool in found {
        if cx.client.is_gone() {
            return Ok(1);
        }
        code |= import_one(cx, pool, None, parsed, places, command)?;
    }
    Ok(code)
}

fn import_one(
    cx: &mut Context<'_>,
    found: FoundPool,
    new_name: Option<String>,
    parsed: &Parsed,
    places: &[PathBuf],
    command: &str,
) -> Outcome {
    let own_name = found.name().to_owned();
    let name = new_name.unwrap_or_else(|| own_name.clone());
    let imported = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
    if imported.iter().any(|p| p.name == name) {
        cx.complain(&format!("cannot import '{own_name}': a pool with that name already exists"));
        cx.complain("use the form 'zpool import <pool | id> <newpool>' to give it a new name");
        return Ok(1);
    }
    if import::needs_force(&found) && !parsed.has('f') {
        let (hostid, host) = import::last_host(&found);
        let when = pool::uberblocks(&found).first().map_or(0, |u| u.timestamp);
        cx.complain(&format!(
            "cannot import '{own_name}': pool was previously in use from another system.\nLast accessed by {host} \
             (hostid={hostid:x}) at {}\nThe pool can be imported, use 'zpool import -f' to import the pool.",
            ctime(when)
        ));
        return Ok(1);
    }
    let option = |name: &str| {
        let pairs = parsed.all('o').filter_map(|option| option.split_once('='));
        pairs.filter(|(given, _)| full_name(given) == name).last().map(|(_, value)| value.to_owned())
    };
    let altroot = parsed.last('R').map(str::to_owned).or_else(|| option("altroot"));
    let mut record = Imported {
        name: name.clone(),
        guid: found.guid,
        load_guid: load_guid(),
        places: places.to_vec(),
        readonly: option("readonly").as_deref() == Some("on"),
        cachefile: option("cachefile").or_else(|| (altroot.is_some() || parsed.has('t')).then(|| "none".to_owned())),
        altroot,
        txg: parsed.last('T').and_then(|t| t.parse().ok()),
        rewind: parsed.has('F') || parsed.has('T'),
        checkpoint: parsed.has('K'),
        temporary_name: parsed.has('t'),
        offline: Vec::new(),
        no_mount: parsed.has('N'),
    };
    let status = opened_status(&found, &record);
    if let Some(code) = not_whole(cx, &own_name, status.as_ref(), parsed.has('m')) {
        return Ok(code);
    }
    let lacks_log = status.as_ref().is_some_and(|status| !missing_logs(status).is_empty());
    let newest = pool::uberblocks(&found).first().map(|u| (u.txg, u.timestamp));
    let opened = match import::open_found(&found, &request(&record)) {
        Ok(opened) => opened,
        Err(error) => {
            refuse(cx, &own_name, found, &error, &record);
            return Ok(1);
        }
    };
    let shown = (opened.uberblock().txg, opened.uberblock().timestamp);
    if let Some(newest) = newest.filter(|n| parsed.has('F') && n.0 > shown.0) {
        rewound(cx, &name, newest.1, shown.1, parsed.has('n'));
    }
    if parsed.has('n') {
        return Ok(0);
    }
    // Writing after an older txg would discard the newer ones, so such an import is read-only.
    record.readonly |= record.txg.is_some() || newest.is_some_and(|n| n.0 > shown.0);
    if !record.readonly && !take_over(cx, &found, &mut record, (command, lacks_log))? {
        return Ok(1);
    }
    cx.state.change(|pools| pools.push(record.clone())).map_err(|e| Failure::failed(format!("{e:#}")))?;
    let mut code = 0;
    if parsed.has('l') {
        code = crate::zfs::keys::load(cx, &["-r".to_owned(), name])?;
    }
    if !record.no_mount
        && let Ok(Some(pool)) = super::pools::owned(cx, &record)
    {
        code |= crate::mounts::mount_all(cx, &pool);
    }
    Ok(code)
}

/// Claims the pool for this host. If the pool cannot be written, imports it read-only and reports
/// the reason. `lacks_log`: discards the logs on missing log devices (`-m`).
fn take_over(
    cx: &mut Context<'_>,
    found: &FoundPool,
    record: &mut Imported,
    (command, lacks_log): (&str, bool),
) -> Result<bool, Failure> {
    let taken = admin::write::open_found(found, &request(record)).and_then(|pool| {
        pool.log_command(command)?;
        if lacks_log {
            admin::clear::discard_unread_logs(&pool)?;
        }
        match &cx.owner {
            Some(owner) if owner.house.owns(record.guid) => {
                owner.house.adopt(Imported { checkpoint: false, ..record.clone() }, pool);
                Ok(())
            }
            _ => pool.close(),
        }
    });
    match taken {
        Ok(()) => {
            // The rewind to the checkpoint is permanent now.
            record.checkpoint = false;
            Ok(true)
        }
        Err(error) if is_in_use(&error) || record.checkpoint => {
            cx.complain(&format!("cannot import '{}': {}", found.name(), reason_of(&error)));
            Ok(false)
        }
        Err(error) => {
            cx.complain(&format!("weir: '{}' is imported read-only: {}", record.name, reason_of(&error)));
            record.readonly = true;
            Ok(true)
        }
    }
}

/// The status of a pool that can be opened; `None` otherwise: [`refuse`] handles that.
fn opened_status(found: &FoundPool, record: &Imported) -> Option<PoolStatus> {
    let candidate = import::examine(found.clone(), &request(record));
    candidate.problem.is_none().then_some(candidate.status)
}

/// Refuses a pool with a missing top-level device, as OpenZFS does, although the rest of it can be
/// read.
fn not_whole(cx: &mut Context<'_>, name: &str, status: Option<&PoolStatus>, without_log: bool) -> Option<u8> {
    let status = status?;
    if status.root.state == VdevState::CantOpen {
        cx.print("\tDestroy and re-create the pool from\n\ta backup source.\n");
        cx.complain(&format!("cannot import '{name}': no such pool or dataset"));
        cx.complain("weir: intact data can still be read without an import: weir ls -d DIR POOL/DATASET");
        return Some(1);
    }
    let away = missing_logs(status);
    if away.is_empty() || without_log {
        return None;
    }
    let mut out = "The devices below are missing or corrupted, use '-m' to import the pool anyway:\n".to_owned();
    for log in away {
        let names = NameOptions::default();
        let _ = writeln!(out, "\t    {} [log]", vdev_name(log, names));
        for leaf in &log.children {
            let _ = writeln!(out, "\t      {}", leaf.path.clone().unwrap_or_else(|| vdev_name(leaf, names)));
        }
    }
    cx.print(&(out + "\n"));
    cx.complain(&format!("cannot import '{name}': one or more devices is currently unavailable"));
    Some(1)
}

/// Log devices that are missing.
fn missing_logs(status: &PoolStatus) -> Vec<&VdevStatus> {
    let logs = status.root.children.iter().filter(|v| v.class == VdevClass::Log && v.kind != "hole");
    logs.filter(|v| v.state < VdevState::Degraded).collect()
}

/// Tells of the transactions that an older uberblock leaves out.
fn rewound(cx: &mut Context<'_>, name: &str, newest: u64, shown: u64, dry_run: bool) {
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

/// Prints why a pool cannot be imported: OpenZFS's words first, then the specific error.
fn refuse(cx: &mut Context<'_>, name: &str, found: FoundPool, error: &anyhow::Error, record: &Imported) {
    if record.checkpoint && reason_of(error) == NO_CHECKPOINT {
        cx.complain(&format!("cannot import '{name}': {NO_CHECKPOINT}"));
        return;
    }
    let candidate = import::examine(found, &request(record));
    let message = match (candidate.status.root.aux, candidate.status.root.state) {
        (VdevAux::VersionNewer, _) => {
            format!("cannot import '{name}': pool is formatted using an unsupported ZFS version")
        }
        (VdevAux::UnsupFeat, _) => {
            cx.print("This pool uses the following feature(s) not supported by this system:\n");
            cx.print(&format!("\t{error:#}\n"));
            format!("cannot import '{name}': unsupported version or feature")
        }
        (VdevAux::NoReplicas | VdevAux::BadGuidSum, VdevState::CantOpen) => {
            cx.print("\tDestroy and re-create the pool from\n\ta backup source.\n");
            format!("cannot import '{name}': no such pool or dataset")
        }
        _ => {
            cx.print("\tDestroy and re-create the pool from\n\ta backup source.\n");
            format!("cannot import '{name}': I/O error")
        }
    };
    cx.complain(&message);
    if candidate.status.root.aux != VdevAux::UnsupFeat {
        cx.complain(&format!("weir: {error:#}"));
    }
}

/// The identity of one import: a random number that no other import shares.
pub fn load_guid() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// The description of a pool that could be imported.
pub fn show(candidate: &Candidate) -> String {
    let problem = candidate.problem.as_ref().map(ToString::to_string);
    let (name, needs_force) = (candidate.found.name(), import::needs_force(&candidate.found));
    describe(name, &candidate.status, candidate.label_state, needs_force, problem.as_deref())
}

fn describe(
    name: &str,
    status: &PoolStatus,
    label_state: LabelState,
    needs_force: bool,
    problem: Option<&str>,
) -> String {
    let mut reason = health::reason(status, true);
    if needs_force && matches!(reason, Reason::Ok | Reason::VersionOlder | Reason::FeatDisabled) {
        reason = Reason::HostidMismatch;
    }
    let indent = if status.comment.is_some() { " " } else { "" };
    let destroyed = if label_state == LabelState::Destroyed { " (DESTROYED)" } else { "" };
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
    let _ = write!(out, "{indent}action: {}", action(status.root.state, reason, indent));
    if let Some(comment) = &status.comment {
        let _ = writeln!(out, "comment: {comment}");
    }
    if status.root.state == VdevState::CantOpen && status.root.aux == VdevAux::CorruptData {
        match label_state {
            LabelState::Destroyed => {
                let _ = writeln!(out, "\t{indent}The pool was destroyed, but can be imported using the '-Df' flags.");
            }
            LabelState::Exported => {}
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

fn action(state: VdevState, reason: Reason, indent: &str) -> String {
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
