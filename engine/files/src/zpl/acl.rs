//! ZFS's own (NFSv4 style) access control list of a file.

use super::{FileSystem, Znode};
use crate::Result;
use crate::vfs::NodeId;
use object::Place;
use ondisk::acl::{Ace, AclPhys};
use ondisk::sa::Attr as Sa;

/// More than 65,535 of the largest entries: as many as a list can count.
const ACL_BYTES_MAX: u32 = 4 << 20;

impl FileSystem {
    /// The NFSv4-style list of a file, in its order; `None` when it has none.
    pub fn acl(&self, node: NodeId) -> Result<Option<Vec<Ace>>> {
        self.named(self.acl_of(node.0))
    }

    fn acl_of(&self, id: u64) -> Result<Option<Vec<Ace>>> {
        self.acl_of_znode(&self.znode(id)?)
    }

    pub(super) fn acl_of_znode(&self, file: &Znode<'_>) -> Result<Option<Vec<Ace>>> {
        let place = || format!("{}: acl", file.place());
        if let Some((bytes, endian)) = file.attributes().get(Sa::DaclAces)? {
            return Ace::parse_v1(bytes, endian).at_with(place).map(Some);
        }
        let Some((bytes, endian)) = file.attributes().get(Sa::ZnodeAcl)? else { return Ok(None) };
        let acl = AclPhys::parse(bytes, endian).at_with(place)?;
        if acl.object == 0 {
            return acl.entries(None).at_with(place).map(Some);
        }
        let object = self.object(acl.object)?;
        if acl.size_bytes > ACL_BYTES_MAX {
            let what = format!("{} bytes of entries, expected at most {ACL_BYTES_MAX}", acl.size_bytes);
            return Err(crate::Error::corrupt(place(), what));
        }
        let bytes = object.read_vec(0, acl.size_bytes as usize)?;
        acl.entries(Some(&bytes)).at_with(place).map(Some)
    }
}
