//! System attributes of objects: finds each attribute in the bonus and spill block.
//!
//! Below: `Object` provides the bytes, `Zap` the dataset's registry and layouts. Format:
//! docs/format/sa.md. ZFS name: sa.
//!
//! `sa_write` changes attributes.
//!
//! Old znodes (bonus type 17) use the same interface: their fields are the first sixteen
//! attributes.

use crate::{Object, ObjectSet, Zap};
use block::Block;
use errors::{Error, Place, Result};
use host::sync::RwLock;
use ondisk::sa::{Attr, Registered, SaHeader};
use ondisk::{Endian, ObjectType, znode};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Maximum number of layouts and attributes per dataset: OpenZFS's layout number has 10 bits.
const ENTRIES_MAX: u64 = 1024;

/// A dataset's registry and layouts, shared by threads. Writers add to it.
#[derive(Default)]
pub struct SaTable {
    pub(crate) tables: RwLock<Tables>,
    /// The object set, and its object `SA_ATTRS`.
    pub(crate) home: OnceLock<(Arc<ObjectSet>, u64)>,
}

/// Numbers of a layout's attributes, with their registered lengths.
pub(crate) type Layout = Arc<[(u16, u16)]>;

#[derive(Default)]
pub(crate) struct Tables {
    /// The registry's entry for each number, known to Weir or not.
    pub registered: HashMap<u16, Registered>,
    /// Attribute of each number that Weir knows.
    pub attrs: HashMap<u16, Attr>,
    /// The inverse of `attrs`.
    pub numbers: HashMap<Attr, u16>,
    pub layouts: HashMap<u16, Layout>,
    /// Object numbers of the ZAPs.
    pub registry: Option<u64>,
    pub layouts_zap: Option<u64>,
}

impl Tables {
    pub fn register(&mut self, registered: Registered, name: &[u8]) {
        self.registered.insert(registered.number, registered);
        if let Some(attr) = Attr::from_name(name) {
            self.attrs.insert(registered.number, attr);
            self.numbers.insert(attr, registered.number);
        }
    }
}

impl SaTable {
    /// Reads the tables from `master` (the object `SA_ATTRS` of the master node). Without it, the
    /// dataset has only old znodes.
    pub fn load(objset: &Arc<ObjectSet>, master: Option<u64>) -> Result<Self> {
        let Some(master) = master.filter(|id| *id != 0) else { return Ok(Self::default()) };
        let mut table = Tables::default();
        let zap = Zap::open(objset.object(master)?)?;
        let place = || format!("{}: object {}:{master}", objset.store().name(), objset.id());
        let child = |name: &str| -> Result<Option<(u64, Zap)>> {
            let Some(id) = zap.lookup_u64(name)? else { return Ok(None) };
            let child = Zap::open(objset.object(id)?)?;
            match child.count()? {
                n if n <= ENTRIES_MAX => Ok(Some((id, child))),
                n => {
                    Err(Error::corrupt(place(), format!("sa: {name} has {n} entries, expected at most {ENTRIES_MAX}")))
                }
            }
        };
        if let Some((id, registry)) = child("REGISTRY")? {
            table.registry = Some(id);
            for step in registry.cursor(0) {
                let (entry, _) = step?;
                let value = entry.value.as_u64().ok_or_else(|| {
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    Error::corrupt(place(), format!("sa: registry entry {name} is not one number"))
                })?;
                table.register(Registered::unpack(value).at_with(place)?, &entry.name);
            }
        }
        if let Some((id, layouts)) = child("LAYOUTS")? {
            table.layouts_zap = Some(id);
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
                    let known = table.registered.get(&attr);
                    let known = known.ok_or_else(|| bad("has an attribute that is not registered"))?;
                    layout.push((attr, known.length));
                }
                table.layouts.insert(number, layout.into());
            }
        }
        Ok(Self { tables: RwLock::new(table), home: OnceLock::from((objset.clone(), master)) })
    }

    /// Sets the object `SA_ATTRS` of a dataset that had none: attributes can be packed from now on.
    pub fn set_home(&self, objset: &Arc<ObjectSet>, master: u64) {
        let _ = self.home.set((objset.clone(), master));
    }

    /// Locates the attributes of an object.
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

    /// The layout of a buffer; `None` for 0 and 1, which an object has before its first attribute.
    pub(crate) fn layout_of(&self, header: &SaHeader) -> Result<Option<Layout>> {
        match self.tables.read().layouts.get(&header.layout) {
            Some(layout) => Ok(Some(layout.clone())),
            None if header.layout <= 1 => Ok(None),
            None => Err(Error::corrupt("", format!("sa: layout {} is not in the dataset's table", header.layout))),
        }
    }

    pub(crate) fn index(&self, bytes: &[u8], slots: &mut Slots) -> Result<()> {
        let Some(header) = SaHeader::parse(bytes)? else { return Ok(()) };
        slots.endian = header.endian;
        let Some(layout) = self.layout_of(&header)? else { return Ok(()) };
        let split = header.split(bytes, &layout)?;
        let tables = self.tables.read();
        for (number, range) in split {
            if let Some(attr) = tables.attrs.get(&number) {
                slots.at[*attr as usize] = Some((range.start as u32, range.len() as u32));
            }
        }
        Ok(())
    }
}

/// Positions of the attributes in one buffer: (start, length).
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    pub endian: Endian,
    pub at: [Option<(u32, u32)>; Attr::TABLE.len()],
}

impl Default for Slots {
    fn default() -> Self {
        Self { endian: Endian::NATIVE, at: [None; Attr::TABLE.len()] }
    }
}

impl Slots {
    pub fn legacy(&mut self, bytes: &[u8], endian: Endian) -> Result<()> {
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
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Whether the object has system attributes (bonus type SA), not an old znode.
    pub fn is_sa(&self) -> bool {
        self.object.dnode().bonus_type == ObjectType::SA
    }

    /// Offset of an attribute in the bonus, in bytes; `None` if it is not there.
    pub fn bonus_place(&self, attr: Attr) -> Option<u32> {
        self.bonus.at[attr as usize].map(|(start, _)| start)
    }

    /// Byte order of the attributes in the bonus.
    pub fn bonus_endian(&self) -> Endian {
        self.bonus.endian
    }

    /// Bytes of an attribute and their byte order; `None` if the object does not have it.
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

    /// Value of an attribute that is a single number; `None` if the object does not have it.
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

    /// Value of an attribute that every file has. Fails with [`Error::Corrupt`] if it is missing.
    pub fn need_u64(&self, attr: Attr) -> Result<u64> {
        self.get_u64(attr)?.ok_or_else(|| Error::corrupt(self.object.place(), format!("{} is missing", attr.name())))
    }

    /// A time attribute: seconds and nanoseconds. Zero if missing.
    pub fn get_time(&self, attr: Attr) -> Result<(i64, u32)> {
        Ok(self.get(attr)?.and_then(|(bytes, endian)| znode::time(bytes, endian)).unwrap_or_default())
    }
}
