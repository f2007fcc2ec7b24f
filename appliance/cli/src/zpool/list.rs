//! `zpool list`: space and health, one line for each pool, and with `-v` one for each device.

use super::info_json;
use super::iostat::{Stamp, pace, wait};
use super::pools::{Selection, views};
use super::values::{self, Wanted};
use super::vdev_words::shown_state;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::json::{self, Object};
use crate::number::{number, percent};
use crate::shared_options::{EXACT, FOLLOW, GUIDS, JSON, JSON_INT, KEY_GUID, PATHS, SCRIPTED, STAMP};
use crate::table::{Column, list_header, list_line};
use crate::verb::{Call, Verb, for_anyone};
use admin::vdev_names::{NameOptions, vdev_name, width};
use admin::view::PoolView;
use host::pace::Pace;
use pool::status::{VdevClass, VdevStatus};
use serde_json::Value;

/// The row of `zpool list`.
pub static VERB: Verb = for_anyone("list", "Show space and health of pools", run)
    .usage(&[
        "[-gHLpPv] [-o property,...] [-j [--json-int] [--json-pool-key-guid]] [-T d|u] [pool] ... [interval [count]]",
    ])
    .options(&[
        GUIDS,
        JSON,
        SCRIPTED,
        FOLLOW,
        value('o', "property,...", ArgKind::PoolProperties, "Show these properties, in this order."),
        EXACT,
        PATHS,
        STAMP,
        flag('v', "Show each device too."),
        JSON_INT,
        KEY_GUID,
    ])
    .operands(&[ArgKind::Pool])
    .examples(&[
        ("zpool list -v tank", "Show the space of a pool and of its devices."),
        ("zpool list -Hp -o name,free", "Print the free bytes of all pools for a script."),
    ]);

const DEFAULT: &str = "name,size,allocated,free,checkpoint,expandsize,fragmentation,capacity,dedupratio,health,altroot";

#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// `-H`: no headings, tabs between fields.
    pub scripted: bool,
    /// `-p`: exact numbers.
    pub literal: bool,
    /// `-v`: lines for devices.
    pub verbose: bool,
    /// `-g -L -P`: how devices are named.
    pub names: NameOptions,
    /// `--json-int`: numbers as JSON integers.
    pub json_int: bool,
    /// `--json-pool-key-guid`: pools keyed by guid instead of name.
    pub key_guid: bool,
}

/// `zpool list`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let options = ListOptions {
        scripted: parsed.has('H'),
        literal: parsed.has('p') || parsed.has('I'),
        verbose: parsed.has('v'),
        names: NameOptions { guid: parsed.has('g'), follow: parsed.has('L'), path: parsed.has('P') },
        json_int: parsed.has('I'),
        key_guid: parsed.has('G'),
    };
    let json = parsed.has('j');
    if !json && parsed.has('I') {
        return Err(Failure::usage("'--json-int' only works with '-j' option"));
    }
    if !json && parsed.has('G') {
        return Err(Failure::usage("'json-pool-key-guid' only works with '-j' option"));
    }
    let wanted = values::wanted(parsed.last('o').unwrap_or(DEFAULT))?;
    let stamp = Stamp::parse(parsed)?;
    let (names, interval, count) = pace(parsed);
    let mut pace = Pace::new(interval, count);
    loop {
        stamp.print(cx);
        let code = report(cx, &names, wanted.clone(), &options, json)?;
        let more = pace.made();
        let _ = cx.out.flush();
        if !more || !wait(cx, &mut pace) {
            return Ok(code);
        }
    }
}

/// Prints the pools once.
fn report(cx: &mut Context<'_>, names: &[String], wanted: Vec<Wanted>, options: &ListOptions, json: bool) -> Outcome {
    let Selection { views, code } = views(cx, names)?;
    if views.is_empty() {
        if names.is_empty() && !options.scripted && !json && code == 0 {
            cx.print("no pools available\n");
        }
        return Ok(code);
    }
    let text = if json { document(&views, wanted, options) } else { table(&views, wanted, options) };
    cx.print(&text);
    Ok(code)
}

struct Table<'a> {
    options: &'a ListOptions,
    wanted: Vec<Wanted>,
    columns: Vec<Column>,
}

/// Formats the table of these pools.
pub fn table(views: &[PoolView], mut wanted: Vec<Wanted>, options: &ListOptions) -> String {
    for view in views {
        wanted.iter_mut().for_each(|w| w.fit(&view.properties, options.literal));
    }
    let mut columns: Vec<Column> = wanted
        .iter()
        .map(|w| Column {
            heading: w.def.map_or_else(|| w.name.to_ascii_uppercase(), |d| d.column.into()),
            width: w.width,
            right: w.def.is_some_and(|d| d.right_align()),
        })
        .collect();
    if let (true, Some(first)) = (options.verbose, columns.first_mut()) {
        let all = |v: &PoolView| {
            let others = v.status.caches.iter().chain(&v.status.spares);
            let below = others.map(|v| width(v, 2, options.names)).max().unwrap_or(0);
            v.status.name.len().max(width(&v.status.root, 0, options.names)).max(below)
        };
        first.width = views.iter().map(all).max().unwrap_or(0).max(9);
    }
    let table = Table { options, wanted, columns };
    let mut out = if options.scripted { String::new() } else { list_header(&table.columns) };
    for view in views {
        let cells: Vec<String> = table.wanted.iter().map(|w| pool_cell(view, w, options.literal)).collect();
        out.push_str(&list_line(&table.columns, &cells, options.scripted));
        if options.verbose {
            table.devices(&mut out, view);
        }
    }
    out
}

fn pool_cell(view: &PoolView, wanted: &Wanted, literal: bool) -> String {
    view.properties.get(&wanted.name).map_or_else(|| "-".into(), |p| values::text(&p, literal))
}

/// The classes of devices shown after the normal ones, in the order of `zpool list`.
const CLASSES: [(VdevClass, &str); 3] =
    [(VdevClass::Dedup, "dedup"), (VdevClass::Special, "special"), (VdevClass::Log, "logs")];

fn of_class(root: &VdevStatus, class: VdevClass) -> impl Iterator<Item = &VdevStatus> {
    root.children.iter().filter(move |c| c.class == class && c.kind != "hole" && c.kind != "indirect")
}

impl Table<'_> {
    fn devices(&self, out: &mut String, view: &PoolView) {
        for top in view.status.root.children.iter().filter(|c| c.class == VdevClass::Normal && c.kind != "hole") {
            self.device(out, top, 2, false);
        }
        for (class, heading) in CLASSES {
            self.group(out, heading, of_class(&view.status.root, class), false);
        }
        self.group(out, "cache", view.status.caches.iter(), false);
        self.group(out, "spare", view.status.spares.iter(), true);
    }

    fn group<'v>(&self, out: &mut String, heading: &str, vdevs: impl Iterator<Item = &'v VdevStatus>, spares: bool) {
        for (i, vdev) in vdevs.enumerate() {
            if i == 0 {
                // The heading has a right-aligned dash in each column, whatever the column, even
                // with -H.
                let shown = self.wanted.iter().zip(&self.columns).filter(|(w, _)| w.name != "altroot");
                let right = |(i, (_, c)): (usize, (&Wanted, &Column))| Column { right: i > 0, ..c.clone() };
                let columns: Vec<Column> = shown.enumerate().map(right).collect();
                let cells: Vec<&str> = std::iter::once(heading).chain(columns.iter().skip(1).map(|_| "-")).collect();
                out.push_str(&list_line(&columns, &cells, false));
            }
            self.device(out, vdev, 2, spares);
        }
    }

    fn device(&self, out: &mut String, vdev: &VdevStatus, depth: usize, is_spare: bool) {
        let name = vdev_name(vdev, self.options.names);
        let name_width = self.columns.first().map_or(0, |c| c.width).saturating_sub(depth);
        match self.options.scripted {
            true => out.push_str(&format!("\t{name}")),
            false => out.push_str(&format!("{:depth$}{name:name_width$}", "")),
        }
        for wanted in self.wanted.iter().filter(|w| w.name != "name") {
            // Lines of devices omit altroot and other columns that only pools have.
            let Some(text) = vdev_cell(vdev, &wanted.name, self.options.literal, is_spare) else { continue };
            let width = wanted.def.map_or(wanted.width, |d| d.width());
            match self.options.scripted {
                true => out.push_str(&format!("\t{text}")),
                false => out.push_str(&format!("  {text:>width$}")),
            }
        }
        out.push('\n');
        for child in vdev.children.iter().filter(|c| c.class == vdev.class && c.kind != "hole") {
            self.device(out, child, depth + 2, is_spare);
        }
    }
}

/// The cell of a device's line; `None`: the column is omitted.
fn vdev_cell(vdev: &VdevStatus, property: &str, literal: bool, is_spare: bool) -> Option<String> {
    let top = vdev.space_bytes != 0;
    let if_top = |text: String| if top { text } else { "-".into() };
    let or_dash = |n: u64| if n == 0 { "-".into() } else { number(n, literal) };
    Some(match property {
        "altroot" => return None,
        "size" if vdev.phys_bytes != 0 => number(vdev.phys_bytes, literal),
        "size" => or_dash(vdev.space_bytes),
        "allocated" => if_top(number(vdev.alloc_bytes, literal)),
        "free" => if_top(number(vdev.space_bytes.saturating_sub(vdev.alloc_bytes), literal)),
        "checkpoint" => if_top(or_dash(vdev.checkpoint_bytes)),
        "expandsize" => or_dash(vdev.expand_bytes),
        "fragmentation" => match vdev.fragmentation_percent {
            Some(n) if top => percent(n, literal),
            _ => "-".into(),
        },
        "capacity" => if_top(capacity(vdev, literal)),
        "health" => shown_state(vdev, is_spare).into(),
        _ => "-".into(),
    })
}

/// The allocated share as a percentage, with as many decimals as fit.
fn capacity(vdev: &VdevStatus, literal: bool) -> String {
    let parts = u128::from(vdev.alloc_bytes) * 10_000 / u128::from(vdev.space_bytes.max(1));
    let percent = parts as f64 / 100.0;
    match parts {
        _ if literal => (parts / 100).to_string(),
        0..1000 => format!("{percent:.2}%"),
        1000..10_000 => format!("{percent:.1}%"),
        _ => format!("{percent:.0}%"),
    }
}

/// The document of `zpool list -j`.
pub fn document(views: &[PoolView], wanted: Vec<Wanted>, options: &ListOptions) -> String {
    let mut pools = Object::new();
    for view in views {
        let mut object = info_json::pool(&view.status, true, options.json_int);
        let mut properties = Object::new();
        for w in wanted.iter().filter(|w| w.name != "name") {
            let found = view.properties.get(&w.name);
            let text = found.as_ref().map_or_else(|| "-".into(), |p| values::text(p, options.literal));
            let source = found.map_or("NONE", |p| values::json_source(p.source));
            properties.insert(w.name.clone(), json::property(&text, source, "-", options.json_int));
        }
        object.insert("properties".into(), Value::Object(properties));
        if options.verbose {
            object.insert("vdevs".into(), Value::Object(vdevs(view, &wanted, options)));
        }
        let key = if options.key_guid { view.status.guid.to_string() } else { view.status.name.clone() };
        pools.insert(key, Value::Object(object));
    }
    let mut document = json::document("zpool list");
    document.insert("pools".into(), Value::Object(pools));
    json::line(document)
}

fn vdevs(view: &PoolView, wanted: &[Wanted], options: &ListOptions) -> Object {
    let root = &view.status.root;
    let mut all = Object::new();
    for top in root.children.iter().filter(|c| c.class == VdevClass::Normal && c.kind != "hole") {
        device_json(&mut all, top, wanted, options, false);
    }
    let aux = [("l2cache", &view.status.caches, false), ("spares", &view.status.spares, true)];
    let classes = CLASSES.map(|(class, key)| (key, of_class(root, class).collect::<Vec<_>>(), false));
    for (key, vdevs, spares) in classes.into_iter().chain(aux.map(|(k, v, s)| (k, v.iter().collect(), s))) {
        let mut group = Object::new();
        for vdev in vdevs {
            device_json(&mut group, vdev, wanted, options, spares);
        }
        if !group.is_empty() {
            all.insert(key.into(), Value::Object(group));
        }
    }
    all
}

fn device_json(target: &mut Object, vdev: &VdevStatus, wanted: &[Wanted], options: &ListOptions, is_spare: bool) {
    let name = vdev_name(vdev, options.names);
    let mut object = info_json::vdev(vdev, &name, false, options.json_int);
    let mut properties = Object::new();
    for w in wanted.iter().filter(|w| w.name != "name") {
        if let Some(text) = vdev_cell(vdev, &w.name, options.literal, is_spare) {
            properties.insert(w.name.clone(), json::property(&text, "NONE", "-", options.json_int));
        }
    }
    object.insert("properties".into(), Value::Object(properties));
    let mut below = Object::new();
    for child in vdev.children.iter().filter(|c| c.class == vdev.class && c.kind != "hole") {
        device_json(&mut below, child, wanted, options, is_spare);
    }
    if !below.is_empty() {
        object.insert("vdevs".into(), Value::Object(below));
    }
    target.insert(name, Value::Object(object));
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
