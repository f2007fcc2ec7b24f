//! Property values as users write them, checked and converted to the on-disk value.
//!
//! The catalog defines the type of a property and who may set it; this module adds the rest:
//! ranges, formats, and features that a value requires. Facts: `zfs_valid_proplist` in
//! lib/libzfs/libzfs_dataset.c, `zfs_check_settable` in module/zfs/zfs_ioctl.c.

use super::cx::Cx;
use super::feature;
use super::tree::{self, Node};
use crate::keys::KeyLocation;
use crate::property::{Kinds, PropertyDef, Unit, Value, ValueType, find, format, is_user_property};
use errors::{Error, Result};
use ondisk::zap::Value as ZapValue;
use ondisk::{Checksum, ObjsetKind, version};

/// Maximum bytes of a value of a user property, with its NUL (`ZAP_MAXVALUELEN`).
const USER_VALUE_MAX: usize = 8192;
/// Maximum bytes of a path component.
const PATH_COMPONENT_MAX: usize = 255;

/// The parsed value of `refreservation=auto`.
pub(super) const AUTO: u64 = u64::MAX;
/// `ZFS_ACL_PASSTHROUGH_X`.
const PASSTHROUGH_X: u64 = 5;
/// Reason for refusing what a newer pool version is needed for.
const TOO_OLD: &str = "pool must be upgraded to set this property or value";

/// A checked property value to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name in the ZAP of properties.
    pub name: String,
    pub value: Value,
}

/// Where a property is to be set.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// Name of the dataset, for messages.
    pub(crate) dataset: &'a str,
    pub(crate) kinds: Kinds,
    /// The dataset is being created: creation-time properties may be set.
    pub(crate) is_new: bool,
    /// Version of the pool.
    pub(crate) version: u64,
    /// Whether a feature is enabled.
    pub(crate) is_enabled: &'a dyn Fn(&str) -> bool,
}

impl Setting {
    /// A number as OpenZFS writes it into histories, or the text.
    pub(crate) fn text(&self) -> String {
        match &self.value {
            Value::Number(n) => (*n as i64).to_string(),
            Value::Text(text) => text.clone(),
        }
    }

    /// The number; 0 for text.
    pub(crate) fn number(&self) -> u64 {
        match self.value {
            Value::Number(n) => n,
            Value::Text(_) => 0,
        }
    }
}

/// A value as stored in a ZAP: a number, or bytes followed by a NUL.
pub(crate) fn on_disk(value: &Value) -> ZapValue {
    match value {
        Value::Number(n) => ZapValue::one(*n),
        Value::Text(text) => ZapValue { int_bytes: 1, ints: text.bytes().chain([0]).map(u64::from).collect() },
    }
}

/// Checks that `name` may be set to `text` there. Short names are accepted; messages use the name
/// as the user wrote it, like those of OpenZFS, and the setting has the full name.
pub(crate) fn check(target: &Target<'_>, name: &str, text: &str) -> Result<Setting> {
    let invalid = |what: String| Error::invalid(target.dataset, what);
    if is_user_property(name) {
        if text.len() >= USER_VALUE_MAX {
            return Err(invalid(format!("value of '{name}' is too long: at most {} bytes", USER_VALUE_MAX - 1)));
        }
        if target.kinds == Kinds::SNAPSHOT && target.version < version::SNAPSHOT_PROPERTIES {
            return Err(invalid(TOO_OLD.to_owned()));
        }
        return Ok(Setting { name: name.to_owned(), value: Value::Text(text.to_owned()) });
    }
    if target.kinds == Kinds::SNAPSHOT {
        return Err(invalid("this property can not be modified for snapshots".to_owned()));
    }
    let Some(def) = find(name) else {
        return Err(invalid(match name.contains(':') && name.len() >= 256 {
            true => format!("property name '{name}' is too long"),
            false => format!("invalid property '{name}'"),
        }));
    };
    if !def.kinds.intersects(target.kinds) {
        return Err(invalid(format!("'{name}' does not apply to datasets of this type")));
    }
    if def.readonly() && !(def.set_once() && target.is_new) {
        return Err(invalid(format!("'{name}' is readonly")));
    }
    let value = parse(def, text).map_err(&invalid)?;
    if target.version < version_for(def.name, &value) {
        return Err(invalid(TOO_OLD.to_owned()));
    }
    check_value(target, def, &value).map_err(|e| match e {
        Refused::Invalid(what) => invalid(what),
        Refused::Unsupported(what) => Error::unsupported(target.dataset, what),
    })?;
    Ok(Setting { name: def.name.to_owned(), value })
}

/// Checks that a stream may contain `value` for `name` there. Properties that users can set only at
/// creation, or not at all, are rejected.
pub(crate) fn check_received(target: &Target<'_>, name: &str, value: &Value) -> Result<Setting> {
    let invalid = || Error::invalid(target.dataset, format!("invalid property '{name}'"));
    // Streams use full names.
    if find(name).is_some_and(|def| def.name != name) {
        return Err(invalid());
    }
    let text = match value {
        Value::Text(text) => text.clone(),
        Value::Number(n) => {
            let def = find(name).ok_or_else(invalid)?;
            match def.value_type {
                ValueType::Index(_) => def.word(*n).ok_or_else(invalid)?.to_owned(),
                // As a user writes that there is none.
                ValueType::Number(_) if matches!(*n, 0 | u64::MAX) && !name.ends_with("blocks") => "none".to_owned(),
                ValueType::Number(_) | ValueType::Text => n.to_string(),
            }
        }
    };
    check(target, name, &text)
}

/// Checks properties of a dataset to be created in a pool of `version`. `is_enabled` looks up
/// features by guid.
pub fn check_new(
    dataset: &str,
    is_volume: bool,
    properties: &[(String, String)],
    version: u64,
    is_enabled: &dyn Fn(&str) -> bool,
) -> Result<()> {
    let kinds = if is_volume { Kinds::VOLUME } else { Kinds::FILESYSTEM };
    let target = Target { dataset, kinds, is_new: true, version, is_enabled };
    properties.iter().try_for_each(|(name, text)| check(&target, name, text).map(drop))
}

/// Parses a version of file systems as users write it: `5`, or `current`.
pub fn parse_version(text: &str) -> std::result::Result<u64, String> {
    let def = find("version").ok_or("there is no property 'version'")?;
    match parse(def, text)? {
        Value::Number(number) => Ok(number),
        Value::Text(text) => Err(format!("bad version '{text}'")),
    }
}

fn parse(def: &PropertyDef, text: &str) -> std::result::Result<Value, String> {
    match def.value_type {
        ValueType::Text => Ok(Value::Text(text.to_owned())),
        ValueType::Index(words) => words
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, number)| Value::Number(*number))
            .ok_or_else(|| format!("'{}' must be one of '{}'", def.name, def.values)),
        ValueType::Number(_) if text == "none" && !matches!(def.name, "recordsize" | "volblocksize" | "volsize") => {
            // "No limit" is the largest number, "no quota" is 0.
            Ok(Value::Number(if def.default_number() == u64::MAX { u64::MAX } else { 0 }))
        }
        ValueType::Number(_) if text == "auto" && def.name == "refreservation" => Ok(Value::Number(AUTO)),
        ValueType::Number(_) if text == "auto" => Err(format!("'auto' is invalid value for '{}'", def.name)),
        ValueType::Number(unit) => {
            let number = match unit {
                Unit::Bytes | Unit::Count => format::parse_size(text)?,
                _ => text.parse().map_err(|_| format!("bad numeric value '{text}'"))?,
            };
            if number == 0 && matches!(def.name, "quota" | "refquota") {
                return Err("use 'none' to disable quota/refquota".to_owned());
            }
            Ok(Value::Number(number))
        }
    }
}

/// The version that a pool must have for this value.
fn version_for(name: &str, value: &Value) -> u64 {
    match (name, value) {
        ("copies", _) => version::DITTO_BLOCKS,
        ("compression", Value::Number(n)) => match n & 0x7f {
            5..=13 => version::GZIP,
            14 => version::ZLE,
            _ => 1,
        },
        ("refquota" | "refreservation", _) => version::REFQUOTA,
        ("aclinherit", Value::Number(PASSTHROUGH_X)) => version::PASSTHROUGH_X,
        ("dedup", _) => version::DEDUP,
        _ => 1,
    }
}

enum Refused {
    Invalid(String),
    Unsupported(String),
}

fn check_value(target: &Target<'_>, def: &PropertyDef, value: &Value) -> std::result::Result<(), Refused> {
    let invalid = |what: &str| Err(Refused::Invalid(what.to_owned()));
    let needs = |feature: &'static str| match (target.is_enabled)(feature) {
        true => Ok(()),
        false => {
            let name = ondisk::feature::by_guid(feature).map_or(feature, |f| f.name);
            Err(Refused::Invalid(format!("'{}' needs feature@{name}, which is not enabled on the pool", def.name)))
        }
    };
    match (def.name, value) {
        ("recordsize" | "volblocksize", Value::Number(n)) => {
            if !(512..=16 << 20).contains(n) || !n.is_power_of_two() {
                return invalid(&format!("'{}' must be power of 2 from 512B to 16M", def.name));
            }
            if *n > feature::OLD_MAX_BLOCK_BYTES {
                needs(feature::LARGE_BLOCKS)?;
            }
        }
        ("special_small_blocks", Value::Number(n))
            if *n != 0 && !((512..=16 << 20).contains(n) && n.is_power_of_two()) =>
        {
            return invalid("'special_small_blocks' must be zero or a power of 2 from 512B to 16M");
        }
        ("checksum", Value::Number(n)) => {
            let kind = u8::try_from(*n).ok().and_then(|n| Checksum::from_raw(n).ok());
            if let Some(feature) = kind.and_then(feature::of_checksum) {
                needs(feature)?;
            }
        }
        ("compression", Value::Number(n)) => match n & 0x7f {
            16 => needs(feature::ZSTD)?,
            15 => needs("org.illumos:lz4_compress")?,
            _ => {}
        },
        ("dnodesize", Value::Number(n)) if *n != 0 => needs(feature::LARGE_DNODE)?,
        ("dedup", Value::Number(n)) => {
            let kind = u8::try_from(*n & 0xff).ok().and_then(|n| Checksum::from_raw(n).ok());
            if let Some(feature) = kind.and_then(feature::of_checksum) {
                needs(feature)?;
            }
        }
        ("mountpoint", Value::Text(path)) if path != "none" && path != "legacy" => {
            if !path.starts_with('/') {
                return invalid("'mountpoint' must be an absolute path, 'none', or 'legacy'");
            }
            if path.split('/').any(|part| part.len() > PATH_COMPONENT_MAX) || path.contains('\0') {
                return invalid("a component of 'mountpoint' is too long, or has a NUL");
            }
        }
        ("keylocation", Value::Text(text)) if KeyLocation::parse(text).is_none() => {
            return invalid("invalid keylocation");
        }
        ("refreservation", Value::Number(AUTO)) if target.kinds != Kinds::VOLUME => {
            return invalid("'refreservation=auto' only allowed on volumes");
        }
        ("volsize", Value::Number(0)) => return invalid("'volsize' cannot be zero"),
        ("filesystem_limit" | "snapshot_limit", _) => needs(super::limits::FEATURE)?,
        ("pbkdf2iters", Value::Number(n)) if *n < 100_000 => return invalid("'pbkdf2iters' must be at least 100000"),
        ("version", _) if !target.is_new => {
            return Err(Refused::Unsupported("upgrading the version of a file system".to_owned()));
        }
        (name, _) if name.starts_with("default") && name.ends_with("quota") => {
            return Err(Refused::Unsupported(format!("setting {name}: OpenZFS 2.3 does not know it")));
        }
        _ => {}
    }
    Ok(())
}

/// Checks property changes of an existing dataset; see [`super::set`].
pub(crate) fn settings_for(cx: &Cx<'_>, node: &Node, properties: &[(String, String)]) -> Result<Vec<Setting>> {
    let kinds = match node.snapshot {
        Some(_) => Kinds::SNAPSHOT,
        None => {
            let root = cx.dataset(node.head)?.phys.bp;
            match tree::kind(cx, node.head, &root)? {
                ObjsetKind::Volume => Kinds::VOLUME,
                _ => Kinds::FILESYSTEM,
            }
        }
    };
    let is_enabled = |guid: &str| cx.is_enabled(guid);
    let target =
        Target { dataset: &node.name, kinds, is_new: false, version: cx.sync.version(), is_enabled: &is_enabled };
    properties.iter().map(|(name, text)| check(&target, name, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kinds: Kinds, name: &str, text: &str) -> std::result::Result<Value, String> {
        let target =
            Target { dataset: "tank/a", kinds, is_new: false, version: 5000, is_enabled: &|f| f != feature::ZSTD };
        check(&target, name, text).map(|s| s.value).map_err(|e| e.to_string())
    }

    #[test]
    fn user_input_becomes_the_value_on_disk() {
        let fs = |name, text| value(Kinds::FILESYSTEM, name, text).unwrap();
        assert_eq!(fs("recordsize", "1M"), Value::Number(1 << 20));
        assert_eq!(fs("compression", "gzip"), Value::Number(10));
        assert_eq!(fs("compression", "lz4"), Value::Number(15));
        assert_eq!(fs("quota", "none"), Value::Number(0));
        assert_eq!(fs("snapshot_limit", "none"), Value::Number(u64::MAX));
        assert_eq!(fs("com.example:note", "4K"), Value::Text("4K".into()));
        assert_eq!(fs("atime", "off"), Value::Number(0));
        assert_eq!(fs("checksum", "noparity"), Value::Number(10));
    }

    #[test]
    fn a_short_name_sets_the_property_that_it_is_of_but_does_not_come_in_a_stream() {
        let target =
            Target { dataset: "tank/a", kinds: Kinds::FILESYSTEM, is_new: false, version: 5000, is_enabled: &|_| true };
        let set = check(&target, "compress", "lz4").unwrap();
        assert_eq!(set, Setting { name: "compression".into(), value: Value::Number(15) });
        let refused = |name, text| check(&target, name, text).unwrap_err().to_string();
        assert!(refused("refer", "1").contains("'refer' is readonly"));
        assert!(refused("COMPRESS", "lz4").contains("invalid property 'COMPRESS'"));
        assert!(refused("recsize", "3K").contains("'recordsize' must be power of 2"));
        for value in ["256", "1025", "32M"] {
            assert!(refused("special_small_blocks", value).contains("must be zero or a power of 2 from 512B to"));
        }
        assert!(check(&target, "special_small_blocks", "512").is_ok());
        for value in [Value::Number(15), Value::Text("lz4".into())] {
            assert!(check_received(&target, "compression", &value).is_ok());
            assert!(check_received(&target, "compress", &value).is_err());
        }
    }

    #[test]
    fn read_only_values_are_refused_with_a_reason() {
        let cases = [
            ("recordsize", "3K", "power of 2"),
            ("recordsize", "32M", "power of 2"),
            ("used", "1", "readonly"),
            ("normalization", "formC", "readonly"),
            ("volsize", "1G", "does not apply"),
            ("compression", "zstd-3", "zstd_compress"),
            ("compression", "brotli", "must be one of"),
            ("mountpoint", "home", "absolute path"),
            ("quota", "0", "use 'none'"),
            ("nosuch", "1", "invalid property 'nosuch'"),
            ("refreservation", "auto", "'refreservation=auto' only allowed on volumes"),
            ("quota", "auto", "'auto' is invalid value for 'quota'"),
            ("quota", "12Q", "invalid numeric suffix 'Q'"),
            ("reservation", "0bb", "invalid numeric suffix 'bb'"),
        ];
        for (name, text, reason) in cases {
            let error = value(Kinds::FILESYSTEM, name, text).unwrap_err();
            assert!(error.contains(reason), "{name}={text}: {error}");
        }
        assert!(value(Kinds::SNAPSHOT, "compression", "lz4").unwrap_err().contains("for snapshots"));
    }

    #[test]
    fn text_ends_with_a_nul_on_disk() {
        assert_eq!(on_disk(&Value::Text("hi".into())), ZapValue { int_bytes: 1, ints: vec![104, 105, 0] });
    }
}
