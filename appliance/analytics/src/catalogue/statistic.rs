//! What an entry of the catalogue states, and short forms for common ones.

use crate::name::Field;
use observe::Layer;

/// The source of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Operations of some layers.
    Events(&'static [Layer], Weight),
    /// Metrics reported by a [`Sampler`](crate::sampler::Sampler).
    Sampled,
}

/// The amount that an operation adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// 1 for each operation.
    Operations,
    /// The size of the operation in bytes.
    Bytes,
    /// The number of its cache lookups.
    Lookups,
}

/// How a statistic is aggregated and displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// A rate per second: averaged over longer spans.
    Rate,
    /// A level, such as a size or a percentage.
    Level,
}

/// An entry of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Statistic {
    /// Name, for example `nfs3.ops`.
    pub name: &'static str,
    /// Category under which it is listed.
    pub category: &'static str,
    /// Name in titles of graphs, without breakdown and predicates.
    pub title: &'static str,
    /// Unit: `ops`, `bytes`, `percent`.
    pub unit: &'static str,
    /// Meaning in a sentence, for users.
    pub help: &'static str,
    pub origin: Origin,
    pub shown: Shown,
    /// Fields for breakdowns and predicates; numeric fields make heat maps.
    pub fields: &'static [Field],
    /// Whether it is offered only in the advanced list.
    pub advanced: bool,
}

const NFS: &[Field] = &[
    Field::Op,
    Field::Client,
    Field::User,
    Field::Share,
    Field::File,
    Field::HitMiss,
    Field::Result,
    Field::Latency,
    Field::Size,
    Field::Offset,
    Field::QueueWait,
    Field::LogWait,
    Field::TxgWait,
    Field::DiskWait,
];

const NFS_BYTES: &[Field] =
    &[Field::Op, Field::Client, Field::User, Field::Share, Field::File, Field::Latency, Field::Size, Field::Offset];

pub const fn ops(
    name: &'static str,
    category: &'static str,
    title: &'static str,
    layers: &'static [Layer],
) -> Statistic {
    Statistic {
        name,
        category,
        title,
        unit: "ops",
        help: "Completed operations, timed from the arrival of the request's last byte to the reply.",
        origin: Origin::Events(layers, Weight::Operations),
        shown: Shown::Rate,
        fields: NFS,
        advanced: false,
    }
}

pub const fn bytes(
    name: &'static str,
    category: &'static str,
    title: &'static str,
    layers: &'static [Layer],
) -> Statistic {
    Statistic {
        unit: "bytes",
        help: "Bytes of files read and written.",
        origin: Origin::Events(layers, Weight::Bytes),
        fields: NFS_BYTES,
        ..ops(name, category, title, layers)
    }
}

pub const fn sampled(
    name: &'static str,
    category: &'static str,
    title: &'static str,
    unit: &'static str,
    shown: Shown,
    fields: &'static [Field],
    help: &'static str,
) -> Statistic {
    Statistic { name, category, title, unit, help, origin: Origin::Sampled, shown, fields, advanced: false }
}
