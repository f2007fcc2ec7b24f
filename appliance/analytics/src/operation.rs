//! Single operations as text.

use crate::name::Field;
use crate::tally::{Describe, key, text};
use observe::event::{Event, Layer};

/// An operation, for display. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Completion time, since 1970.
    pub ended: u64,
    /// Module of its statistics.
    pub layer: &'static str,
    /// Type of operation, such as `read`.
    pub op: &'static str,
    /// Client; the pool for a device, log or stream.
    pub client: String,
    /// User; empty for devices.
    pub user: String,
    /// Share; or the device.
    pub share: String,
    /// File; empty for devices.
    pub file: String,
    /// Object number of the file.
    pub object: u64,
    /// Byte offset in the file or on the device.
    pub offset: u64,
    pub size: u64,
    /// Time from request to reply.
    pub latency: u64,
    /// Time in the queue, part of the latency.
    pub queue_wait: u64,
    /// Time waiting for the intent log.
    pub log_wait: u64,
    /// Time waiting for a transaction group.
    pub txg_wait: u64,
    /// Time waiting for devices.
    pub disk_wait: u64,
    /// Result of the cache lookup; `no lookup` if there was none.
    pub cache: String,
    /// `ok`, or the error.
    pub result: String,
}

/// The module name of a layer's statistics.
fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::Nfs3 => "nfs3",
        Layer::Nfs4 => "nfs4",
        Layer::Nfs41 => "nfs4-1",
        Layer::Fuse => "fuse",
        Layer::Disk => "disk",
        Layer::Nbd => "nbd",
        Layer::Log => "zil",
        Layer::Send => "send",
        Layer::Receive => "receive",
    }
}

impl Operation {
    /// Resolves the numbers in an event to names.
    pub fn of(event: &Event, names: &dyn Describe) -> Self {
        let named = |field: Field| text(key(event, field), field, names);
        let of_files =
            |field: Field| if matches!(event.layer, Layer::Disk | Layer::Log) { String::new() } else { named(field) };
        let note = &event.note;
        Self {
            ended: event.done,
            layer: layer(event.layer),
            op: event.layer.operation(event.op),
            client: named(Field::Client),
            user: of_files(Field::User),
            share: named(Field::Share),
            file: of_files(Field::File),
            object: note.object,
            offset: note.offset,
            size: note.size.into(),
            latency: event.latency,
            queue_wait: u64::from(note.queue_wait) * 1000,
            log_wait: u64::from(note.log_wait) * 1000,
            txg_wait: u64::from(note.txg_wait) * 1000,
            disk_wait: u64::from(note.disk_wait) * 1000,
            cache: named(Field::HitMiss),
            result: named(Field::Result),
        }
    }
}
