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
    help: "Space used by the dataset and everything below it, with its reservations.",
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
    help: "Space that the dataset and everything below it may still use.",
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
    help: "Space of the data that the dataset reaches, whether shared with others or not.",
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
    help: "How far compression has shrunk the used space of this dataset and those below; of a snapshot, of what it references.",
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
    help: "Space that destroying all snapshots of the dataset would free.",
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
    help: "Space that the dataset itself uses, without snapshots, children and reservations.",
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
    help: "Space that the datasets below use.",
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
    help: "Space that is held back only because of refreservation.",
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
    help: "How far compression has shrunk the referenced space.",
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
    help: "Referenced space that was written since the previous snapshot.",
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
    help: "Used space as it was before compression, without copies and parity.",
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
    help: "Referenced space as it was before compression, without copies and parity.",
    visibility: Visibility::Listed,
    right_align: true,
};
