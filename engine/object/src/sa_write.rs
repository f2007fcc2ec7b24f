//! Writes system attributes: packs them into the bonus and, when that is full, into a spill block.
//!
//! Below: `Object::set_bonus` and `set_spill`, `Zap` for registry and layouts. ZFS names:
//! sa_replace_all_by_template, sa_update, sa_remove, sa_build_layouts.
//!
//! An attribute that keeps its length is overwritten in place. Otherwise all attributes are packed
//! again: existing ones in their order, new ones after them. If they do not fit into the bonus, the
//! later ones go to the spill block. The list of attributes in a buffer is its layout. A layout
//! that no object had before gets the next number in the dataset's table, in the same transaction.
//!
//! Invariants:
//!   * packed buffers are little-endian, and so are the values that callers pass
//!   * unknown attributes are kept with their values
//!   * the caller serialises changes to one object's attributes, and reads during a change

use crate::sa::{Layout, SaTable, Slots};
use crate::zap::ZapSpec;
use crate::{Object, ObjectSet, Tx, Zap};
use errors::{Error, Place, Refusal, Result};
use host::sync::RwLock;
use ondisk::acl::Ace;
use ondisk::dnode::{CORE_BYTES, SLOT_BYTES};
use ondisk::sa::{Attr, ByteSwap, Registered, SaHeader};
use ondisk::zap::Value as ZapValue;
use ondisk::{Endian, ObjectType, blkptr};
use std::sync::{Arc, OnceLock};

/// Maximum size of all attributes of an object, and of its spill block, in bytes
/// (`SPA_OLD_MAXBLOCKSIZE`).
const BYTES_MAX: usize = 128 << 10;
/// The header's length has 6 bits, in units of 8 bytes.
const HEADER_BYTES_MAX: usize = 63 * 8;
/// Layout numbers have 10 bits.
const LAYOUTS_MAX: usize = 1 << 10;
/// First layout number in the table: 0 is that of old znodes, 1 that of no attributes.
const LAYOUT_FIRST: u16 = 2;

const LE: Endian = Endian::Little;

/// An attribute to pack.
struct Item {
    number: u16,
    /// No length is registered, so it is stored in the header.
    variable: bool,
    bytes: Vec<u8>,
}

impl SaTable {
    /// Creates the tables of a new file system, with all file attributes registered. Returns them
    /// and the object number for `SA_ATTRS` of the master node.
    pub fn create(objset: &Arc<ObjectSet>, tx: &Tx) -> Result<(Self, u64)> {
        let master = Zap::create(objset, tx, &ZapSpec::new(ObjectType::SA_MASTER_NODE))?;
        let id = master.object().map_or(0, Object::id);
        let table = Self { tables: RwLock::default(), home: OnceLock::from((objset.clone(), id)) };
        table.register(tx, Attr::Mode)?;
        Ok((table, id))
    }

    /// Sets the attributes of a new object, in this order. Replaces all existing ones.
    pub fn build<V: AsRef<[u8]>>(&self, tx: &Tx, object: &Object, attrs: &[(Attr, V)]) -> Result<()> {
        let mut items = Vec::with_capacity(attrs.len());
        for (attr, value) in attrs {
            items.push(self.item(tx, *attr, value.as_ref()).at_with(|| object.place())?);
        }
        self.pack(tx, &object.renewed()?, items)
    }

    /// Sets attributes (`Some`) and removes them (`None`).
    pub fn update(&self, tx: &Tx, object: &Object, changes: &[(Attr, Option<&[u8]>)]) -> Result<()> {
        let object = object.renewed()?;
        match object.dnode().bonus_type {
            ObjectType::SA => {}
            ObjectType::ZNODE => return self.update_old(tx, &object, changes),
            other => {
                let what = format!("its bonus has type {}, expected attributes of a file", other.0);
                return Err(Error::corrupt(object.place(), what));
            }
        }
        if self.update_in_place(tx, &object, changes)? {
            return Ok(());
        }
        let mut items = self.unpack(object.bonus()).at_with(|| object.place())?;
        if let Some(spill) = object.spill()? {
            items.extend(self.unpack(&spill.data).at_with(|| object.place()).at("spill block")?);
        }
        for (attr, value) in changes {
            let number = self.tables.read().numbers.get(attr).copied();
            let at = items.iter().position(|item| Some(item.number) == number);
            match (at, value) {
                (Some(at), Some(value)) => items[at] = self.item(tx, *attr, value).at_with(|| object.place())?,
                (Some(at), None) => drop(items.remove(at)),
                (None, Some(value)) => items.push(self.item(tx, *attr, value).at_with(|| object.place())?),
                (None, None) => {}
            }
        }
        self.pack(tx, &object, items)
    }

    /// Overwrites values of equal length. Returns false, without a change, if any length differs.
    fn update_in_place(&self, tx: &Tx, object: &Object, changes: &[(Attr, Option<&[u8]>)]) -> Result<bool> {
        let mut in_bonus = Slots::default();
        self.index(object.bonus(), &mut in_bonus).at_with(|| object.place())?;
        let (mut bonus, mut spill) = (None, None);
        for (attr, value) in changes {
            let Some(value) = value else { return Ok(false) };
            if let Some((start, len)) = in_bonus.at[*attr as usize] {
                if len as usize != value.len() || in_bonus.endian != LE {
                    return Ok(false);
                }
                let bytes = bonus.get_or_insert_with(|| object.bonus().to_vec());
                bytes[start as usize..][..value.len()].copy_from_slice(value);
                continue;
            }
            if spill.is_none() {
                let Some(block) = object.spill()? else { return Ok(false) };
                let mut slots = Slots::default();
                self.index(&block.data, &mut slots).at_with(|| object.place()).at("spill block")?;
                spill = Some((block.data.to_vec(), slots));
            }
            let Some((bytes, slots)) = &mut spill else { return Ok(false) };
            match slots.at[*attr as usize] {
                Some((start, len)) if len as usize == value.len() && slots.endian == LE => {
                    bytes[start as usize..][..value.len()].copy_from_slice(value);
                }
                _ => return Ok(false),
            }
        }
        if let Some(bonus) = bonus {
            object.set_bonus(tx, bonus)?;
        }
        if let Some((spill, _)) = spill {
            object.set_spill(tx, Some(spill))?;
        }
        Ok(true)
    }

    /// An old znode has a fixed set of fields.
    fn update_old(&self, tx: &Tx, object: &Object, changes: &[(Attr, Option<&[u8]>)]) -> Result<()> {
        let unsupported = |what: String| Error::unsupported(object.place(), what);
        let mut slots = Slots::default();
        slots.legacy(object.bonus(), object.endian()).at_with(|| object.place())?;
        if slots.endian != LE {
            return Err(unsupported("changing a znode written by a big-endian host".to_owned()));
        }
        let mut bonus = object.bonus().to_vec();
        for (attr, value) in changes {
            match (slots.at[*attr as usize], value) {
                (None, None) => {}
                (Some((start, len)), Some(value)) if len as usize == value.len() => {
                    bonus[start as usize..][..value.len()].copy_from_slice(value);
                }
                _ => return Err(unsupported(format!("{} in a znode of before ZPL version 5", attr.name()))),
            }
        }
        object.set_bonus(tx, bonus)
    }

    /// The attributes of a buffer, converted to little-endian.
    fn unpack(&self, bytes: &[u8]) -> Result<Vec<Item>> {
        let Some(header) = SaHeader::parse(bytes)? else { return Ok(Vec::new()) };
        let Some(layout) = self.layout_of(&header)? else { return Ok(Vec::new()) };
        let split = header.split(bytes, &layout)?;
        let tables = self.tables.read();
        let item = |((number, range), (_, length)): ((u16, std::ops::Range<usize>), &(u16, u16))| {
            let mut bytes = bytes[range].to_vec();
            if header.endian == Endian::Big {
                let swap = tables.registered.get(&number).map_or(ByteSwap::Uint8, |r| r.byte_swap);
                to_little(&mut bytes, swap)?;
            }
            Ok(Item { number, variable: *length == 0, bytes })
        };
        split.into_iter().zip(layout.iter()).map(item).collect()
    }

    fn item(&self, tx: &Tx, attr: Attr, value: &[u8]) -> Result<Item> {
        let known = self.tables.read().numbers.get(&attr).copied();
        let number = match known {
            Some(number) => number,
            None => self.register(tx, attr)?,
        };
        let length = self.tables.read().registered.get(&number).map_or(0, |r| r.length);
        if length != 0 && usize::from(length) != value.len() {
            return Err(Error::invalid("", format!("{}: {} bytes, expected {length}", attr.name(), value.len())));
        }
        if value.len() > usize::from(u16::MAX) {
            return Err(Refusal::AttributeTooLarge.at(""));
        }
        Ok(Item { number, variable: length == 0, bytes: value.to_vec() })
    }

    /// Packs the attributes into bonus and spill block, and writes both.
    fn pack(&self, tx: &Tx, object: &Object, items: Vec<Item>) -> Result<()> {
        let dnode = object.dnode();
        let room = usize::from(dnode.slots) * SLOT_BYTES - CORE_BYTES;
        let room = room.saturating_sub(dnode.blkptrs.len() * blkptr::SIZE_BYTES);
        let total = items.iter().fold(0usize, |sum, i| sum.next_multiple_of(8) + i.bytes.len());
        if total > BYTES_MAX {
            return Err(Refusal::AttributeTooLarge.at(object.place()));
        }
        let spill_from = spill_from(&items, room);
        let (in_bonus, in_spill) = items.split_at(spill_from.unwrap_or(items.len()));
        if !in_spill.is_empty() && header_bytes(in_spill) + total_bytes(in_spill) > BYTES_MAX {
            return Err(Refusal::AttributeTooLarge.at(object.place()));
        }
        let mut bonus = self.buffer(tx, in_bonus).at_with(|| object.place())?;
        let had_spill = dnode.spill.is_some();
        if in_spill.is_empty() {
            if had_spill {
                object.set_spill(tx, None)?;
            }
            return object.set_bonus_typed(tx, ObjectType::SA, bonus);
        }
        let spill = self.buffer(tx, in_spill).at_with(|| object.place())?;
        bonus.resize(room.saturating_sub(blkptr::SIZE_BYTES), 0);
        object.set_bonus_typed(tx, ObjectType::SA, bonus)?;
        object.set_spill(tx, Some(spill))
    }

    /// Header and attributes, as stored in a bonus or spill block.
    fn buffer(&self, tx: &Tx, items: &[Item]) -> Result<Vec<u8>> {
        let numbers: Vec<(u16, u16)> = {
            let tables = self.tables.read();
            items.iter().map(|i| (i.number, tables.registered.get(&i.number).map_or(0, |r| r.length))).collect()
        };
        let layout = self.layout(tx, &numbers.into())?;
        let header = header_bytes(items);
        if header > HEADER_BYTES_MAX {
            return Err(Error::unsupported("", "so many attributes of variable length"));
        }
        let mut out = vec![0; header];
        LE.put_u32(&mut out, SaHeader::MAGIC);
        LE.put_u16(&mut out[4..], layout | (header as u16 / 8) << 10);
        for (at, item) in items.iter().filter(|i| i.variable).enumerate() {
            LE.put_u16(&mut out[6 + at * 2..], item.bytes.len() as u16);
        }
        for item in items {
            out.resize(out.len().next_multiple_of(8), 0);
            out.extend_from_slice(&item.bytes);
        }
        Ok(out)
    }

    /// The number of a layout; adds it to the table if it is new.
    fn layout(&self, tx: &Tx, layout: &Layout) -> Result<u16> {
        let find = |layouts: &std::collections::HashMap<u16, Layout>| {
            layouts.iter().filter(|(n, l)| **n >= LAYOUT_FIRST && *l == layout).map(|(n, _)| *n).min()
        };
        if let Some(number) = find(&self.tables.read().layouts) {
            return Ok(number);
        }
        let mut tables = self.tables.write();
        if let Some(number) = find(&tables.layouts) {
            return Ok(number);
        }
        let (objset, master) = self.home()?;
        let free = |n: &u16| !tables.layouts.contains_key(n);
        let count = tables.layouts.keys().filter(|n| **n >= LAYOUT_FIRST).count();
        let number = (LAYOUT_FIRST.saturating_add(count as u16)..LAYOUTS_MAX as u16).find(free);
        let number = number.ok_or_else(|| Error::unsupported("", "more than 1024 layouts of attributes"))?;
        let zap = child(objset, tx, master, tables.layouts_zap, "LAYOUTS", ObjectType::SA_ATTR_LAYOUTS)?;
        let value = ZapValue { int_bytes: 2, ints: layout.iter().map(|(n, _)| u64::from(*n)).collect() };
        zap.update(tx, number.to_string(), &value)?;
        tables.layouts_zap = zap.object().map(Object::id);
        tables.layouts.insert(number, layout.clone());
        Ok(number)
    }

    /// Registers `attr`, and all other file attributes that are not registered yet.
    fn register(&self, tx: &Tx, attr: Attr) -> Result<u16> {
        let mut tables = self.tables.write();
        let (objset, master) = self.home()?;
        let zap = child(objset, tx, master, tables.registry, "REGISTRY", ObjectType::SA_ATTR_REGISTRATION)?;
        let mut next = tables.registered.len().max(Attr::LEGACY_COUNT) as u16;
        for (index, (one, name, length)) in Attr::TABLE.into_iter().enumerate() {
            // OpenZFS before 2.4 does not know `ZPL_SEQ`, so it is registered only on request.
            if tables.numbers.contains_key(&one) || (one == Attr::Seq && attr != one) {
                continue;
            }
            let number = if index < Attr::LEGACY_COUNT {
                index as u16
            } else {
                while tables.registered.contains_key(&next) {
                    next += 1;
                }
                next
            };
            let registered = Registered { number, length, byte_swap: byte_swap(one) };
            zap.update_u64(tx, name, registered.pack())?;
            tables.register(registered, name.as_bytes());
        }
        tables.registry = zap.object().map(Object::id);
        tables.numbers.get(&attr).copied().ok_or_else(|| Error::invalid("", "an attribute without a number"))
    }

    fn home(&self) -> Result<(&Arc<ObjectSet>, u64)> {
        let home = self.home.get().map(|(objset, master)| (objset, *master));
        home.ok_or_else(|| Error::unsupported("", "attributes in a file system without a table of them"))
    }
}

/// The ZAP `name` of the master object; creates it if missing.
fn child(
    objset: &Arc<ObjectSet>,
    tx: &Tx,
    master: u64,
    id: Option<u64>,
    name: &str,
    object_type: ObjectType,
) -> Result<Zap> {
    match id {
        Some(id) => Zap::open(objset.object(id)?),
        None => Zap::create_linked(objset, tx, &ZapSpec::new(object_type), &Zap::open(objset.object(master)?)?, name),
    }
}

fn byte_swap(attr: Attr) -> ByteSwap {
    match attr {
        Attr::ZnodeAcl | Attr::Symlink | Attr::Scanstamp | Attr::Dxattr => ByteSwap::Uint8,
        Attr::DaclAces => ByteSwap::Acl,
        _ => ByteSwap::Uint64,
    }
}

fn to_little(bytes: &mut [u8], swap: ByteSwap) -> Result<()> {
    let size = match swap {
        ByteSwap::Uint64 => 8,
        ByteSwap::Uint32 => 4,
        ByteSwap::Uint16 => 2,
        ByteSwap::Uint8 => 1,
        ByteSwap::Acl => return Ok(Ace::swap_v1(bytes, Endian::Big)?),
    };
    bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    Ok(())
}

/// Size of the header in bytes: the first length is included, each further one takes two bytes.
fn header_bytes(items: &[Item]) -> usize {
    let variable = items.iter().filter(|i| i.variable).count();
    8 + (variable.saturating_sub(1) * 2).next_multiple_of(8)
}

/// Size of the attributes in bytes, each aligned to 8.
fn total_bytes(items: &[Item]) -> usize {
    items.iter().fold(0, |sum, item| sum.next_multiple_of(8) + item.bytes.len())
}

/// Index of the first attribute that goes to the spill block; `None` if all fit into `room` bytes
/// of bonus. If any does not fit, attributes at the place of the future spill pointer spill, too.
fn spill_from(items: &[Item], room: usize) -> Option<usize> {
    let (mut total, mut header, mut variable) = (0usize, 8usize, 0);
    let mut first = None;
    for (i, item) in items.iter().enumerate() {
        total = total.next_multiple_of(8) + item.bytes.len();
        variable += usize::from(item.variable);
        let adds_length = item.variable && variable > 1;
        let larger = header + if adds_length { 2 } else { 0 };
        if first.is_none() && total + larger.next_multiple_of(8) > room.saturating_sub(blkptr::SIZE_BYTES) {
            first = Some(i);
        }
        if adds_length {
            if larger + total >= room {
                return first;
            }
            header = larger;
        }
        if total + header.next_multiple_of(8) > room {
            return first;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sa::Tables;

    macro_rules! golden {
        ($name:literal) => {
            include_bytes!(concat!("../../../base/ondisk/testdata/", $name)).as_slice()
        };
    }

    /// From the dataset of the golden bytes: attribute numbers with registered lengths.
    const LAYOUT_6: [(u16, u16); 16] = [
        (5, 8),
        (6, 8),
        (4, 8),
        (12, 8),
        (13, 8),
        (7, 8),
        (11, 8),
        (0, 16),
        (1, 16),
        (2, 16),
        (3, 16),
        (8, 8),
        (21, 8),
        (16, 8),
        (19, 0),
        (20, 0),
    ];

    fn table() -> SaTable {
        let mut tables = Tables::default();
        for (number, length) in LAYOUT_6 {
            let (attr, name, expected) = Attr::TABLE[usize::from(number)];
            assert_eq!(length, expected);
            tables.register(Registered { number, length, byte_swap: byte_swap(attr) }, name.as_bytes());
        }
        tables.layouts.insert(6, LAYOUT_6.into());
        tables.layouts.insert(7, [(20, 0)].into());
        SaTable { tables: RwLock::new(tables), home: OnceLock::new() }
    }

    #[test]
    fn attributes_packed_by_openzfs_are_packed_identically() {
        let table = table();
        for bytes in [golden!("sa_bonus.bin"), golden!("sa_spill.bin")] {
            let items = table.unpack(bytes).unwrap();
            let mut again = table.buffer(&Tx::syncing(1), &items).unwrap();
            again.resize(bytes.len(), 0);
            assert_eq!(again, bytes);
        }
    }

    #[test]
    fn big_endian_attributes_become_little() {
        let table = table();
        let little = golden!("sa_bonus.bin");
        let mut big = little.to_vec();
        for (range, size) in [(0..4, 4), (4..16, 2)] {
            big[range].chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        let header = SaHeader::parse(little).unwrap().unwrap();
        for (number, range) in header.split(little, &LAYOUT_6).unwrap() {
            match byte_swap(Attr::TABLE[usize::from(number)].0) {
                ByteSwap::Acl => Ace::swap_v1(&mut big[range], LE).unwrap(),
                ByteSwap::Uint64 => big[range].chunks_exact_mut(8).for_each(<[u8]>::reverse),
                _ => {}
            }
        }
        let mut again = table.buffer(&Tx::syncing(1), &table.unpack(&big).unwrap()).unwrap();
        again.resize(little.len(), 0);
        assert_eq!(again, little);
    }

    fn items(lengths: &[(usize, bool)]) -> Vec<Item> {
        lengths.iter().map(|(len, variable)| Item { number: 0, variable: *variable, bytes: vec![0; *len] }).collect()
    }

    #[test]
    fn attributes_overlapping_the_spill_pointer_are_spilled_too() {
        // A dnode of 512 bytes has room for 320 bytes, and for 192 next to a spill pointer.
        assert_eq!(spill_from(&items(&[(184, false)]), 320), None);
        assert_eq!(spill_from(&items(&[(312, false)]), 320), None);
        assert_eq!(spill_from(&items(&[(313, false)]), 320), Some(0));
        assert_eq!(spill_from(&items(&[(184, false), (128, false)]), 320), None);
        assert_eq!(spill_from(&items(&[(184, false), (8, false), (121, false)]), 320), Some(1));
        assert_eq!(spill_from(&items(&[(100, false), (100, false), (8, false), (200, true)]), 320), Some(1));
        // The second length takes eight bytes of header.
        assert_eq!(spill_from(&items(&[(104, true), (200, true)]), 320), None);
        assert_eq!(spill_from(&items(&[(104, true), (201, true)]), 320), Some(1));
    }
}
