//! Single operations, in words.

use crate::name::Field;
use crate::tally::{Describe, key, text};
use observe::event::{Event, Layer};

/// An operation, as people see it. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// When it ended, since 1970.
    pub ended: u64,
    /// Through which door it came.
    pub layer: &'static str,
    /// What it was.
    pub op: &'static str,
    /// Who asked; the pool of a device, log or stream.
    pub client: String,
    /// For whom; empty for devices.
    pub user: String,
    /// Of which share; the device.
    pub share: String,
    /// Which file; empty for devices.
    pub file: String,
    /// Its number.
    pub object: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// How long it took.
    pub latency: u64,
    /// Of that, waiting to be taken up.
    pub queue_wait: u64,
    /// Waiting for the intent log.
    pub log_wait: u64,
    /// Waiting for a transaction group.
    pub txg_wait: u64,
    /// Waiting for devices.
    pub disk_wait: u64,
    /// What the cache said; `no lookup` if it was not asked.
    pub cache: String,
    /// `ok`, or the error.
    pub result: String,
}

/// What the module of its statistics is called.
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
    /// What an event says.
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
