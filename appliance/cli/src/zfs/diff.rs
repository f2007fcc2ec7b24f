//! `zfs diff`: the changes between two snapshots, or since one.

use super::datasets::{self, Pools};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag};
use crate::verb::{Call, Verb, for_delegates};
use admin::verbs::Kind;
use dataset::{Dataset, Entry, KeyStore, property};
use files::diff::DiffFormat;
use files::{FileSystem, zpl};
use std::sync::Arc;

/// The row of `zfs diff`.
pub static VERB: Verb = for_delegates("diff", "Show what changed since a snapshot", run)
    .usage(&["[-FHth] snapshot [snapshot|filesystem]"])
    .options(&[
        flag('F', "Show the type of each file."),
        flag('H', "For scripts: one tab between fields, and no arrows."),
        flag('t', "Show the time of each change."),
        flag('h', "Print names as they are, without escaping characters."),
    ])
    .operands(&[ArgKind::Snapshot, ArgKind::AnyDataset])
    .examples(&[("zfs diff tank/home@monday tank/home", "Show the files that changed since a snapshot.")]);

/// OpenZFS's message for callers to whom nothing is delegated.
const DENIED: &str = "Unable to obtain diffs: \n   The sys_config privilege or diff delegated permission is needed\n   to \
                      execute the diff ioctl";

pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let format = DiffFormat {
        classify: parsed.has('F'),
        scripted: parsed.has('H'),
        timestamps: parsed.has('t'),
        raw_paths: parsed.has('h'),
    };
    let (from, to) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("must provide at least one snapshot name")),
        [from] => (from.clone(), None),
        [from, to] => (from.clone(), Some(to.clone())),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let Some((file_system, _)) = from.split_once('@') else {
        return Err(Failure::failed(format!("Unable to obtain diffs: \n   Badly formed snapshot name {from}")));
    };
    let to = match to {
        None => file_system.to_owned(),
        Some(short) if short.starts_with('@') => format!("{file_system}{short}"),
        Some(to) => to,
    };
    if !to.contains('@') {
        // OpenZFS takes a temporary snapshot.
        datasets::sync(cx, &to).map_err(|why| Failure::failed(format!("Unable to obtain diffs: {why}")))?;
    }
    let mut pools = Pools::new(cx);
    let (Some(a), Some(b)) = (pools.entry(cx, &from)?, pools.entry(cx, &to)?) else { return Ok(1) };
    let (Entry::Dataset(from), Entry::Dataset(to)) = (&a.entry, &b.entry) else {
        return Err(Failure::failed("Unable to obtain diffs: bookmarks have no contents"));
    };
    for (found, name) in [(&a, from.name()), (&b, to.name())] {
        let invocation = cx.invocation(String::new());
        let permitted = invocation.permit(&found.pool.record, |caller, tree| caller.require(tree, name, &["diff"]));
        permitted.map_err(|reason| match reason.kind {
            Kind::Forbidden => Failure::failed(DENIED),
            _ => reason.refuse("Unable to obtain diffs").into(),
        })?;
    }
    let failed = |e: errors::Error| Failure::failed(format!("Unable to obtain diffs: {e}"));
    let from_files = open(from, &a.pool.keys).map_err(failed)?;
    let to_files = open(to, &b.pool.keys).map_err(failed)?;
    let head = to.tree().head(to.dir()).map_err(failed)?;
    let view = dataset::View { altroot: b.pool.record.altroot.as_deref(), ..dataset::View::default() };
    let mountpoint = property::get(&Entry::Dataset(head), "mountpoint", &view).ok().flatten();
    let mountpoint = mountpoint.map_or_else(String::new, |p| p.value.raw);
    // The paths of a file system that is not mounted begin with its name.
    let mountpoint = match mountpoint.as_str() {
        "none" | "legacy" | "" => format!("/{}", to.dir().name()),
        "/" => String::new(),
        path => path.to_owned(),
    };
    let mut code = 0;
    let Context { out, err, .. } = cx;
    let result = files::diff::diff((from, &from_files), (to, &to_files), &mut |change| match change {
        Ok(change) => {
            let mut line = change.line(&mountpoint, &format);
            line.push(b'\n');
            let _ = out.write_all(&line);
        }
        Err(error) => {
            let _ = writeln!(err, "weir: {error}");
            code = 1;
        }
    });
    result.map_err(failed)?;
    Ok(code)
}

fn open(dataset: &Dataset, keys: &KeyStore) -> errors::Result<Arc<FileSystem>> {
    let options = zpl::Options { name: dataset.name().to_owned(), ..zpl::Options::default() };
    FileSystem::open(dataset.objset(keys)?, options)
}
