//! How blocks are laid out, checksummed, compressed and cached.
//!
//! One constant per property, in the order of [`super::CATALOGUE`].

use super::values;
use crate::property::def::{Attr, DefaultValue, Kinds, PropertyDef, Unit, ValueType, Visibility};

pub const VOLSIZE: PropertyDef = PropertyDef {
    name: "volsize",
    column: "VOLSIZE",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::Default,
    kinds: Kinds::VOL_SNAP,
    values: "<size>",
    help: "Size of the volume.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const VOLBLOCKSIZE: PropertyDef = PropertyDef {
    name: "volblocksize",
    column: "VOLBLOCK",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(16384),
    attr: Attr::OneTime,
    kinds: Kinds::VOLUME,
    values: "512 to 16M, power of 2",
    help: "Block size of the volume.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const RECORDSIZE: PropertyDef = PropertyDef {
    name: "recordsize",
    column: "RECSIZE",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(131072),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "512 to 16M, power of 2",
    help: "Maximum block size of new files.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const CHECKSUM: PropertyDef = PropertyDef {
    name: "checksum",
    column: "CHECKSUM",
    value_type: ValueType::Index(values::CHECKSUM_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "on | off | fletcher2 | fletcher4 | sha256 | sha512 | skein | edonr | blake3",
    help: "Checksum of new blocks.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const COMPRESSION: PropertyDef = PropertyDef {
    name: "compression",
    column: "COMPRESS",
    value_type: ValueType::Index(values::COMPRESS_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd | zstd-[1-19] | zstd-fast | zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]",
    help: "Compression of new blocks.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const COPIES: PropertyDef = PropertyDef {
    name: "copies",
    column: "COPIES",
    value_type: ValueType::Index(values::COPIES_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "1 | 2 | 3",
    help: "Number of copies of each new block, in addition to the pool's redundancy.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const PRIMARYCACHE: PropertyDef = PropertyDef {
    name: "primarycache",
    column: "PRIMARYCACHE",
    value_type: ValueType::Index(values::CACHE_TABLE),
    default: DefaultValue::Number(2),
    attr: Attr::Inherit,
    kinds: Kinds::DATASET,
    values: "all | none | metadata",
    help: "What is cached in memory.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SECONDARYCACHE: PropertyDef = PropertyDef {
    name: "secondarycache",
    column: "SECONDARYCACHE",
    value_type: ValueType::Index(values::CACHE_TABLE),
    default: DefaultValue::Number(2),
    attr: Attr::Inherit,
    kinds: Kinds::DATASET,
    values: "all | none | metadata",
    help: "What is cached on cache devices.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const LOGBIAS: PropertyDef = PropertyDef {
    name: "logbias",
    column: "LOGBIAS",
    value_type: ValueType::Index(values::LOGBIAS_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "latency | throughput",
    help: "Whether synchronous writes are optimized for latency or throughput.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const DEDUP: PropertyDef = PropertyDef {
    name: "dedup",
    column: "DEDUP",
    value_type: ValueType::Index(values::DEDUP_TABLE),
    default: DefaultValue::Number(2),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "on | off | verify | sha256[,verify] | sha512[,verify] | skein[,verify] | edonr,verify | blake3[,verify]",
    help: "Whether identical new blocks are stored only once.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SYNC: PropertyDef = PropertyDef {
    name: "sync",
    column: "SYNC",
    value_type: ValueType::Index(values::SYNC_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "standard | always | disabled",
    help: "Whether synchronous writes wait for stable storage: as requested, always or never.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const DNODESIZE: PropertyDef = PropertyDef {
    name: "dnodesize",
    column: "DNSIZE",
    value_type: ValueType::Index(values::DNSIZE_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "legacy | auto | 1k | 2k | 4k | 8k | 16k",
    help: "Size of the dnodes of new files; larger ones hold more attributes.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const VOLMODE: PropertyDef = PropertyDef {
    name: "volmode",
    column: "VOLMODE",
    value_type: ValueType::Index(values::VOLMODE_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "default | full | geom | dev | none",
    help: "How the volume appears: with partitions, as a bare device, or not at all.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const REDUNDANT_METADATA: PropertyDef = PropertyDef {
    name: "redundant_metadata",
    column: "REDUND_MD",
    value_type: ValueType::Index(values::REDUNDANT_METADATA_TABLE),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    kinds: Kinds::HEAD,
    values: "all | most | some | none",
    help: "How much of the metadata is stored in an additional copy.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const SPECIAL_SMALL_BLOCKS: PropertyDef = PropertyDef {
    name: "special_small_blocks",
    column: "SPECIAL_SMALL_BLOCKS",
    value_type: ValueType::Number(Unit::Count),
    default: DefaultValue::Number(0),
    attr: Attr::Inherit,
    // OpenZFS 2.4 lists it for volumes too; 2.3, whose lists are the model, does not.
    kinds: Kinds::FILESYSTEM,
    values: "0 to 16M",
    help: "Blocks up to this size are stored on the special devices.",
    visibility: Visibility::Listed,
    right_align: true,
};

pub const PREFETCH: PropertyDef = PropertyDef {
    name: "prefetch",
    column: "PREFETCH",
    value_type: ValueType::Index(values::PREFETCH_TABLE),
    default: DefaultValue::Number(2),
    attr: Attr::Inherit,
    kinds: Kinds::DATASET,
    values: "none | metadata | all",
    help: "Which blocks are read ahead.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const VOLTHREADING: PropertyDef = PropertyDef {
    name: "volthreading",
    column: "VOLTHREAD",
    value_type: ValueType::Index(values::BOOLEAN_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Default,
    kinds: Kinds::VOLUME,
    values: "on | off",
    help: "Whether requests to the volume are served by several threads.",
    visibility: Visibility::Listed,
    right_align: false,
};

pub const DIRECT: PropertyDef = PropertyDef {
    name: "direct",
    column: "DIRECT",
    value_type: ValueType::Index(values::DIRECT_TABLE),
    default: DefaultValue::Number(1),
    attr: Attr::Inherit,
    kinds: Kinds::FILESYSTEM,
    values: "disabled | standard | always",
    help: "Whether I/O bypasses the cache: never, when O_DIRECT requests it, or always.",
    visibility: Visibility::Listed,
    right_align: false,
};
