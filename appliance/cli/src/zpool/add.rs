//! `zpool add`.
//!
//! Invariants:
//!   * the paths of the new devices are stored before the devices join: after a crash in between,
//!     the import finds them if they belong to the pool

use super::pools;
use super::writing::{self, change, change_places, command_line};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::state::Imported;
use admin::layout::{Group, Layout, Leaf, Purpose, Top, check_replication, check_unused};
use admin::property::{SetValue, Source};
use admin::status::{PoolStatus, VdevClass, VdevStatus};
use admin::vdev_names::{NameOptions, vdev_name};
use admin::verbs::zpool::create;
use admin::view;
use std::fmt::Write;
use std::path::PathBuf;

const OPTIONS: Options = Options {
    short: "fgLno:P",
    long: &[
        ("allow-in-use", false, '1'),
        ("allow-replication-mismatch", false, '2'),
        ("allow-ashift-mismatch", false, '3'),
    ],
};

/// `zpool add`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let mut properties = Vec::new();
    for option in parsed.all('o') {
        let (name, value) = option.split_once('=').ok_or_else(|| Failure::usage("missing '=' for -o option"))?;
        if name != "ashift" {
            return Err(Failure::usage(""));
        }
        properties.push((name.to_owned(), value.to_owned()));
    }
    let [name, words @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing pool name argument"));
    };
    if words.is_empty() {
        return Err(Failure::usage("missing vdev specification"));
    }
    let force = parsed.has('f');
    if force && ['1', '2', '3'].into_iter().any(|option| parsed.has(option)) {
        return Err(Failure::usage(
            "'-f' option is not allowed with '--allow-replication-mismatch', '--allow-ashift-mismatch', or '--allow-in-use'",
        ));
    }
    let record = writing::record(cx, name)?;
    let pool = pools::open(cx, &record)?;
    let failed = |e: anyhow::Error| Failure::failed(format!("cannot open '{name}': {e:#}"));
    let view = view::view(&pool, &pools::facts(&record)).map_err(failed)?;
    drop(pool);
    let mut ashift = create::ashift(&properties)?;
    if properties.is_empty()
        && let (Some(Source::Local), Some(SetValue::Number(n))) =
            (view.properties.get("ashift").map(|p| p.source), view.properties.set.get("ashift"))
    {
        ashift = u8::try_from(*n).ok().filter(|n| *n > 0);
    }

    let layout = Layout::parse(words).map_err(Failure::failed)?;
    let imported = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
    let is_imported = |guid: u64, device: u64| {
        let is_its_own = || view.status.all_vdevs().iter().any(|v| v.guid == device);
        imported.iter().any(|p| p.guid == guid) && (guid != record.guid || is_its_own())
    };
    check_unused(&layout, force || parsed.has('1'), &is_imported).map_err(Failure::failed)?;
    let pool_level = admin::add::replication(&view.status);
    let has_blocks = layout.tops.iter().any(|top| top.purpose != Purpose::Log);
    if !force && !parsed.has('2') && has_blocks && pool_level.is_some() {
        check_replication(&layout, pool_level).map_err(Failure::failed)?;
    }
    if parsed.has('n') {
        let names = NameOptions { guid: parsed.has('g'), follow: parsed.has('L'), path: parsed.has('P') };
        cx.print(&format!(
            "would update '{name}' to the following configuration:\n\n{}",
            tree(&view.status, &layout, names)
        ));
        return Ok(0);
    }
    let places: Vec<PathBuf> =
        layout.leaves().map(|leaf| leaf.path.clone()).filter(|path| !record.places.contains(path)).collect();
    let cannot = format!("cannot add to '{name}'");
    change_places(cx, &record, &cannot, &|known| known.extend(places.iter().cloned()))?;
    let same_ashift = !force && !parsed.has('3');
    let command = command_line("zpool add", args);
    let result = change(cx, &record, &cannot, &command, |pool| admin::add::add(pool, &layout, ashift, same_ashift));
    if result.is_err() && is_unchanged(cx, &record, &view.status) {
        change_places(cx, &record, &cannot, &|known| known.retain(|path| !places.contains(path)))?;
    }
    result.map(|()| 0)
}

/// Whether the pool has the same number of devices as `before`. `false` if it cannot be read: then
/// the new devices may have joined.
fn is_unchanged(cx: &Context<'_>, record: &Imported, before: &PoolStatus) -> bool {
    let count = |s: &PoolStatus| (s.root.children.len(), s.spares.len(), s.caches.len());
    let now = pools::open(cx, record).ok().and_then(|pool| pool.status().ok());
    now.is_some_and(|now| count(&now) == count(before))
}

/// The current configuration with the devices to add, grouped by class.
fn tree(status: &PoolStatus, layout: &Layout, names: NameOptions) -> String {
    let mut out = String::new();
    let sections = [
        (VdevClass::Normal, Purpose::Normal, status.name.as_str()),
        (VdevClass::Dedup, Purpose::Dedup, "dedup"),
        (VdevClass::Special, Purpose::Special, "special"),
        (VdevClass::Log, Purpose::Log, "logs"),
    ];
    for (class, purpose, heading) in sections {
        let known = status.root.children.iter().filter(|top| top.class == class && top.kind != "hole");
        let known = known.map(|top| match class {
            VdevClass::Normal => top.clone(),
            // Only normal devices are shown with their number.
            _ => VdevStatus { name: without_number(&top.name).to_owned(), ..top.clone() },
        });
        let joining = layout.tops.iter().filter(|top| top.purpose == purpose).map(of_top);
        section(&mut out, heading, known.chain(joining), names);
    }
    let lists = [(&status.caches, &layout.caches, "cache"), (&status.spares, &layout.spares, "spares")];
    for (known, joining, heading) in lists {
        section(&mut out, heading, known.iter().cloned().chain(joining.iter().map(of_leaf)), names);
    }
    out
}

fn section(out: &mut String, heading: &str, devices: impl Iterator<Item = VdevStatus>, names: NameOptions) {
    for (i, device) in devices.enumerate() {
        if i == 0 {
            let _ = writeln!(out, "\t{heading}");
        }
        line(out, &device, 2, names);
    }
}

fn line(out: &mut String, device: &VdevStatus, indent: usize, names: NameOptions) {
    let _ = writeln!(out, "\t{:indent$}{}", "", vdev_name(device, names));
    device.children.iter().for_each(|child| line(out, child, indent + 2, names));
}

fn without_number(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((kind, number)) if !name.starts_with('/') && number.bytes().all(|b| b.is_ascii_digit()) => kind,
        _ => name,
    }
}

fn of_top(top: &Top) -> VdevStatus {
    match top.group {
        Group::Single => top.leaves.first().map(of_leaf).unwrap_or_default(),
        Group::Mirror | Group::Raidz(_) | Group::Draid(_) => VdevStatus {
            name: top.name(),
            kind: match top.group {
                Group::Draid(_) => "draid",
                Group::Raidz(_) => "raidz",
                _ => "mirror",
            }
            .to_owned(),
            children: top.leaves.iter().map(of_leaf).collect(),
            ..VdevStatus::default()
        },
    }
}

fn of_leaf(leaf: &Leaf) -> VdevStatus {
    VdevStatus { name: leaf.name(), kind: leaf.kind().to_owned(), path: Some(leaf.name()), ..VdevStatus::default() }
}
