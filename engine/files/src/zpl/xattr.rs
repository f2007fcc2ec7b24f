//! Extended attributes, with the names that Linux shows.
//!
//! They are stored in a packed list among a file's attributes (`xattr=sa`), as files of a hidden
//! directory (`xattr=dir`), or in both places; the list takes precedence. Names with a Linux
//! namespace are shown unchanged. Others come from illumos or FreeBSD and are shown in `user.`;
//! FreeBSD's system namespace is not shown.

use super::FileSystem;
use super::backing::XattrMode;
use super::node::Znode;
use crate::posix_acl::{ACCESS, DEFAULT};
use crate::vfs::FileKind;
use errors::{Error, Place, Result};
use ondisk::nvlist::{Nvlist, Value};
use ondisk::sa::Attr as Sa;

/// Longest value that is read from a hidden directory. Linux itself accepts 64 KiB.
const VALUE_BYTES_MAX: u64 = 16 << 20;

pub(super) const USER: &[u8] = b"user.";
/// Stored names with these prefixes are shown without an additional `user.`.
pub(super) const NAMESPACES: [&[u8]; 5] = [b"freebsd:", b"security.", b"system.", b"trusted.", USER];

impl FileSystem {
    fn shows_posix_acl(&self) -> bool {
        self.live.as_ref().map_or(self.options.posix_acl, |live| live.backing.settings().posix_acl)
    }

    fn shows_user_xattr(&self) -> bool {
        let is_on = |live: &super::live::Live| live.backing.settings().xattr != XattrMode::Off;
        self.live.as_ref().map_or(self.options.user_xattr, is_on)
    }

    /// The name under which a stored name is shown.
    fn shown(&self, stored: &[u8]) -> Option<Vec<u8>> {
        if stored.starts_with(b"trusted.") || stored.starts_with(b"security.") {
            return Some(stored.to_vec());
        }
        if stored == ACCESS || stored == DEFAULT {
            return self.shows_posix_acl().then(|| stored.to_vec());
        }
        if !self.shows_user_xattr() || stored.starts_with(b"freebsd:") {
            return None;
        }
        Some(if stored.starts_with(USER) { stored.to_vec() } else { [USER, stored].concat() })
    }

    pub(super) fn xattr_names(&self, file: &Znode<'_>) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        if let Some(list) = self.packed_xattrs(file)? {
            names.extend(list.pairs.iter().filter_map(|pair| self.shown(&pair.name)));
        }
        if let Some(dir) = self.xattr_dir(file)? {
            let packed = names.len();
            for step in self.dir_zap(dir)?.cursor(0) {
                names.extend(self.shown(&step?.0.name).filter(|name| !names[..packed].contains(name)));
            }
        }
        Ok(names)
    }

    pub(super) fn xattr(&self, file: &Znode<'_>, name: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(bare) = name.strip_prefix(USER) {
            if !self.shows_user_xattr() || NAMESPACES.iter().any(|n| bare.starts_with(n)) {
                return Ok(None);
            }
            return match self.stored_xattr(file, name)? {
                Some(value) => Ok(Some(value)),
                None => self.stored_xattr(file, bare),
            };
        }
        if name == ACCESS || name == DEFAULT {
            if !self.shows_posix_acl() || file.kind() == FileKind::Symlink {
                return Ok(None);
            }
            let value = self.stored_xattr(file, name)?;
            if let Some(value) = &value {
                // The kernel would return EIO.
                ondisk::acl::parse_posix(value).at_with(|| file.place())?;
            }
            return Ok(value);
        }
        if name.starts_with(b"trusted.") || name.starts_with(b"security.") {
            return self.stored_xattr(file, name);
        }
        Ok(None)
    }

    pub(super) fn stored_xattr(&self, file: &Znode<'_>, name: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(list) = self.packed_xattrs(file)?
            && let Some(value) = list.get(name)
        {
            return match value {
                Value::ByteArray(bytes) => Ok(Some(bytes.clone())),
                other => {
                    let what = format!("extended attribute of nvlist type {}, expected bytes", other.type_number());
                    Err(Error::corrupt(file.place(), what))
                }
            };
        }
        let Some(dir) = self.xattr_dir(file)? else { return Ok(None) };
        let Some(id) = self.find_entry(dir, name)? else { return Ok(None) };
        let value = self.znode(id)?;
        let size = value.size()?;
        if size > VALUE_BYTES_MAX {
            let what = format!("extended attribute of {size} bytes (known: up to {VALUE_BYTES_MAX})");
            return Err(Error::unsupported(value.place(), what));
        }
        Ok(Some(value.read(0, size as usize)?.to_vec()))
    }

    pub(super) fn packed_xattrs(&self, file: &Znode<'_>) -> Result<Option<Nvlist>> {
        match file.attributes().get(Sa::Dxattr)? {
            Some((packed, _)) if !packed.is_empty() => {
                Nvlist::parse(packed).at_with(|| format!("{}: extended attributes", file.place())).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn xattr_dir(&self, file: &Znode<'_>) -> Result<Option<u64>> {
        Ok(file.attributes().get_u64(Sa::Xattr)?.filter(|id| *id != 0))
    }
}
