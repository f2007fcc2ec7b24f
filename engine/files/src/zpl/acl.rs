//! The ZFS ACL (NFSv4 style) of a file: reading and setting it.
//!
//! A new ACL determines the mode, as in zfs_setacl. POSIX ACLs are stored beside it and updated to
//! match the mode.

use super::{FileSystem, Znode, trivial_acl};
use crate::nfs4_acl;
use crate::vfs::{FileKind, NodeId};
use errors::{Error, Place, Refusal, Result};
use ondisk::Endian;
use ondisk::acl::{Ace, AclPhys};
use ondisk::sa::Attr as Sa;
use ondisk::znode::Flags;

/// Room for more than 65,535 of the largest entries: as many as an ACL can count.
const ACL_BYTES_MAX: u32 = 4 << 20;
/// Bytes that setting an ACL may write.
const ACL_CHANGE_BYTES: u64 = 128 << 10;

impl FileSystem {
    /// The NFSv4-style ACL of a file, in its order; `None` if it has none.
    pub fn acl(&self, node: NodeId) -> Result<Option<Vec<Ace>>> {
        self.named(self.acl_of(node.0))
    }

    /// The ACL, or `None` if it expresses no more than the mode.
    pub(super) fn acl_beyond_mode(&self, id: u64) -> Result<Option<Vec<Ace>>> {
        let file = self.znode(id)?;
        let flags = Flags::from_bits_retain(file.attributes().need_u64(Sa::Flags)?);
        if flags.contains(Flags::ACL_TRIVIAL) {
            return Ok(None);
        }
        self.acl_of_znode(&file)
    }

    /// Sets the ACL of a file.
    pub(super) fn set_entries(&self, id: u64, list: &[Ace]) -> Result<()> {
        self.operate(ACL_CHANGE_BYTES, false, |tx, live, settings| {
            let node = live.node(id);
            self.change(&[&node], |l| {
                let file = l.get(id);
                let place = file.object.place();
                if file.kind == FileKind::Symlink {
                    return Err(Error::invalid(place, "a symbolic link has no access list"));
                }
                if file.flags.contains(Flags::IMMUTABLE) {
                    return Err(Refusal::NotPermitted.at(place));
                }
                nfs4_acl::check(list, file.is_dir()).map_err(|why| Error::invalid(place, why))?;
                let (mode, _) = trivial_acl::mode_of(list, file.uid, file.gid);
                file.mode = file.mode & !0o777 | mode;
                file.touch(live.backing.now());
                file.set_acl(self, tx, list)?;
                self.grouped(tx, file, |file, group| {
                    group.acl(tx, file, list);
                    if settings.posix_acl && !self.is_replaying() {
                        self.sync_list(tx, settings, file, group)?;
                    }
                    Ok(())
                })
            })
        })
    }

    fn acl_of(&self, id: u64) -> Result<Option<Vec<Ace>>> {
        self.acl_of_znode(&self.znode(id)?)
    }

    pub(super) fn acl_of_znode(&self, file: &Znode<'_>) -> Result<Option<Vec<Ace>>> {
        let place = || format!("{}: acl", file.place());
        if let Some((bytes, endian)) = file.attributes().get(Sa::DaclAces)? {
            return Ace::parse_v1(bytes, endian).at_with(place).map(Some);
        }
        let Some((acl, bytes, _)) = self.old_entries(file)? else { return Ok(None) };
        acl.entries(Some(&bytes)).at_with(place).map(Some)
    }

    /// The ACL of a znode, and the bytes of its entries with their byte order; `None` if it has no
    /// ACL, not even an empty one.
    pub(super) fn old_entries(&self, file: &Znode<'_>) -> Result<Option<(AclPhys, Vec<u8>, Endian)>> {
        let place = || format!("{}: acl", file.place());
        let Some((bytes, endian)) = file.attributes().get(Sa::ZnodeAcl)? else { return Ok(None) };
        let acl = AclPhys::parse(bytes, endian).at_with(place)?;
        let (size, max) = (acl.size_bytes, if acl.object == 0 { acl.data.len() as u32 } else { ACL_BYTES_MAX });
        if size > max {
            return Err(Error::corrupt(place(), format!("{size} bytes of entries, expected at most {max}")));
        }
        let bytes = match acl.object {
            0 => acl.data[..size as usize].to_vec(),
            object => self.object(object)?.read_vec(0, size as usize)?,
        };
        Ok(Some((acl, bytes, endian)))
    }
}
