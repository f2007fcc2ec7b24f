//! Space usage: numbers maintained by the pool, all read-only.
//!
//! One constant per property, in the order of [`super::CATALOGUE`].

use crate::property::def::{Attr, DefaultValue, Kinds, PropertyDef, Unit, ValueType, Visibility};

pub const USED: PropertyDef = PropertyDef {
    name: "used",
    column: "USED",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "<size>",
    help: "Space used by the dataset and its descendants, including reservations.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const AVAILABLE: PropertyDef = PropertyDef {
    name: "available",
    column: "AVAIL",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<size>",
    help: "Space available to the dataset and its descendants.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const REFERENCED: PropertyDef = PropertyDef {
    name: "referenced",
    column: "REFER",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "<size>",
    help: "Space of the data that the dataset references, whether shared with other datasets or not.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const COMPRESSRATIO: PropertyDef = PropertyDef {
    name: "compressratio",
    column: "RATIO",
    value_type: ValueType::Number(Unit::Ratio),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "<1.00x or higher if compressed>",
    help: "Compression ratio of the used space of the dataset and its descendants; for a snapshot, of the referenced space.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const USEDBYSNAPSHOTS: PropertyDef = PropertyDef {
    name: "usedbysnapshots",
    column: "USEDSNAP",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<size>",
    help: "Space that would be freed if all snapshots of the dataset were destroyed.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const USEDBYDATASET: PropertyDef = PropertyDef {
    name: "usedbydataset",
    column: "USEDDS",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<size>",
    help: "Space used by the dataset itself, without snapshots, descendants and reservations.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const USEDBYCHILDREN: PropertyDef = PropertyDef {
    name: "usedbychildren",
    column: "USEDCHILD",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<size>",
    help: "Space used by the descendants.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const USEDBYREFRESERVATION: PropertyDef = PropertyDef {
    name: "usedbyrefreservation",
    column: "USEDREFRESERV",
    value_type: ValueType::Number(Unit::Bytes),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<size>",
    help: "Space that would be freed if refreservation were removed.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const UNIQUE: PropertyDef = PropertyDef {
    name: "unique",
    column: "UNIQUE",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "",
    help: "Space that only this dataset or snapshot references.",
    visibility: Visibility::Hidden,
    right_align: true,
};

pub const REFCOMPRESSRATIO: PropertyDef = PropertyDef {
    name: "refcompressratio",
    column: "REFRATIO",
    value_type: ValueType::Number(Unit::Ratio),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "<1.00x or higher if compressed>",
    help: "Compression ratio of the referenced space.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const WRITTEN: PropertyDef = PropertyDef {
    name: "written",
    column: "WRITTEN",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "<size>",
    help: "Referenced space written since the previous snapshot.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const LOGICALUSED: PropertyDef = PropertyDef {
    name: "logicalused",
    column: "LUSED",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::HEAD,
    values: "<size>",
    help: "Used space before compression, without copies and parity.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const LOGICALREFERENCED: PropertyDef = PropertyDef {
    name: "logicalreferenced",
    column: "LREFER",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "<size>",
    help: "Referenced space before compression, without copies and parity.",
    visibility: Visibility::Listed,
    right_align: true,
};
