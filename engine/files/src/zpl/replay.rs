//! Replay of the intent log.
//!
//! Below: the operations themselves, which take the recorded object numbers, generations and times
//! as arguments. Above: the code that opens a dataset with a non-empty log passes the records one
//! by one. Facts: module/zfs/zfs_replay.c.
//!
//! Invariants:
//!   * Each record is replayed in one transaction, which also notes that it was replayed.
//!   * Nothing else uses the file system meanwhile.

use super::FileSystem;
use super::data::{SIZE_MAX, Times};
use super::log::{MAP_CREATED, MAP_FLAGS, MAP_PROJECT, MAP_PROJECT_INHERIT, mask};
use super::make::Forced;
use crate::vfs::{Caller, NewNode, RenameFlags, SetAttr, SetTime, Time};
use errors::{Error, Place, Refusal, Result};
use ondisk::acl::Ace;
use ondisk::zil::record::{Attributes, Body, Create, Whiteout};
use ondisk::zil::{Record, RecordType};
use ondisk::znode::Flags;
use std::sync::atomic::Ordering;

/// Bytes that a record may write in addition to its data. Guessed.
const REPLAY_BYTES: u64 = 256 << 10;

fn time(words: [u64; 2]) -> Time {
    Time { seconds: words[0] as i64, nanoseconds: words[1].min(999_999_999) as u32 }
}

fn owner(uid: u64, gid: u64) -> Caller {
    Caller { uid: uid as u32, gid: gid as u32, privileged: true, ..Caller::default() }
}

impl FileSystem {
    /// Runs `replay`. Until it returns, operations are treated as replayed records: quotas and
    /// read-only do not apply.
    pub fn replaying<R>(&self, replay: impl FnOnce() -> Result<R>) -> Result<R> {
        let live = self.live()?;
        live.replaying.store(true, Ordering::SeqCst);
        let result = replay();
        live.replaying.store(false, Ordering::SeqCst);
        // Hidden directories were used as if they were nodes.
        live.forget_all();
        result
    }

    /// Replays a record, within [`FileSystem::replaying`]. If the data of a write was stored in a
    /// separate block, the whole block is passed.
    pub fn replay_record(&self, record: &Record<'_>, body: &Body<'_>) -> Result<()> {
        self.named(self.replay_inner(record.kind, body))
    }

    fn replay_inner(&self, kind: RecordType, body: &Body<'_>) -> Result<()> {
        match body {
            Body::Commit => Ok(()),
            Body::Create(create) => self.replay_create(kind, create),
            Body::Remove { directory, name } => self.remove_named(*directory, name, kind == RecordType::RMDIR),
            Body::Link { directory, object, name } => self.link_named(*object, *directory, name).map(|_| ()),
            Body::Rename { from_directory, to_directory, from, to, whiteout } => {
                let flags = RenameFlags {
                    no_replace: false,
                    exchange: kind == RecordType::RENAME_EXCHANGE,
                    whiteout: whiteout.is_some(),
                };
                let forced = whiteout.as_ref().map(forced_whiteout);
                let who = whiteout.map_or_else(Caller::default, |w| owner(w.uid, w.gid));
                self.rename_named(&who, (*from_directory, from), (*to_directory, to), flags, forced.as_ref())
            }
            Body::Write { object, offset, length, data, .. } => {
                self.replay_write(*object, (*offset, *length), if kind == RecordType::WRITE2 { &[] } else { data })
            }
            Body::Truncate { object, offset, length } => self.replay_truncate(*object, (*offset, *length)),
            Body::SetAttr { .. } => self.replay_set_attr(body),
            Body::SetSaXattr { object, name, value } => self.replay_xattr(*object, name, *value),
            Body::Acl { object, acl } if kind == RecordType::ACL && acl.fuids.is_empty() => {
                // Its length is padded to 8; an entry has at least 8 bytes.
                let mut list =
                    Ace::parse_v1(acl.entries, ondisk::Endian::Little).at("access list in the intent log")?;
                list.truncate(usize::try_from(acl.count).unwrap_or(usize::MAX));
                self.set_entries(*object, &list)
            }
            Body::Acl { object, acl } if kind == RecordType::ACL_V0 => {
                let mut list = Ace::parse_v0(acl.entries, ondisk::Endian::Little);
                list.truncate(usize::try_from(acl.count).unwrap_or(usize::MAX));
                self.set_entries(*object, &list)
            }
            Body::Acl { .. } => {
                Err(Error::unsupported("", "access lists with identities of domains, in the intent log"))
            }
            Body::CloneRange { object, offset, length, block_bytes, pointers } => {
                self.replay_clone(*object, (*offset, *length), *block_bytes, pointers)
            }
        }
    }

    fn replay_create(&self, kind: RecordType, create: &Create<'_>) -> Result<()> {
        if create.acl.is_some() {
            return Err(Error::unsupported("", "access lists in the intent log"));
        }
        let forced = Forced {
            object: create.object,
            slots: create.slots,
            generation: create.generation,
            time: time(create.created),
            mode: (create.mode & 0o7777) as u32,
            attributes: create.attributes.as_ref().map(|set| beyond_posix(set, SetAttr::default())),
        };
        if kind == RecordType::MKXATTR {
            return self.operate(REPLAY_BYTES, false, |tx, live, settings| {
                let node = live.node(create.directory);
                self.change(&[&node], |l| {
                    let file = l.get(create.directory);
                    if file.xattr_dir != 0 {
                        return Err(Refusal::Exists.at(file.object.place()));
                    }
                    self.grouped(tx, file, |file, group| {
                        self.make_hidden_dir(tx, settings, file, group, Some(&forced)).map(|_| ())
                    })
                })
            });
        }
        let (major, minor) = ((create.rdev >> 20) as u32 & 0xfff, create.rdev as u32 & 0xf_ffff);
        let new = match (create.mode >> 12 & 15, create.target) {
            (_, Some(target)) => NewNode::Symlink(target.to_vec()),
            (1, _) => NewNode::Fifo,
            (2, _) => NewNode::CharDevice { major, minor },
            (4, _) => NewNode::Directory,
            (6, _) => NewNode::BlockDevice { major, minor },
            (8, _) => NewNode::Regular,
            (12, _) => NewNode::Socket,
            _ => return Err(Error::corrupt("", format!("a record makes a file of mode {:#o}", create.mode))),
        };
        let who = owner(create.uid, create.gid);
        self.make_named(&who, create.directory, create.name, &new, (forced.mode, 0, Some(&forced))).map(|_| ())
    }

    fn replay_write(&self, id: u64, (offset, length): (u64, u64), data: &[u8]) -> Result<()> {
        let end = offset.checked_add(length).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or_else(|| Refusal::TooLarge.at(format!("object {id}")))?;
        self.operate(REPLAY_BYTES + data.len() as u64, false, |tx, live, settings| {
            let node = live.node(id);
            self.change(&[&node], |l| {
                let file = l.get(id);
                let size = file.size.max(end);
                // The whole block is written because later records, which only move the end, depend
                // on its contents.
                let at = if data.len() as u64 > length { offset - offset % data.len() as u64 } else { offset };
                self.write_unlogged(tx, settings, file, (true, Times::Move), at, data)?;
                if file.size != size {
                    file.size = size;
                    file.store(self, tx, &[])?;
                }
                self.log_write(tx, file, offset, data);
                Ok(())
            })
        })
    }

    fn replay_truncate(&self, id: u64, range: (u64, u64)) -> Result<()> {
        self.operate(REPLAY_BYTES, true, |tx, live, settings| {
            let node = live.node(id);
            self.change(&[&node], |l| self.free_range_in(tx, settings, l.get(id), range, live.backing.now()))
        })
    }

    fn replay_set_attr(&self, body: &Body<'_>) -> Result<()> {
        let Body::SetAttr { object, mask: bits, mode, uid, gid, size, atime, mtime, attributes } = body else {
            return Ok(());
        };
        if *bits == mask::MODE {
            return self.replay_mode(*object, *mode);
        }
        let has = |bit| bits & bit != 0;
        let mut set = SetAttr {
            mode: has(mask::MODE).then_some((mode & 0o7777) as u32),
            uid: has(mask::UID).then_some(*uid as u32),
            gid: has(mask::GID).then_some(*gid as u32),
            size: has(mask::SIZE).then_some(*size),
            atime: has(mask::ATIME).then_some(SetTime::To(time(*atime))),
            mtime: has(mask::MTIME).then_some(SetTime::To(time(*mtime))),
            ..SetAttr::default()
        };
        if let Some(attributes) = attributes {
            set = beyond_posix(attributes, set);
        }
        let privileged = Caller { privileged: true, ..Caller::default() };
        self.set_attributes(&privileged, *object, &set, true).map(|_| ())
    }

    /// Replays the clearing of set-id bits by a change of contents: regardless of `aclmode`, the
    /// ACL is unchanged.
    fn replay_mode(&self, id: u64, mode: u64) -> Result<()> {
        self.operate(REPLAY_BYTES, false, |tx, live, _| {
            let node = live.node(id);
            self.change(&[&node], |l| {
                let file = l.get(id);
                file.mode = file.mode & !0o7777 | mode & 0o7777;
                file.store(self, tx, &[])?;
                self.log_mode(tx, file);
                Ok(())
            })
        })
    }

    fn replay_xattr(&self, id: u64, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.operate(REPLAY_BYTES, value.is_none(), |tx, live, _| {
            let node = live.node(id);
            self.change(&[&node], |l| self.replay_packed_xattr(tx, l.get(id), name, value))
        })
    }
}

fn forced_whiteout(white: &Whiteout) -> Forced {
    Forced {
        object: white.object,
        slots: white.slots,
        generation: white.generation,
        time: time(white.created),
        mode: (white.mode & 0o7777) as u32,
        attributes: None,
    }
}

fn beyond_posix(attributes: &Attributes, set: SetAttr) -> SetAttr {
    let map = attributes.mask.first().copied().unwrap_or(0);
    let project = u64::from_le_bytes(attributes.scan_stamp[..8].try_into().expect("8 bytes"));
    let logged = |bits: u32| {
        let flags = MAP_FLAGS.iter().filter(|(_, bit)| bits & bit != 0);
        flags.fold(Flags::empty(), |all, (flag, _)| all | *flag)
    };
    let set_flags = logged(map & attributes.flags as u32);
    SetAttr {
        set_flags,
        clear_flags: logged(map).difference(set_flags),
        btime: if map & MAP_CREATED != 0 { Some(time(attributes.created)) } else { set.btime },
        project: if map & MAP_PROJECT != 0 { Some(project) } else { set.project },
        project_inherit: match map & MAP_PROJECT_INHERIT {
            0 => set.project_inherit,
            _ => Some(attributes.flags & u64::from(MAP_PROJECT_INHERIT) != 0),
        },
        ..set
    }
}
