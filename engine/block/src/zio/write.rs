//! Writes one block: compression -> embedding or hole -> encryption -> checksum -> addresses ->
//! devices.
//!
//! Below: `vdev`, `transform`, `allocate`. Above: `store`. Runs on the calling thread; several may
//! write at once. ZFS name: zio_write.
//!
//! ```text
//!   contents --+-- zeros ------------------------------------> hole
//!              +-- compressed, at most 112 bytes ------------> embedded
//!              +-- compressed, padded to a whole allocation -+
//!              +-- as they are ------------------------------+-> MAC, encryption -> checksum
//!                                   -> the block that it replaces, if that has the same contents
//!                                   -> addresses, or a gang block
//! ```
//!
//! Invariants:
//!   * compressed contents are kept only if they save an eighth, in allocation units
//!   * the checksum covers exactly the bytes that are written, padding included
//!   * after an error, nothing stays allocated

use super::once;
use super::place::place;
use super::put::{put, sum};
use crate::crypt::DatasetKeys;
use crate::policy::{Compress, Dedup, WritePolicy};
use crate::store::WriteStore;
use bytes::Bytes;
use errors::{Error, Result};
use ondisk::{BlkPtr, Checksum, Compression, Dva, NewBlock, ObjectType, Txg, blkptr};
use smallvec::SmallVec;
use std::cell::Cell;

thread_local! {
    /// Buffer for a block on its way to the devices: compressed, encrypted.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Largest buffer that a thread keeps for its next block. Larger blocks are rare, and many threads
/// write. Guessed.
const ROOM_KEPT_BYTES: usize = 2 << 20;

/// A block that was written, and the contents that reading it will return.
pub(crate) struct Written {
    pub bp: BlkPtr,
    pub contents: Bytes,
}

/// How the object set of a block is encrypted.
#[derive(Clone, Copy)]
pub(crate) enum Seal<'a> {
    None,
    Keys(&'a DatasetKeys),
    /// With keys that are not loaded: a raw receive. Only blocks that need no key are written in
    /// this way: indirect blocks, whose MAC is computed from those below, and the root block, which
    /// holds its MACs itself.
    Elsewhere,
}

impl<'a> From<Option<&'a DatasetKeys>> for Seal<'a> {
    fn from(keys: Option<&'a DatasetKeys>) -> Self {
        keys.map_or(Self::None, Self::Keys)
    }
}

impl Seal<'_> {
    fn is_none(self) -> bool {
        matches!(self, Self::None)
    }
}

/// The block that a write replaces, if the caller knows it.
#[derive(Clone, Copy)]
pub(crate) enum Replaced<'a> {
    Nothing,
    /// Born in the same txg: overwritten in place if the new contents fit.
    SameTxg(&'a BlkPtr),
    /// Born in an earlier txg: stays if it holds the new contents.
    Earlier(&'a BlkPtr),
}

/// Writes `contents`, unless they are in the block that they replace.
pub(crate) fn write(
    store: &WriteStore,
    txg: u64,
    contents: Bytes,
    policy: &WritePolicy,
    keys: Seal<'_>,
    replaced: Replaced<'_>,
) -> Result<Written> {
    check(policy, contents.len() as u64)?;
    let mut room = ROOM.take();
    let (old, present) = match replaced {
        Replaced::Nothing => (None, None),
        Replaced::SameTxg(old) => (Some(old), None),
        Replaced::Earlier(present) => (None, Some(present)),
    };
    let result = Writing { store, txg, policy, keys, old, present, room: &mut room }.run(contents);
    if room.len() <= ROOM_KEPT_BYTES {
        ROOM.set(room);
    }
    result
}

/// Fails if `policy` is invalid or a block cannot have `size` bytes.
pub(super) fn check(policy: &WritePolicy, size: u64) -> Result<()> {
    if size == 0 || !size.is_multiple_of(512) || size > blkptr::MAX_BLOCK_BYTES {
        return Err(Error::invalid("", format!("a block of {size} bytes cannot be stored")));
    }
    let unfit = matches!(policy.checksum, Checksum::Inherit | Checksum::On) || policy.checksum.is_embedded();
    if unfit || !(1..=3).contains(&policy.copies) || policy.level > 31 {
        let what = format!("checksum {}, {} copies, level {}", policy.checksum.name(), policy.copies, policy.level);
        return Err(Error::invalid("", format!("no block is written with {what}")));
    }
    Ok(())
}

struct Writing<'a> {
    store: &'a WriteStore,
    txg: u64,
    policy: &'a WritePolicy,
    keys: Seal<'a>,
    old: Option<&'a BlkPtr>,
    present: Option<&'a BlkPtr>,
    room: &'a mut Vec<u8>,
}

/// The form in which the block goes to the devices.
#[derive(Clone, Copy)]
struct Shape {
    compression: Compression,
    psize: usize,
    /// The bytes are in the buffer; otherwise they are the contents themselves.
    in_room: bool,
}

impl Writing<'_> {
    fn run(mut self, mut contents: Bytes) -> Result<Written> {
        let WritePolicy { object_type, level, .. } = *self.policy;
        let lsize = contents.len();
        let compression = self.compression();
        let old = self.old.filter(|old| self.may_go_over(old));
        // A block that is rewritten keeps its place even if it is all zeros now: freeing it would
        // change the space maps, and rewriting in place exists to write those.
        if compression != Compress::Off && old.is_none() && is_zero(&contents) {
            let birth = if self.store.hole_births() { Txg(self.txg) } else { Txg(0) };
            let bp = match birth {
                Txg(0) => BlkPtr::HOLE,
                birth => BlkPtr::new_hole(object_type, level, lsize as u64, birth),
            };
            return Ok(Written { bp, contents });
        }
        // A caller that turns compression off to keep sizes stable is served best by staying in
        // place.
        let kept =
            old.filter(|_| compression == Compress::Off).and_then(|old| Compress::new(old.compression().ok()?, 0));
        let compression = kept.unwrap_or(compression);
        let packed = self.pack(compression, &contents);
        if let (Some(length), None) = (packed, old)
            && length <= blkptr::EMBEDDED_PAYLOAD_BYTES
            && self.may_embed()
        {
            let payload = &self.room[..length];
            let algorithm = compression.algorithm();
            let bp = BlkPtr::new_embedded(object_type, level, algorithm, lsize as u64, payload, Txg(self.txg));
            return Ok(Written { bp, contents });
        }
        let (shape, over) = match old.and_then(|old| fit_over(old, packed, lsize)) {
            Some((true, psize)) => (Shape { compression: compression.algorithm(), psize, in_room: true }, old),
            Some((false, psize)) => (Shape { compression: Compression::Off, psize, in_room: false }, old),
            None if kept.is_some() => (Shape { compression: Compression::Off, psize: lsize, in_room: false }, None),
            // It grew since it was last written in this txg, and may grow again. With twice the
            // space it need not move again.
            None if self.old.is_some() => (self.shape(compression, packed.map(|length| 2 * length), lsize), None),
            None => (self.shape(compression, packed, lsize), None),
        };
        if let (true, Some(length)) = (shape.in_room, packed) {
            self.make_room(shape.psize);
            self.room[length..shape.psize].fill(0);
        }
        let mut bp = BlkPtr::new_block(&NewBlock {
            object_type,
            level,
            lsize_bytes: lsize as u64,
            psize_bytes: shape.psize as u64,
            compression: shape.compression,
            checksum: self.policy.checksum,
        });
        bp.set_dedup(over.is_none() && self.may_dedup());
        let in_room = self.seal(&mut bp, &mut contents, shape)?;
        let stored = if in_room { &self.room[..shape.psize] } else { &contents[..] };
        sum(self.store, &mut bp, stored)?;
        if let Some(present) = self.present.filter(|present| self.stays(present, &bp)) {
            return Ok(Written { bp: *present, contents });
        }
        bp.set_birth(Txg(self.txg), Txg(self.txg));
        if level == 0 {
            bp.set_fill(1);
        }
        match over {
            Some(old) => {
                let addresses: SmallVec<[Dva; 3]> = old.dvas().collect();
                put(self.store, &mut bp, &addresses, stored, self.txg)?;
            }
            None if bp.is_dedup() => once::place(self.store, &mut bp, stored, self.txg, self.policy, self.copies())?,
            None => place(self.store, &mut bp, stored, self.txg, self.policy, self.copies())?,
        }
        Ok(Written { bp, contents })
    }

    /// Dnode and object set blocks of encrypted datasets are not compressed, because parts of them
    /// must be readable without the key.
    fn compression(&self) -> Compress {
        let plain = matches!(self.policy.object_type, ObjectType::DNODE | ObjectType::OBJSET) && self.policy.level == 0;
        match self.policy.compression {
            Compress::Off => Compress::Off,
            _ if !self.keys.is_none() && plain => Compress::Empty,
            other => other,
        }
    }

    fn copies(&self) -> u8 {
        copies(self.store, self.policy, !self.keys.is_none())
    }

    fn may_embed(&self) -> bool {
        self.policy.embed && self.keys.is_none() && self.policy.level == 0 && !self.policy.object_type.has_fill()
    }

    /// In an encrypted dataset only encrypted blocks: there, equal contents are sealed to equal
    /// bytes.
    fn may_dedup(&self) -> bool {
        let is_data = self.policy.level == 0 && !self.policy.object_type.is_metadata();
        let is_secret = self.keys.is_none() || self.policy.object_type.is_encrypted();
        self.policy.dedup != Dedup::Off
            && is_data
            && is_secret
            && self.old.is_none()
            && self.store.duplicates().is_some()
    }

    fn may_go_over(&self, old: &BlkPtr) -> bool {
        let is_plain = !old.is_hole() && !old.is_embedded() && !old.is_gang() && !old.is_dedup();
        is_plain && old.physical_birth() == Txg(self.txg) && old.dvas().count() == usize::from(self.copies())
    }

    /// Whether `present` stays, because it is the same as `new`, the block about to be placed.
    /// Facts: `zio_nop_write` in module/zfs/zio.c.
    fn stays(&self, present: &BlkPtr, new: &BlkPtr) -> bool {
        let form = |bp: &BlkPtr| {
            (bp.checksum_kind().ok(), bp.checksum(), bp.compression().ok(), bp.lsize_bytes(), bp.psize_bytes())
        };
        // A block on a removed device would stay there.
        let is_moved = |present: &BlkPtr| {
            let tree = self.store.tree();
            present.dvas().any(|dva| tree.is_indirect(dva.vdev))
        };
        self.policy.may_keep()
            && self.keys.is_none()
            && !present.is_hole()
            && !present.is_embedded()
            && !present.is_redacted()
            && !present.uses_crypt()
            && !present.is_dedup()
            && form(present) == form(new)
            && present.dvas().count() == usize::from(self.copies())
            && !is_moved(present)
    }

    fn make_room(&mut self, bytes: usize) {
        if self.room.len() < bytes {
            self.room.resize(bytes, 0);
        }
    }

    /// Compresses into the buffer, if that saves enough. Returns the length.
    fn pack(&mut self, compression: Compress, contents: &[u8]) -> Option<usize> {
        let (algorithm, level) = compression.compressor()?;
        let limit = limit(compression, self.store.units(), contents.len());
        transform::compress::compress_into(algorithm, level, contents, limit, self.room)
    }

    /// The form of a block with a new place.
    fn shape(&self, compression: Compress, packed: Option<usize>, lsize: usize) -> Shape {
        let (minimum, unit) = self.store.units();
        let rounded = packed.map(|length| if length > minimum { length.next_multiple_of(unit) } else { minimum });
        match rounded {
            Some(psize) if psize < lsize => Shape { compression: compression.algorithm(), psize, in_room: true },
            _ => Shape { compression: Compression::Off, psize: lsize, in_room: false },
        }
    }

    /// Encrypts the block, or at least authenticates it. Returns whether the result is in the
    /// buffer.
    fn seal(&mut self, bp: &mut BlkPtr, contents: &mut Bytes, shape: Shape) -> Result<bool> {
        let keys = match self.keys {
            Seal::None => return Ok(shape.in_room),
            Seal::Keys(keys) => keys,
            Seal::Elsewhere => {
                bp.set_uses_crypt(true);
                return match bp.object_type() {
                    _ if bp.level() > 0 => {
                        crate::crypt::seal_indirect(bp, contents);
                        Ok(shape.in_room)
                    }
                    ObjectType::OBJSET => Ok(shape.in_room),
                    _ => Err(Error::KeyUnavailable { place: String::new() }),
                };
            }
        };
        bp.set_uses_crypt(true);
        if bp.level() > 0 {
            keys.seal_indirect(bp, contents);
            return Ok(shape.in_room);
        }
        if bp.object_type() == ObjectType::OBJSET {
            // The MACs are part of the block, so later reads return other contents than those
            // given.
            let mut sealed = contents.to_vec();
            keys.seal_objset(&mut sealed)?;
            *contents = Bytes::from(sealed);
            return Ok(shape.in_room);
        }
        if bp.is_encrypted() {
            if !shape.in_room {
                self.make_room(shape.psize);
                self.room[..shape.psize].copy_from_slice(contents);
            }
            match bp.is_dedup() {
                true => keys.seal_block_once(bp, &mut self.room[..shape.psize])?,
                false => keys.seal_block(bp, &mut self.room[..shape.psize])?,
            }
            return Ok(true);
        }
        let stored = if shape.in_room { &self.room[..shape.psize] } else { &contents[..] };
        keys.authenticate(bp, stored);
        Ok(shape.in_room)
    }
}

/// Number of addresses of a block, as far as the pool allows. Salt and IV replace the third one;
/// also above level 0, as in OpenZFS.
pub(super) fn copies(store: &WriteStore, policy: &WritePolicy, is_protected: bool) -> u8 {
    let most = if is_protected && policy.object_type.is_encrypted() { 2 } else { 3 };
    policy.copies.min(most).min(store.copies_max())
}

/// Whether all bytes are zero.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // Data usually differ from zero early; fixed chunks let the compiler vectorize the loop.
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0) && rest.iter().all(|byte| *byte == 0)
}

/// Maximum length of compressed contents. `units` are the pool's smallest allocation and the
/// granularity of larger ones.
fn limit(compression: Compress, units: (usize, usize), lsize: usize) -> usize {
    let (minimum, unit) = units;
    let limit = lsize - lsize / 8;
    if compression == Compress::Zle {
        return limit;
    }
    match limit - limit % unit {
        limit if limit < minimum => blkptr::EMBEDDED_PAYLOAD_BYTES,
        limit => limit,
    }
}

/// Whether contents fit into the place of `old`: compressed (true) or not, and the size, which is
/// that of `old`, padded.
fn fit_over(old: &BlkPtr, packed: Option<usize>, lsize: usize) -> Option<(bool, usize)> {
    let psize = old.psize_bytes() as usize;
    match packed {
        _ if psize == lsize => Some((false, psize)),
        Some(length) if length <= psize && psize < lsize => Some((true, psize)),
        _ => None,
    }
}
