//! `zpool get`: prints properties of pools, or of the devices of one pool.

use super::pools::{Selection, views};
use super::values::{self, Wanted};
use super::{info_json, pools, vdev_properties};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, value};
use crate::json::{self, Object};
use crate::shared_options::{EXACT, JSON, JSON_INT, KEY_GUID, SCRIPTED};
use crate::table::{Field, GetLine, GetTable};
use crate::verb::{Call, Verb, for_anyone};
use admin::vdev_names::{self as names, NameOptions, vdev_name};
use admin::view::PoolView;
use pool::status::VdevStatus;
use serde_json::Value;

/// The row of `zpool get`.
pub static VERB: Verb = for_anyone("get", "Show properties of pools and devices", run)
    .usage(&[
        "[-Hp] [-o all|field,...] [-j [--json-int] [--json-pool-key-guid]] all|property,... [pool] ...",
        "[-Hp] [-o all|field,...] [-j [--json-int]] all|property,... pool root|all-vdevs|vdev ...",
    ])
    .options(&[
        JSON,
        SCRIPTED,
        EXACT,
        value(
            'o',
            "field,...",
            ArgKind::Words(&["all", "name", "property", "value", "source"]),
            "Print these fields, in this order.",
        ),
        JSON_INT,
        KEY_GUID,
    ])
    .operands(&[ArgKind::AllPoolProperties, ArgKind::Pool])
    .examples(&[
        ("zpool get all tank", "Show all properties of a pool."),
        ("zpool get -H -o value health tank", "Print the health of a pool for a script."),
    ]);

#[derive(Debug, Clone)]
pub struct GetOptions {
    /// `-o`: the fields to print.
    pub fields: Vec<Field>,
    /// `-H`: no headings, tabs between fields.
    pub scripted: bool,
    /// `-p`: exact numbers.
    pub literal: bool,
    /// `-j`: JSON.
    pub json: bool,
    /// `--json-int`: numbers as JSON integers.
    pub json_int: bool,
    /// `--json-pool-key-guid`: pools keyed by guid instead of name.
    pub key_guid: bool,
}

/// Parses the argument of `-o`, e.g. `name,value`.
pub fn fields(list: &str) -> Result<Vec<Field>, Failure> {
    let all = [Field::Name, Field::Property, Field::Value, Field::Source];
    let mut found = Vec::new();
    for name in list.split(',') {
        match ["name", "property", "value", "source", "all"].iter().position(|n| *n == name) {
            Some(4) if found.is_empty() => found.extend(all),
            Some(4) => return Err(Failure::usage("\"all\" conflicts with specific fields given to -o option")),
            Some(i) if found.len() < 4 => found.push(all[i]),
            Some(_) => return Err(Failure::usage("too many fields given to -o option")),
            None => return Err(Failure::usage(format!("invalid column name '{name}'"))),
        }
    }
    Ok(found)
}

/// `zpool get`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let options = GetOptions {
        fields: fields(parsed.last('o').unwrap_or("all"))?,
        scripted: parsed.has('H'),
        literal: parsed.has('p') || parsed.has('I'),
        json: parsed.has('j'),
        json_int: parsed.has('I'),
        key_guid: parsed.has('G'),
    };
    if !options.json && parsed.has('I') {
        return Err(Failure::usage("'--json-int' only works with '-j' option"));
    }
    let Some((list, names)) = parsed.operands.split_first() else {
        return Err(Failure::usage("missing property argument"));
    };
    let imported = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
    let is_pool = |name: &String| imported.iter().any(|p| p.name == *name);
    if let [first, devices @ ..] = names
        && !devices.is_empty()
        && is_pool(first)
        && !devices.iter().all(is_pool)
    {
        let (records, code) = pools::records(cx, std::slice::from_ref(first))?;
        let Some(record) = records.first() else { return Ok(code) };
        let pool = pools::open(cx, record)?;
        let failed = |e: anyhow::Error| Failure::failed(format!("cannot open '{first}': {e:#}"));
        let view = admin::view::of_imported(&pool, &admin::house::facts(record)).map_err(failed)?;
        return devices_of(cx, &pool, &view, list, devices, &options);
    }
    let wanted = if list == "all" { None } else { Some(values::wanted(list)?) };
    let Selection { views, code } = views(cx, names)?;
    cx.print(&render(&views, wanted, &options));
    Ok(code)
}

/// Formats the properties of these pools. `wanted`: `None` for all properties.
pub fn render(views: &[PoolView], wanted: Option<Vec<Wanted>>, options: &GetOptions) -> String {
    let mut table = GetTable::new(&options.fields, options.scripted);
    let mut lines = Vec::new();
    let mut pools = Object::new();
    for view in views {
        let context = &view.properties;
        let found = match &wanted {
            None => context.all(),
            Some(wanted) => wanted.iter().filter_map(|w| context.get(&w.name)).collect(),
        };
        table.fit_name(&context.name);
        let mut object = Object::new();
        for property in &found {
            let literal = options.literal;
            let mut fitted = match &wanted {
                Some(list) => list.iter().find(|w| w.name == property.name).cloned(),
                None => values::wanted(&property.name).ok().and_then(|w| w.into_iter().next()),
            };
            if let Some(w) = &mut fitted {
                w.fit(context, false);
                table.fit_property(&property.name, w.width);
            }
            let value = values::text(property, literal);
            object.insert(
                property.name.clone(),
                json::property(&value, values::json_source(property.source), "-", options.json_int),
            );
            lines.push(GetLine {
                name: context.name.clone(),
                property: property.name.clone(),
                value,
                received: None,
                source: values::source(property.source).into(),
            });
        }
        if !object.is_empty() {
            let mut info = info_json::pool(&view.status, true, options.json_int);
            info.insert("properties".into(), Value::Object(object));
            let key = if options.key_guid { view.status.guid.to_string() } else { view.status.name.clone() };
            pools.insert(key, Value::Object(info));
        }
    }
    if options.json {
        let mut document = json::document("zpool get");
        document.insert("pools".into(), Value::Object(pools));
        return json::line(document);
    }
    print_lines(&table, &lines)
}

fn print_lines(table: &GetTable, lines: &[GetLine]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    lines.iter().fold(table.header(), |out, line| out + &table.line(line))
}

fn devices_of(
    cx: &mut Context<'_>,
    pool: &pool::Pool,
    view: &PoolView,
    list: &str,
    devices: &[String],
    options: &GetOptions,
) -> Outcome {
    let all = view.status.all_vdevs();
    let name = |v: &VdevStatus| vdev_name(v, NameOptions::default());
    let mut chosen: Vec<&VdevStatus> = Vec::new();
    for device in devices {
        if device == "all-vdevs" {
            chosen.extend(all.iter().filter(|v| !matches!(v.kind.as_str(), "hole" | "indirect")));
            continue;
        }
        match names::find(&view.status, device) {
            Some(vdev) => chosen.push(vdev),
            None => {
                let pool = &view.status.name;
                cx.complain(&format!("Invalid vdev '{device}' in pool '{pool}'"));
                return Err(Failure::usage(""));
            }
        }
    }
    let names: Vec<&str> = match list {
        "all" => admin::vdev_properties::NAMES.iter().map(|d| d.0).collect(),
        list => list.split(',').collect(),
    };
    if let Some(bad) = names.iter().find(|n| admin::vdev_properties::find(n).is_none() && !values::is_user_property(n))
    {
        return Err(Failure::usage(format!("bad property list: invalid property '{bad}'")));
    }
    let mut table = GetTable::new(&options.fields, options.scripted);
    let (mut lines, mut objects) = (Vec::new(), Object::new());
    for vdev in chosen {
        let vdev_name = name(vdev);
        table.fit_name(&vdev_name);
        let set = admin::vdev_properties::of(pool, vdev.guid)
            .map_err(|e| Failure::failed(format!("cannot read the properties of '{vdev_name}': {e:#}")))?;
        let mut properties = Object::new();
        // `all` includes user properties.
        let users = set.keys().map(String::as_str).filter(|n| list == "all" && n.contains(':'));
        for property in names.iter().copied().chain(users) {
            let Some((name, value, source)) = vdev_properties::get(vdev, &view.status, &set, property, options.literal)
            else {
                continue;
            };
            // Columns of numbers have a fixed width; only names and identities widen their column.
            let flexible = matches!(name, "guid" | "state" | "children" | "parent" | "path" | "comment");
            let width = if flexible { value.len() } else { 0 };
            table.fit_property(name, width.max(vdev_properties::width(name)));
            properties.insert(name.into(), json::property(&value, values::json_source(source), "-", options.json_int));
            lines.push(GetLine {
                name: vdev_name.clone(),
                property: name.into(),
                value,
                received: None,
                source: values::source(source).into(),
            });
        }
        let mut info = info_json::vdev(vdev, &vdev_name, true, options.json_int);
        info.insert("properties".into(), Value::Object(properties));
        objects.insert(vdev_name, Value::Object(info));
    }
    if options.json {
        let mut document = json::document("zpool get");
        document.insert("pool".into(), Value::Object(info_json::pool(&view.status, false, options.json_int)));
        document.insert("vdevs".into(), Value::Object(objects));
        cx.print(&json::line(document));
    } else {
        cx.print(&print_lines(&table, &lines));
    }
    Ok(0)
}

#[cfg(test)]
#[path = "get_tests.rs"]
mod tests;
