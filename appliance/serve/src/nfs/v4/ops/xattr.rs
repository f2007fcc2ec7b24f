//! Extended attributes (RFC 8276): those in the `user.` namespace. The protocol omits the prefix.

use super::super::rights;
use super::super::status::{Result, Status};
use super::Compound;
use crate::nfs::xdr::{Reader, Writer};
use files::vfs::SetXattr;

const USER: &[u8] = b"user.";
/// Maximum length of a name and of a value, as in Linux.
const NAME_BYTES_MAX: usize = 255;
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Maximum length of a name or value that is decoded.
const READ_BYTES_MAX: usize = 1 << 20;
/// Offset of LISTXATTRS cookies, as for READDIR.
const COOKIE_SHIFT: u64 = 3;

fn user_name(r: &mut Reader<'_>) -> Result<Vec<u8>> {
    let name = r.opaque(READ_BYTES_MAX)?;
    if name.is_empty() || name.contains(&0) {
        return Err(Status::INVAL);
    }
    if name.len() + USER.len() > NAME_BYTES_MAX {
        return Err(Status::NAMETOOLONG);
    }
    Ok([USER, name].concat())
}

impl Compound<'_> {
    pub(super) fn getxattr(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let name = user_name(r)?;
        let node = self.node()?;
        rights::check(node, &node.attr()?, rights::READ)?;
        w.opaque(&node.vfs().get_xattr(node.id, &name)?.ok_or(Status::NOXATTR)?);
        Ok(())
    }

    pub(super) fn setxattr(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let how = match r.u32()? {
            0 => SetXattr::Either,
            1 => SetXattr::Create,
            2 => SetXattr::Replace,
            _ => return Err(Status::BADXDR),
        };
        let name = user_name(r);
        let value = r.opaque(READ_BYTES_MAX)?;
        let (name, node) = (name?, self.node()?);
        node.check_writable()?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(Status::XATTR2BIG);
        }
        let before = node.attr()?;
        rights::check(node, &before, rights::WRITE)?;
        let old = self.before(node, &before);
        node.changes();
        node.vfs().set_xattr(node.who(), node.id, &name, value, how)?;
        self.settle(node)?;
        Self::change_info(w, old, self.changed(node)?);
        Ok(())
    }

    pub(super) fn listxattrs(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (cookie, max_bytes) = (r.u64()?, r.u32()? as usize);
        let node = self.node()?;
        rights::check(node, &node.attr()?, rights::READ)?;
        let names = node.vfs().list_xattr(node.id)?;
        let mut names: Vec<&[u8]> = names.iter().filter_map(|n| n.strip_prefix(USER)).collect();
        // Sorted, so that the order is the same in each call.
        names.sort_unstable();
        let skip = match cookie {
            0 => 0,
            n if n < COOKIE_SHIFT => return Err(Status::BAD_COOKIE),
            n => usize::try_from(n - COOKIE_SHIFT).map_err(|_| Status::BAD_COOKIE)?,
        };
        // Space for cookie, number of names and EOF.
        let mut room = max_bytes.min(self.room(w)).checked_sub(16).ok_or(Status::TOOSMALL)?;
        let rest = names.get(skip..).unwrap_or_default();
        let fitting = rest
            .iter()
            .take_while(|name| {
                let bytes = 4 + name.len().next_multiple_of(4);
                let fits = bytes <= room;
                room = room.saturating_sub(bytes);
                fits
            })
            .count();
        if fitting == 0 && !rest.is_empty() {
            return Err(Status::TOOSMALL);
        }
        w.u64((skip + fitting) as u64 + COOKIE_SHIFT);
        w.u32(fitting as u32);
        rest[..fitting].iter().for_each(|name| w.opaque(name));
        w.bool(fitting == rest.len());
        Ok(())
    }

    pub(super) fn removexattr(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let name = user_name(r)?;
        let node = self.node()?;
        node.check_writable()?;
        let before = node.attr()?;
        rights::check(node, &before, rights::WRITE)?;
        let old = self.before(node, &before);
        node.changes();
        node.vfs().remove_xattr(node.who(), node.id, &name)?;
        self.settle(node)?;
        Self::change_info(w, old, self.changed(node)?);
        Ok(())
    }
}
