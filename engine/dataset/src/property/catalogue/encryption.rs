//! Encryption and its keys.
//!
//! One constant per property, in the order of [`super::CATALOGUE`].

use super::values;
use crate::property::def::{Attr, DefaultValue, Kinds, PropertyDef, Unit, ValueType, Visibility};

pub const ENCRYPTION: PropertyDef = PropertyDef {
    name: "encryption",
    column: "ENCRYPTION",
    value_type: ValueType::Index(values::CRYPTO_TABLE),
    default: DefaultValue::Number(2),
    attr: Attr::OneTime,
    kinds: Kinds::DATASET,
    values: "on | off | aes-128-ccm | aes-192-ccm | aes-256-ccm | aes-128-gcm | aes-192-gcm | aes-256-gcm",
    help: "Cipher of the dataset, chosen when it is created.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const KEYLOCATION: PropertyDef = PropertyDef {
    name: "keylocation",
    column: "KEYLOCATION",
    value_type: ValueType::Text,
    default: DefaultValue::Text("none"),
    attr: Attr::Default,
    kinds: Kinds::HEAD,
    values: "prompt | <file URI> | <https URL> | <http URL>",
    help: "Where the key comes from: a prompt, a file or a URL.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const KEYFORMAT: PropertyDef = PropertyDef {
    name: "keyformat",
    column: "KEYFORMAT",
    value_type: ValueType::Index(values::KEYFORMAT_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::OneTimeDefault,
    kinds: Kinds::HEAD,
    values: "none | raw | hex | passphrase",
    help: "Form of the key: raw bytes, hexadecimal or a passphrase.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const PBKDF2SALT: PropertyDef = PropertyDef {
    name: "pbkdf2salt",
    column: "PBKDF2SALT",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::OneTimeDefault,
    kinds: Kinds::HEAD,
    values: "",
    help: "Salt for deriving the key from a passphrase.",
    visibility: Visibility::Hidden,
    right_align: true,
};

pub const PBKDF2ITERS: PropertyDef = PropertyDef {
    name: "pbkdf2iters",
    column: "PBKDF2ITERS",
    value_type: ValueType::Number(Unit::Id),
    default: DefaultValue::Number(0),
    attr: Attr::OneTimeDefault,
    kinds: Kinds::HEAD,
    values: "<iters>",
    help: "Iterations (PBKDF2) for deriving the key from a passphrase.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const ENCRYPTIONROOT: PropertyDef = PropertyDef {
    name: "encryptionroot",
    column: "ENCROOT",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "<filesystem | volume>",
    help: "Dataset whose key unlocks this one.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const KEYGUID: PropertyDef = PropertyDef {
    name: "keyguid",
    column: "KEYGUID",
    value_type: ValueType::Number(Unit::Id),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "",
    help: "Unique identifier of the dataset's master key.",
    visibility: Visibility::Hidden,
    right_align: true,
};

pub const KEYSTATUS: PropertyDef = PropertyDef {
    name: "keystatus",
    column: "KEYSTATUS",
    value_type: ValueType::Index(values::KEYSTATUS_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::DATASET,
    values: "none | unavailable | available",
    help: "Whether the key is loaded.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const IVSETGUID: PropertyDef = PropertyDef {
    name: "ivsetguid",
    column: "IVSETGUID",
    value_type: ValueType::Number(Unit::Id),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::ANY,
    values: "",
    help: "Unique identifier of the set of initialization vectors, by which raw streams are matched.",
    visibility: Visibility::Hidden,
    right_align: true,
};
