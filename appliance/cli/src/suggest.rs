//! "Did you mean": what a mistyped name of a verb, property, pool or dataset stands for.
//!
//! The suggestion is a line after OpenZFS's message, which stays as it is. A verb that failed did
//! not say which of its arguments it did not find: so all that its row calls a pool, a dataset or a
//! property are looked up again.

use crate::context::Context;
use crate::getopt::{ArgKind, Parsed, Wrong};
use crate::verb::Verb;
use crate::zfs::datasets::Pools;
use admin::verbs::{ReadPool, pool_of};
use dataset::ListOptions;
use std::sync::Arc;

/// The known word that is most like `given`; `None`: none differs by a typing mistake only.
///
/// A third of the letters may differ, but at most two. Words that differ only in digits are
/// different on purpose.
pub fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = given.chars().count();
    let limit = (length / 3).min(2);
    let near = known.into_iter().filter(|word| word.chars().count().abs_diff(length) <= limit);
    let near = near.filter(|word| *word != given && without_digits(word) != without_digits(given));
    let rated = near.map(|word| (distance(given, word), word)).filter(|(distance, _)| *distance <= limit);
    rated.min().map(|(_, word)| word)
}

fn without_digits(word: &str) -> String {
    word.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// How many letters must be inserted, removed, replaced or swapped with the next one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// The line about a word, if one is most like it.
pub fn line<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(given, known).map(|word| format!("did you mean '{word}'?"))
}

/// The line about an unknown option.
pub fn of_option(verb: &Verb, wrong: &Wrong) -> Option<String> {
    let Wrong::Unknown(option) = wrong else { return None };
    if option == "h" {
        return Some("did you mean '--help'?".to_owned());
    }
    let given = option.strip_prefix("--")?;
    let known = verb.options.iter().filter_map(|option| option.long).chain(["help"]);
    closest(given, known).map(|long| format!("did you mean '--{long}'?"))
}

/// The lines about the arguments of a verb that failed.
pub fn of_call(cx: &mut Context<'_>, verb: &Verb, parsed: &Parsed) -> Vec<String> {
    let mut words: Vec<(ArgKind, &str)> = Vec::new();
    for (key, given) in &parsed.given {
        let option = verb.options.iter().find(|option| option.key == *key);
        words.extend(option.and_then(|option| option.argument).map(|argument| (argument.kind, given.as_str())));
    }
    for (i, given) in parsed.operands.iter().enumerate() {
        let kind = verb.operands.get(i).or(verb.operands.last()).copied();
        words.extend(kind.map(|kind| (kind, given.as_str())));
    }
    let mut found: Vec<String> = Vec::new();
    for (kind, given) in words {
        for meant in meant(cx, kind, given) {
            let line = format!("did you mean '{meant}'?");
            if !found.contains(&line) {
                found.push(line);
            }
        }
    }
    found
}

/// The known word that is most like one that does not exist.
fn unless<'a>(exists: bool, given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if exists { None } else { closest(given, known).map(str::to_owned) }
}

/// What an argument that does not exist may stand for.
fn meant(cx: &mut Context<'_>, kind: ArgKind, given: &str) -> Vec<String> {
    let of_dataset = |name: &str| {
        let known = dataset::property::CATALOGUE.iter().map(|def| def.name);
        unless(dataset::property::find(name).is_some(), name, known)
    };
    let of_pool = |name: &str| {
        let exists = pool::property::find(name).is_some() || admin::vdev_properties::find(name).is_some();
        unless(exists, name, pool::property::CATALOGUE.iter().map(|def| def.name))
    };
    let assigned = given.split_once('=').map(|(name, _)| name);
    match kind {
        ArgKind::DatasetProperties | ArgKind::AllDatasetProperties => given.split(',').filter_map(of_dataset).collect(),
        ArgKind::PoolProperties | ArgKind::AllPoolProperties => given.split(',').filter_map(of_pool).collect(),
        ArgKind::DatasetAssignment => assigned.and_then(of_dataset).into_iter().collect(),
        ArgKind::PoolAssignment => assigned.and_then(of_pool).into_iter().collect(),
        ArgKind::Pool => {
            let names = pool_names_of(cx);
            let is_pool = names.iter().any(|name| name == given);
            unless(is_pool, given, names.iter().map(String::as_str)).into_iter().collect()
        }
        ArgKind::Dataset | ArgKind::Snapshot | ArgKind::AnyDataset => dataset_like(cx, given).into_iter().collect(),
        ArgKind::Text | ArgKind::File | ArgKind::NewDataset | ArgKind::Words(_) => Vec::new(),
    }
}

fn pool_names_of(cx: &Context<'_>) -> Vec<String> {
    cx.state.pools().unwrap_or_default().into_iter().map(|record| record.name).collect()
}

/// The dataset that is most like the name of one that does not exist. Each part of the name is
/// looked up among what is there, so that no more than one level of the tree is listed at a time.
fn dataset_like(cx: &mut Context<'_>, given: &str) -> Option<String> {
    let (path, rest) = given.find(['@', '#']).map_or((given, ""), |at| given.split_at(at));
    let pools = pool_names_of(cx);
    let first = pool_of(path);
    let root =
        if pools.iter().any(|name| name == first) { first } else { closest(first, pools.iter().map(String::as_str))? };
    let pool = Pools::new(cx).pool(cx, root).ok()??;
    let mut name = root.to_owned();
    for part in path.split('/').skip(1) {
        let below = children(&pool, &name, '/')?;
        let found = if below.iter().any(|child| child == part) {
            part
        } else {
            closest(part, below.iter().map(String::as_str))?
        };
        name = format!("{name}/{found}");
    }
    let separator = rest.chars().next();
    let snapshot = &rest[separator.map_or(0, char::len_utf8)..];
    match separator {
        Some(separator) if !snapshot.contains(['%', ',']) => {
            let there = children(&pool, &name, separator)?;
            let is_there = there.iter().any(|one| one == snapshot);
            let near = closest(snapshot, there.iter().map(String::as_str)).filter(|_| !is_there);
            // A name that is like no other may be new; then only the dataset was mistyped.
            let found = near.unwrap_or(snapshot);
            name = format!("{name}{separator}{found}");
        }
        _ => name.push_str(rest),
    }
    (name != given).then_some(name)
}

/// The names of what is directly below a dataset: of its children, snapshots or bookmarks.
fn children(pool: &Arc<ReadPool>, name: &str, separator: char) -> Option<Vec<String>> {
    let options = ListOptions {
        filesystems: separator == '/',
        volumes: separator == '/',
        snapshots: separator == '@',
        bookmarks: separator == '#',
        depth: Some(1),
        hidden: false,
    };
    let listing = pool.datasets.list(&[name], &options).ok()?;
    let below = |entry: &dataset::Entry| {
        let rest = entry.name().strip_prefix(name)?.strip_prefix(separator)?;
        (!rest.contains(['/', '@', '#'])).then(|| rest.to_owned())
    };
    Some(listing.entries.iter().filter_map(below).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_is_recognised() {
        let known = ["create", "destroy", "list", "get", "set", "tank", "compression"];
        for (given, meant) in [
            ("crate", Some("create")),
            ("detsroy", Some("destroy")),
            ("lst", Some("list")),
            ("gte", Some("get")),
            ("tnak", Some("tank")),
            ("compresion", Some("compression")),
            ("x", None),
            ("nosuch", None),
            ("create", None),
            ("", None),
        ] {
            assert_eq!(closest(given, known), meant, "{given}");
        }
    }

    #[test]
    fn numbered_names_differ_on_purpose() {
        assert_eq!(closest("disk-2", ["disk-1", "disk-3"]), None);
        assert_eq!(closest("tank2", ["tank"]), None);
        assert_eq!(closest("dsik-1", ["disk-1", "disk-3"]), Some("disk-1"));
    }

    #[test]
    fn swapped_letters_are_one_mistake() {
        for (a, b, expected) in
            [("abc", "acb", 1), ("abc", "abd", 1), ("abc", "ab", 1), ("", "ab", 2), ("ca", "abc", 3)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
