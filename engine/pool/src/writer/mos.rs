//! Writes the MOS.

use super::spa::Shared;
use super::spa::SyncTx;
use block::{Class, Compress, Dedup, WritePolicy, WriteStore};
use bytes::Bytes;
use errors::Result;
use object::{ObjectSet, SyncContext, Tx, Written};
use ondisk::{BlkPtr, Checksum, Compression, Dnode, ObjectType, version};
use std::sync::Arc;

/// From this pass on nothing is compressed: changing sizes would keep a txg from settling. As
/// OpenZFS (zfs_sync_pass_dont_compress).
const COMPRESS_UNTIL_PASS: u32 = 8;
/// Copies of each block of the MOS, if the pool allows so many.
const COPIES: u8 = 3;

struct MosContext<'a> {
    shared: &'a Shared,
    txg: u64,
    pass: u32,
    hole_birth: bool,
    lz4: bool,
    embed: bool,
    class: Class,
    counts_sectors: bool,
}

/// Writes the changes of the MOS since the last pass. Returns its root.
pub(crate) fn sync(cx: &SyncTx<'_>, pass: u32) -> Result<BlkPtr> {
    let context = MosContext {
        shared: cx.shared,
        txg: cx.txg(),
        pass,
        hole_birth: cx.hole_birth(),
        lz4: cx.feature_active("lz4_compress"),
        embed: cx.feature_active("embedded_data"),
        class: cx.metadata_class(),
        counts_sectors: cx.version() < version::DNODE_BYTES,
    };
    cx.mos().sync(&context)
}

impl MosContext<'_> {
    fn count(&self, bp: &BlkPtr, sign: i64) {
        let used = sign * self.shared.space_bytes(bp) as i64;
        // All of it is metadata: it counts with its stored size, not its uncompressed size.
        let stored = sign * if bp.is_hole() { 0 } else { bp.psize_bytes() as i64 };
        self.shared.accounting.add_mos((used, stored, stored));
    }

    fn compression(&self, raw: u8) -> Compress {
        if self.pass >= COMPRESS_UNTIL_PASS {
            return Compress::Off;
        }
        let own = Compression::from_raw(raw).ok().and_then(|algorithm| Compress::new(algorithm, 0));
        own.unwrap_or(if self.lz4 { Compress::Lz4 } else { Compress::Lzjb })
    }
}

impl SyncContext for MosContext<'_> {
    fn txg(&self) -> u64 {
        self.txg
    }

    fn repeats(&self) -> bool {
        self.pass > 1
    }

    fn counts_sectors(&self) -> bool {
        self.counts_sectors
    }

    fn store(&self) -> &WriteStore {
        &self.shared.store
    }

    fn policy(&self, what: &Written) -> WritePolicy {
        WritePolicy {
            object_type: what.object_type,
            level: what.level,
            checksum: Checksum::Fletcher4,
            compression: self.compression(if what.level == 0 { what.compression } else { 0 }),
            copies: COPIES,
            class: if what.object_type == ObjectType::DDT_ZAP { Class::Dedup } else { self.class },
            special_max_bytes: 0,
            embed: self.embed && self.pass < COMPRESS_UNTIL_PASS,
            dedup: Dedup::Off,
        }
    }

    fn root_policy(&self) -> WritePolicy {
        let root = Written {
            object: 0,
            object_type: ObjectType::OBJSET,
            level: 0,
            checksum: 0,
            compression: 0,
            is_spill: false,
        };
        WritePolicy { embed: false, ..self.policy(&root) }
    }

    fn born(&self, bp: &BlkPtr) {
        self.count(bp, 1);
    }

    fn killed(&self, bp: &BlkPtr) -> Result<()> {
        self.count(bp, -1);
        self.shared.store.free(self.txg, bp)
    }

    fn forgotten(&self, bp: &BlkPtr) {
        self.count(bp, -1);
    }

    fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        self.shared.space_bytes(bp)
    }

    fn hole_birth(&self) -> bool {
        self.hole_birth
    }

    fn object_changed(
        &self,
        _id: u64,
        _old: Option<&Dnode>,
        _new: Option<&mut Dnode>,
        _spill: &dyn Fn() -> Result<Option<Bytes>>,
    ) -> Result<()> {
        Ok(())
    }

    fn objects_done(&self, _set: &Arc<ObjectSet>, _tx: &Tx) -> Result<()> {
        Ok(())
    }
}
