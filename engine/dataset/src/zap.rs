//! ZAPs of the MOS and of object sets, by object number.

use errors::Result;
use object::{Object, ObjectSet, Zap};
use std::sync::Arc;

/// Opens the ZAP in object `id` of the MOS.
pub(crate) fn open_zap(mos: &Arc<ObjectSet>, id: u64) -> Result<Zap> {
    Zap::open(mos.object(id)?)
}

/// Opens `object` itself as a ZAP, if it has named fields.
pub(crate) fn fields_of(object: &Object) -> Result<Option<Zap>> {
    const ZAP_METADATA: u8 = 0xc4;
    (object.dnode().object_type.0 == ZAP_METADATA).then(|| Zap::open(object.clone())).transpose()
}
