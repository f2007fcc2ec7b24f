//! Send and receive streams, record by record.

use super::statistic::{Origin, Statistic, Weight, ops};
use crate::name::Field;
use observe::Layer;

const CATEGORY: &str = "Streams";
const SEND: &[Layer] = &[Layer::Send];
const RECEIVE: &[Layer] = &[Layer::Receive];
/// Type of the record; local dataset; file whose blocks it holds; time that the stream took for the
/// record.
const FIELDS: &[Field] =
    &[Field::Op, Field::Pool, Field::Share, Field::File, Field::User, Field::Latency, Field::Size, Field::Offset];

const fn records(name: &'static str, title: &'static str, layers: &'static [Layer], help: &'static str) -> Statistic {
    Statistic { fields: FIELDS, help, ..ops(name, CATEGORY, title, layers) }
}

const fn bytes(name: &'static str, title: &'static str, layers: &'static [Layer], help: &'static str) -> Statistic {
    Statistic { unit: "bytes", origin: Origin::Events(layers, Weight::Bytes), ..records(name, title, layers, help) }
}

/// Records of streams being sent.
pub const SEND_OPS: Statistic = records(
    "send.ops",
    "Send: records",
    SEND,
    "Records of sent streams. The latency of a record is the time since the previous one: to read its data, and until the receiver accepted it.",
);

/// Bytes of streams being sent.
pub const SEND_BYTES: Statistic = bytes(
    "send.bytes",
    "Send: bytes",
    SEND,
    "Bytes of sent streams, as transferred: compressed or encrypted if the stream is.",
);

/// Records of streams being received.
pub const RECEIVE_OPS: Statistic = records(
    "receive.ops",
    "Receive: records",
    RECEIVE,
    "Records of received streams. The latency of a record is the time since the previous one: until it arrived and the previous one was processed.",
);

/// Bytes of streams being received.
pub const RECEIVE_BYTES: Statistic = bytes(
    "receive.bytes",
    "Receive: bytes",
    RECEIVE,
    "Bytes of received streams, as transferred: compressed or encrypted if the stream is.",
);
