//! Send streams as bytes: records with their payloads, and the checksum chain that protects them.
//!
//! Below: `ondisk::send_record` (the records). Above: `send`, `weir stream`; [`browse`] builds an
//! object set from a saved stream. Format: docs/format/stream.md.
//!
//! Invariants:
//!   * everything that [`Reader`] returns is covered by a verified checksum, unless verification is
//!     off
//!   * memory use grows with the largest record, never with the stream

pub mod browse;
mod read;
mod watch;
mod write;

pub use read::{Packet, Reader};
pub use watch::{Watch, place_of};
pub use write::Writer;

use ondisk::send_record::Body;

/// The record type, as OpenZFS spells it without `DRR_`.
pub fn kind_name(body: &Body) -> &'static str {
    match body {
        Body::Begin(_) => "BEGIN",
        Body::Object(_) => "OBJECT",
        Body::FreeObjects { .. } => "FREEOBJECTS",
        Body::Write(_) => "WRITE",
        Body::Free { .. } => "FREE",
        Body::End { .. } => "END",
        Body::WriteByRef(_) => "WRITE_BYREF",
        Body::Spill(_) => "SPILL",
        Body::WriteEmbedded(_) => "WRITE_EMBEDDED",
        Body::ObjectRange { .. } => "OBJECT_RANGE",
        Body::Redact { .. } => "REDACT",
    }
}

/// A BEGIN for tests.
#[cfg(test)]
pub(crate) fn begin(header_type: u8) -> Body {
    use ondisk::send_record::{Begin, Features};
    Body::Begin(Begin {
        header_type,
        features: Features::SA_SPILL,
        creation_time: 1,
        objset_type: 2,
        flags: 0,
        to_guid: 7,
        from_guid: 0,
        to_name: b"tank@s".to_vec(),
    })
}
