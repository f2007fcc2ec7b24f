//! `zfs get`: prints one line for each property of a dataset.

use super::datasets::{Pools, TYPES, Types, Wanted as Which};
use super::info_json;
use super::values::{self, Wanted};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::json::{self, Object};
use crate::shared_options::{EXACT, JSON, JSON_INT, SCRIPTED};
use crate::table::{Field, GetLine, GetTable};
use crate::verb::{Call, Verb, for_anyone};
use dataset::property::{self, Property, PropertyValue, Source};
use serde_json::Value;

/// The row of `zfs get`.
pub static VERB: Verb = for_anyone("get", "Show properties of datasets", run)
    .usage(&[
        "[-rHp] [-j [--json-int]] [-d max] [-o all|field,...] [-t type,...] [-s source,...] all|property,... [dataset] ...",
    ])
    .options(&[
        JSON,
        value('d', "max", ArgKind::Text, "Show descendants down to this depth."),
        value(
            'o',
            "field,...",
            ArgKind::Words(&["all", "name", "property", "value", "received", "source"]),
            "Print these fields, in this order.",
        ),
        value('s', "source,...", ArgKind::Words(&SOURCES), "Show only values that come from these sources."),
        flag('r', "Show all descendants."),
        value('t', "type,...", ArgKind::Words(TYPES), "Show datasets of these types."),
        SCRIPTED,
        EXACT,
        JSON_INT,
    ])
    .operands(&[ArgKind::AllDatasetProperties, ArgKind::AnyDataset])
    .examples(&[
        ("zfs get -r -s local all tank", "Show all properties that were set in a pool."),
        ("zfs get -Hp -o value used tank/home", "Print the used bytes of a file system for a script."),
    ]);

/// The words of `-s`.
const SOURCES: [&str; 6] = ["local", "default", "inherited", "received", "temporary", "none"];

fn fields(list: &str) -> Result<Vec<Field>, Failure> {
    let all = [Field::Name, Field::Property, Field::Value, Field::Received, Field::Source];
    let names = ["name", "property", "value", "received", "source", "all"];
    let mut found = Vec::new();
    for name in list.split(',') {
        match names.iter().position(|n| *n == name) {
            Some(5) if found.is_empty() => found.extend(all),
            Some(5) => return Err(Failure::usage("\"all\" conflicts with specific fields given to -o option")),
            Some(i) if found.len() < 5 => found.push(all[i]),
            Some(_) => return Err(Failure::usage("too many fields given to -o option")),
            None => return Err(Failure::usage(format!("invalid column name '{name}'"))),
        }
    }
    Ok(found)
}

/// Parses the argument of `-s`, e.g. `local,inherited`.
fn sources(list: &str) -> Result<Vec<&'static str>, Failure> {
    let one = |name: &str| {
        SOURCES.iter().find(|n| **n == name).copied().ok_or_else(|| Failure::usage(format!("invalid source '{name}'")))
    };
    list.split(',').map(one).collect()
}

fn source_word(source: &Source) -> &'static str {
    match source {
        Source::None => "none",
        Source::Default => "default",
        Source::Temporary => "temporary",
        Source::Local => "local",
        Source::Inherited(_) => "inherited",
        Source::Received => "received",
    }
}

/// `zfs get`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (json, as_int) = (parsed.has('j'), parsed.has('I'));
    let literal = parsed.has('p') || as_int;
    if as_int && !json {
        return Err(Failure::usage("'--json-int' only works with '-j' option"));
    }
    let fields = fields(parsed.last('o').unwrap_or("name,property,value,source"))?;
    let sources = parsed.last('s').map(sources).transpose()?;
    let types = parsed.last('t').map_or(Ok(Types::ALL), Types::parse)?;
    let mut depth = match (parsed.last('d'), parsed.has('r')) {
        (Some(text), _) => Some(super::list::depth(text)?),
        (None, true) => None,
        (None, false) => Some(0),
    };
    if types.only_below() && depth == Some(0) && parsed.last('d').is_none() {
        depth = Some(1);
    }
    let is_recursive = parsed.has('d') || depth != Some(0);
    let Some((list, names)) = parsed.operands.split_first() else {
        return Err(Failure::usage("missing property argument"));
    };
    let mut wanted = if list == "all" { None } else { Some(values::wanted(list)?) };
    let mut pools = Pools::new(cx);
    let (names, unnamed) = pools.names(cx, names)?;
    let (found, mut code) = pools.list(cx, &names, Which { types, depth, is_recursive })?;
    code |= unnamed;
    let mut table = GetTable::new(&fields, parsed.has('H'));
    let (mut lines, mut datasets) = (Vec::new(), Object::new());
    // All datasets of the list show user properties in one order: the order of first occurrence,
    // with datasets in the order of the command line.
    let mut entries: Vec<_> = found.iter().map(|f| &f.entry).collect();
    entries.sort_by_key(|e| names.iter().position(|name| name == e.name()).unwrap_or(names.len()));
    let user = match &wanted {
        None => property::user_property_names(entries).unwrap_or_default(),
        Some(_) => Vec::new(),
    };
    for f in &found {
        let mounted = |name: &str| pools.is_mounted(name);
        let options = |name: &str, property: &str| pools.mount_option(name, property);
        let view = f.pool.view_with(&mounted, &options);
        table.fit_name(f.entry.name());
        let properties = match &wanted {
            None => property::all(&f.entry, &view).map(|mut all| {
                all.sort_by_key(|p| user.iter().position(|name| *name == p.name).map_or(0, |at| at + 1));
                all
            }),
            Some(wanted) => wanted.iter().map(|w| Ok(w.get(&f.entry, &view)?.unwrap_or_else(|| none(w)))).collect(),
        };
        let properties = match properties {
            Ok(properties) => properties,
            Err(error) => {
                cx.complain(&format!("cannot get properties of '{}': {error}", f.entry.name()));
                code = 1;
                continue;
            }
        };
        let mut object = Object::new();
        for (i, p) in properties.iter().enumerate() {
            match &mut wanted {
                Some(list) => {
                    if let Some(w) = list.get_mut(i) {
                        w.fit(Some(p), false);
                        table.fit_property(&p.name, w.width);
                    }
                }
                None => {
                    if let Some(mut w) = Wanted::new(&p.name) {
                        w.fit(Some(p), false);
                        table.fit_property(&p.name, w.width);
                    }
                }
            }
            if sources.as_ref().is_some_and(|s| !s.contains(&source_word(&p.source))) {
                continue;
            }
            let value = values::text(p, literal);
            let received = property::received(&f.entry, &p.name).ok().flatten();
            let received = received.map(|v| if literal { v.raw } else { v.human });
            if let Some(received) = &received {
                table.fit_received(received);
            }
            let (kind, data) = values::json_source(p);
            object.insert(p.name.clone(), json::property(&value, kind, &data, as_int));
            let (name, source) = (f.entry.name().to_owned(), p.source.to_string());
            lines.push(GetLine { name, property: p.name.clone(), value, received, source });
        }
        if !object.is_empty() {
            let mut info = info_json::dataset(&f.entry, as_int);
            info.insert("properties".into(), Value::Object(object));
            datasets.insert(f.entry.name().into(), Value::Object(info));
        }
    }
    if json {
        let mut document = json::document("zfs get");
        document.insert("datasets".into(), Value::Object(datasets));
        cx.print(&json::line(document));
        return Ok(code);
    }
    if !lines.is_empty() {
        cx.print(&table.header());
    }
    for line in &lines {
        cx.print(&table.line(line));
    }
    Ok(code)
}

/// The placeholder for a requested property that does not apply.
fn none(wanted: &Wanted) -> Property {
    Property { name: wanted.name.clone(), value: PropertyValue::text("-"), source: Source::None, time: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_sources_are_checked() {
        assert_eq!(fields("all").expect("known").len(), 5);
        assert_eq!(fields("value,received").expect("known"), [Field::Value, Field::Received]);
        assert_eq!(fields("x"), Err(Failure::usage("invalid column name 'x'")));
        assert_eq!(sources("local,inherited").expect("known"), ["local", "inherited"]);
        assert_eq!(sources("x"), Err(Failure::usage("invalid source 'x'")));
    }
}
