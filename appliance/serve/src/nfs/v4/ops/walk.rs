//! Operations that navigate and read: file handles, names, attributes, permissions.

use super::super::attr::{self, Subject};
use super::super::bitmap::{Bitmap, ONLY_SET, RDATTR_ERROR, supported};
use super::super::node::{Node, Place};
use super::super::rights;
use super::super::status::{Result, Status};
use super::{Compound, check_name, component};
use crate::nfs::handle::HANDLE_BYTES;
use crate::nfs::xdr::{Reader, Writer};
use files::vfs::{Attr, FileKind};

/// `NFS4_FHSIZE`.
const HANDLE_BYTES_MAX: usize = 128;
const _: () = assert!(HANDLE_BYTES <= HANDLE_BYTES_MAX);
/// The only flavour that SECINFO and SECINFO_NO_NAME announce.
const AUTH_SYS: u32 = 1;

/// `ACCESS4_*`: read, lookup, modify, extend, delete, execute, and of RFC 8276 xaread, xawrite,
/// xalist.
const ACCESS_BITS: u32 = 0x1ff;

impl Compound<'_> {
    pub(super) fn putfh(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let handle = r.opaque(HANDLE_BYTES_MAX)?;
        let place = self.find(handle)?;
        self.put(place);
        Ok(())
    }

    pub(super) fn put(&mut self, place: Place) {
        self.current = Some(place);
        self.current_state = None;
    }

    pub(super) fn putrootfh(&mut self) -> Result<()> {
        let place = self.pseudo(0)?;
        self.put(place);
        Ok(())
    }

    pub(super) fn getfh(&mut self, w: &mut Writer) -> Result<()> {
        w.opaque(&self.handle_of(self.current()?)?);
        Ok(())
    }

    pub(super) fn savefh(&mut self) -> Result<()> {
        self.saved = Some(self.current()?.clone());
        self.saved_state = self.current_state;
        Ok(())
    }

    pub(super) fn restorefh(&mut self) -> Result<()> {
        let no_saved = if self.minor == 0 { Status::RESTOREFH } else { Status::NOFILEHANDLE };
        self.current = Some(self.saved.clone().ok_or(no_saved)?);
        self.current_state = self.saved_state;
        Ok(())
    }

    pub(super) fn lookup(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let name = component(r)?;
        let from = self.current()?;
        let is_directory = match from {
            Place::Node(node) => node.is_directory().map(|_| ()),
            Place::Pseudo(_) => Ok(()),
        };
        is_directory?;
        check_name(name)?;
        let place = self.step(from, name)?;
        self.put(place);
        Ok(())
    }

    pub(super) fn lookupp(&mut self) -> Result<()> {
        let place = self.step_up(self.current()?)?;
        self.put(place);
        Ok(())
    }

    pub(super) fn secinfo(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let name = component(r)?;
        check_name(name)?;
        let from = self.current()?;
        if let Place::Node(node) = from {
            node.is_directory()?;
        }
        self.step(from, name)?;
        Self::flavours(w);
        if self.minor > 0 {
            self.current = None;
        }
        Ok(())
    }

    pub(super) fn secinfo_no_name(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let style = r.u32()?;
        let current = self.current()?;
        match style {
            0 => {}
            1 => {
                self.step_up(current)?;
            }
            _ => return Err(Status::BADXDR),
        }
        Self::flavours(w);
        self.current = None;
        Ok(())
    }

    fn flavours(w: &mut Writer) {
        w.u32(1);
        w.u32(AUTH_SYS);
    }

    pub(super) fn access(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let wanted = r.u32()?;
        if wanted & !ACCESS_BITS != 0 || self.minor < 2 && wanted & !0x3f != 0 {
            return Err(Status::INVAL);
        }
        let place = self.current()?;
        let attr = self.attr_of(place)?;
        let is_dir = attr.kind == FileKind::Directory;
        // Bits that are meaningless for this type of file are reported as not supported.
        let known = if is_dir { 0x1df } else { 0x1ed };
        let mut given = 0;
        match place {
            Place::Pseudo(_) => given = wanted & 0x3,
            Place::Node(node) => {
                let needs = [
                    (0x01, rights::READ),
                    (0x02, rights::EXECUTE),
                    (0x04, if is_dir { rights::WRITE | rights::APPEND } else { rights::WRITE }),
                    (0x08, if is_dir { rights::WRITE | rights::APPEND } else { rights::APPEND }),
                    (0x10, rights::DELETE_CHILD),
                    (0x20, rights::EXECUTE),
                    (0x40, rights::READ),
                    (0x80, rights::WRITE),
                    (0x100, rights::READ),
                ];
                let all = needs.iter().filter(|n| wanted & n.0 != 0).fold(0, |all, n| all | n.1);
                let has = rights::granted(node, &attr, all)?;
                let writes = 0x9c;
                let may_write = node.check_writable().is_ok();
                for (bit, need) in needs {
                    let granted = has & need == need || bit == 0x04 && is_dir && has & need != 0;
                    if granted && (bit & writes == 0 || may_write) {
                        given |= bit & wanted;
                    }
                }
            }
        }
        w.u32(wanted & known);
        w.u32(given & known);
        Ok(())
    }

    pub(super) fn getattr(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let wanted = Bitmap::read(r)?;
        if !wanted.and(ONLY_SET).is_empty() {
            return Err(Status::INVAL);
        }
        let place = self.current()?;
        let attr = self.attr_of(place)?;
        self.write_attr(w, wanted, place, &attr)
    }

    /// Writes `fattr4` of a place.
    pub(super) fn write_attr(&self, w: &mut Writer, wanted: Bitmap, place: &Place, attr: &Attr) -> Result<()> {
        let handle = if wanted.has(super::super::bitmap::FILEHANDLE) { self.handle_of(place)? } else { Vec::new() };
        let mounted_on = match wanted.has(super::super::bitmap::MOUNTED_ON_FILEID) {
            true => self.mounted_on(place, attr),
            false => 0,
        };
        let vfs = match place {
            Place::Node(node) => Some(node.vfs()),
            Place::Pseudo(_) => None,
        };
        let subject = Subject {
            minor: self.minor,
            attr,
            change: self.change_of(place, attr),
            handle: &handle,
            fsid: self.fsid_of(place),
            mounted_on,
            vfs,
            lease_seconds: self.server.config.lease_seconds,
        };
        attr::write(w, wanted, &subject)
    }

    /// VERIFY, or NVERIFY if `same` is false.
    pub(super) fn verify(&mut self, r: &mut Reader<'_>, same: bool) -> Result<()> {
        let given = Bitmap::read(r)?;
        let values = r.opaque(1 << 20)?;
        if !given.minus(supported(self.minor)).is_empty() {
            return Err(Status::ATTRNOTSUPP);
        }
        if given.has(RDATTR_ERROR) || !given.and(ONLY_SET).is_empty() {
            return Err(Status::INVAL);
        }
        let place = self.current()?;
        let attr = self.attr_of(place)?;
        let mut ours = Writer::new();
        self.write_attr(&mut ours, given, place, &attr)?;
        let ours = ours.to_vec();
        let mut read = Reader::new(&ours);
        Bitmap::read(&mut read)?;
        match (read.opaque(1 << 20)? == values, same) {
            (true, true) | (false, false) => Ok(()),
            (true, false) => Err(Status::SAME),
            (false, true) => Err(Status::NOT_SAME),
        }
    }

    /// The change attribute of a place.
    pub(super) fn change_of(&self, place: &Place, attr: &Attr) -> u64 {
        let key = match place {
            Place::Node(node) => node.key,
            Place::Pseudo(_) => files::vfs::FileHandle { fs_guid: 0, object: 0, generation: 0 },
        };
        self.server.core.changes.of(key, attr)
    }

    /// The change attribute of a directory before it is changed.
    pub(super) fn before(&self, dir: &Node, attr: &Attr) -> u64 {
        self.server.core.changes.of(dir.key, attr)
    }

    /// Records a change of a node, caches its new attributes, and returns its change attribute.
    pub(super) fn changed(&self, node: &Node) -> Result<u64> {
        let after = node.vfs().attr(node.id)?;
        self.server.core.changes.note(node.key, &after);
        node.keep(after);
        Ok(self.server.core.changes.of(node.key, &after))
    }

    /// Writes `change_info4`. Not atomic: the directory may have been changed in between, also by
    /// other protocols.
    pub(super) fn change_info(w: &mut Writer, before: u64, after: u64) {
        w.bool(false);
        w.u64(before);
        w.u64(after);
    }
}
