//! Parses and validates vdev properties. Facts: vdev_prop_init (module/zcommon/zpool_prop.c),
//! zpool_set_vdev_prop (lib/libzfs/libzfs_pool.c), vdev_prop_set (module/zfs/vdev.c).

use crate::verbs::{Kind, Reason};
use crate::write::WritablePool;
use anyhow::Result;
use pool::Pool;
use pool::property::SetValue;
use std::collections::BTreeMap;

/// Thresholds for faults: a number, or the default.
const LIMITS: [&str; 6] = ["checksum_n", "checksum_t", "io_n", "io_t", "slow_io_n", "slow_io_t"];
/// Maximum lengths of a user property's name and of a value, with their NUL.
const NAME_MAX: usize = 256;
const VALUE_MAX: usize = 8192;

/// The names and column headings.
pub static NAMES: &[(&str, &str)] = &[
    ("capacity", "CAP"),
    ("state", "STATE"),
    ("guid", "GUID"),
    ("asize", "ASIZE"),
    ("psize", "PSIZE"),
    ("ashift", "ASHIFT"),
    ("size", "SIZE"),
    ("free", "FREE"),
    ("allocated", "ALLOC"),
    ("comment", "COMMENT"),
    ("expandsize", "EXPANDSZ"),
    ("fragmentation", "FRAG"),
    ("bootsize", "BOOTSIZE"),
    ("parity", "PARITY"),
    ("path", "PATH"),
    ("devid", "DEVID"),
    ("physpath", "PHYSPATH"),
    ("encpath", "ENCPATH"),
    ("fru", "FRU"),
    ("parent", "PARENT"),
    ("children", "CHILDREN"),
    ("numchildren", "NUMCHILD"),
    ("read_errors", "RDERR"),
    ("write_errors", "WRERR"),
    ("checksum_errors", "CKERR"),
    ("initialize_errors", "INITERR"),
    ("null_ops", "NULLOP"),
    ("read_ops", "READOP"),
    ("write_ops", "WRITEOP"),
    ("free_ops", "FREEOP"),
    ("claim_ops", "CLAIMOP"),
    ("trim_ops", "TRIMOP"),
    ("null_bytes", "NULLBYTE"),
    ("read_bytes", "READBYTE"),
    ("write_bytes", "WRITEBYTE"),
    ("free_bytes", "FREEBYTE"),
    ("claim_bytes", "CLAIMBYTE"),
    ("trim_bytes", "TRIMBYTE"),
    ("removing", "REMOVING"),
    ("allocating", "ALLOCATING"),
    ("failfast", "FAILFAST"),
    ("checksum_n", "CKSUM_N"),
    ("checksum_t", "CKSUM_T"),
    ("io_n", "IO_N"),
    ("io_t", "IO_T"),
    ("raidz_expanding", "RAIDZ_EXPANDING"),
    ("slow_io_n", "SLOW_IO_N"),
    ("slow_io_t", "SLOW_IO_T"),
    ("trim_support", "TRIMSUP"),
    ("trim_errors", "TRIMERR"),
    ("slow_ios", "SLOW"),
];

/// The full name of a property given by name or column heading.
pub fn find(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(n, column)| *n == name || column.to_ascii_lowercase() == name).map(|(n, _)| *n)
}

/// A vdev property with a valid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VdevSetting {
    /// A property that is stored as it is: name and value.
    Stored(String, SetValue),
    /// Whether the vdev accepts new blocks.
    Allocating(bool),
}

/// Parses a value. The reason follows after `cannot set property ... : `.
pub fn parse(name: &str, value: &str) -> Result<VdevSetting, Reason> {
    let stored = |value| Ok(VdevSetting::Stored(name.to_owned(), value));
    let invalid = |why: String| Reason::new(Kind::Invalid, why);
    let word = |yes: &str| match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(invalid(format!("'{yes}' must be one of 'on | off'"))),
    };
    match name {
        _ if value.len() >= VALUE_MAX => Err(invalid(format!("property value '{value}' is too long"))),
        "comment" => stored(SetValue::Text(value.to_owned())),
        "failfast" => stored(SetValue::Number(u64::from(word(name)?))),
        "allocating" => Ok(VdevSetting::Allocating(word(name)?)),
        _ if LIMITS.contains(&name) => match value {
            "none" => stored(SetValue::Number(u64::MAX)),
            _ => match dataset::property::parse_size(value) {
                Ok(n) => stored(SetValue::Number(n)),
                Err(why) => Err(invalid(why)),
            },
        },
        "path" => Err(Reason::new(Kind::Unsupported, "unsupported: setting the path of a device")),
        _ if find(name).is_some() => Err(invalid(format!("'{name}' is readonly"))),
        _ if !dataset::property::is_user_property(name) => Err(invalid(format!("invalid property '{name}'"))),
        _ if name.len() >= NAME_MAX => Err(invalid(format!("property name '{name}' is too long"))),
        _ => stored(SetValue::Text(value.to_owned())),
    }
}

/// Sets a property of the vdev with this guid.
pub fn set(pool: &WritablePool, device: u64, setting: VdevSetting) -> Result<()> {
    Ok(pool.writer().task(move |cx| match setting {
        VdevSetting::Stored(name, value) => cx.set_vdev_property(device, &name, &value),
        VdevSetting::Allocating(yes) => cx.set_allocating(device, yes),
    })?)
}

/// The properties that are set on a vdev, by name.
pub fn of(pool: &Pool, device: u64) -> Result<BTreeMap<String, SetValue>> {
    let is_property = |name: &str| {
        // OpenZFS stores internal entries in the same place.
        let is_internal = ["com.delphix:", "org.zfsonlinux:", "org.openzfs:", "com.klarasystems:"];
        let is_user = name.contains(':') && !is_internal.iter().any(|prefix| name.starts_with(prefix));
        is_user || matches!(name, "comment" | "failfast" | "allocating") || LIMITS.contains(&name)
    };
    let all = pool.set_vdev_properties(device)?;
    Ok(all.into_iter().filter(|(name, _)| is_property(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_normalized_and_others_refused_with_openzfs_messages() {
        let stored = |name: &str, value| Ok(VdevSetting::Stored(name.into(), value));
        assert_eq!(parse("comment", "left shelf"), stored("comment", SetValue::Text("left shelf".into())));
        assert_eq!(parse("checksum_n", "20"), stored("checksum_n", SetValue::Number(20)));
        assert_eq!(parse("io_t", "none"), stored("io_t", SetValue::Number(u64::MAX)));
        assert_eq!(parse("failfast", "off"), stored("failfast", SetValue::Number(0)));
        assert_eq!(parse("org.example:x", "y"), stored("org.example:x", SetValue::Text("y".into())));
        assert_eq!(parse("allocating", "off"), Ok(VdevSetting::Allocating(false)));
        for (name, value, message) in [
            ("guid", "1", "'guid' is readonly"),
            ("nosuch", "1", "invalid property 'nosuch'"),
            ("io_n", "many", "bad numeric value 'many'"),
            ("failfast", "maybe", "'failfast' must be one of 'on | off'"),
        ] {
            assert_eq!(parse(name, value).expect_err(name).text, message);
        }
    }
}
