//! `zfs destroy`: destroys file systems and volumes with their dependents, snapshots and ranges of
//! snapshots, and bookmarks.

use super::create::record;
use super::datasets::{Found, Pools, cannot_open};
use super::snapshot::{change_each, heads};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::number::nice_bytes;
use crate::state::Imported;
use crate::zpool::writing::{command_line, why};
use admin::write::WritablePool;
use daemon::Owner;
use daemon::mounts::Mounted;
use dataset::name::is_hidden;
use dataset::write::{self, Failures};
use dataset::{Dataset, DatasetKind, Error, Refusal};
use std::collections::{HashMap, HashSet};

const OPTIONS: Options = Options { short: "rRfnpvd", long: &[] };

/// `zfs destroy`.
pub fn destroy(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing dataset argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    match name.find(['@', '#']) {
        Some(at) if name[at..].starts_with('@') => snapshots(cx, args, &parsed, &name[..at], &name[at + 1..]),
        Some(_) => bookmark(cx, args, &parsed, &name),
        None => head(cx, args, &parsed, &name),
    }
}

fn is_recursive(parsed: &Parsed) -> bool {
    parsed.has('r') || parsed.has('R')
}

/// The text that `-v` and `-p` print before each name.
fn announcement(parsed: &Parsed) -> Option<&'static str> {
    match (parsed.has('p'), parsed.has('v'), parsed.has('n')) {
        (true, ..) => Some("destroy\t"),
        (_, false, _) => None,
        (_, _, true) => Some("would destroy "),
        _ => Some("will destroy "),
    }
}

/// Why a dataset or snapshot cannot be destroyed.
fn complaint(name: &str, error: &Error) -> String {
    if !name.contains('@') {
        return format!("cannot destroy '{name}': {}", why(error));
    }
    let why = match error {
        Error::Refused { why: Refusal::Exists, .. } => "snapshot is cloned".to_owned(),
        Error::Refused { why: Refusal::Busy, .. } => {
            format!("it's being held. Run 'zfs holds -r {name}' to see holders.")
        }
        error => why(error),
    };
    format!("cannot destroy snapshot {name}: {why}")
}

/// What must be destroyed before a dataset, in a possible order: its descendants, its snapshots,
/// and their clones.
///
/// A dataset may be a clone of a snapshot below itself: a clone created below its origin and then
/// promoted. Then neither can be destroyed first.
#[derive(Default)]
pub struct Dependents {
    /// The names, in the order of destruction.
    pub names: Vec<String>,
    /// A dataset that depends on itself.
    circle: Option<String>,
    seen: HashSet<u64>,
}

/// Work left to do. Chains of clones have no length limit, so an explicit stack replaces recursion.
enum Visit {
    /// Visit the dependents of the file system or volume.
    Head(Dataset),
    /// Visit the dependents of the snapshot.
    Snapshot(Dataset),
    /// All dependents were visited.
    Done(Dataset),
}

impl Dependents {
    /// Adds the dependents of `head`.
    fn of_head(&mut self, head: &Dataset) -> Result<(), Error> {
        self.visit(Visit::Head(head.clone()))
    }

    /// Adds the clones of `snapshot` and their dependents.
    pub fn of_snapshot(&mut self, snapshot: &Dataset) -> Result<(), Error> {
        self.visit(Visit::Snapshot(snapshot.clone()))
    }

    fn visit(&mut self, first: Visit) -> Result<(), Error> {
        // The path from the first dataset to the one being visited.
        let mut way = HashSet::new();
        let mut left = vec![first];
        while let Some(visit) = left.pop() {
            let mut next = Vec::new();
            match visit {
                Visit::Head(head) if way.contains(&head.id()) => {
                    self.circle.get_or_insert_with(|| head.name().to_owned());
                }
                Visit::Head(head) if self.seen.contains(&head.id()) => {}
                Visit::Head(head) => {
                    way.insert(head.id());
                    let tree = head.tree();
                    for child in tree.children(head.dir())? {
                        self.add(&way, tree.head(&child)?, &mut next);
                    }
                    for snapshot in head.snapshots()? {
                        if !snapshot.snapshot_name().is_some_and(is_hidden) {
                            next.extend([Visit::Snapshot(snapshot.clone()), Visit::Done(snapshot)]);
                        }
                    }
                }
                Visit::Snapshot(snapshot) => {
                    for clone in snapshot.clones()? {
                        self.add(&way, clone, &mut next);
                    }
                }
                Visit::Done(dataset) => {
                    way.remove(&dataset.id());
                    self.push(&dataset);
                }
            }
            left.extend(next.into_iter().rev());
        }
        Ok(())
    }

    /// Pushes a child or a clone, unless it was visited already.
    fn add(&self, way: &HashSet<u64>, head: Dataset, next: &mut Vec<Visit>) {
        if way.contains(&head.id()) {
            next.push(Visit::Head(head));
        } else if !self.seen.contains(&head.id()) {
            next.extend([Visit::Head(head.clone()), Visit::Done(head)]);
        }
    }

    /// Adds `dataset` as the next one to destroy.
    pub fn push(&mut self, dataset: &Dataset) {
        if self.seen.insert(dataset.id()) {
            self.names.push(dataset.name().to_owned());
        }
    }

    /// Fails, as OpenZFS does, if a dataset depends on itself: no order of destruction exists.
    pub fn check_order(&self) -> Result<(), Failure> {
        match &self.circle {
            None => Ok(()),
            Some(name) => {
                let what = format!("cannot determine dependent datasets: recursive dependency at '{name}'");
                Err(Failure::failed(what))
            }
        }
    }
}

fn opened(cx: &mut Context<'_>, name: &str) -> Result<Option<(Found, Dataset)>, Failure> {
    let Some(found) = Pools::new(cx).entry(cx, name)? else { return Ok(None) };
    let Some(dataset) = found.entry.dataset().cloned() else { return Ok(None) };
    Ok(Some((found, dataset)))
}

fn head(cx: &mut Context<'_>, args: &[String], parsed: &Parsed, name: &str) -> Outcome {
    let cannot = format!("cannot destroy '{name}'");
    let Some((found, dataset)) = opened(cx, name)? else { return Ok(1) };
    if parsed.has('d') {
        return Err(Failure::failed(format!(
            "cannot open '{name}': operation not applicable to datasets of this type"
        )));
    }
    let recursive = is_recursive(parsed);
    let is_root = !name.contains('/');
    if is_root && !recursive {
        return Err(Failure::failed(format!(
            "{cannot}: operation does not apply to pools\nuse 'zfs destroy -r {name}' to destroy all datasets in the \
             pool\nuse 'zpool destroy {name}' to destroy the pool itself"
        )));
    }
    let mut dependents = Dependents::default();
    dependents.of_head(&dataset).map_err(|e| Failure::failed(format!("{cannot}: {}", why(&e))))?;
    let order = dependents.check_order();
    let mut all = dependents.names;
    let is_below = |n: &str| n.strip_prefix(name).is_some_and(|rest| rest.starts_with(['/', '@']));
    let (reported, what, option): (Vec<&str>, _, _) = match (recursive, parsed.has('R')) {
        (_, true) => (Vec::new(), "", ""),
        (true, _) => (all.iter().map(String::as_str).filter(|n| !is_below(n)).collect(), "dependent clones", "-R"),
        _ => (all.iter().map(String::as_str).filter(|n| is_below(n)).collect(), "children", "-r"),
    };
    if !reported.is_empty() {
        let kind = if found.entry.kind().ok() == Some(DatasetKind::Volume) { "volume" } else { "filesystem" };
        return Err(Failure::failed(format!(
            "{cannot}: {kind} has {what}\nuse '{option}' to destroy the following datasets:\n{}",
            reported.join("\n")
        )));
    }
    order?;
    if !is_root {
        all.push(name.to_owned());
    }
    drop((found, dataset));
    if let Some(verb) = announcement(parsed) {
        cx.print(&all.iter().map(|n| format!("{verb}{n}\n")).collect::<String>());
    }
    if parsed.has('n') {
        return Ok(0);
    }
    let record = record(cx, "destroy", name)?;
    destroy_all(cx, &command_line("zfs destroy", args), &record, &all, parsed.has('f'))
}

/// Unmounts datasets and destroys them and the snapshots, in this order.
pub fn destroy_all(cx: &mut Context<'_>, command: &str, record: &Imported, all: &[String], force: bool) -> Outcome {
    let owner = crate::mounts::owner(cx, record.guid);
    let heads: Vec<&String> = all.iter().filter(|n| !n.contains('@')).collect();
    let (mut mounted, mut unmounted, mut directories) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(owner) = &owner {
        let pool = owner.house.opened(record.guid);
        let is_removed = |m: &&Mounted| {
            !m.by_hand && pool.as_ref().is_some_and(|pool| daemon::rules::is_placed_by_others(pool, &m.dataset))
        };
        for name in &heads {
            let below = owner.mounts.below(record.guid, name);
            directories.extend(below.iter().filter(is_removed).map(|m| m.place.clone()));
            mounted.extend(below);
            let gone = crate::mounts::unmount_below(owner, record, name, force);
            unmounted.extend(gone.map_err(|why| mount_again(owner, record, &unmounted, why))?);
        }
    }
    let client = cx.client;
    let destroyed = change_each(cx, record, "cannot destroy snapshots", command, &complaint, |pool| {
        for part in all.chunk_by(|a, b| a.contains('@') && b.contains('@')) {
            if client.is_gone() {
                return Err(vec![(part[0].clone(), Error::invalid("", "cancelled"))]);
            }
            if part[0].contains('@') {
                destroy_snapshots(pool, part, false)?;
            } else {
                destroy_head(pool, &part[0]).map_err(|e| vec![(part[0].clone(), e)])?;
            }
        }
        Ok(())
    });
    if !matches!(destroyed, Ok(0)) {
        if let Some(owner) = &owner {
            mount_again(owner, record, &unmounted, String::new());
        }
        return destroyed;
    }
    if let Some(owner) = crate::mounts::owner(cx, record.guid)
        && let Ok(pool) = owner.house.import(record)
    {
        owner.mounts.forget(&pool, &mounted);
    }
    // Children first. One that is not empty stays, as with OpenZFS.
    directories.sort_unstable();
    for directory in directories.iter().rev() {
        let _ = std::fs::remove_dir(directory);
    }
    for name in heads {
        super::keys::forget_below(&cx.state, record, name);
    }
    Ok(0)
}

fn destroy_head(pool: &WritablePool, name: &str) -> Result<(), Error> {
    let closed = pool.close_dataset(name);
    closed.map_err(|e| e.downcast::<Error>().unwrap_or_else(|e| Error::invalid(name, format!("{e:#}"))))?;
    write::destroy(&pool.live, name)
}

/// Destroys snapshots. Snapshots of volumes may be exported over the network, so each is first
/// checked for being in use.
fn destroy_snapshots(pool: &WritablePool, names: &[String], deferred: bool) -> Result<(), Failures> {
    for name in names.iter().filter(|_| !deferred) {
        match pool.check_unused(name) {
            Err(Error::NotFound { .. }) | Ok(()) => {}
            Err(error) => return Err(vec![(name.clone(), error)]),
        }
    }
    write::destroy_snapshots(&pool.live, names, deferred)
}

/// Mounts the datasets again that were unmounted for a destroy that failed.
fn mount_again(owner: &Owner, record: &Imported, unmounted: &[String], why: String) -> Failure {
    if let Ok(pool) = owner.house.import(record) {
        owner.mounts.mount_again(&pool, unmounted);
    }
    Failure::failed(why)
}

/// The snapshots of `head` that a list of names and ranges (`a,b%c,%d`) selects, the oldest first
/// within a range.
fn in_spec(head: &Dataset, spec: &str) -> Result<Vec<Dataset>, Error> {
    let all: Vec<Dataset> =
        head.snapshots()?.into_iter().filter(|s| !s.snapshot_name().is_some_and(is_hidden)).collect();
    let at = |short: &str| all.iter().position(|s| s.snapshot_name() == Some(short));
    let mut found: Vec<Dataset> = Vec::new();
    for part in spec.split(',') {
        let range = match part.split_once('%') {
            None => at(part).map(|at| at..at + 1),
            Some((first, last)) => {
                let first = if first.is_empty() { Some(0) } else { at(first) };
                let last = if last.is_empty() { all.len().checked_sub(1) } else { at(last) };
                first.zip(last).filter(|(first, last)| first <= last).map(|(first, last)| first..last + 1)
            }
        };
        for snapshot in range.map(|range| &all[range]).unwrap_or_default() {
            if found.iter().all(|f| f.id() != snapshot.id()) {
                found.push(snapshot.clone());
            }
        }
    }
    Ok(found)
}

/// The bytes that destroying these snapshots of `head` frees. Each run of adjacent snapshots is
/// counted as one.
fn reclaimed(head: &Dataset, gone: &[Dataset]) -> Result<u64, Error> {
    let gone: HashMap<u64, &Dataset> = gone.iter().map(|d| (d.id(), d)).collect();
    let all = head.snapshots()?;
    let runs = all.chunk_by(|a, b| gone.contains_key(&a.id()) == gone.contains_key(&b.id()));
    let runs = runs.filter(|run| gone.contains_key(&run[0].id()));
    runs.map(|run| run[0].would_free_up_to(&run[run.len() - 1])).sum()
}

fn snapshots(cx: &mut Context<'_>, args: &[String], parsed: &Parsed, of: &str, spec: &str) -> Outcome {
    let Some((found, _)) = opened(cx, of)? else { return Ok(1) };
    let broken = |e: Error| Failure::failed(cannot_open(of, &e));
    let (mut names, mut clones, mut bytes) = (Vec::new(), Dependents::default(), 0u64);
    for head in heads(&found.pool.datasets, of, is_recursive(parsed))? {
        let meant = in_spec(&head, spec).map_err(broken)?;
        for snapshot in &meant {
            let before = clones.names.len();
            clones.of_snapshot(snapshot).map_err(broken)?;
            if !parsed.has('R') && !parsed.has('d') && clones.names.len() > before {
                return Err(Failure::failed(format!(
                    "cannot destroy '{}': snapshot has dependent clones\nuse '-R' to destroy the following \
                     datasets:\n{}",
                    snapshot.name(),
                    clones.names[before..].join("\n")
                )));
            }
        }
        if let Some(verb) = announcement(parsed) {
            let mut sorted: Vec<&Dataset> = meant.iter().collect();
            sorted.sort_by_key(|s| s.phys().creation_txg);
            cx.print(&sorted.iter().map(|s| format!("{verb}{}\n", s.name())).collect::<String>());
            bytes += reclaimed(&head, &meant).map_err(broken)?;
        }
        names.extend(meant.iter().map(|s| s.name().to_owned()));
    }
    if parsed.has('R') {
        clones.check_order()?;
    }
    drop(found);
    if names.is_empty() {
        return Err(Failure::failed("could not find any snapshots to destroy; check snapshot names."));
    }
    if announcement(parsed).is_some() {
        cx.print(&match (parsed.has('p'), parsed.has('n')) {
            (true, _) => format!("reclaim\t{bytes}\n"),
            (_, true) => format!("would reclaim {}\n", nice_bytes(bytes)),
            _ => format!("will reclaim {}\n", nice_bytes(bytes)),
        });
    }
    if parsed.has('n') {
        return Ok(0);
    }
    let record = record(cx, "destroy", of)?;
    if parsed.has('R') && !clones.names.is_empty() {
        let code = destroy_all(cx, &command_line("zfs destroy", args), &record, &clones.names, parsed.has('f'))?;
        if code != 0 {
            return Ok(code);
        }
        // The list may include snapshots of clones.
        names.retain(|name| !clones.names.contains(name));
    }
    let command = command_line("zfs destroy", args);
    change_each(cx, &record, "cannot destroy snapshots", &command, &complaint, |pool| {
        destroy_snapshots(pool, &names, parsed.has('d'))
    })
}

fn bookmark(cx: &mut Context<'_>, args: &[String], parsed: &Parsed, name: &str) -> Outcome {
    for (option, what) in [('n', "dryrun"), ('d', "defer destroy"), ('r', "recursive"), ('R', "recursive")] {
        if parsed.has(option) {
            cx.complain(&format!("{what} is not supported with bookmark"));
            return Ok(255);
        }
    }
    let pool = name.split(['/', '#']).next().unwrap_or(name);
    let is_there = Pools::new(cx).pool(cx, pool)?.is_some_and(|pool| pool.datasets.entry(name).is_ok());
    if !is_there {
        return Err(Failure::failed(format!("bookmark '{name}' does not exist.")));
    }
    let record = record(cx, "destroy", name)?;
    let each = |_: &str, error: &Error| format!("cannot destroy bookmark: {}", why(error));
    let command = command_line("zfs destroy", args);
    change_each(cx, &record, "cannot destroy bookmark", &command, &each, |pool| -> Result<(), Failures> {
        write::destroy_bookmark(&pool.live, name).map_err(|e| vec![(name.to_owned(), e)])
    })
}
