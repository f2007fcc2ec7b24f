//! Format of file names and attributes.
//!
//! One constant per property, in the order of [`super::CATALOGUE`].

use super::values;
use crate::property::def::{Attr, DefaultValue, Kinds, PropertyDef, ValueType, Visibility};

pub const ACLMODE: PropertyDef = PropertyDef {
    name: "aclmode",
    column: "ACLMODE",
    value_type: ValueType::Index(values::ACL_MODE_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "discard | groupmask | passthrough | restricted",
    help: "What chmod does to an NFSv4 ACL.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const ACLINHERIT: PropertyDef = PropertyDef {
    name: "aclinherit",
    column: "ACLINHERIT",
    value_type: ValueType::Index(values::ACL_INHERIT_TABLE),
    default: DefaultValue::Number(4),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "discard | noallow | restricted | passthrough | passthrough-x",
    help: "Which NFSv4 ACL entries new files and directories inherit.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const XATTR: PropertyDef = PropertyDef {
    name: "xattr",
    column: "XATTR",
    value_type: ValueType::Index(values::XATTR_TABLE),
    default: DefaultValue::Number(2),
    attr: Attr::Inherit,
    kinds: Kinds::FS_SNAP,
    values: "on | off | dir | sa",
    help: "How extended attributes are stored: in the file's system attributes or in a hidden directory.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const VERSION: PropertyDef = PropertyDef {
    name: "version",
    column: "VERSION",
    value_type: ValueType::Index(values::VERSION_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::FS_SNAP,
    values: "1 | 2 | 3 | 4 | 5 | current",
    help: "On-disk version of the file system.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const UTF8ONLY: PropertyDef = PropertyDef {
    name: "utf8only",
    column: "UTF8ONLY",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::OneTime,
    kinds: Kinds::FS_SNAP,
    values: "on | off",
    help: "Whether file names must be UTF-8.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const NORMALIZATION: PropertyDef = PropertyDef {
    name: "normalization",
    column: "NORMALIZATION",
    value_type: ValueType::Index(values::NORMALIZE_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::OneTime,
    kinds: Kinds::FS_SNAP,
    values: "none | formC | formD | formKC | formKD",
    help: "Unicode form in which file names are compared.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const CASESENSITIVITY: PropertyDef = PropertyDef {
    name: "casesensitivity",
    column: "CASE",
    value_type: ValueType::Index(values::CASE_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::OneTime,
    kinds: Kinds::FS_SNAP,
    values: "sensitive | insensitive | mixed",
    help: "Whether file names that differ only in case are different.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const ACLTYPE: PropertyDef = PropertyDef {
    name: "acltype",
    column: "ACLTYPE",
    value_type: ValueType::Index(values::ACLTYPE_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::FS_SNAP,
    values: "off | nfsv4 | posix",
    help: "Type of ACLs: none, POSIX or NFSv4.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const LONGNAME: PropertyDef = PropertyDef {
    name: "longname",
    column: "LONGNAME",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "on | off",
    help: "Whether file names may be up to 1023 bytes long.",
    visibility: Visibility::Listed,
    right_align: false,
};
