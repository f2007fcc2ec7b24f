//! Changes a ZAP: adds, updates and removes entries.
//!
//! Below: [`store`] is the object within a transaction. [`fat`] changes header, table and leaves;
//! micro ZAPs are changed here. ZFS names: zap_add, zap_update, zap_remove, mzap_upgrade.
//!
//! A ZAP starts as a micro ZAP: one block, which grows by 512 bytes up to 128 KiB. It becomes fat
//! when it is full, or when it gets a name of 50 bytes or a value other than a single 64-bit
//! number.
//!
//! Invariants:
//!   * one writer at a time, and no reader meanwhile: [`super::form::Shared`] is locked from the
//!     first read to the last write
//!   * a refused change (exists, too long, ...) changes nothing

mod change;
mod fat;
pub(crate) mod store;
#[cfg(test)]
mod tests;

use super::form::{Form, Kind, MicroForm, MicroPlace};
use super::{Zap, normalise};
use crate::{NewObject, Object, ObjectSet, Tx};
use change::{Change, Mode};
use errors::{Error, Refusal, Result};
use fat::{Fat, is_micro_value};
use ondisk::ObjectType;
use ondisk::zap::{Flags as ZapFlags, Header, Key, Micro, NormFlags, Value as ZapValue, hash, micro};
use std::sync::Arc;
use store::{BlockStore, InObject, little};

/// log2 of the block size of a fat ZAP that was a micro ZAP (`fzap_default_block_shift`).
const FAT_SHIFT: u32 = 14;
/// Growth step of a micro ZAP, in bytes: the smallest block.
const STEP_BYTES: usize = 512;
/// Maximum size of a name with its NUL, in bytes (`ZAP_MAXNAMELEN`), and in a directory
/// (`ZAP_MAXNAMELEN_NEW`: only with the feature `longname`, which the caller has checked).
const NAME_BYTES_MAX: usize = 256;
const LONG_NAME_BYTES_MAX: usize = 1024;
/// Maximum size of a value, in bytes (`ZAP_MAXVALUELEN`).
const VALUE_BYTES_MAX: usize = 8192;

/// Description of a ZAP to create.
#[derive(Debug, Clone)]
pub struct ZapSpec {
    pub object_type: ObjectType,
    /// How names are normalised.
    pub norm_flags: NormFlags,
    /// How keys are hashed. If any flag is set, the ZAP is fat from the start.
    pub flags: ZapFlags,
    /// log2 of the block size if it is fat from the start; 0 means 14.
    pub block_shift: u8,
    /// log2 of the size of its indirect blocks.
    pub indirect_shift: u8,
    /// Object number; `None` for the next free one.
    pub id: Option<u64>,
    pub bonus_type: ObjectType,
    pub bonus: Vec<u8>,
    /// Number of 512-byte slots of its dnode.
    pub slots: u8,
}

impl ZapSpec {
    /// A ZAP whose keys are names, compared byte by byte.
    pub fn new(object_type: ObjectType) -> Self {
        Self {
            object_type,
            norm_flags: NormFlags::empty(),
            flags: ZapFlags::empty(),
            block_shift: 0,
            indirect_shift: crate::live::new_object::INDIRECT_SHIFT,
            id: None,
            bonus_type: ObjectType::NONE,
            bonus: Vec::new(),
            slots: 1,
        }
    }
}

impl Zap {
    /// Creates an object with an empty ZAP.
    pub fn create(objset: &Arc<ObjectSet>, tx: &Tx, spec: &ZapSpec) -> Result<Self> {
        let block_bytes = match (spec.flags.is_empty(), spec.block_shift) {
            (true, _) => STEP_BYTES as u32,
            (false, 0) => 1 << FAT_SHIFT,
            (false, shift @ 9..=17) => 1 << shift,
            (false, shift) => return Err(Error::invalid("zap", format!("blocks of 2^{shift} bytes"))),
        };
        let object = objset.create_object(
            tx,
            &NewObject {
                indirect_shift: spec.indirect_shift,
                slots: spec.slots,
                id: spec.id,
                ..NewObject::new(spec.object_type, block_bytes).with_bonus(spec.bonus_type, spec.bonus.clone())
            },
        )?;
        if spec.flags.is_empty() {
            return Self::create_in(object, tx, spec.norm_flags);
        }
        let shift = block_bytes.trailing_zeros();
        let header = Header::new(shift, new_salt(&object, tx), spec.norm_flags, spec.flags);
        fat::create(&InObject { object: &object, tx }, &header)?;
        Self::open(object)
    }

    /// As [`Zap::create`], and adds its number to `parent` as `name` (`zap_create_link`).
    pub fn create_linked(
        objset: &Arc<ObjectSet>,
        tx: &Tx,
        spec: &ZapSpec,
        parent: &Self,
        name: impl AsRef<[u8]>,
    ) -> Result<Self> {
        let zap = Self::create(objset, tx, spec)?;
        parent.insert_u64(tx, name, zap.object.as_ref().map_or(0, Object::id))?;
        Ok(zap)
    }

    /// Turns an object without contents into an empty ZAP. The caller sets its type
    /// (`dmu_object_zapify`).
    pub fn create_in(object: Object, tx: &Tx, norm_flags: NormFlags) -> Result<Self> {
        let block_bytes = object.block_bytes() as usize;
        if block_bytes > micro::MAX_BYTES || object.max_block_id() > 0 {
            return Err(Error::invalid(object.place(), "zap: has contents, or too large a block for a new one"));
        }
        let block = new_micro(new_salt(&object, tx), norm_flags, block_bytes);
        object.write_block(tx, 0, block)?;
        object.need_live()?.zap.forget();
        Self::open(object)
    }

    /// Adds an entry. Fails with [`Refusal::Exists`] if it exists.
    pub fn insert(&self, tx: &Tx, name: impl AsRef<[u8]>, value: &ZapValue) -> Result<()> {
        self.put(&self.in_object(tx)?, Key::Name(name.as_ref()), value, Mode::Insert)
    }

    /// Adds an entry with a single number. Fails with [`Refusal::Exists`] if it exists.
    pub fn insert_u64(&self, tx: &Tx, name: impl AsRef<[u8]>, value: u64) -> Result<()> {
        self.insert(tx, name, &ZapValue::one(value))
    }

    /// Adds an entry, or sets the value of an existing one.
    pub fn update(&self, tx: &Tx, name: impl AsRef<[u8]>, value: &ZapValue) -> Result<()> {
        self.put(&self.in_object(tx)?, Key::Name(name.as_ref()), value, Mode::Update)
    }

    /// As [`Zap::update`], with a single number.
    pub fn update_u64(&self, tx: &Tx, name: impl AsRef<[u8]>, value: u64) -> Result<()> {
        self.update(tx, name, &ZapValue::one(value))
    }

    /// Removes the entry with exactly this name. Fails with [`Error::NotFound`] if there is none.
    pub fn remove(&self, tx: &Tx, name: impl AsRef<[u8]>) -> Result<()> {
        self.take_out(&self.in_object(tx)?, Key::Name(name.as_ref()))
    }

    /// Adds `delta` to the number of an entry (0 if missing), and returns the sum. If that is 0,
    /// the entry is removed.
    pub fn increment(&self, tx: &Tx, name: impl AsRef<[u8]>, delta: i64) -> Result<u64> {
        self.add_up(&self.in_object(tx)?, name.as_ref(), delta)
    }

    /// Adds an entry with a numeric key. Fails with [`Refusal::Exists`] if it exists.
    pub fn insert_key(&self, tx: &Tx, key: &[u64], value: &ZapValue) -> Result<()> {
        self.put(&self.in_object(tx)?, Key::Words(key), value, Mode::Insert)
    }

    /// Adds an entry with a numeric key, or sets the value of an existing one.
    pub fn update_key(&self, tx: &Tx, key: &[u64], value: &ZapValue) -> Result<()> {
        self.put(&self.in_object(tx)?, Key::Words(key), value, Mode::Update)
    }

    /// Removes the entry with this numeric key. Fails with [`Error::NotFound`] if there is none.
    pub fn remove_key(&self, tx: &Tx, key: &[u64]) -> Result<()> {
        self.take_out(&self.in_object(tx)?, Key::Words(key))
    }

    fn in_object<'a>(&'a self, tx: &'a Tx) -> Result<InObject<'a>> {
        let object = self.object.as_ref().ok_or_else(|| Refusal::ReadOnly.at(self.source.place()))?;
        object.need_live()?;
        Ok(InObject { object, tx })
    }

    fn hash_key(&self, key: Key<'_>) -> u64 {
        match key {
            Key::Name(name) => self.hash_name(name),
            Key::Words(words) => hash::of_key(self.salt, self.flags, words),
        }
    }

    fn check_key(&self, store: &dyn BlockStore, key: Key<'_>) -> Result<()> {
        let by_words = self.flags.contains(ZapFlags::UINT64_KEY);
        match key {
            Key::Name(_) if by_words => {
                Err(Error::invalid(store.place(), "zap: changed by name, but its keys are numbers"))
            }
            Key::Words(_) if !by_words => {
                Err(Error::invalid(store.place(), "zap: changed by number, but its keys are names"))
            }
            Key::Name(name) if name.is_empty() || name.contains(&0) => {
                Err(Error::invalid(store.place(), "zap: an empty name, or one with a NUL"))
            }
            Key::Words([]) => Err(Error::invalid(store.place(), "zap: a key of no numbers")),
            _ => {
                let is_directory = store.object_type() == ObjectType::DIRECTORY_CONTENTS;
                let most = if is_directory { LONG_NAME_BYTES_MAX } else { NAME_BYTES_MAX };
                if key.len_bytes() > most { Err(Refusal::NameTooLong.at(store.place())) } else { Ok(()) }
            }
        }
    }

    fn check_value(store: &dyn BlockStore, value: &ZapValue) -> Result<()> {
        if !matches!(value.int_bytes, 1 | 2 | 4 | 8) {
            return Err(Error::invalid(store.place(), format!("zap: integers of {} bytes", value.int_bytes)));
        }
        if value.len_bytes() > VALUE_BYTES_MAX {
            return Err(Refusal::TooLarge.at(store.place()));
        }
        Ok(())
    }

    /// Runs `change` with exclusive access to this ZAP.
    fn alone<R>(&self, change: impl FnOnce(&mut Form) -> Result<R>) -> Result<R> {
        let mut form = self.shared.write(&*self.source, self.keep_first)?;
        let result = change(form.form());
        if !matches!(result, Ok(_) | Err(Error::Refused { .. } | Error::NotFound { .. } | Error::Invalid { .. })) {
            form.discard();
        }
        result
    }

    fn put(&self, store: &dyn BlockStore, key: Key<'_>, value: &ZapValue, mode: Mode) -> Result<()> {
        self.check_key(store, key)?;
        Self::check_value(store, value)?;
        let change = Change { hash: self.hash_key(key), cd: None, key, value };
        self.alone(|form| put(form, store, &change, mode))
    }

    fn take_out(&self, store: &dyn BlockStore, key: Key<'_>) -> Result<()> {
        self.check_key(store, key)?;
        let hash = self.hash_key(key);
        self.alone(|form| remove(form, store, hash, key))
    }

    fn add_up(&self, store: &dyn BlockStore, name: &[u8], delta: i64) -> Result<u64> {
        let key = Key::Name(name);
        self.check_key(store, key)?;
        let hash = self.hash_key(key);
        self.alone(|form| {
            let old = find_u64(form, store, hash, name)?;
            let new = old.unwrap_or(0).wrapping_add_signed(delta);
            match (new, old) {
                (0, None) => {}
                (0, Some(_)) => remove(form, store, hash, key)?,
                _ => {
                    let value = ZapValue::one(new);
                    put(form, store, &Change { hash, cd: None, key, value: &value }, Mode::Update)?;
                }
            }
            Ok(new)
        })
    }
}

fn as_fat<'a>(header: &'a mut Header, store: &'a dyn BlockStore) -> Fat<'a> {
    let words = header.flags.contains(ZapFlags::UINT64_KEY);
    let sorted = !header.norm_flags.is_empty();
    Fat { header, store, words, sorted }
}

fn put(form: &mut Form, store: &dyn BlockStore, change: &Change<'_>, mode: Mode) -> Result<()> {
    if let Kind::Micro(kind) = &mut form.kind {
        let name = match change.key {
            Key::Name(name) if name.len() < micro::NAME_BYTES => Some(name),
            _ => None,
        };
        if let (Some(name), Some(value)) = (name, is_micro_value(change.value)) {
            if put_micro(kind, store, change.hash, name, value, mode)? {
                return Ok(());
            }
        } else if mode == Mode::Insert && find_micro(kind, store, change.hash, change.key)?.is_some() {
            // Refuse without becoming fat first.
            return Err(Refusal::Exists.at(store.place()));
        }
        upgrade(form, store)?;
    }
    match &mut form.kind {
        Kind::Fat(header) => as_fat(header, store).put(change, mode),
        Kind::Micro(_) => Err(Error::corrupt(store.place(), "zap: still micro after becoming fat")),
    }
}

fn remove(form: &mut Form, store: &dyn BlockStore, hash: u64, key: Key<'_>) -> Result<()> {
    let missing = || {
        let what = match key {
            Key::Name(name) => format!("entry {}", String::from_utf8_lossy(name)),
            Key::Words(words) => format!("entry {words:x?}"),
        };
        Error::not_found(store.place(), what)
    };
    match &mut form.kind {
        Kind::Micro(kind) => {
            let (place, _) = find_micro(kind, store, hash, key)?.ok_or_else(missing)?;
            let offset = micro::entry_offset(place.index as usize);
            store.put_at(0, offset, &[0; micro::ENTRY_BYTES])?;
            kind.index.get_mut().expect("created by the search").remove(place);
            Ok(())
        }
        Kind::Fat(header) => {
            if as_fat(header, store).remove(hash, key)? {
                Ok(())
            } else {
                Err(missing())
            }
        }
    }
}

fn find_u64(form: &Form, store: &dyn BlockStore, hash: u64, name: &[u8]) -> Result<Option<u64>> {
    match &form.kind {
        Kind::Micro(kind) => Ok(find_micro(kind, store, hash, Key::Name(name))?.map(|(_, value)| value)),
        Kind::Fat(header) => {
            let mut header = header.clone();
            let value = as_fat(&mut header, store).value(hash, Key::Name(name))?;
            value.map(|v| v.as_u64().ok_or_else(|| Error::invalid(store.place(), "zap: not one number"))).transpose()
        }
    }
}

/// The entry of a micro ZAP with exactly this name, and its value. Builds the index.
fn find_micro(kind: &MicroForm, store: &dyn BlockStore, hash: u64, key: Key<'_>) -> Result<Option<(MicroPlace, u64)>> {
    let Key::Name(name) = key else { return Ok(None) };
    let block = little(store, 0)?;
    let view = Micro::parse(&block.data, block.endian).map_err(|e| Error::from(e).at(&store.place()))?;
    let places = kind.index(&view).of_hash(hash);
    let entries = places.iter().filter_map(|p| Some((*p, view.entry(p.index as usize)?)));
    Ok(entries.filter(|(_, e)| e.name == name).map(|(p, e)| (p, e.value)).next())
}

/// Returns false if the ZAP must become fat first.
fn put_micro(
    kind: &mut MicroForm,
    store: &dyn BlockStore,
    hash: u64,
    name: &[u8],
    value: u64,
    mode: Mode,
) -> Result<bool> {
    if let Some((place, _)) = find_micro(kind, store, hash, Key::Name(name))? {
        if mode == Mode::Insert {
            return Err(Refusal::Exists.at(store.place()));
        }
        store.put_at(0, micro::entry_offset(place.index as usize), &value.to_le_bytes())?;
        return Ok(true);
    }
    let index = kind.index.get_mut().expect("created by the search");
    // All entries of one hash end up in one leaf of a fat ZAP, and must fit there.
    let largest = ondisk::zap::leaf::edit::chunks_needed(micro::NAME_BYTES, 8);
    if (index.of_hash(hash).len() + 1) * largest >= ondisk::zap::leaf::edit::chunks_in(1 << FAT_SHIFT) {
        return Ok(false);
    }
    let slot = match index.free_slot() {
        Some(slot) => slot,
        None => {
            let larger = store.block_bytes() + STEP_BYTES;
            if larger > micro::MAX_BYTES {
                return Ok(false);
            }
            store.set_block_bytes(larger)?;
            index.grow(larger / micro::ENTRY_BYTES - 1);
            index.free_slot().ok_or_else(|| Error::corrupt(store.place(), "zap: no room after growing"))?
        }
    };
    let cd = index.free_cd(hash);
    store.put_at(0, micro::entry_offset(slot), &micro::entry(name, value, cd))?;
    index.add(MicroPlace { hash, cd, index: slot as u32 });
    Ok(true)
}

/// Makes a micro ZAP fat; its entries keep their hashes and collision numbers.
fn upgrade(form: &mut Form, store: &dyn BlockStore) -> Result<()> {
    let Kind::Micro(kind) = &form.kind else { return Ok(()) };
    let block = little(store, 0)?;
    let view = Micro::parse(&block.data, block.endian).map_err(|e| Error::from(e).at(&store.place()))?;
    // Built in memory first, so that nothing is lost if an entry does not fit.
    let built = store::Memory::new(1 << FAT_SHIFT, store.place());
    let mut header = Header::new(FAT_SHIFT, kind.salt, kind.norm_flags, ZapFlags::empty());
    fat::create(&built, &header)?;
    let mut fat = as_fat(&mut header, &built);
    for entry in view.entries() {
        let hash = hash::of_name(kind.salt, ZapFlags::empty(), &normalise(entry.name, kind.norm_flags));
        let value = ZapValue::one(entry.value);
        let change = Change { hash, cd: Some(entry.cd), key: Key::Name(entry.name), value: &value };
        fat.put(&change, Mode::Insert)?;
    }
    drop(block);
    store.set_block_bytes(1 << FAT_SHIFT)?;
    built.write_to(store)?;
    form.kind = Kind::Fat(header);
    Ok(())
}

/// Block 0 of a new micro ZAP.
fn new_micro(salt: u64, norm_flags: NormFlags, block_bytes: usize) -> Vec<u8> {
    let mut block = micro::header(salt, norm_flags).to_vec();
    block.resize(block_bytes.max(STEP_BYTES), 0);
    block
}

/// Salt of a new ZAP: different for each one, never 0. Derived from known values, so that a
/// simulated run is reproducible.
fn new_salt(object: &Object, tx: &Tx) -> u64 {
    let mut salt = object.id() ^ object.objset_id().rotate_left(24) ^ tx.txg().rotate_left(40);
    for _ in 0..2 {
        salt = salt.wrapping_add(0x9e37_79b9_7f4a_7c15);
        salt = (salt ^ (salt >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        salt = (salt ^ (salt >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        salt ^= salt >> 31;
    }
    salt | 1
}
