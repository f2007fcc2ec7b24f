//! Where a file system is mounted, for whom, and with which mount options.
//!
//! One constant per property, in the order of [`super::CATALOGUE`].

use super::values;
use crate::property::def::{Attr, DefaultValue, Kinds, PropertyDef, Unit, ValueType, Visibility};

pub const MOUNTED: PropertyDef = PropertyDef {
    name: "mounted",
    column: "MOUNTED",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::ReadOnly,
    kinds: Kinds::FILESYSTEM,
    values: "yes | no",
    help: "Whether the file system is currently mounted.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const MOUNTPOINT: PropertyDef = PropertyDef {
    name: "mountpoint",
    column: "MOUNTPOINT",
    value_type: ValueType::Text,
    default: DefaultValue::Text("/"),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "<path> | legacy | none",
    help: "Where the file system is mounted; `legacy` leaves it to mount(8), `none` mounts it nowhere.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SHARENFS: PropertyDef = PropertyDef {
    name: "sharenfs",
    column: "SHARENFS",
    value_type: ValueType::Text,
    default: DefaultValue::Text("off"),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "on | off | NFS share options",
    help: "Whether the file system is shared over NFS, and with which options.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const ATIME: PropertyDef = PropertyDef {
    name: "atime",
    column: "ATIME",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "on | off",
    help: "Whether reading a file updates its access time.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const DEVICES: PropertyDef = PropertyDef {
    name: "devices",
    column: "DEVICES",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::FS_SNAP,
    values: "on | off",
    help: "Whether device nodes can be opened.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const EXEC: PropertyDef = PropertyDef {
    name: "exec",
    column: "EXEC",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::FS_SNAP,
    values: "on | off",
    help: "Whether programs can be executed.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SETUID: PropertyDef = PropertyDef {
    name: "setuid",
    column: "SETUID",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::FS_SNAP,
    values: "on | off",
    help: "Whether set-user-ID bits take effect.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const READONLY: PropertyDef = PropertyDef {
    name: "readonly",
    column: "RDONLY",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "on | off",
    help: "Whether the dataset is read-only.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const ZONED: PropertyDef = PropertyDef {
    name: "zoned",
    column: "ZONED",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "on | off",
    help: "Whether the dataset is managed from within a container.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SNAPDIR: PropertyDef = PropertyDef {
    name: "snapdir",
    column: "SNAPDIR",
    value_type: ValueType::Index(values::SNAPDIR_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "disabled | hidden | visible",
    help: "Whether the `.zfs` directory is visible in the root directory, hidden, or disabled.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const CANMOUNT: PropertyDef = PropertyDef {
    name: "canmount",
    column: "CANMOUNT",
    value_type: ValueType::Index(values::CANMOUNT_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Default,
    kinds: Kinds::FILESYSTEM,
    values: "on | off | noauto",
    help: "Whether the file system is mounted automatically (on), only explicitly (noauto) or never (off).",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const ISCSIOPTIONS: PropertyDef = PropertyDef {
    name: "iscsioptions",
    column: "ISCSIOPTIONS",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::Inherit,
    kinds: Kinds::VOLUME,
    values: "",
    help: "No longer used.",
    visibility: Visibility::Hidden,
    right_align: false,
};

pub const VSCAN: PropertyDef = PropertyDef {
    name: "vscan",
    column: "VSCAN",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "on | off",
    help: "Whether files are scanned for viruses when opened and closed (not on Linux).",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const NBMAND: PropertyDef = PropertyDef {
    name: "nbmand",
    column: "NBMAND",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::FS_SNAP,
    values: "on | off",
    help: "Whether locks of SMB clients are mandatory.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SHARESMB: PropertyDef = PropertyDef {
    name: "sharesmb",
    column: "SHARESMB",
    value_type: ValueType::Text,
    default: DefaultValue::Text("off"),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "on | off | SMB share options",
    help: "Whether the file system is shared over SMB, and with which options.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const STMF_SBD_LU: PropertyDef = PropertyDef {
    name: "stmf_sbd_lu",
    column: "STMF_SBD_LU",
    value_type: ValueType::Text,
    default: DefaultValue::None,
    attr: Attr::Inherit,
    kinds: Kinds::VOLUME,
    values: "",
    help: "Data that illumos stores for a volume shared as a logical unit.",
    visibility: Visibility::Hidden,
    right_align: false,
};

pub const MLSLABEL: PropertyDef = PropertyDef {
    name: "mlslabel",
    column: "MLSLABEL",
    value_type: ValueType::Text,
    default: DefaultValue::Text("none"),
    attr: Attr::Inherit,
    kinds: Kinds::DATASET,
    values: "<sensitivity label>",
    help: "Sensitivity label (not on Linux).",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SNAPDEV: PropertyDef = PropertyDef {
    name: "snapdev",
    column: "SNAPDEV",
    value_type: ValueType::Index(values::SNAPDEV_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "hidden | visible",
    help: "Whether snapshots of volumes get device nodes.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const CONTEXT: PropertyDef = PropertyDef {
    name: "context",
    column: "CONTEXT",
    value_type: ValueType::Text,
    default: DefaultValue::Text("none"),
    attr: Attr::Default,
    kinds: Kinds::DATASET,
    values: "<selinux context>",
    help: "SELinux context of all files.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const FSCONTEXT: PropertyDef = PropertyDef {
    name: "fscontext",
    column: "FSCONTEXT",
    value_type: ValueType::Text,
    default: DefaultValue::Text("none"),
    attr: Attr::Default,
    kinds: Kinds::DATASET,
    values: "<selinux fscontext>",
    help: "SELinux context of the file system.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const DEFCONTEXT: PropertyDef = PropertyDef {
    name: "defcontext",
    column: "DEFCONTEXT",
    value_type: ValueType::Text,
    default: DefaultValue::Text("none"),
    attr: Attr::Default,
    kinds: Kinds::DATASET,
    values: "<selinux defcontext>",
    help: "SELinux context of files without a label.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const ROOTCONTEXT: PropertyDef = PropertyDef {
    name: "rootcontext",
    column: "ROOTCONTEXT",
    value_type: ValueType::Text,
    default: DefaultValue::Text("none"),
    attr: Attr::Default,
    kinds: Kinds::DATASET,
    values: "<selinux rootcontext>",
    help: "SELinux context of the root directory.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const RELATIME: PropertyDef = PropertyDef {
    name: "relatime",
    column: "RELATIME",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "on | off",
    help: "Whether the access time is updated only if it is older than a day or than the last change.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const OVERLAY: PropertyDef = PropertyDef {
    name: "overlay",
    column: "OVERLAY",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "on | off",
    help: "Whether the file system may be mounted over a directory that is not empty.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const ZONED_UID: PropertyDef = PropertyDef {
    name: "zoned_uid",
    column: "ZONED_UID",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "<uid> | none",
    help: "User whose namespaces may manage the dataset.",
    visibility: Visibility::Newer,
    right_align: true,
};
