//! Deadlists: blocks that the previous snapshot references and this state does not, with totals by
//! birth txg.
//!
//! Below: `object::bpobj`. ZFS name: dsl_deadlist. Before pool version 26 a deadlist is one
//! unsorted list, and totals over a range of birth txgs require reading every entry.

use errors::{Error, Place, Result};
use object::{Bpobj, ObjectSet, Zap};
use ondisk::{BlkPtr, DeadlistHeader, ObjectType, SpaceTriple};
use std::sync::Arc;

/// A deadlist, open for reading.
pub struct Deadlist {
    mos: Arc<ObjectSet>,
    form: Form,
}

enum Form {
    /// A single list, in pools before version 26.
    Old(Bpobj),
    /// Lists by birth txg, with the grand total.
    Keyed { total: SpaceTriple, zap: Zap },
}

/// Adds `other` to `sum`.
pub(crate) fn add(sum: &mut SpaceTriple, other: SpaceTriple) {
    sum.used = sum.used.wrapping_add(other.used);
    sum.compressed = sum.compressed.wrapping_add(other.compressed);
    sum.uncompressed = sum.uncompressed.wrapping_add(other.uncompressed);
}

/// Space of a block as datasets count it; `devices` returns the space of a pointer on the devices.
pub(crate) fn space_of(bp: &BlkPtr, devices: &dyn Fn(&BlkPtr) -> u64) -> SpaceTriple {
    if bp.is_hole() {
        return SpaceTriple::default();
    }
    let compressed = if bp.is_embedded() { 0 } else { bp.psize_bytes() };
    // Datasets are not credited for the compression of metadata.
    let metadata = bp.level() > 0 || bp.object_type().is_metadata();
    SpaceTriple { used: devices(bp), compressed, uncompressed: if metadata { compressed } else { bp.lsize_bytes() } }
}

impl Deadlist {
    pub fn open(mos: &Arc<ObjectSet>, id: u64) -> Result<Self> {
        let object = mos.object(id)?;
        let form =
            if object.dnode().object_type == ObjectType::BPOBJ || object.bonus().len() < DeadlistHeader::SIZE_BYTES {
                Form::Old(Bpobj::open(mos, id)?)
            } else {
                let header = DeadlistHeader::parse(object.bonus(), object.endian()).at_with(|| object.place())?;
                Form::Keyed { total: header.space, zap: Zap::open(object)? }
            };
        Ok(Self { mos: mos.clone(), form })
    }

    /// Space of all its blocks.
    pub fn space(&self, devices: &dyn Fn(&BlkPtr) -> u64) -> Result<SpaceTriple> {
        match &self.form {
            Form::Keyed { total, .. } => Ok(*total),
            Form::Old(list) => list_space(&self.mos, list, devices),
        }
    }

    /// Space of its blocks born after `min_txg` and up to `max_txg`, which must be keys of the
    /// list, or 0 and the maximum.
    pub fn space_range(&self, min_txg: u64, max_txg: u64, devices: &dyn Fn(&BlkPtr) -> u64) -> Result<SpaceTriple> {
        let mut sum = SpaceTriple::default();
        match &self.form {
            Form::Keyed { zap, .. } => {
                // Most lists are the same shared empty one, which is checked once.
                let mut empty = None;
                for (min, list) in self.lists(zap)? {
                    if !(min_txg..max_txg).contains(&min) || Some(list) == empty {
                        continue;
                    }
                    let opened = Bpobj::open(&self.mos, list)?;
                    if opened.is_empty()? {
                        empty = Some(list);
                    } else {
                        add(&mut sum, list_space(&self.mos, &opened, devices)?);
                    }
                }
            }
            Form::Old(list) => list.for_each(&self.mos, &mut |entry| {
                let birth = entry.bp.logical_birth().0;
                if birth > min_txg && birth <= max_txg {
                    add(&mut sum, space_of(&entry.bp, devices));
                }
                Ok(true)
            })?,
        }
        Ok(sum)
    }

    /// Calls `sink` with each block until it returns false.
    pub fn for_each(&self, sink: &mut dyn FnMut(&BlkPtr) -> Result<bool>) -> Result<()> {
        let mut go_on = true;
        let mut step = |entry: object::BpobjEntry| {
            go_on = sink(&entry.bp)?;
            Ok(go_on)
        };
        match &self.form {
            Form::Old(list) => list.for_each(&self.mos, &mut step),
            Form::Keyed { zap, .. } => {
                for (_, list) in self.lists(zap)? {
                    Bpobj::open(&self.mos, list)?.for_each(&self.mos, &mut step)?;
                }
                Ok(())
            }
        }
    }

    /// The lists of a keyed deadlist in order, each with the txg after which its blocks were born.
    fn lists(&self, zap: &Zap) -> Result<Vec<(u64, u64)>> {
        let mut lists = Vec::new();
        for entry in zap.entries()? {
            let name = String::from_utf8_lossy(&entry.name);
            let bad = || Error::corrupt("", format!("deadlist: key {name} names no list by a txg in hexadecimal"));
            lists.push((DeadlistHeader::key(&entry.name).ok_or_else(bad)?, entry.value.as_u64().ok_or_else(bad)?));
        }
        lists.sort_unstable();
        Ok(lists)
    }
}

/// Space of the blocks of one list.
pub(crate) fn list_space(mos: &Arc<ObjectSet>, list: &Bpobj, devices: &dyn Fn(&BlkPtr) -> u64) -> Result<SpaceTriple> {
    let header = list.header();
    if let Some(logical) = header.logical {
        return Ok(SpaceTriple {
            used: header.used_bytes,
            compressed: logical.compressed_bytes,
            uncompressed: logical.uncompressed_bytes,
        });
    }
    let mut sum = SpaceTriple::default();
    list.for_each(mos, &mut |entry| {
        add(&mut sum, space_of(&entry.bp, devices));
        Ok(true)
    })?;
    Ok(SpaceTriple { used: header.used_bytes, ..sum })
}
