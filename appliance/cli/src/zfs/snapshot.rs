//! `zfs snapshot`, `zfs hold`, `zfs release`, `zfs bookmark`, and `zfs rename` of snapshots.

use super::create::{properties, record};
use super::datasets::Pools;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::state::Imported;
use crate::zpool::writing::{change, command_line, why};
use admin::verbs::pool_of;
use admin::write::WritablePool;
use anyhow::anyhow;
use dataset::write::{self, Failures};
use dataset::{Datasets, Entry, Error, ListOptions, Refusal};
use std::sync::Arc;

const SNAPSHOT: Options = Options { short: "ro:", long: &[] };
const HOLD: Options = Options { short: "rt", long: &[] };
const RELEASE: Options = Options { short: "r", long: &[] };
const BOOKMARK: Options = Options { short: "r", long: &[] };

/// OpenZFS's message for two snapshots that cannot be taken in one command.
const TWICE: &str = "multiple snapshots of same fs not allowed";

/// Changes a pool by an operation that may fail for each name separately. Prints such errors as
/// `each` formats them, and errors that concern no single name with the prefix `whole`. Returns
/// exit code 1 in both cases.
pub fn change_each(
    cx: &mut Context<'_>,
    record: &Imported,
    whole: &str,
    command: &str,
    each: &dyn Fn(&str, &Error) -> String,
    run: impl FnOnce(&WritablePool) -> Result<(), Failures>,
) -> Outcome {
    let mut failures = Failures::new();
    let changed = change(cx, record, whole, command, |pool| {
        run(pool).map_err(|all| {
            failures = all;
            anyhow!("not all can be")
        })
    });
    if changed.is_err() && !failures.is_empty() {
        for (name, error) in &failures {
            let line = if name.is_empty() { format!("{whole}: {}", why(error)) } else { each(name, error) };
            cx.complain(&line);
        }
        return Ok(1);
    }
    changed.map(|()| 0)
}

/// The file systems and volumes at `root`; with `recursive`, also those below it.
pub fn heads(tree: &Arc<Datasets>, root: &str, recursive: bool) -> Result<Vec<dataset::Dataset>, Failure> {
    let options = ListOptions { depth: if recursive { None } else { Some(0) }, ..ListOptions::heads() };
    let listing = tree.list(&[root], &options);
    let listing = listing.map_err(|e| Failure::failed(super::datasets::cannot_open(root, &e)))?;
    Ok(listing.entries.iter().filter_map(|e| e.dataset().cloned()).collect())
}

/// `zfs snapshot`.
pub fn snapshot(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = SNAPSHOT.parse(args).map_err(Failure::usage)?;
    let properties = properties(&parsed)?;
    if parsed.operands.is_empty() {
        return Err(Failure::usage("missing snapshot argument"));
    }
    let (mut names, mut pools) = (Vec::new(), Pools::new(cx));
    for operand in &parsed.operands {
        let Some((of, short)) = operand.split_once('@') else { return Err(Failure::usage("")) };
        let Some(found) = pools.entry(cx, of)? else { return Err(Failure::usage("")) };
        for head in heads(&found.pool.datasets, of, parsed.has('r'))? {
            let name = format!("{}@{short}", head.name());
            if !head.phys().has(ondisk::DslDataset::FLAG_INCONSISTENT) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let Some(first) = names.first() else { return Ok(1) };
    let pool = pool_of(first).to_owned();
    let whole = "cannot create snapshots ";
    let code = if names.iter().any(|name| pool_of(name) != pool) {
        cx.complain(&format!("{whole}: {TWICE}"));
        1
    } else {
        let record = record(cx, "create snapshots in", &pool)?;
        let each = |name: &str, error: &Error| format!("cannot create snapshot '{name}': {}", why(error));
        let command = command_line("zfs snapshot", args);
        change_each(cx, &record, whole, &command, &each, |pool| {
            write::snapshot(&pool.live, &names, &properties).map_err(|mut all| {
                for (name, error) in &mut all {
                    if name.is_empty() && matches!(error, Error::Refused { why: Refusal::CrossDevice, .. }) {
                        *error = Error::invalid("", TWICE);
                    }
                }
                all
            })
        })?
    };
    if code != 0 && (parsed.has('r') || parsed.operands.len() > 1) {
        cx.complain("no snapshots were created");
    }
    Ok(code)
}

/// `zfs rename` of snapshots.
pub fn rename(cx: &mut Context<'_>, args: &[String], from: &str, to: &str, recursive: bool) -> Outcome {
    let Some((of, _)) = from.split_once('@') else { return Err(Failure::usage("")) };
    // The new name may omit the dataset, and the '@' with it.
    let to = match to.split_once('@') {
        None => format!("{of}@{to}"),
        Some(("", short)) => format!("{of}@{short}"),
        Some((other, _)) if other != of => {
            return Err(Failure::failed(format!("cannot rename to '{to}': snapshots must be part of same dataset")));
        }
        Some(_) => to.to_owned(),
    };
    if from == to {
        return Ok(0);
    }
    let record = record(cx, "rename", from)?;
    let each = |name: &str, error: &Error| {
        let why = match error {
            Error::Refused { why: Refusal::Exists, .. } if recursive => {
                "a child dataset already has a snapshot with the new name".to_owned()
            }
            error => why(error),
        };
        format!("cannot rename '{name}': {why}")
    };
    change_each(cx, &record, "cannot rename", &command_line("zfs rename", args), &each, |pool| {
        write::rename_snapshot(&pool.live, from, &to, recursive)
    })
}

/// The existing snapshots that an operand of `zfs hold` or `zfs release` selects.
fn snapshots_of(
    cx: &mut Context<'_>,
    pools: &mut Pools,
    operand: &str,
    recursive: bool,
) -> Result<Option<Vec<dataset::Dataset>>, Failure> {
    let Some((of, short)) = operand.split_once('@') else {
        cx.complain(&format!("'{operand}' is not a snapshot"));
        return Ok(None);
    };
    let Some(found) = pools.entry(cx, of)? else { return Ok(None) };
    let heads = heads(&found.pool.datasets, of, recursive)?;
    Ok(Some(heads.iter().filter_map(|head| head.snapshot(short).ok()).collect()))
}

fn hold_or_release(cx: &mut Context<'_>, args: &[String], is_hold: bool) -> Outcome {
    let options = if is_hold { HOLD } else { RELEASE };
    let parsed = options.parse(args).map_err(Failure::usage)?;
    let [tag, operands @ ..] = parsed.operands.as_slice() else { return Err(Failure::usage("")) };
    if operands.is_empty() {
        return Err(Failure::usage(""));
    }
    if is_hold && tag.starts_with('.') {
        return Err(Failure::usage("tag may not start with '.'"));
    }
    let (verb, whole, what) = match is_hold {
        true => ("zfs hold", "cannot hold", "cannot hold snapshot"),
        false => ("zfs release", "cannot release", "cannot release hold from snapshot"),
    };
    let each = |name: &str, error: &Error| {
        let why = match error {
            Error::Refused { why: Refusal::Exists, .. } => "tag already exists on this dataset".to_owned(),
            Error::Refused { why: Refusal::NameTooLong, .. } => "tag too long".to_owned(),
            Error::NotFound { what, .. } if what == "the tag" => "no such tag on this dataset".to_owned(),
            error => why(error),
        };
        format!("{what} '{name}': {why}")
    };
    let mut code = 0;
    for operand in operands {
        let mut pools = Pools::new(cx);
        let Some(found) = snapshots_of(cx, &mut pools, operand, parsed.has('r'))? else {
            code = 1;
            continue;
        };
        let held = |d: &dataset::Dataset| d.holds().is_ok_and(|all| all.iter().any(|hold| hold.tag == *tag));
        let names: Vec<String> = found.iter().filter(|d| is_hold || held(d)).map(|d| d.name().to_owned()).collect();
        drop(pools);
        if names.is_empty() {
            let why = if found.is_empty() { "dataset does not exist" } else { "no such tag on this dataset" };
            cx.complain(&format!("{what} '{operand}': {why}"));
            code = 1;
            continue;
        }
        drop(found);
        let record = record(cx, "hold", operand)?;
        code |= change_each(cx, &record, whole, &command_line(verb, args), &each, |pool| match is_hold {
            true => write::hold(&pool.live, &names, tag),
            false => write::release(&pool.live, &names, tag),
        })?;
    }
    Ok(code)
}

/// `zfs hold`.
pub fn hold(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    hold_or_release(cx, args, true)
}

/// `zfs release`.
pub fn release(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    hold_or_release(cx, args, false)
}

/// `zfs bookmark`.
pub fn bookmark(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = BOOKMARK.parse(args).map_err(Failure::usage)?;
    let (source, name) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing source argument")),
        [_] => return Err(Failure::usage("missing bookmark argument")),
        [source, name, ..] => (source.clone(), name.clone()),
    };
    let Some(source_at) = source.find(['@', '#']) else {
        return Err(Failure::usage(format!("invalid source name '{source}': must contain a '@' or '#'")));
    };
    let Some(name_at) = name.find('#') else {
        return Err(Failure::usage(format!("invalid bookmark name '{name}': must contain a '#'")));
    };
    // One of the two may omit the dataset.
    let (source, name) = match (source_at, name_at) {
        (0, 0) => return Err(Failure::usage("either source or bookmark must be specified as full dataset paths")),
        (0, _) => (format!("{}{source}", &name[..name_at]), name),
        (_, 0) => (source.clone(), format!("{}{name}", &source[..source_at])),
        _ => (source, name),
    };
    if parsed.has('r') && source.contains('#') {
        return Err(Failure::usage("recursive bookmarks (-r) can only be created from a snapshot source"));
    }
    let mut pools = Pools::new(cx);
    let Some(found) = pools.entry(cx, &source)? else { return Err(Failure::usage("")) };
    let mut pairs = Vec::new();
    match (&found.entry, parsed.has('r')) {
        (Entry::Dataset(snapshot), true) => {
            let (short, of) = (snapshot.snapshot_name().unwrap_or_default(), snapshot.dir().name());
            let mark = &name[name.find('#').unwrap_or(0)..];
            for head in heads(&found.pool.datasets, of, true)? {
                if head.snapshot(short).is_ok() {
                    pairs.push((format!("{}@{short}", head.name()), format!("{}{mark}", head.name())));
                }
            }
        }
        _ => pairs.push((source.clone(), name.clone())),
    }
    let record = found.pool.record.clone();
    drop((found, pools));
    if pool_of(&source) != pool_of(&name) {
        return Err(Failure::failed(format!("cannot create bookmark '{name}': bookmark is in a different pool")));
    }
    let each = |name: &str, error: &Error| {
        let why = match error {
            Error::Refused { why: Refusal::Exists, .. } => "bookmark exists".to_owned(),
            Error::Unsupported { .. } => "bookmark feature not enabled".to_owned(),
            error => why(error),
        };
        format!("cannot create bookmark '{name}': {why}")
    };
    change_each(cx, &record, "cannot create bookmark", &command_line("zfs bookmark", args), &each, |pool| {
        write::bookmark(&pool.live, &pairs)
    })
}
