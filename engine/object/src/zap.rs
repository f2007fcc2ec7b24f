//! ZAP: names (or number keys) to values, in an object. Directories, properties and most indexes are ZAPs.
//!
//! Below: `Object` gives blocks, `ondisk::zap` gives them meaning. Format: docs/format/zap.md. ZFS name: zap, mzap, fzap.
//!
//! A lookup in a fat ZAP reads one leaf (and one block of the pointer table, once that has outgrown the header); a walk
//! reads each leaf once. Walks go in the order of (hash, collision number), and a place in that order packs into the
//! 64-bit cookie that OpenZFS hands out, so that an NFS client's cookie still means the same when the server changes.
//!
//! Invariants:
//!   * an entry is found under its hash or not at all: a leaf whose prefix does not fit its place in the table is an error
//!   * a walk goes strictly forward through the hashes, so that no table on disk can trap it

mod cursor;
mod norm;
#[cfg(test)]
mod tests;

pub use cursor::Cursor;
pub use norm::normalise;
pub use ondisk::zap::{Flags as ZapFlags, NormFlags, Value as ZapValue};

use crate::{Block, Error, Place, Result};
use ondisk::zap::{BlockKind, Header, Leaf, Micro, hash};
use std::sync::{Arc, OnceLock};

/// Where a ZAP's blocks come from: an object, or memory in tests.
pub trait BlockSource: Send + Sync {
    /// Block `blkid`; `None` for a hole.
    fn block(&self, blkid: u64) -> Result<Option<Block>>;
    /// Where it is, for messages.
    fn place(&self) -> String;
}

impl BlockSource for crate::Object {
    fn block(&self, blkid: u64) -> Result<Option<Block>> {
        crate::Object::block(self, blkid)
    }

    fn place(&self) -> String {
        crate::Object::place(self)
    }
}

/// An entry of a ZAP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZapEntry {
    /// Name as stored, without its NUL; empty when keys are numbers.
    pub name: Vec<u8>,
    /// Key, when keys are numbers.
    pub key: Vec<u64>,
    /// The value.
    pub value: ZapValue,
}

/// A ZAP that is open for reading. Cheap to share; block 0 is kept.
#[derive(Clone)]
pub struct Zap {
    source: Arc<dyn BlockSource>,
    first: Block,
    form: Form,
}

#[derive(Clone)]
enum Form {
    Micro { salt: u64, norm_flags: NormFlags, index: Arc<OnceLock<Vec<MicroPlace>>> },
    Fat(Header),
}

/// Where an entry of a micro ZAP stands in the order of walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MicroPlace {
    hash: u64,
    cd: u32,
    index: u32,
}

impl Zap {
    /// Opens the ZAP in `object`.
    pub fn open(object: crate::Object) -> Result<Self> {
        Self::from_source(Arc::new(object))
    }

    /// Opens the ZAP whose blocks `source` gives.
    pub fn from_source(source: Arc<dyn BlockSource>) -> Result<Self> {
        let first = source
            .block(0)?
            .ok_or_else(|| Error::corrupt(source.place(), "zap: block 0 is a hole, expected a header"))?;
        let form = match BlockKind::of(&first.data, first.endian).at_with(|| source.place())? {
            BlockKind::Micro => {
                let micro = Micro::parse(&first.data, first.endian).at_with(|| source.place())?;
                Form::Micro { salt: micro.salt, norm_flags: micro.norm_flags, index: Arc::default() }
            }
            _ => Form::Fat(Header::parse(&first.data, first.endian).at_with(|| source.place())?),
        };
        Ok(Self { source, first, form })
    }

    /// How names are made equal.
    pub fn norm_flags(&self) -> NormFlags {
        match &self.form {
            Form::Micro { norm_flags, .. } => *norm_flags,
            Form::Fat(header) => header.norm_flags,
        }
    }

    /// How keys are made.
    pub fn flags(&self) -> ZapFlags {
        match &self.form {
            Form::Micro { .. } => ZapFlags::empty(),
            Form::Fat(header) => header.flags,
        }
    }

    /// The header, unless this is a micro ZAP.
    pub fn header(&self) -> Option<&Header> {
        match &self.form {
            Form::Micro { .. } => None,
            Form::Fat(header) => Some(header),
        }
    }

    fn salt(&self) -> u64 {
        match &self.form {
            Form::Micro { salt, .. } => *salt,
            Form::Fat(header) => header.salt,
        }
    }

    fn hash_name(&self, name: &[u8]) -> u64 {
        hash::of_name(self.salt(), self.flags(), &normalise(name, self.norm_flags()))
    }

    /// Number of entries.
    pub fn count(&self) -> Result<u64> {
        match &self.form {
            Form::Micro { .. } => Ok(self.micro()?.entries().count() as u64),
            Form::Fat(header) => Ok(header.entries),
        }
    }

    /// Value of the entry whose name is exactly `name`.
    pub fn lookup(&self, name: impl AsRef<[u8]>) -> Result<Option<ZapValue>> {
        let name = name.as_ref();
        match &self.form {
            Form::Micro { index, .. } => {
                let micro = self.micro()?;
                let found = match index.get() {
                    // Worth it only when a walk or a normalised lookup has built the index: a scan is a few microseconds.
                    Some(index) => {
                        let hash = self.hash_name(name);
                        let start = index.partition_point(|p| p.hash < hash);
                        let same_hash = index[start..].iter().take_while(|p| p.hash == hash);
                        same_hash.filter_map(|p| micro.entry(p.index as usize)).find(|e| e.name == name)
                    }
                    None => micro.entries().find(|e| e.name == name),
                };
                Ok(found.map(|e| ZapValue::one(e.value)))
            }
            Form::Fat(header) if header.flags.contains(ZapFlags::UINT64_KEY) => {
                Err(Error::invalid(self.source.place(), "zap: looked up by name, but its keys are numbers"))
            }
            Form::Fat(_) => self.find_in_leaf(self.hash_name(name), |leaf, entry| leaf.name_is(entry, name)),
        }
    }

    /// Value of the entry `name`, which must be a single number.
    pub fn lookup_u64(&self, name: impl AsRef<[u8]>) -> Result<Option<u64>> {
        let Some(value) = self.lookup(name.as_ref())? else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| {
            let name = String::from_utf8_lossy(name.as_ref()).into_owned();
            Error::corrupt(self.source.place(), format!("zap: {name} has {} numbers, expected 1", value.ints.len()))
        })
    }

    /// Value of the entry with this key of numbers.
    pub fn lookup_key(&self, key: &[u64]) -> Result<Option<ZapValue>> {
        if !self.flags().contains(ZapFlags::UINT64_KEY) {
            return Err(Error::invalid(self.source.place(), "zap: looked up by number, but its keys are names"));
        }
        let hash = hash::of_key(self.salt(), self.flags(), key);
        self.find_in_leaf(hash, |leaf, entry| Ok(usize::from(entry.name_ints) == key.len() && leaf.key(entry)? == key))
    }

    /// The first entry whose name is equal to `name` once both are normalised, with its name as stored.
    ///
    /// With `match_case`, case is not folded even if the ZAP folds it for its hashes (`MT_MATCH_CASE`). In a ZAP that
    /// normalises nothing this is an exact lookup.
    pub fn lookup_normalised(&self, name: &[u8], match_case: bool) -> Result<Option<(ZapValue, Vec<u8>)>> {
        let hash_flags = self.norm_flags();
        if hash_flags.is_empty() {
            return Ok(self.lookup(name)?.map(|v| (v, name.to_vec())));
        }
        let match_flags = if match_case { hash_flags.difference(NormFlags::TO_UPPER) } else { hash_flags };
        let (hash, wanted) = (self.hash_name(name), normalise(name, match_flags));
        match &self.form {
            Form::Micro { .. } => {
                let (micro, index) = (self.micro()?, self.micro_index()?);
                let start = index.partition_point(|p| p.hash < hash);
                let same_hash = index[start..].iter().take_while(|p| p.hash == hash);
                let found = same_hash
                    .filter_map(|p| micro.entry(p.index as usize))
                    .find(|e| normalise(e.name, match_flags) == wanted);
                Ok(found.map(|e| (ZapValue::one(e.value), e.name.to_vec())))
            }
            Form::Fat(_) => {
                let Some(block) = self.leaf_block(hash)? else { return Ok(None) };
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

    /// All entries, in the order of a walk. The whole ZAP is in memory then: see [`Zap::cursor`].
    pub fn entries(&self) -> Result<Vec<ZapEntry>> {
        self.cursor(0).map(|step| step.map(|(entry, _)| entry)).collect()
    }

    /// Walks on from `cookie` (0: from the start), giving each entry and the cookie of the place behind it.
    pub fn cursor(&self, cookie: u64) -> Cursor<'_> {
        Cursor::new(self, cookie)
    }

    fn micro(&self) -> Result<Micro<'_>> {
        Micro::parse(&self.first.data, self.first.endian).at_with(|| self.source.place())
    }

    /// The entries of a micro ZAP in the order of walks, made once.
    fn micro_index(&self) -> Result<&[MicroPlace]> {
        let Form::Micro { index, .. } = &self.form else { return Ok(&[]) };
        if let Some(index) = index.get() {
            return Ok(index);
        }
        let place = |e: ondisk::zap::MicroEntry<'_>| MicroPlace {
            hash: self.hash_name(e.name),
            cd: e.cd,
            index: e.index as u32,
        };
        let mut places: Vec<_> = self.micro()?.entries().map(place).collect();
        places.sort_unstable();
        Ok(index.get_or_init(|| places))
    }

    /// The leaf that holds entries of `hash`; `None` where the table points nowhere, as in a ZAP that was being freed.
    fn leaf_block(&self, hash: u64) -> Result<Option<Block>> {
        let Form::Fat(header) = &self.form else { return Ok(None) };
        let index = header.table_index(hash);
        let slot = header.table_slot(index);
        let number_in = |b: &Block| b.data.get(slot.word * 8..slot.word * 8 + 8).map_or(0, |w| b.endian.u64(w));
        let number = match slot.block {
            0 => number_in(&self.first),
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
        hash: u64,
        is_it: impl Fn(&Leaf<'_>, &ondisk::zap::LeafEntry) -> ondisk::Result<bool>,
    ) -> Result<Option<ZapValue>> {
        let Some(block) = self.leaf_block(hash)? else { return Ok(None) };
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
