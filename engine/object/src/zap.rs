//! ZAP: maps names (or numeric keys) to values, in an object. Directories, properties and most
//! indexes are ZAPs.
//!
//! Below: `Object` provides blocks, `ondisk::zap` parses them. Format: docs/format/zap.md. ZFS
//! names: zap, mzap, fzap.
//!
//! A lookup in a fat ZAP reads one leaf (and one block of the pointer table, once that has outgrown
//! the header); a walk reads each leaf once. Walks go in the order of (hash, collision number). A
//! position in that order packs into the 64-bit cookie that OpenZFS returns, so that an NFS
//! client's cookie stays valid if the server changes.
//!
//! `write` changes ZAPs. All handles on a live object share its cached state (`form`).
//!
//! Invariants:
//!   * an entry is found under its hash or not at all: a leaf whose prefix does not fit its place
//!     in the table is an error
//!   * a walk only moves forward through the hashes, so that no table on disk can trap it

mod cursor;
mod form;
mod norm;
mod source;
#[cfg(test)]
mod tests;
mod write;

pub use cursor::{Cursor, ZapEntry};
pub use form::Shared;
pub use norm::normalise;
pub use source::BlockSource;
pub use write::ZapSpec;

use block::Block;
use errors::{Error, Place, Result};
use form::{Form, FormRead, Kind};
use ondisk::zap::{Flags as ZapFlags, Header, Leaf, Micro, NormFlags, Value as ZapValue, hash};
use std::sync::Arc;

impl BlockSource for crate::Object {
    fn block(&self, blkid: u64) -> Result<Option<Block>> {
        crate::Object::block(self, blkid)
    }

    fn place(&self) -> String {
        crate::Object::place(self)
    }
}

/// An open ZAP. Cheap to clone.
#[derive(Clone)]
pub struct Zap {
    source: Arc<dyn BlockSource>,
    /// For writes.
    object: Option<crate::Object>,
    shared: Arc<Shared>,
    /// Whether block 0 may be cached: true if the object is read-only.
    keep_first: bool,
    salt: u64,
    norm_flags: NormFlags,
    flags: ZapFlags,
}

impl Zap {
    /// Opens the ZAP in `object`.
    pub fn open(object: crate::Object) -> Result<Self> {
        let shared = object.live().map(|live| live.zap.clone());
        let keep_first = shared.is_none();
        Self::from_parts(Arc::new(object.clone()), Some(object), shared.unwrap_or_default(), keep_first)
    }

    /// Opens the ZAP whose blocks `source` provides, read-only.
    pub fn from_source(source: Arc<dyn BlockSource>) -> Result<Self> {
        Self::from_parts(source, None, Arc::default(), true)
    }

    fn from_parts(
        source: Arc<dyn BlockSource>,
        object: Option<crate::Object>,
        shared: Arc<Shared>,
        keep_first: bool,
    ) -> Result<Self> {
        let form = shared.read(&*source, keep_first)?;
        let (salt, norm_flags, flags) = (form.salt(), form.norm_flags(), form.flags());
        drop(form);
        Ok(Self { source, object, shared, keep_first, salt, norm_flags, flags })
    }

    /// Object number; 0 for a ZAP in memory.
    pub fn id(&self) -> u64 {
        self.object.as_ref().map_or(0, crate::Object::id)
    }

    /// The object; `None` for a ZAP in memory.
    pub fn object(&self) -> Option<&crate::Object> {
        self.object.as_ref()
    }

    /// How names are normalised.
    pub fn norm_flags(&self) -> NormFlags {
        self.norm_flags
    }

    /// How keys are hashed.
    pub fn flags(&self) -> ZapFlags {
        self.flags
    }

    /// The header of a fat ZAP; `None` for a micro ZAP.
    pub fn header(&self) -> Result<Option<Header>> {
        match &self.form()?.kind {
            Kind::Micro(_) => Ok(None),
            Kind::Fat(header) => Ok(Some(header.clone())),
        }
    }

    fn form(&self) -> Result<FormRead<'_>> {
        self.shared.read(&*self.source, self.keep_first)
    }

    fn hash_name(&self, name: &[u8]) -> u64 {
        hash::of_name(self.salt, self.flags, &normalise(name, self.norm_flags))
    }

    pub fn count(&self) -> Result<u64> {
        let form = self.form()?;
        match &form.kind {
            Kind::Micro(micro) => match micro.index.get() {
                Some(index) => Ok(index.places.len() as u64),
                None => {
                    let first = form.first(&*self.source)?;
                    Ok(self.micro(&first)?.entries().count() as u64)
                }
            },
            Kind::Fat(header) => Ok(header.entries),
        }
    }

    /// Value of the entry whose name is exactly `name`.
    pub fn lookup(&self, name: impl AsRef<[u8]>) -> Result<Option<ZapValue>> {
        let name = name.as_ref();
        let form = self.form()?;
        match &form.kind {
            Kind::Micro(kind) => {
                let first = form.first(&*self.source)?;
                let micro = self.micro(&first)?;
                // A read-only ZAP uses the index only if a walk or a normalised lookup has built
                // it: a scan takes a few microseconds.
                let found = match kind.index.get() {
                    None if self.keep_first => micro.entries().find(|e| e.name == name),
                    _ => {
                        let places = kind.index(&micro).of_hash(self.hash_name(name));
                        places.iter().filter_map(|p| micro.entry(p.index as usize)).find(|e| e.name == name)
                    }
                };
                Ok(found.map(|e| ZapValue::one(e.value)))
            }
            Kind::Fat(header) if header.flags.contains(ZapFlags::UINT64_KEY) => {
                Err(Error::invalid(self.source.place(), "zap: looked up by name, but its keys are numbers"))
            }
            Kind::Fat(_) => self.find_in_leaf(&form, self.hash_name(name), |leaf, entry| leaf.name_is(entry, name)),
        }
    }

    /// Value of the entry `name`. Fails with [`Error::Corrupt`] if it is not a single number.
    pub fn lookup_u64(&self, name: impl AsRef<[u8]>) -> Result<Option<u64>> {
        let Some(value) = self.lookup(name.as_ref())? else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| {
            let name = String::from_utf8_lossy(name.as_ref()).into_owned();
            Error::corrupt(self.source.place(), format!("zap: {name} has {} numbers, expected 1", value.ints.len()))
        })
    }

    /// Value of the entry with this numeric key.
    pub fn lookup_key(&self, key: &[u64]) -> Result<Option<ZapValue>> {
        if !self.flags().contains(ZapFlags::UINT64_KEY) {
            return Err(Error::invalid(self.source.place(), "zap: looked up by number, but its keys are names"));
        }
        let hash = hash::of_key(self.salt, self.flags, key);
        self.find_in_leaf(&*self.form()?, hash, |leaf, entry| {
            Ok(usize::from(entry.name_ints) == key.len() && leaf.key(entry)? == key)
        })
    }

    /// Returns the first entry whose name equals `name` once both are normalised: its value, and
    /// its name as stored.
    ///
    /// With `match_case`, case is not folded even if the ZAP folds it for its hashes
    /// (`MT_MATCH_CASE`). In a ZAP without normalisation this is an exact lookup.
    pub fn lookup_normalised(&self, name: &[u8], match_case: bool) -> Result<Option<(ZapValue, Vec<u8>)>> {
        let hash_flags = self.norm_flags();
        if hash_flags.is_empty() {
            return Ok(self.lookup(name)?.map(|v| (v, name.to_vec())));
        }
        let match_flags = if match_case { hash_flags.difference(NormFlags::TO_UPPER) } else { hash_flags };
        let (hash, wanted) = (self.hash_name(name), normalise(name, match_flags));
        let form = self.form()?;
        match &form.kind {
            Kind::Micro(kind) => {
                let first = form.first(&*self.source)?;
                let micro = self.micro(&first)?;
                let places = kind.index(&micro).of_hash(hash);
                let found = places
                    .iter()
                    .filter_map(|p| micro.entry(p.index as usize))
                    .find(|e| normalise(e.name, match_flags) == wanted);
                Ok(found.map(|e| (ZapValue::one(e.value), e.name.to_vec())))
            }
            Kind::Fat(_) => {
                let Some(block) = self.leaf_block(&form, hash)? else { return Ok(None) };
                let at = || self.source.place();
                let leaf = Leaf::parse(&block.data, block.endian).at_with(at)?;
                let mut best = None::<(u32, ZapValue, Vec<u8>)>;
                for entry in leaf.chain(hash) {
                    let entry = entry.at_with(at)?;
                    if entry.hash != hash || best.as_ref().is_some_and(|b| b.0 <= entry.cd) {
                        continue;
                    }
                    let stored = leaf.name(&entry).at_with(at)?;
                    if normalise(&stored, match_flags) == wanted {
                        best = Some((entry.cd, leaf.value(&entry).at_with(at)?, stored));
                    }
                }
                Ok(best.map(|(_, value, stored)| (value, stored)))
            }
        }
    }

    fn micro<'b>(&self, first: &'b Block) -> Result<Micro<'b>> {
        Micro::parse(&first.data, first.endian).at_with(|| self.source.place())
    }

    /// The leaf that holds entries of `hash`; `None` if the table entry is empty, as in a ZAP that
    /// was being freed.
    fn leaf_block(&self, form: &Form, hash: u64) -> Result<Option<Block>> {
        let Kind::Fat(header) = &form.kind else { return Ok(None) };
        let index = header.table_index(hash);
        let slot = header.table_slot(index);
        let number_in = |b: &Block| b.data.get(slot.word * 8..slot.word * 8 + 8).map_or(0, |w| b.endian.u64(w));
        let number = match slot.block {
            0 => number_in(&form.first(&*self.source)?),
            n => self.source.block(n)?.as_ref().map_or(0, number_in),
        };
        if number == 0 {
            return Ok(None);
        }
        let bad = |what: String| Error::corrupt(self.source.place(), format!("zap: table entry {index}: {what}"));
        let block =
            self.source.block(number)?.ok_or_else(|| bad(format!("block {number} is a hole, expected a leaf")))?;
        let leaf = Leaf::parse(&block.data, block.endian).at_with(|| self.source.place())?;
        if leaf.prefix_bits > header.table_shift || !leaf.covers(hash) {
            let what =
                format!("leaf {number} has prefix {:#x} of {} bits, which does not fit", leaf.prefix, leaf.prefix_bits);
            return Err(bad(what));
        }
        Ok(Some(block))
    }

    fn find_in_leaf(
        &self,
        form: &Form,
        hash: u64,
        is_it: impl Fn(&Leaf<'_>, &ondisk::zap::LeafEntry) -> ondisk::Result<bool>,
    ) -> Result<Option<ZapValue>> {
        let Some(block) = self.leaf_block(form, hash)? else { return Ok(None) };
        let at = || self.source.place();
        let leaf = Leaf::parse(&block.data, block.endian).at_with(at)?;
        for entry in leaf.chain(hash) {
            let entry = entry.at_with(at)?;
            if entry.hash == hash && is_it(&leaf, &entry).at_with(at)? {
                return leaf.value(&entry).at_with(at).map(Some);
            }
        }
        Ok(None)
    }
}
