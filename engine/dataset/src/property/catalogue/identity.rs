//! Identity of a dataset and its relation to others; all read-only.
//!
//! One constant per property, in the order of [`super::CATALOGUE`].

use super::values;
use crate::property::def::{Attr, DefaultValue, Kinds, PropertyDef, Unit, ValueType, Visibility};

pub const TYPE: PropertyDef = PropertyDef {
    name: "type",
    column: "TYPE",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "filesystem | volume | snapshot | bookmark",
    help: "Type of dataset: filesystem, volume, snapshot or bookmark.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const CREATION: PropertyDef = PropertyDef {
    name: "creation",
    column: "CREATION",
    value_type: ValueType::Number(Unit::Time),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "<date>",
    help: "When the dataset was created.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const ORIGIN: PropertyDef = PropertyDef {
    name: "origin",
    column: "ORIGIN",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<snapshot>",
    help: "Snapshot that this dataset was cloned from.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const CREATETXG: PropertyDef = PropertyDef {
    name: "createtxg",
    column: "CREATETXG",
    value_type: ValueType::Number(Unit::Id),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "<uint64>",
    help: "Transaction group in which the dataset was created: orders snapshots exactly.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const NAME: PropertyDef = PropertyDef {
    name: "name",
    column: "NAME",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "",
    help: "Name of the dataset.",
    visibility: Visibility::Hidden,
    right_align: false,
};

pub const NUMCLONES: PropertyDef = PropertyDef {
    name: "numclones",
    column: "NUMCLONES",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::SNAPSHOT,
    values: "",
    help: "Number of clones of this snapshot.",
    visibility: Visibility::Hidden,
    right_align: true,
};

pub const GUID: PropertyDef = PropertyDef {
    name: "guid",
    column: "GUID",
    value_type: ValueType::Number(Unit::Id),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "<uint64>",
    help: "Unique identifier that never changes; a received snapshot has that of the snapshot that was sent.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const USERACCOUNTING: PropertyDef = PropertyDef {
    name: "useraccounting",
    column: "USERACCOUNTING",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "",
    help: "Whether the dataset accounts for space by user and group.",
    visibility: Visibility::Hidden,
    right_align: true,
};

pub const DEFER_DESTROY: PropertyDef = PropertyDef {
    name: "defer_destroy",
    column: "DEFER_DESTROY",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::SNAPSHOT,
    values: "yes | no",
    help: "Whether the snapshot is destroyed as soon as its last hold or clone is gone.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const USERREFS: PropertyDef = PropertyDef {
    name: "userrefs",
    column: "USERREFS",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::SNAPSHOT,
    values: "<count>",
    help: "Number of holds on the snapshot.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const OBJSETID: PropertyDef = PropertyDef {
    name: "objsetid",
    column: "OBJSETID",
    value_type: ValueType::Number(Unit::Id),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "<uint64>",
    help: "Number of the dataset within its pool; may be reused after the dataset is destroyed.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const CLONES: PropertyDef = PropertyDef {
    name: "clones",
    column: "CLONES",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::ReadOnly,
    kinds: Kinds::SNAPSHOT,
    values: "<dataset>[,...]",
    help: "Clones of this snapshot.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const INCONSISTENT: PropertyDef = PropertyDef {
    name: "inconsistent",
    column: "INCONSISTENT",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "",
    help: "Whether a receive into the dataset is in progress or was interrupted.",
    visibility: Visibility::Hidden,
    right_align: true,
};

pub const PREVSNAP: PropertyDef = PropertyDef {
    name: "prevsnap",
    column: "PREVSNAP",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "",
    help: "The latest snapshot of the dataset.",
    visibility: Visibility::Hidden,
    right_align: false,
};

pub const RECEIVE_RESUME_TOKEN: PropertyDef = PropertyDef {
    name: "receive_resume_token",
    column: "RESUMETOK",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<string token>",
    help: "Token for `zfs send -t`, to resume an interrupted receive.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const REMAPTXG: PropertyDef = PropertyDef {
    name: "remaptxg",
    column: "REMAPTXG",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "",
    help: "No longer used.",
    visibility: Visibility::Hidden,
    right_align: true,
};

pub const REDACTED: PropertyDef = PropertyDef {
    name: "redacted",
    column: "REDACTED",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "",
    help: "Whether the dataset was received from a redacted stream.",
    visibility: Visibility::Hidden,
    right_align: true,
};

pub const REDACT_SNAPS: PropertyDef = PropertyDef {
    name: "redact_snaps",
    column: "RSNAPS",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "<snapshot>[,...]",
    help: "Snapshots with respect to which the dataset or bookmark is redacted.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SNAPSHOTS_CHANGED: PropertyDef = PropertyDef {
    name: "snapshots_changed",
    column: "SNAPSHOTS_CHANGED",
    value_type: ValueType::Number(Unit::Time),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<date>",
    help: "When a snapshot of the dataset was last created, renamed or destroyed.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SNAPSHOTS_CHANGED_NSECS: PropertyDef = PropertyDef {
    name: "snapshots_changed_nsecs",
    column: "SNAPSHOTS_CHANGED_NSECS",
    value_type: ValueType::Number(Unit::Id),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<nsec>",
    help: "When a snapshot of the dataset last changed, in nanoseconds since 1970.",
    visibility: Visibility::Newer,
    right_align: false,
};
