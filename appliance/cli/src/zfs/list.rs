//! `zfs list`: prints one line for each dataset, one column for each property.

use super::datasets::{Pools, TYPES, Types, Wanted as Which};
use super::info_json;
use super::values::{self, Wanted};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::json::{self, Object};
use crate::shared_options::{EXACT, JSON, JSON_INT, SCRIPTED};
use crate::table::{Column, list_header, list_line};
use crate::verb::{Call, Verb, for_anyone};
use admin::verbs::Found;
use dataset::name::listing_order;
use dataset::property::Property;
use serde_json::Value;

/// The row of `zfs list`.
pub static VERB: Verb = for_anyone("list", "Show datasets", run)
    .usage(&[
        "[-Hp] [-j [--json-int]] [-r|-d max] [-o property,...] [-s property]... [-S property]... [-t type,...] [dataset] ...",
    ])
    .options(&[
        JSON,
        SCRIPTED,
        value('S', "property", ArgKind::DatasetProperties, "Sort by this property, descending.").repeated(),
        value('d', "max", ArgKind::Text, "Show descendants down to this depth."),
        value('o', "property,...", ArgKind::DatasetProperties, "Show these properties, in this order."),
        EXACT,
        flag('r', "Show all descendants."),
        value('s', "property", ArgKind::DatasetProperties, "Sort by this property, ascending.").repeated(),
        value('t', "type,...", ArgKind::Words(TYPES), "Show datasets of these types."),
        JSON_INT,
    ])
    .operands(&[ArgKind::AnyDataset])
    .examples(&[
        ("zfs list -r tank", "Show a pool's file systems and volumes."),
        ("zfs list -t snapshot -o name,used -s creation tank/home", "Show the snapshots of a file system, the oldest first."),
    ]);

/// Parses the argument of `-d`.
pub fn depth(text: &str) -> Result<usize, Failure> {
    text.parse().map_err(|_| Failure::usage(format!("{text} is not an integer")))
}

/// `zfs list`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let json = parsed.has('j');
    let (as_int, scripted) = (parsed.has('I'), parsed.has('H'));
    let literal = parsed.has('p') || as_int;
    if as_int && !json {
        return Err(Failure::usage("'--json-int' only works with '-j' option"));
    }
    let fields = parsed.last('o').unwrap_or("name,used,available,referenced,mountpoint");
    let sort = values::sort_columns(&parsed.given)?;
    let given_types = parsed.last('t').map(Types::parse).transpose()?;
    let mut types = given_types.unwrap_or(Types::HEADS);
    let mut depth = match (parsed.last('d'), parsed.has('r')) {
        (Some(text), _) => Some(self::depth(text)?),
        (None, true) => None,
        (None, false) => Some(0),
    };
    if types.only_below() && depth == Some(0) && parsed.last('d').is_none() {
        depth = Some(1);
    }
    let is_recursive = parsed.has('d') || depth != Some(0);
    let mut wanted = values::wanted(fields)?;
    let mut pools = Pools::new(cx);
    let (names, unnamed) = pools.names(cx, &parsed.operands)?;
    // A snapshot that is named is shown, although snapshots are not by default.
    types.snapshots |= given_types.is_none() && names.iter().any(|n| n.contains('@'));
    types.bookmarks |= given_types.is_none() && names.iter().any(|n| n.contains('#'));
    let (mut found, code) = pools.list(cx, &names, Which { types, depth, is_recursive })?;
    let code = code | unnamed;
    let value = |f: &Found, column: &Wanted| -> Option<Property> {
        let mounted = |name: &str| pools.is_mounted(name);
        let options = |name: &str, property: &str| pools.mount_option(name, property);
        column.get(&f.entry, &f.pool.view_with(&mounted, &options)).ok().flatten()
    };
    if !sort.is_empty() {
        let mut keyed: Vec<(Vec<Option<Property>>, Found)> =
            found.into_iter().map(|f| (sort.iter().map(|s| value(&f, &s.column)).collect(), f)).collect();
        keyed.sort_by(|(ka, a), (kb, b)| {
            let by = |(i, column): (usize, &values::SortColumn)| {
                let (x, y) = (ka.get(i).and_then(Option::as_ref), kb.get(i).and_then(Option::as_ref));
                values::compare(x, y, column.reverse)
            };
            let first = sort.iter().enumerate().map(by).find(|o| o.is_ne());
            first.unwrap_or_else(|| {
                listing_order((a.entry.name(), a.entry.creation_txg()), (b.entry.name(), b.entry.creation_txg()))
            })
        });
        found = keyed.into_iter().map(|(_, f)| f).collect();
    }
    if found.is_empty() && !json {
        if code == 0 && !scripted {
            cx.complain("no datasets available");
        }
        return Ok(code);
    }
    let rows: Vec<(Found, Vec<Option<Property>>)> = found
        .into_iter()
        .map(|f| {
            let values: Vec<Option<Property>> = wanted.iter().map(|w| value(&f, w)).collect();
            (f, values)
        })
        .collect();
    for (_, values) in &rows {
        for (w, value) in wanted.iter_mut().zip(values) {
            w.fit(value.as_ref(), literal);
        }
    }
    if json {
        cx.print(&document(&rows, &wanted, literal, as_int));
        return Ok(code);
    }
    let columns: Vec<Column> =
        wanted.iter().map(|w| Column { heading: w.heading(), width: w.width, right: w.right() }).collect();
    if !scripted {
        cx.print(&list_header(&columns));
    }
    for (_, values) in &rows {
        let cell = |v: &Option<Property>| v.as_ref().map_or_else(|| "-".into(), |p| values::text(p, literal));
        let cells: Vec<String> = values.iter().map(cell).collect();
        cx.print(&list_line(&columns, &cells, scripted));
    }
    Ok(code)
}

fn document(rows: &[(Found, Vec<Option<Property>>)], wanted: &[Wanted], literal: bool, as_int: bool) -> String {
    let mut datasets = Object::new();
    for (found, values) in rows {
        let mut properties = Object::new();
        for (w, value) in wanted.iter().zip(values).filter(|(w, _)| w.name != "name") {
            let (text, (kind, data)) = match value {
                Some(p) => (values::text(p, literal), values::json_source(p)),
                None => ("-".into(), ("NONE", "-".into())),
            };
            properties.insert(w.name.clone(), json::property(&text, kind, &data, as_int));
        }
        let mut object = info_json::dataset(&found.entry, as_int);
        object.insert("properties".into(), Value::Object(properties));
        datasets.insert(found.entry.name().into(), Value::Object(object));
    }
    let mut document = json::document("zfs list");
    document.insert("datasets".into(), Value::Object(datasets));
    json::line(document)
}
