//! Finds the snapshots and bookmarks of a stream: by name, and by guid for one that resumes.

use super::source::Source;
use crate::context::{Context, Failure};
use dataset::send::{Base, HEAD_SUFFIX};
use dataset::{Bookmark, Dataset, Datasets, Entry, ListOptions};
use errors::Error;
use ondisk::{Nvlist, nvlist};
use std::sync::Arc;

pub(super) fn base_of(entry: Entry) -> Base {
    match entry {
        Entry::Dataset(d) => Base::Snapshot(d),
        Entry::Bookmark(b) => Base::Bookmark(b),
    }
}

/// The bookmark that `--redact` names, of the dataset of snapshot `to`; `None`: there is none,
/// which is printed.
pub(super) fn redaction_bookmark(
    cx: &mut Context<'_>,
    source: &mut Source,
    to: &Dataset,
    name: &str,
) -> Result<Option<Bookmark>, Failure> {
    let failed = |why: &str| Failure::failed(format!("warning: cannot send '{}': {why}", to.name()));
    let short = name.split_once('#').map_or(name, |(_, short)| short);
    let Some((of, _)) = to.name().split_once('@') else {
        return Err(failed("cannot do a redacted send to a filesystem"));
    };
    match source.entry(cx, &format!("{of}#{short}"))?.map(|found| found.entry) {
        Some(Entry::Bookmark(mark)) if mark.is_redaction() => Ok(Some(mark)),
        Some(_) => Err(failed("not a redaction bookmark")),
        None => Ok(None),
    }
}

/// A list of numbers in a token.
pub(super) fn words<'l>(state: &'l Nvlist, name: &str) -> Option<&'l [u64]> {
    match state.get(name) {
        Some(nvlist::Value::Uint64Array(words)) => Some(words),
        _ => None,
    }
}

/// The complete redaction bookmark of the dataset of snapshot `name` with respect to these
/// snapshots; otherwise why there is none, in OpenZFS's words.
pub(super) fn bookmark_by_snaps(tree: &Arc<Datasets>, name: &str, guids: &[u64]) -> Result<Bookmark, String> {
    let of = name.split('@').next().unwrap_or(name);
    let read = |e: Error| e.to_string();
    let marks = tree.dataset(of).and_then(|head| head.bookmarks()).map_err(read)?;
    for mark in marks {
        if let Some(list) = mark.redaction_list().map_err(read)?.filter(|list| list.has_snaps(guids)) {
            return match list.is_complete() {
                true => Ok(mark),
                false => Err("incomplete redaction bookmark provided".to_owned()),
            };
        }
    }
    Err("no appropriate redaction bookmark exists".to_owned())
}

/// The base of a resumed stream. `redacted_by`: the snapshots with respect to which the base is
/// redacted; it is then a redaction bookmark.
pub(super) fn base_by_guid(
    tree: &Arc<Datasets>,
    near: &str,
    guid: u64,
    redacted_by: Option<&[u64]>,
) -> errors::Result<Option<Base>> {
    let Some(guids) = redacted_by else { return by_guid(tree, near, guid, true) };
    let mut found = Vec::new();
    for entry in with_guid(tree, guid, true)? {
        if let Entry::Bookmark(mark) = &entry
            && mark.redaction_list()?.is_some_and(|list| list.has_snaps(guids))
        {
            found.push(entry);
        }
    }
    Ok(nearest(near, found))
}

/// The snapshot, or bookmark, with that guid. Copies of a snapshot share its guid: of several, the
/// one nearest to the dataset of the snapshot `near`.
fn by_guid(tree: &Arc<Datasets>, near: &str, guid: u64, bookmarks: bool) -> errors::Result<Option<Base>> {
    Ok(nearest(near, with_guid(tree, guid, bookmarks)?))
}

/// The contents of a stream that is resumed: the snapshot with that guid, or the file system or
/// volume if `name` is that of one that was sent itself.
pub(super) fn contents(tree: &Arc<Datasets>, name: &str, guid: u64) -> errors::Result<Option<Dataset>> {
    let is_head = name.ends_with(HEAD_SUFFIX);
    let options = ListOptions { bookmarks: false, ..ListOptions::all() };
    let mut all = tree.list(&[], &options)?.entries;
    all.retain(|entry| matches!(entry, Entry::Dataset(d) if d.is_snapshot() != is_head && d.phys().guid == guid));
    Ok(match nearest(name, all) {
        Some(Base::Snapshot(dataset)) => Some(dataset),
        _ => None,
    })
}

/// All snapshots, and bookmarks, with that guid.
fn with_guid(tree: &Arc<Datasets>, guid: u64, bookmarks: bool) -> errors::Result<Vec<Entry>> {
    let options = ListOptions { bookmarks, ..ListOptions::all() };
    let mut all = tree.list(&[], &options)?.entries;
    all.retain(|entry| match entry {
        Entry::Dataset(d) => d.is_snapshot() && d.phys().guid == guid,
        Entry::Bookmark(b) => b.phys().guid == guid,
    });
    Ok(all)
}

fn nearest(near: &str, entries: Vec<Entry>) -> Option<Base> {
    entries.into_iter().min_by_key(|entry| distance(near, entry.name())).map(base_of)
}

/// The distance between a snapshot or bookmark and the dataset of the snapshot `near`: the steps up
/// to the common ancestor, then the steps down from it, then snapshots before bookmarks.
fn distance(near: &str, name: &str) -> (usize, usize, bool) {
    let of = |name: &str| name.split(['@', '#']).next().unwrap_or_default().split('/').map(str::to_owned).collect();
    let (near, there): (Vec<String>, Vec<String>) = (of(near), of(name));
    let shared = near.iter().zip(&there).take_while(|(a, b)| a == b).count();
    (near.len() - shared, there.len() - shared, name.contains('#'))
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn of_copies_the_nearest_one_is_gone_on_from() {
        let near = "p/a/b@2";
        let by_distance = ["p/a/b@1", "p/a/b#1", "p/a/b/c@1", "p/a@1", "p/a/copy@1", "p@1", "p/other/p/a/b@1"];
        assert!(by_distance.is_sorted_by_key(|name| distance(near, name)));
    }
}
