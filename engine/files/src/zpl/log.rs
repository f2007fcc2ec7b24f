//! What operations record in the intent log. Replay runs the same operations again, see
//! [`replay`](super::replay).
//!
//! Format: `ondisk::zil`. Facts: module/zfs/zfs_log.c.
//!
//! Invariants:
//!   * Nothing is recorded for files to which no name leads any more.
//!   * During replay, each replayed record is recorded once it is completely done. That marks it as
//!     replayed in the log.

use super::live::Live;
use super::state::State;
use super::{FileSystem, trivial_acl};
use crate::vfs::{FileKind, SetAttr, SetTime, Time};
use dataset::intent_log::{Encoded, Reach};
use object::Tx;
use ondisk::BlkPtr;
use ondisk::acl::Ace;
use ondisk::zil::RecordType;
use ondisk::zil::record::{Acl, Attributes, Body, Create, Whiteout};
use ondisk::znode::Flags;
use std::sync::atomic::Ordering;

/// Linux's `ATTR_` bits in `lr_mask`.
pub(super) mod mask {
    pub const MODE: u64 = 1;
    pub const UID: u64 = 2;
    pub const GID: u64 = 4;
    pub const SIZE: u64 = 8;
    pub const ATIME: u64 = 0x10;
    pub const MTIME: u64 = 0x20;
    pub const CTIME: u64 = 0x40;
    /// Attributes beyond POSIX follow.
    pub const XVATTR: u64 = 1 << 31;
}

/// Words of the attribute map (`XVA_MAPSIZE`). The bits used here are in the first.
pub(super) const MAP_WORDS: usize = 3;
/// `XAT0_CREATETIME`.
pub(super) const MAP_CREATED: u32 = 1;
/// `XAT0_PROJINHERIT`, in the map and among the flags.
pub(super) const MAP_PROJECT_INHERIT: u32 = 0x2_0000;
/// `XAT0_PROJID`.
pub(super) const MAP_PROJECT: u32 = 0x4_0000;

/// The other flags that are in the map, and their bits there (`XAT0_READONLY` and so on).
pub(super) const MAP_FLAGS: [(Flags, u32); 11] = [
    (Flags::ARCHIVE, 0x2),
    (Flags::SYSTEM, 0x4),
    (Flags::READONLY, 0x8),
    (Flags::HIDDEN, 0x10),
    (Flags::NOUNLINK, 0x20),
    (Flags::IMMUTABLE, 0x40),
    (Flags::APPENDONLY, 0x80),
    (Flags::NODUMP, 0x100),
    (Flags::REPARSE, 0x2000),
    (Flags::OFFLINE, 0x8000),
    (Flags::SPARSE, 0x1_0000),
];

/// The bits of these flags in the map.
fn map_of(flags: Flags) -> u32 {
    MAP_FLAGS.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, bit)| bit).sum()
}

fn words(time: Time) -> [u64; 2] {
    [time.seconds as u64, u64::from(time.nanoseconds)]
}

fn create_record<'a>(made: &State, name: &'a [u8], target: Option<&'a [u8]>, slots: u8) -> (RecordType, Body<'a>) {
    let kind = match made.kind {
        FileKind::Directory if made.flags.contains(Flags::XATTR) => RecordType::MKXATTR,
        FileKind::Directory => RecordType::MKDIR,
        FileKind::Symlink => RecordType::SYMLINK,
        _ => RecordType::CREATE,
    };
    let body = Create {
        directory: made.parent,
        object: made.object.id(),
        slots,
        mode: made.mode,
        uid: made.uid,
        gid: made.gid,
        generation: made.generation,
        created: words(made.crtime),
        rdev: made.rdev,
        attributes: None,
        acl: None,
        domains: Vec::new(),
        name,
        target,
    };
    (kind, Body::Create(body))
}

fn set_attr_record(file: &State, set: &SetAttr) -> Body<'static> {
    let mut bits = mask::CTIME;
    for (is_set, bit) in [
        (set.mode.is_some(), mask::MODE),
        (set.uid.is_some(), mask::UID),
        (set.gid.is_some(), mask::GID),
        (set.size.is_some(), mask::SIZE),
        (set.atime.is_some(), mask::ATIME),
        (set.mtime.is_some(), mask::MTIME),
    ] {
        bits |= if is_set { bit } else { 0 };
    }
    let mut map = map_of(set.set_flags | set.clear_flags);
    for (is_set, bit) in [
        (set.btime.is_some(), MAP_CREATED),
        (set.project.is_some(), MAP_PROJECT),
        (set.project_inherit.is_some(), MAP_PROJECT_INHERIT),
    ] {
        map |= if is_set { bit } else { 0 };
    }
    let attributes = (map != 0).then(|| {
        let mut scan_stamp = [0; 32];
        scan_stamp[..8].copy_from_slice(&file.project.to_le_bytes());
        let inherits = set.project_inherit.is_some() && file.flags.contains(Flags::PROJINHERIT);
        let mut mask = vec![0; MAP_WORDS];
        mask[0] = map;
        let flags = map_of(set.set_flags) | if inherits { MAP_PROJECT_INHERIT } else { 0 };
        Attributes { mask, flags: u64::from(flags), created: words(file.crtime), scan_stamp }
    });
    bits |= if attributes.is_some() { mask::XVATTR } else { 0 };
    attributes_record(file, bits, attributes)
}

/// Record of the attributes that `mask` selects, with their current values in `file`.
fn attributes_record(file: &State, mask: u64, attributes: Option<Attributes>) -> Body<'static> {
    Body::SetAttr {
        object: file.object.id(),
        mask,
        mode: file.mode,
        uid: file.uid,
        gid: file.gid,
        size: file.size,
        atime: words(file.atime),
        mtime: words(file.mtime),
        attributes,
    }
}

fn rename_record<'a>(
    from: (u64, &'a [u8]),
    to: (u64, &'a [u8]),
    exchange: bool,
    white: Option<(&State, u8)>,
) -> (RecordType, Body<'a>) {
    let kind = match (exchange, white.is_some()) {
        (true, _) => RecordType::RENAME_EXCHANGE,
        (_, true) => RecordType::RENAME_WHITEOUT,
        _ => RecordType::RENAME,
    };
    let whiteout = white.map(|(white, slots)| Whiteout {
        object: white.object.id(),
        slots,
        mode: white.mode,
        uid: white.uid,
        gid: white.gid,
        generation: white.generation,
        created: words(white.crtime),
        rdev: white.rdev,
    });
    (kind, Body::Rename { from_directory: from.0, to_directory: to.0, from: from.1, to: to.1, whiteout })
}

/// The records of one compound change, such as a file and the access control lists that it
/// inherits, or the file of an extended attribute and its contents. They are in one block of the
/// log, so that after a crash all of them are there or none.
#[derive(Default)]
pub(super) struct Group {
    records: Vec<Encoded>,
    /// Other files see the change, because it affects names or frees object numbers.
    is_seen: bool,
    /// A part of the change has no record: commits wait for the txg.
    is_unloggable: bool,
}

impl Group {
    fn put(&mut self, tx: &Tx, kind: RecordType, body: &Body<'_>) {
        self.records.push((kind, body.encode(kind, tx.txg())));
    }

    /// Records that a file, directory or link was created.
    pub fn create(&mut self, tx: &Tx, made: &State, name: &[u8], target: Option<&[u8]>, slots: u8) {
        let (kind, body) = create_record(made, name, target, slots);
        self.put(tx, kind, &body);
        self.is_seen = true;
    }

    /// Records that the hidden directory of a file, or a file in it, was created.
    pub fn create_hidden(&mut self, tx: &Tx, made: &State, name: &[u8], slots: u8) {
        let (kind, body) = create_record(made, name, None, slots);
        self.put(tx, kind, &body);
    }

    /// Records that a file was removed from a hidden directory. Its object number may be reused for
    /// another file, whose records must come later.
    pub fn remove_hidden(&mut self, tx: &Tx, directory: u64, name: &[u8]) {
        self.put(tx, RecordType::REMOVE, &Body::Remove { directory, name });
        self.is_seen = true;
    }

    /// Records a change of attributes: `set` selects them, `file` holds their current values.
    pub fn set_attr(&mut self, tx: &Tx, file: &State, set: &SetAttr) {
        self.put(tx, RecordType::SETATTR, &set_attr_record(file, set));
    }

    /// Records that the ZFS ACL was set, and the mode with it.
    pub fn acl(&mut self, tx: &Tx, file: &State, list: &[Ace]) {
        let (kind, entries) = match file.has_fuids {
            true => (RecordType::ACL, trivial_acl::pack(list)),
            false => (RecordType::ACL_V0, trivial_acl::pack_old(list)),
        };
        let acl = Acl { count: list.len() as u64, flags: 0, entries: &entries, fuids: Vec::new(), domains: Vec::new() };
        self.put(tx, kind, &Body::Acl { object: file.object.id(), acl });
    }

    /// Records that an extended attribute among the file's own attributes was set or removed.
    pub fn set_sa_xattr(&mut self, tx: &Tx, file: &State, name: &[u8], value: Option<&[u8]>) {
        // A record with an empty value means that the attribute was removed.
        self.is_unloggable |= value.is_some_and(<[u8]>::is_empty);
        let body = Body::SetSaXattr { object: file.object.id(), name, value };
        self.put(tx, RecordType::SETSAXATTR, &body);
    }

    /// Records `value` as the contents of an attribute in the hidden directory. Unlike the contents
    /// of a file they are in the record, because they are part of the change.
    pub fn contents(&mut self, tx: &Tx, attribute: &State, was_empty: bool, value: &[u8]) {
        let object = attribute.object.id();
        if !was_empty {
            self.put(tx, RecordType::TRUNCATE, &Body::Truncate { object, offset: 0, length: 0 });
        }
        if !value.is_empty() {
            let (length, pointer) = (value.len() as u64, BlkPtr::HOLE);
            self.put(tx, RecordType::WRITE, &Body::Write { object, offset: 0, length, pointer, data: value });
        }
    }

    /// Records a rename; `white` is the whiteout left behind, with the slots of its dnode.
    pub fn rename(
        &mut self,
        tx: &Tx,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        exchange: bool,
        white: Option<(&State, u8)>,
    ) {
        let (kind, body) = rename_record(from, to, exchange, white);
        self.put(tx, kind, &body);
        self.is_seen = true;
    }
}

impl FileSystem {
    /// Runs `change` and adds its records to the intent log as one change of `file`. This also
    /// happens if it fails half-way, because the part that was done by then remains. During replay
    /// nothing is added on failure: a record that failed was not replayed.
    pub(super) fn grouped<R>(
        &self,
        tx: &Tx,
        file: &mut State,
        change: impl FnOnce(&mut State, &mut Group) -> errors::Result<R>,
    ) -> errors::Result<R> {
        let mut group = Group::default();
        let result = change(file, &mut group);
        if result.is_ok() || !self.is_replaying() {
            self.log_group(tx, file, group);
        }
        result
    }

    /// Adds a change of `file` to the intent log.
    pub(super) fn log_group(&self, tx: &Tx, file: &State, group: Group) {
        let node = file.object.id();
        let is_logged = !group.records.is_empty() && (file.has_name() || self.is_replaying());
        let Some(live) = self.live.as_ref().filter(|_| is_logged) else { return };
        if group.is_unloggable && !self.is_replaying() {
            if group.is_seen {
                live.backing.unloggable_for_all(tx);
            }
            live.backing.unloggable(tx, node);
            return;
        }
        let reach = if group.is_seen { Reach::All } else { Reach::File };
        live.backing.record_together(tx, node, reach, group.records);
    }

    fn put_record(&self, tx: &Tx, node: u64, kind: RecordType, body: &Body<'_>) {
        if let Some(live) = &self.live {
            live.backing.record(tx, node, kind, body);
        }
    }

    pub(super) fn is_replaying(&self) -> bool {
        self.live.as_ref().is_some_and(|live: &Live| live.replaying.load(Ordering::Relaxed))
    }

    /// Records a file's modification time, so that replaying a write leaves it unchanged.
    pub(super) fn log_mtime(&self, tx: &Tx, file: &State) {
        let set = SetAttr { mtime: Some(SetTime::To(file.mtime)), ..SetAttr::default() };
        if file.has_name() {
            self.put_record(tx, file.object.id(), RecordType::SETATTR, &set_attr_record(file, &set));
        }
    }

    pub(super) fn log_remove(&self, tx: &Tx, directory: u64, object: u64, name: &[u8], is_dir: bool) {
        let kind = if is_dir { RecordType::RMDIR } else { RecordType::REMOVE };
        self.put_record(tx, object, kind, &Body::Remove { directory, name });
    }

    pub(super) fn log_link(&self, tx: &Tx, directory: u64, object: u64, name: &[u8]) {
        self.put_record(tx, object, RecordType::LINK, &Body::Link { directory, object, name });
    }

    pub(super) fn log_write(&self, tx: &Tx, file: &State, offset: u64, data: &[u8]) {
        let object = file.object.id();
        if file.has_name() || self.is_replaying() {
            let length = data.len() as u64;
            let body = Body::Write { object, offset, length, pointer: BlkPtr::HOLE, data };
            self.put_record(tx, object, RecordType::WRITE, &body);
        }
    }

    pub(super) fn log_truncate(&self, tx: &Tx, file: &State, offset: u64, length: u64) {
        let object = file.object.id();
        if file.has_name() || self.is_replaying() {
            self.put_record(tx, object, RecordType::TRUNCATE, &Body::Truncate { object, offset, length });
        }
    }

    /// Records that a clone record was replayed. Clones that a caller requests are not recorded.
    pub(super) fn log_cloned(&self, tx: &Tx, file: &State, offset: u64, (length, block_bytes): (u64, u64)) {
        let object = file.object.id();
        let body = Body::CloneRange { object, offset, length, block_bytes, pointers: Vec::new() };
        self.put_record(tx, object, RecordType::CLONE_RANGE, &body);
    }

    /// Records that a change of contents cleared set-id bits. As in OpenZFS, the record names only
    /// the mode; the record of a mode that was set also names the time of change.
    pub(super) fn log_mode(&self, tx: &Tx, file: &State) {
        if file.has_name() || self.is_replaying() {
            let body = attributes_record(file, mask::MODE, None);
            self.put_record(tx, file.object.id(), RecordType::SETATTR, &body);
        }
    }
}

/// The time to be set.
pub(super) fn time_of(set: SetTime, now: Time) -> Time {
    match set {
        SetTime::Now => now,
        SetTime::To(time) => time,
    }
}
