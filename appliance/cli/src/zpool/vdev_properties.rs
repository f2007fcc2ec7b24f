//! Device properties (`zpool get all POOL DEVICE`), in OpenZFS's order.
//!
//! Values set by a user come from `admin::vdev_properties`, all others from the device's status.

use crate::number::{number, percent};
use admin::vdev_names::{NameOptions, vdev_name};
use admin::vdev_properties::{NAMES, find};
use pool::property::{SetValue, Source};
use pool::status::{PoolStatus, VdevStatus};
use std::collections::BTreeMap;

/// The minimum width of the property's column.
pub fn width(name: &str) -> usize {
    NAMES.iter().find(|(n, _)| *n == name).map_or(5, |(_, column)| column.len().max(5))
}

/// The name, value and source of a property.
pub fn get<'n>(
    vdev: &VdevStatus,
    status: &PoolStatus,
    set: &BTreeMap<String, SetValue>,
    name: &'n str,
    literal: bool,
) -> Option<(&'n str, String, Source)> {
    let Some(known) = find(name) else {
        // A user property, which has a value in any case, as in OpenZFS.
        return Some(match set.get(name) {
            Some(SetValue::Text(text)) => (name, text.clone(), Source::Local),
            _ => (name, "-".to_owned(), Source::Default),
        });
    };
    let name = known;
    let local = |text: String| Some((name, text, Source::Local));
    match set.get(name) {
        Some(SetValue::Number(n)) => {
            return match name {
                "failfast" | "allocating" => local(["off", "on", "inherit"][(*n).min(2) as usize].to_owned()),
                _ if *n == u64::MAX => Some((name, "-".to_owned(), Source::Default)),
                _ => local(n.to_string()),
            };
        }
        Some(SetValue::Text(text)) => return local(text.clone()),
        None => {}
    }
    let names = NameOptions::default();
    let size = |n: u64| number(n, literal);
    let or_dash = |n: u64| if n == 0 { "-".to_owned() } else { size(n) };
    let word = |on: bool| if on { "on" } else { "off" }.to_owned();
    let text = |t: &Option<String>| match t {
        Some(t) => (t.clone(), Source::None),
        None => ("-".to_owned(), Source::Default),
    };
    let value = match name {
        "capacity" => {
            let part = u128::from(vdev.alloc_bytes) * 100 / u128::from(vdev.dspace_bytes.max(1));
            percent(u64::try_from(part).unwrap_or(u64::MAX), literal)
        }
        "state" => admin::health::state_name(vdev.state, vdev.aux).to_owned(),
        "guid" => vdev.guid.to_string(),
        "asize" => size(vdev.asize_bytes),
        "psize" => size(vdev.phys_bytes),
        "ashift" => vdev.ashift.to_string(),
        "size" => size(vdev.dspace_bytes),
        "free" => size(vdev.dspace_bytes.saturating_sub(vdev.alloc_bytes)),
        "allocated" => size(vdev.alloc_bytes),
        "expandsize" => or_dash(vdev.expand_bytes),
        "fragmentation" => percent(vdev.fragmentation_percent.unwrap_or(0), literal),
        "parity" => vdev.parity.to_string(),
        "path" if vdev.is_leaf() => return Some((name, text(&vdev.path).0, text(&vdev.path).1)),
        "devid" => return Some((name, text(&vdev.devid).0, text(&vdev.devid).1)),
        "physpath" => return Some((name, text(&vdev.phys_path).0, text(&vdev.phys_path).1)),
        "parent" => match parent(&status.root, vdev.guid) {
            Some(p) if p.kind == "root" => status.name.clone(),
            Some(p) => vdev_name(p, names),
            None => return Some((name, "-".into(), Source::Default)),
        },
        "children" if vdev.is_leaf() => return Some((name, "-".into(), Source::Default)),
        "children" => vdev.children.iter().map(|c| vdev_name(c, names)).collect::<Vec<_>>().join(","),
        "numchildren" => vdev.children.len().to_string(),
        "read_errors" => size(vdev.read_errors),
        "write_errors" => size(vdev.write_errors),
        "checksum_errors" => size(vdev.checksum_errors),
        "initialize_errors" => size(vdev.initialize.errors),
        "trim_errors" => size(vdev.trim.errors),
        "slow_ios" => size(vdev.slow_ios),
        "read_ops" => size(vdev.read_ops),
        "read_bytes" => size(vdev.read_bytes),
        "write_ops" => size(vdev.write_ops),
        "write_bytes" => size(vdev.write_bytes),
        "removing" => word(vdev.removing),
        "raidz_expanding" if vdev.kind != "raidz" => return None,
        "raidz_expanding" => word(vdev.expanding),
        "trim_support" if vdev.is_leaf() => word(!vdev.trim_unsupported),
        "trim_support" => "-".to_owned(),
        "allocating" => return Some((name, word(!vdev.no_alloc), Source::Default)),
        "failfast" => return Some((name, "on".into(), Source::Default)),
        "bootsize" => return Some((name, "0".into(), Source::Default)),
        n if n.ends_with("_ops") || n.ends_with("_bytes") => "0".to_owned(),
        _ => return Some((name, "-".into(), Source::Default)),
    };
    Some((name, value, Source::None))
}

fn parent(vdev: &VdevStatus, guid: u64) -> Option<&VdevStatus> {
    if vdev.children.iter().any(|c| c.guid == guid) {
        return Some(vdev);
    }
    vdev.children.iter().find_map(|c| parent(c, guid))
}
