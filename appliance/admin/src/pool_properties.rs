//! Parses and validates pool properties.
//!
//! The catalogue (`pool::property`) lists them. This file adds the ranges, formats, and when a
//! property may be set. Facts: zpool_valid_proplist in lib/libzfs/libzfs_pool.c, including the
//! messages.

use crate::compatibility;
use crate::import::own_hostid;
use crate::verbs::{Kind, Reason};
use pool::property::{self, SetValue, find};

/// Maximum length of a comment, in bytes.
const COMMENT_MAX: usize = 32;
/// Maximum length of a user property's name, with its NUL.
const NAME_MAX: usize = 256;
/// Maximum length of a value, with its NUL.
const VALUE_MAX: usize = 8192;

/// A property with a valid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolSetting {
    /// Stored in the pool.
    Stored(String, SetValue),
    /// On-disk version.
    Version(u64),
    /// `feature@name`: whether to enable it.
    Feature(String, bool),
    /// In effect while the pool is imported here, and not stored in it: altroot, cachefile,
    /// readonly.
    Import(String, String),
}

/// When a property is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// By `zpool create -o`.
    Create,
    /// By `zpool set`.
    Set,
}

/// Whether a pool property of this name can exist.
pub fn is_known(name: &str) -> bool {
    find(name).is_some() || name.starts_with("feature@") || is_user_property(name)
}

fn is_user_property(name: &str) -> bool {
    dataset::property::is_user_property(name)
}

fn invalid<T>(why: impl Into<String>) -> Result<T, Reason> {
    Err(Reason::new(Kind::Invalid, why))
}

/// Parses a value. The reason follows after `cannot set property for 'tank': `.
pub fn parse(name: &str, value: &str, when: When) -> Result<PoolSetting, Reason> {
    if let Some(feature) = name.strip_prefix("feature@") {
        if !compatibility::is_feature(feature) {
            return invalid(format!("feature '{feature}' unsupported by kernel"));
        }
        return match (value, when) {
            ("enabled", _) => Ok(PoolSetting::Feature(feature.to_owned(), true)),
            ("disabled", When::Create) => Ok(PoolSetting::Feature(feature.to_owned(), false)),
            ("disabled", When::Set) => {
                invalid(format!("property '{name}' can only be set to 'disabled' at creation time"))
            }
            _ => invalid(format!("property '{name}' can only be set to 'enabled' or 'disabled'")),
        };
    }
    let Some(def) = find(name) else {
        if !is_user_property(name) {
            return invalid(format!("invalid property '{name}'"));
        }
        return match () {
            () if name.len() >= NAME_MAX => invalid(format!("property name '{name}' is too long")),
            () if value.len() >= VALUE_MAX => invalid(format!("property value '{value}' is too long")),
            () => Ok(PoolSetting::Stored(name.to_owned(), SetValue::Text(value.to_owned()))),
        };
    };
    if def.readonly && def.name != "readonly" {
        return invalid(format!("'{name}' is readonly"));
    }
    // What people call it stays in the messages, as with OpenZFS.
    let stored = |value: SetValue| Ok(PoolSetting::Stored(def.name.to_owned(), value));
    match def.name {
        "readonly" => invalid("property 'readonly' can only be set at import time"),
        "multihost" if matches!(value, "on" | "off") && own_hostid() == 0 => {
            invalid("requires a non-zero system hostid")
        }
        "version" => match value.parse::<u64>() {
            Ok(n) if pool::writer::is_version(n) => Ok(PoolSetting::Version(n)),
            Ok(n) => invalid(format!("property 'version' number {n} is invalid.")),
            Err(_) => invalid(format!("bad numeric value '{value}'")),
        },
        "altroot" if when == When::Set => invalid("property 'altroot' can only be set during pool creation or import"),
        "altroot" if !value.starts_with('/') => invalid(format!("bad alternate root '{value}'")),
        "altroot" => Ok(PoolSetting::Import(name.to_owned(), value.to_owned())),
        "cachefile" => match cache_file_problem(value) {
            Some(why) => invalid(why),
            None => Ok(PoolSetting::Import(def.name.to_owned(), value.to_owned())),
        },
        "bootfs" if when == When::Create => invalid("property 'bootfs' cannot be set at creation or import time"),
        "comment" if !value.bytes().all(|b| (0x20..0x7f).contains(&b)) => {
            invalid("comment may only have printable characters")
        }
        "comment" if value.len() > COMMENT_MAX => invalid(format!("comment must not exceed {COMMENT_MAX} characters")),
        "compatibility" => {
            compatibility::load(value).or_else(invalid)?;
            stored(SetValue::Text(value.to_owned()))
        }
        "ashift" => match value.parse::<u64>() {
            Ok(n @ (0 | 9..=16)) => stored(SetValue::Number(n)),
            Ok(n) => {
                invalid(format!("property 'ashift' number {n} is invalid, only values between 9 and 16 are allowed."))
            }
            Err(_) => invalid(format!("bad numeric value '{value}'")),
        },
        "dedup_table_quota" => match value {
            "none" => stored(SetValue::Number(0)),
            "auto" => stored(SetValue::Number(u64::MAX)),
            _ => match dataset::property::parse_size(value) {
                Ok(n) => stored(SetValue::Number(n)),
                Err(why) => invalid(why),
            },
        },
        _ => match def.kind {
            property::Kind::Word(words) => match words.iter().position(|w| *w == value) {
                Some(number) => stored(SetValue::Number(number as u64)),
                None => invalid(format!("'{}' must be one of '{}'", def.name, def.values)),
            },
            property::Kind::Text => stored(SetValue::Text(value.to_owned())),
            _ => match value.parse::<u64>() {
                Ok(number) => stored(SetValue::Number(number)),
                Err(_) => invalid(format!("bad numeric value '{value}'")),
            },
        },
    }
}

/// Why a value of `cachefile` is refused. Facts: zpool_valid_proplist in lib/libzfs/libzfs_pool.c.
fn cache_file_problem(value: &str) -> Option<String> {
    if matches!(value, "" | "none") {
        return None;
    }
    if !value.starts_with('/') {
        return Some("property 'cachefile' must be empty, an absolute path, or 'none'".to_owned());
    }
    let (folder, file) = value.rsplit_once('/')?;
    if matches!(file, "" | "." | "..") {
        return Some(format!("'{value}' is not a valid file"));
    }
    let is_folder = folder.is_empty() || std::path::Path::new(folder).is_dir();
    (!is_folder).then(|| format!("'{folder}' is not a valid directory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_normalized() {
        let set = |name, value| parse(name, value, When::Set).expect(name);
        let stored = |name: &str, value| PoolSetting::Stored(name.into(), value);
        assert_eq!(set("autotrim", "on"), stored("autotrim", SetValue::Number(1)));
        assert_eq!(set("failmode", "continue"), stored("failmode", SetValue::Number(1)));
        assert_eq!(set("comment", "hello"), stored("comment", SetValue::Text("hello".into())));
        assert_eq!(set("org.example:x", "y"), stored("org.example:x", SetValue::Text("y".into())));
        assert_eq!(set("expand", "on"), stored("autoexpand", SetValue::Number(1)));
        assert_eq!(set("ddtquota", "none"), stored("dedup_table_quota", SetValue::Number(0)));
        assert_eq!(set("ashift", "12"), stored("ashift", SetValue::Number(12)));
        assert_eq!(set("feature@lz4_compress", "enabled"), PoolSetting::Feature("lz4_compress".into(), true));
        assert_eq!(set("cachefile", "none"), PoolSetting::Import("cachefile".into(), "none".into()));
        assert_eq!(set("dedup_table_quota", "auto"), stored("dedup_table_quota", SetValue::Number(u64::MAX)));
    }

    #[test]
    fn bad_values_are_refused_with_openzfs_messages() {
        let cases = [
            ("size", "1", "'size' is readonly"),
            ("cap", "1", "'cap' is readonly"),
            ("expand", "maybe", "'autoexpand' must be one of 'on | off'"),
            ("AUTOTRIM", "on", "invalid property 'AUTOTRIM'"),
            ("autotrim", "maybe", "'autotrim' must be one of 'on | off'"),
            ("nosuch", "1", "invalid property 'nosuch'"),
            ("feature@nosuch", "enabled", "feature 'nosuch' unsupported by kernel"),
            (
                "feature@lz4_compress",
                "disabled",
                "property 'feature@lz4_compress' can only be set to 'disabled' at creation time",
            ),
            ("comment", "a\tb", "comment may only have printable characters"),
            ("comment", &"x".repeat(33), "comment must not exceed 32 characters"),
            ("altroot", "/mnt", "property 'altroot' can only be set during pool creation or import"),
            ("compatibility", "nosuch", "could not read/parse feature file(s): nosuch "),
        ];
        for (name, value, message) in cases {
            assert_eq!(parse(name, value, When::Set).expect_err(name).text, message);
        }
    }
}
