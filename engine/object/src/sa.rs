//! System attributes of objects: which attribute stands where in a bonus and spill block.
//!
//! Below: `Object` gives the bytes, `Zap` the dataset's registry and layouts. Format: docs/format/sa.md. ZFS name: sa.
//!
//! Old znodes (bonus type 17) are read through the same door: their fields are the first sixteen attributes.

use crate::{Block, Error, Object, ObjectSet, Place, Result, Zap};
use ondisk::sa::{Attr, Registered, SaHeader};
use ondisk::{Endian, ObjectType, znode};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Layouts and attributes that a dataset may have at most: OpenZFS's layout number has 10 bits.
const ENTRIES_MAX: u64 = 1024;

/// A dataset's registry and layouts.
#[derive(Debug, Default)]
pub struct SaTable {
    /// Attribute behind each number, where we know it.
    attrs: HashMap<u16, Attr>,
    /// Attribute numbers and lengths of each layout.
    layouts: HashMap<u16, Vec<(u16, u16)>>,
}

impl SaTable {
    /// Reads the tables that `master` (the object `SA_ATTRS` of the master node) names. Without it there are only old znodes.
    pub fn load(objset: &Arc<ObjectSet>, master: Option<u64>) -> Result<Self> {
        let mut table = Self::default();
        let Some(master) = master.filter(|id| *id != 0) else { return Ok(table) };
        let zap = Zap::open(objset.object(master)?)?;
        let place = || format!("{}: object {}:{master}", objset.store().name(), objset.id());
        let child = |name: &str| -> Result<Option<Zap>> {
            let Some(id) = zap.lookup_u64(name)? else { return Ok(None) };
            let child = Zap::open(objset.object(id)?)?;
            match child.count()? {
                n if n <= ENTRIES_MAX => Ok(Some(child)),
                n => {
                    Err(Error::corrupt(place(), format!("sa: {name} has {n} entries, expected at most {ENTRIES_MAX}")))
                }
            }
        };
        let mut lengths = HashMap::new();
        if let Some(registry) = child("REGISTRY")? {
            for step in registry.cursor(0) {
                let (entry, _) = step?;
                let value = entry.value.as_u64().ok_or_else(|| {
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    Error::corrupt(place(), format!("sa: registry entry {name} is not one number"))
                })?;
                let registered = Registered::unpack(value).at_with(place)?;
                lengths.insert(registered.number, registered.length);
                if let Some(attr) = Attr::from_name(&entry.name) {
                    table.attrs.insert(registered.number, attr);
                }
            }
        }
        if let Some(layouts) = child("LAYOUTS")? {
            for step in layouts.cursor(0) {
                let (entry, _) = step?;
                let bad = |what: &str| {
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    Error::corrupt(place(), format!("sa: layout {name} {what}"))
                };
                let number: Option<u16> = std::str::from_utf8(&entry.name).ok().and_then(|n| n.parse().ok());
                let number = number.ok_or_else(|| bad("is not called by a number"))?;
                let mut layout = Vec::with_capacity(entry.value.ints.len());
                for n in &entry.value.ints {
                    let attr = u16::try_from(*n).map_err(|_| bad("has an attribute number above 65535"))?;
                    let length = lengths.get(&attr).ok_or_else(|| bad("has an attribute that is not registered"))?;
                    layout.push((attr, *length));
                }
                table.layouts.insert(number, layout);
            }
        }
        Ok(table)
    }

    /// The attributes of an object.
    pub fn attributes<'t>(&'t self, object: &Object) -> Result<Attributes<'t>> {
        let mut bonus = Slots::default();
        match object.dnode().bonus_type {
            ObjectType::ZNODE => {
                bonus.legacy(object.bonus(), object.endian()).at_with(|| object.place())?;
            }
            ObjectType::SA => {
                self.index(object.bonus(), &mut bonus).at_with(|| object.place())?;
            }
            other => {
                let what = format!("its bonus has type {}, expected attributes of a file", other.0);
                return Err(Error::corrupt(object.place(), what));
            }
        }
        Ok(Attributes { table: self, object: object.clone(), bonus, spill: OnceLock::new() })
    }

    fn index(&self, bytes: &[u8], slots: &mut Slots) -> Result<()> {
        let Some(header) = SaHeader::parse(bytes)? else { return Ok(()) };
        slots.endian = header.endian;
        // Numbers 0 and 1 are what an object has before its first attribute.
        let layout = match self.layouts.get(&header.layout) {
            Some(layout) => layout,
            None if header.layout <= 1 => return Ok(()),
            None => {
                return Err(Error::corrupt("", format!("sa: layout {} is not in the dataset's table", header.layout)));
            }
        };
        for (number, range) in header.split(bytes, layout)? {
            if let Some(attr) = self.attrs.get(&number) {
                slots.at[*attr as usize] = Some((range.start as u32, range.len() as u32));
            }
        }
        Ok(())
    }
}

/// Where the attributes stand in one buffer.
#[derive(Debug, Clone)]
struct Slots {
    endian: Endian,
    at: [Option<(u32, u32)>; Attr::TABLE.len()],
}

impl Default for Slots {
    fn default() -> Self {
        Self { endian: Endian::NATIVE, at: [None; Attr::TABLE.len()] }
    }
}

impl Slots {
    fn legacy(&mut self, bytes: &[u8], endian: Endian) -> Result<()> {
        ondisk::endian::need("znode", bytes, znode::LEGACY_BYTES)?;
        self.endian = endian;
        let mut start = 0;
        for (attr, _, length) in &Attr::TABLE[..Attr::LEGACY_COUNT] {
            self.at[*attr as usize] = Some((start, u32::from(*length)));
            start += u32::from(*length);
        }
        Ok(())
    }

    fn get<'b>(&self, attr: Attr, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (start, len) = self.at[attr as usize]?;
        bytes.get(start as usize..start as usize + len as usize)
    }
}

/// The attributes of one object. The spill block is read when an attribute is not in the bonus.
pub struct Attributes<'t> {
    table: &'t SaTable,
    object: Object,
    bonus: Slots,
    spill: OnceLock<Option<(Block, Slots)>>,
}

impl Attributes<'_> {
    /// The object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Whether the object is of the newer kind that can hold any attribute.
    pub fn is_sa(&self) -> bool {
        self.object.dnode().bonus_type == ObjectType::SA
    }

    /// Bytes of an attribute and their byte order; `None` when the object does not have it.
    pub fn get(&self, attr: Attr) -> Result<Option<(&[u8], Endian)>> {
        if let Some(value) = self.bonus.get(attr, self.object.bonus()) {
            return Ok(Some((value, self.bonus.endian)));
        }
        if !self.is_sa() || self.object.dnode().spill.is_none() {
            return Ok(None);
        }
        if self.spill.get().is_none() {
            let found = match self.object.spill()? {
                None => None,
                Some(block) => {
                    let mut slots = Slots::default();
                    self.table.index(&block.data, &mut slots).at_with(|| self.object.place()).at("spill block")?;
                    Some((block, slots))
                }
            };
            let _ = self.spill.set(found);
        }
        Ok(self
            .spill
            .get()
            .and_then(|s| s.as_ref())
            .and_then(|(block, slots)| slots.get(attr, &block.data).map(|value| (value, slots.endian))))
    }

    /// An attribute of one number.
    pub fn get_u64(&self, attr: Attr) -> Result<Option<u64>> {
        match self.get(attr)? {
            None => Ok(None),
            Some((bytes, endian)) if bytes.len() >= 8 => Ok(Some(endian.u64(bytes))),
            Some((bytes, _)) => {
                let what = format!("{} has {} bytes, expected 8", attr.name(), bytes.len());
                Err(Error::corrupt(self.object.place(), what))
            }
        }
    }

    /// An attribute of one number that every file has.
    pub fn need_u64(&self, attr: Attr) -> Result<u64> {
        self.get_u64(attr)?.ok_or_else(|| Error::corrupt(self.object.place(), format!("{} is missing", attr.name())))
    }

    /// A time: seconds and nanoseconds. Missing ones are 0.
    pub fn get_time(&self, attr: Attr) -> Result<(i64, u32)> {
        Ok(self.get(attr)?.and_then(|(bytes, endian)| znode::time(bytes, endian)).unwrap_or_default())
    }
}
