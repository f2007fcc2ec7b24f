//! How far a receive that can be resumed has come, as stored in the dataset.
//!
//! Above: `receive`, which defines the other fields of that state, and `live`, which writes it with
//! the txg of the data.

use super::cx::Cx;
use errors::Result;
use ondisk::dsl_dataset as field;
use ondisk::zap::Value as ZapValue;

/// Progress of a receive: the last block written, and the bytes of the stream read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedTo {
    pub object: u64,
    pub offset: u64,
    pub bytes: u64,
}

/// Records the progress of the receive.
pub(crate) fn put(cx: &Cx<'_>, head: u64, to: &ReceivedTo) -> Result<()> {
    cx.set_field(head, field::FIELD_RESUME_OBJECT, &ZapValue::one(to.object))?;
    cx.set_field(head, field::FIELD_RESUME_OFFSET, &ZapValue::one(to.offset))?;
    cx.set_field(head, field::FIELD_RESUME_BYTES, &ZapValue::one(to.bytes))
}
