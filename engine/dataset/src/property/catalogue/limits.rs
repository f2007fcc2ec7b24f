//! Space limits and reservations, and limits on counts.
//!
//! One constant per property, in the order of [`super::CATALOGUE`].

use crate::property::def::{Attr, DefaultValue, Kinds, PropertyDef, Unit, ValueType, Visibility};

pub const QUOTA: PropertyDef = PropertyDef {
    name: "quota",
    column: "QUOTA",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::FILESYSTEM,
    values: "<size> | none",
    help: "Most space that the dataset and everything below it may use.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const RESERVATION: PropertyDef = PropertyDef {
    name: "reservation",
    column: "RESERV",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::HEAD,
    values: "<size> | none",
    help: "Space that is guaranteed to the dataset and everything below it.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const REFQUOTA: PropertyDef = PropertyDef {
    name: "refquota",
    column: "REFQUOTA",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::FILESYSTEM,
    values: "<size> | none",
    help: "Most space that the dataset itself may reference, snapshots and children not counted.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const REFRESERVATION: PropertyDef = PropertyDef {
    name: "refreservation",
    column: "REFRESERV",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::HEAD,
    values: "<size> | none",
    help: "Space that is guaranteed to the dataset itself, snapshots and children not counted.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const FILESYSTEM_LIMIT: PropertyDef = PropertyDef {
    name: "filesystem_limit",
    column: "FSLIMIT",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(u64::MAX),
    attr: Attr::Default,
    kinds: Kinds::FILESYSTEM,
    values: "<count> | none",
    help: "How many file systems and volumes there may be below.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const SNAPSHOT_LIMIT: PropertyDef = PropertyDef {
    name: "snapshot_limit",
    column: "SSLIMIT",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(u64::MAX),
    attr: Attr::Default,
    kinds: Kinds::HEAD,
    values: "<count> | none",
    help: "How many snapshots there may be of this dataset and those below.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const FILESYSTEM_COUNT: PropertyDef = PropertyDef {
    name: "filesystem_count",
    column: "FSCOUNT",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(u64::MAX),
    attr: Attr::ReadOnly,
    kinds: Kinds::FILESYSTEM,
    values: "<count>",
    help: "How many file systems and volumes there are below, once a limit is set somewhere.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const SNAPSHOT_COUNT: PropertyDef = PropertyDef {
    name: "snapshot_count",
    column: "SSCOUNT",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(u64::MAX),
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<count>",
    help: "How many snapshots there are of this dataset and those below, once a limit is set somewhere.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const DEFAULTUSERQUOTA: PropertyDef = PropertyDef {
    name: "defaultuserquota",
    column: "DEFAULTUSERQUOTA",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::FS_SNAP,
    values: "<size> | none",
    help: "Space quota of users who have none of their own.",
    visibility: Visibility::Newer,
    right_align: true,
};

pub const DEFAULTGROUPQUOTA: PropertyDef = PropertyDef {
    name: "defaultgroupquota",
    column: "DEFAULTGROUPQUOTA",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::FS_SNAP,
    values: "<size> | none",
    help: "Space quota of groups that have none of their own.",
    visibility: Visibility::Newer,
    right_align: true,
};

pub const DEFAULTPROJECTQUOTA: PropertyDef = PropertyDef {
    name: "defaultprojectquota",
    column: "DEFAULTPROJECTQUOTA",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::FS_SNAP,
    values: "<size> | none",
    help: "Space quota of projects that have none of their own.",
    visibility: Visibility::Newer,
    right_align: true,
};

pub const DEFAULTUSEROBJQUOTA: PropertyDef = PropertyDef {
    name: "defaultuserobjquota",
    column: "DEFAULTUSEROBJQUOTA",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::FS_SNAP,
    values: "<size> | none",
    help: "Quota of objects for users who have none of their own.",
    visibility: Visibility::Newer,
    right_align: true,
};

pub const DEFAULTGROUPOBJQUOTA: PropertyDef = PropertyDef {
    name: "defaultgroupobjquota",
    column: "DEFAULTGROUPOBJQUOTA",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::FS_SNAP,
    values: "<size> | none",
    help: "Quota of objects for groups that have none of their own.",
    visibility: Visibility::Newer,
    right_align: true,
};

pub const DEFAULTPROJECTOBJQUOTA: PropertyDef = PropertyDef {
    name: "defaultprojectobjquota",
    column: "DEFAULTPROJECTOBJQUOTA",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::FS_SNAP,
    values: "<size> | none",
    help: "Quota of objects for projects that have none of their own.",
    visibility: Visibility::Newer,
    right_align: true,
};
