//! Looks up the effective value of a property and its source.
//!
//! A value comes, in this order, from the dataset itself (set locally, or received), the nearest
//! ancestor that has one (if the property is inherited), or the default. Computed values take
//! precedence over all of these. Facts: module/zfs/dsl_prop.c, `zfs_prop_get` in
//! lib/libzfs/libzfs_dataset.c.

use super::def::{DefaultValue, Kinds, PropertyDef, Unit, ValueType};
use super::setting::{Set, number, set_value};
use super::stats;
use super::value::{Property, PropertyValue, Source, Value};
use super::view::{Mounts, View};
use super::{CATALOGUE, find, is_user_property};
use crate::dataset::{Dataset, DatasetKind};
use crate::quota;
use crate::tree::Entry;
use errors::{Error, Place, Result};
use ondisk::{DslDataset, ObjsetKind};

/// Property `name` of a dataset or bookmark: native, user, user quota, or `written@…`.
///
/// `None` if it does not apply, is not set, or does not exist ([`find`] distinguishes these).
pub fn get(entry: &Entry, name: &str, view: &View<'_>) -> Result<Option<Property>> {
    if let Some(def) = find(name) {
        return native(entry, def, view);
    }
    let Entry::Dataset(d) = entry else { return Ok(None) };
    if let Some(rest) = name.strip_prefix("written@").or_else(|| name.strip_prefix("written#")) {
        return written(d, name, rest);
    }
    if let Some(value) = quota::property(d, name, view)? {
        return Ok(Some(Property { name: name.to_owned(), value, source: Source::Local, time: None }));
    }
    if !is_user_property(name) {
        return Ok(None);
    }
    Ok(set_value(d, name, true)?.map(|set| user(name, set)))
}

fn user(name: &str, set: Set) -> Property {
    let value = match set.value {
        Value::Text(text) => PropertyValue::text(text),
        Value::Number(n) => PropertyValue::text(n.to_string()),
    };
    Property { name: name.to_owned(), value, source: set.source, time: None }
}

/// All properties that `zfs get all` shows: native ones in its order, then user properties.
///
/// Properties that are unreadable because of damage are omitted and logged: the rest of a damaged
/// dataset is still useful.
pub fn all(entry: &Entry, view: &View<'_>) -> Result<Vec<Property>> {
    let mut found = Vec::new();
    for def in CATALOGUE.iter().filter(|def| def.listed()) {
        match native(entry, def, view) {
            Ok(property) => found.extend(property),
            Err(e) => tracing::warn!("property {} of {}: {e}", def.name, entry.name()),
        }
    }
    found.extend(user_properties(entry)?);
    Ok(found)
}

/// The effective user properties, in the order of the ZAPs that set them, nearest first.
pub fn user_properties(entry: &Entry) -> Result<Vec<Property>> {
    let Entry::Dataset(d) = entry else { return Ok(Vec::new()) };
    let own = d.own_props()?;
    let mut names: Vec<String> = own.names().filter(|n| is_user_property(n)).map(str::to_owned).collect();
    let mut at = Some(d.dir());
    while let Some(dir) = at {
        let props = dir.props(d.mos())?;
        let new: Vec<String> =
            props.names().filter(|n| is_user_property(n) && !names.iter().any(|k| k == n)).map(str::to_owned).collect();
        names.extend(new);
        at = dir.parent();
    }
    let mut found = Vec::new();
    for name in names {
        found.extend(set_value(d, &name, true)?.map(|set| user(&name, set)));
    }
    Ok(found)
}

/// Names of the user properties that are effective for any of `entries`, in order of first
/// appearance, which is the order of columns or lines in one `zfs get`.
pub fn user_property_names<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for entry in entries {
        for property in user_properties(entry)? {
            if seen.insert(property.name.clone()) {
                names.push(property.name);
            }
        }
    }
    Ok(names)
}

/// The received value of property `name`, effective or not: the column RECEIVED.
pub fn received(entry: &Entry, name: &str) -> Result<Option<PropertyValue>> {
    let Entry::Dataset(d) = entry else { return Ok(None) };
    let set = if d.is_snapshot() { d.own_props()? } else { d.dir().props(d.mos())? };
    Ok(match (set.received(name), find(name)) {
        (Some(Value::Number(n)), Some(def)) => PropertyValue::of(def, *n),
        (Some(Value::Number(n)), None) => Some(PropertyValue::text(n.to_string())),
        (Some(Value::Text(text)), _) => Some(PropertyValue::text(text.clone())),
        (None, _) => None,
    })
}

fn written(d: &Dataset, name: &str, rest: &str) -> Result<Option<Property>> {
    let full = if rest.contains(['@', '#']) {
        rest.to_owned()
    } else {
        format!("{}{}", d.dir().name(), &name["written".len()..])
    };
    let space = match d.tree().entry(&full) {
        Ok(Entry::Dataset(old)) => d.written_since(&old),
        Ok(Entry::Bookmark(mark)) => d.written_since_bookmark(&mark),
        Err(e) => Err(e),
    };
    match space {
        Ok(space) => {
            let value = PropertyValue::bytes(space.used);
            Ok(Some(Property { name: name.to_owned(), value, source: Source::Local, time: None }))
        }
        Err(Error::NotFound { .. } | Error::Invalid { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

fn native(entry: &Entry, def: &'static PropertyDef, view: &View<'_>) -> Result<Option<Property>> {
    let d = match entry {
        Entry::Dataset(d) => d,
        Entry::Bookmark(b) => {
            if !def.kinds.intersects(Kinds::BOOKMARK) {
                return Ok(None);
            }
            let value = stats::of_bookmark(b, def.name)?;
            return Ok(value.and_then(|value| property(def, value, Source::None)));
        }
    };
    // A head whose root block is lost still has its numbers; only `type` is unknown.
    let kind = d.kind().unwrap_or(DatasetKind::FileSystem);
    if !def.kinds.intersects(kind.kinds()) {
        return Ok(None);
    }
    match def.value_type {
        ValueType::Text if def.name == "mountpoint" => mountpoint(d, def, view).map(Some),
        ValueType::Text => string(d, def, view),
        _ => {
            // A snapshot has the properties that its dataset could have.
            if kind == DatasetKind::Snapshot && def.kinds != Kinds::SNAPSHOT {
                let head = if d.contents()? == ObjsetKind::Volume { Kinds::VOLUME } else { Kinds::FILESYSTEM };
                if !def.kinds.intersects(head) {
                    return Ok(None);
                }
            }
            numeric(d, def, view)
        }
    }
}

fn property(def: &PropertyDef, value: Value, source: Source) -> Option<Property> {
    let time = match (&value, def.value_type) {
        (Value::Number(seconds), ValueType::Number(Unit::Time)) => Some(*seconds),
        _ => None,
    };
    let value = match value {
        Value::Number(n) => PropertyValue::of(def, n)?,
        Value::Text(text) => PropertyValue::text(text),
    };
    Some(Property { name: def.name.to_owned(), value, source, time })
}

fn string(d: &Dataset, def: &PropertyDef, view: &View<'_>) -> Result<Option<Property>> {
    if let Some(value) = stats::of_dataset(d, def.name, view)? {
        return Ok(property(def, value, Source::None));
    }
    if let Some(Set { value: Value::Text(text), source }) = set_value(d, def.name, def.inheritable())? {
        return Ok(property(def, Value::Text(text), source));
    }
    Ok(def.default_text().and_then(|text| property(def, Value::Text(text.to_owned()), Source::Default)))
}

/// Properties that options of a mount override while it is mounted.
const TEMPORARY: [&str; 5] = ["atime", "devices", "exec", "readonly", "setuid"];

fn numeric(d: &Dataset, def: &PropertyDef, view: &View<'_>) -> Result<Option<Property>> {
    match def.name {
        "mounted" => return Ok(property(def, Value::Number(u64::from(is_mounted(d, view)?)), Source::None)),
        "version" | "normalization" | "utf8only" | "casesensitivity" => return master_node(d, def, view),
        name if name.starts_with("default") => return master_node(d, def, view),
        _ => {}
    }
    let set = set_value(d, def.name, def.inheritable())?;
    let computed = stats::of_dataset(d, def.name, view)?;
    let readable = !matches!(def.attr, super::def::Attr::ReadOnly);
    let (mut value, mut source) = match (computed, set) {
        (Some(Value::Number(n)), Some(set)) => (n, set.source),
        (Some(Value::Number(n)), None) if readable && def.default == DefaultValue::Number(n) => (n, Source::Default),
        (Some(Value::Number(n)), None) => (n, Source::None),
        (_, Some(Set { value: Value::Number(n), source })) => (n, source),
        // Counts that are not maintained are shown as "none"; other values that only the pool can
        // provide are omitted.
        _ if !readable && !matches!(def.name, "filesystem_count" | "snapshot_count") => return Ok(None),
        _ => (def.default_number(), Source::Default),
    };
    let set_where_it_holds = matches!(
        def.name,
        "canmount"
            | "volsize"
            | "quota"
            | "refquota"
            | "reservation"
            | "refreservation"
            | "filesystem_limit"
            | "snapshot_limit"
            | "filesystem_count"
            | "snapshot_count"
    );
    if set_where_it_holds && source == Source::None {
        source = Source::Local;
    }
    // A mount with other options than the properties. Facts: get_numeric_property in
    // lib/libzfs/libzfs_dataset.c.
    if let Mounts::With { options, .. } = view.mounts
        && TEMPORARY.contains(&def.name)
        && let Some(now) = options(d.name(), def.name).map(u64::from).filter(|now| *now != value)
    {
        (value, source) = (now, Source::Temporary);
    }
    if def.name == "readonly" && value == 0 && view.read_only && is_mounted(d, view)? {
        (value, source) = (1, Source::Temporary);
    }
    Ok(property(def, Value::Number(value), source))
}

/// A property stored in the file system's master node (object 1). This crate does not interpret its
/// value.
fn master_node(d: &Dataset, def: &PropertyDef, view: &View<'_>) -> Result<Option<Property>> {
    if d.contents()? != ObjsetKind::FileSystem || d.phys().has(DslDataset::FLAG_INCONSISTENT) {
        return Ok(None);
    }
    let name = if def.name == "version" { "VERSION" } else { def.name };
    let value = match crate::zap::open_zap(&view.objset(d)?, 1).at(d.name())?.lookup_u64(name).at(d.name())? {
        Some(n) => n,
        None if def.name == "version" => 5,
        None => 0,
    };
    Ok(property(def, Value::Number(value), Source::None))
}

fn mountpoint(d: &Dataset, def: &PropertyDef, view: &View<'_>) -> Result<Property> {
    let (value, source) = match set_value(d, def.name, true)? {
        Some(Set { value: Value::Text(text), source }) => (text, source),
        _ => (def.default_text().unwrap_or("/").to_owned(), Source::Default),
    };
    let path = if value.starts_with('/') {
        let below = match &source {
            Source::Default => d.name(),
            Source::Inherited(from) => d.name()[from.len().min(d.name().len())..].trim_start_matches('/'),
            _ => "",
        };
        let root = view.altroot.filter(|root| *root != "/").unwrap_or("");
        let value = if value == "/" && (!root.is_empty() || !below.is_empty()) { "" } else { &value };
        if below.is_empty() { format!("{root}{value}") } else { format!("{root}{value}/{below}") }
    } else {
        value
    };
    Ok(Property { name: def.name.to_owned(), value: PropertyValue::text(path), source, time: None })
}

/// Whether the file system is mounted.
fn is_mounted(d: &Dataset, view: &View<'_>) -> Result<bool> {
    match view.mounts {
        Mounts::None => Ok(false),
        Mounts::Of(mounted) | Mounts::With { mounted, .. } => Ok(mounted(d.name())),
        Mounts::AsImported => {
            // Redacted file systems are mounted only manually, so that they are not mistaken for
            // complete ones.
            let redacted = d.redacted_by()?.is_some();
            if d.kind()? != DatasetKind::FileSystem || d.phys().has(DslDataset::FLAG_INCONSISTENT) || redacted {
                return Ok(false);
            }
            let (Some(canmount), Some(mountpoint)) = (find("canmount"), find("mountpoint")) else { return Ok(false) };
            let can = number(d, canmount.name)?.unwrap_or(canmount.default_number()) == 1;
            let place = self::mountpoint(d, mountpoint, view)?.value.raw;
            let open = match view.keys {
                Some(keys) => keys.is_available(d)?,
                None => d.crypto_object()?.is_none(),
            };
            Ok(can && place.starts_with('/') && number(d, "zoned")?.unwrap_or(0) == 0 && open)
        }
    }
}
