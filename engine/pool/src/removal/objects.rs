//! The objects of a mapping, as the syncing txg writes them.
//!
//! Format: `ondisk::indirect`.
//!
//! Invariants:
//!   * with obsolete counts, there is one count for each range

use super::mapping::{Growing, NewRange};
use super::state::OBSOLETE_COUNTS;
use crate::writer::spa::SyncTx;
use errors::{Error, Result};
use object::NewObject;
use ondisk::indirect::{MappingEntry, MappingHeader};
use ondisk::{Endian, ObjectType};
use std::sync::Arc;

/// Block size of these objects (`SPA_OLD_MAXBLOCKSIZE`).
const BLOCK_BYTES: u32 = 128 << 10;
const ENDIAN: Endian = Endian::Little;

impl Growing {
    /// Creates the objects of an empty mapping.
    pub fn create(cx: &SyncTx<'_>, vdev: u32) -> Result<Self> {
        let (object, header) = create_object(cx)?;
        let births = NewObject::new(ObjectType::OTN_UINT64_METADATA, BLOCK_BYTES)
            .with_bonus(ObjectType::OTN_UINT64_METADATA, vec![0; 8]);
        let births = cx.mos().create_object(cx.tx(), &births)?.id();
        Ok(Self { vdev, object, births, births_count: 0, header, mapping: Arc::default() })
    }

    /// Adds ranges that were copied in this txg.
    pub fn extend(&mut self, cx: &SyncTx<'_>, ranges: &[NewRange]) -> Result<()> {
        let entries = ranges.iter().map(NewRange::entry);
        let mapping = self.mapping.extended(entries).map_err(|what| Error::invalid(cx.store().name(), what))?;
        append(cx, self.object, &mut self.header, ranges)?;
        self.mapping = Arc::new(mapping);
        let births = cx.mos().object(self.births)?;
        let mut entry = self.header.max_offset_bytes.to_le_bytes().to_vec();
        entry.extend(cx.txg().to_le_bytes());
        births.write_at(cx.tx(), self.births_count * entry.len() as u64, &entry)?;
        self.births_count += 1;
        births.set_bonus(cx.tx(), self.births_count.to_le_bytes().to_vec())
    }

    /// Destroys the mapping, its counts and the births.
    pub fn destroy(&self, cx: &SyncTx<'_>) -> Result<()> {
        destroy_object(cx, self.object, &self.header)?;
        cx.mos().free_object(cx.tx(), self.births)
    }
}

/// Creates the object of a mapping, and one for its counts if the pool keeps them.
pub(super) fn create_object(cx: &SyncTx<'_>) -> Result<(u64, MappingHeader)> {
    let counts_object = match cx.feature_enabled(OBSOLETE_COUNTS) {
        true => {
            let counts = NewObject::new(ObjectType::OTN_UINT32_METADATA, BLOCK_BYTES);
            let counts = cx.mos().create_object(cx.tx(), &counts)?.id();
            cx.feature_increment(OBSOLETE_COUNTS)?;
            Some(counts)
        }
        false => None,
    };
    let header = MappingHeader { max_offset_bytes: 0, mapped_bytes: 0, entries: 0, counts_object };
    let new = NewObject::new(ObjectType::OTN_UINT64_METADATA, BLOCK_BYTES)
        .with_bonus(ObjectType::OTN_UINT64_METADATA, header.to_bytes(ENDIAN));
    Ok((cx.mos().create_object(cx.tx(), &new)?.id(), header))
}

/// Appends ranges to the objects.
pub(super) fn append(cx: &SyncTx<'_>, object: u64, header: &mut MappingHeader, ranges: &[NewRange]) -> Result<()> {
    let Some(last) = ranges.last() else { return Ok(()) };
    let bytes = ranges.iter().flat_map(|r| {
        MappingEntry { source_offset_bytes: r.source_bytes, target: r.target, mark: false }.to_bytes(ENDIAN)
    });
    let mapping = cx.mos().object(object)?;
    mapping.write_at(cx.tx(), header.entries * MappingEntry::SIZE_BYTES as u64, &bytes.collect::<Vec<u8>>())?;
    if let Some(counts) = header.counts_object {
        let bytes: Vec<u8> = ranges.iter().flat_map(|r| r.obsolete_bytes.to_le_bytes()).collect();
        cx.mos().object(counts)?.write_at(cx.tx(), header.entries * 4, &bytes)?;
    }
    header.entries += ranges.len() as u64;
    header.mapped_bytes += ranges.iter().map(|r| r.target.asize_bytes).sum::<u64>();
    header.max_offset_bytes = last.source_bytes + last.target.asize_bytes;
    mapping.set_bonus(cx.tx(), header.to_bytes(ENDIAN))
}

/// Destroys the object of a mapping, and that of its counts.
pub(super) fn destroy_object(cx: &SyncTx<'_>, object: u64, header: &MappingHeader) -> Result<()> {
    if let Some(counts) = header.counts_object {
        cx.mos().free_object(cx.tx(), counts)?;
        cx.feature_decrement(OBSOLETE_COUNTS)?;
    }
    cx.mos().free_object(cx.tx(), object)
}
