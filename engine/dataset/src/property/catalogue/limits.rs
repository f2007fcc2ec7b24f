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
    help: "Maximum space for the dataset and its descendants.",
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
    help: "Space guaranteed to the dataset and its descendants.",
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
    help: "Maximum space that the dataset itself may reference, without snapshots and descendants.",
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
    help: "Space guaranteed to the dataset itself, without snapshots and descendants.",
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
    help: "Maximum number of file systems and volumes below the dataset.",
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
    help: "Maximum number of snapshots of the dataset and its descendants.",
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
    help: "Number of file systems and volumes below the dataset, counted once a limit is set.",
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
    help: "Number of snapshots of the dataset and its descendants, counted once a limit is set.",
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
    help: "Default space quota for users.",
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
    help: "Default space quota for groups.",
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
    help: "Default space quota for projects.",
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
    help: "Default quota of objects for users.",
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
    help: "Default quota of objects for groups.",
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
    help: "Default quota of objects for projects.",
    visibility: Visibility::Newer,
    right_align: true,
};
