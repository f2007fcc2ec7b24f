//! Directories: map names to objects.
//!
//! Cookies are the kernel's: 0 and 1 for `.` and `..`, then the position in the ZAP's hash order,
//! so that a cookie of an NFS client means the same here and in the kernel.

use super::node::kind_of;
use super::{CaseSensitivity, DIRS_MAX, FileSystem};
use crate::vfs::{DirEntry, FileKind, NodeId};
use errors::{Error, Result};
use object::Zap;
use ondisk::ObjectType;
use ondisk::zap::Value as ZapValue;
use ondisk::znode::DirEntryValue;

/// Cookies up to this are before the first entry of the ZAP.
const COOKIES_BEFORE_ENTRIES: u64 = 3;

impl FileSystem {
    pub(super) fn dir_zap(&self, id: u64) -> Result<Zap> {
        // A mutable directory is not cached: another name may have been added through another
        // handle.
        let keeps = self.live.is_none();
        if let Some(zap) = self.dirs.lock().get(&id).filter(|_| keeps) {
            return Ok(zap.clone());
        }
        let object = self.object(id)?;
        if object.dnode().object_type != ObjectType::DIRECTORY_CONTENTS {
            return Err(Error::invalid(object.place(), "is not a directory"));
        }
        let zap = Zap::open(object)?;
        if !keeps {
            return Ok(zap);
        }
        let mut dirs = self.dirs.lock();
        if dirs.len() >= DIRS_MAX {
            dirs.clear();
        }
        dirs.insert(id, zap.clone());
        Ok(zap)
    }

    fn entry_value(&self, dir: u64, name: &[u8], value: &ZapValue) -> Result<DirEntryValue> {
        match value.ints.first() {
            // More than one number is allowed: Lustre stores its own after the first.
            Some(number) if value.int_bytes == 8 => Ok(DirEntryValue::unpack(*number)),
            _ => {
                let what = format!(
                    "entry {:?} is {} integers of {} bytes, expected 8-byte ones",
                    String::from_utf8_lossy(name),
                    value.ints.len(),
                    value.int_bytes
                );
                Err(Error::corrupt(format!("object {dir}"), what))
            }
        }
    }

    /// The object named `name` in `dir`.
    pub(super) fn find(&self, dir: u64, name: &[u8]) -> Result<u64> {
        match name {
            b"." => return Ok(dir),
            b".." => return self.parent_of(dir),
            _ => {}
        }
        self.find_entry(dir, name)?
            .ok_or_else(|| Error::not_found(format!("object {dir}"), format!("{:?}", String::from_utf8_lossy(name))))
    }

    fn parent_of(&self, dir: u64) -> Result<u64> {
        if dir == self.master.root { Ok(dir) } else { self.znode(dir)?.parent() }
    }

    /// The entry `name` of `dir`, which must not be `.` or `..`.
    pub(super) fn find_entry(&self, dir: u64, name: &[u8]) -> Result<Option<u64>> {
        Ok(self.find_stored(dir, name)?.map(|(value, _)| value.object))
    }

    /// Returns the entry with its value, and its name as stored.
    pub(super) fn find_stored(&self, dir: u64, name: &[u8]) -> Result<Option<(DirEntryValue, Vec<u8>)>> {
        let (zap, names) = (self.dir_zap(dir)?, &self.master.names);
        if name.is_empty() || name.contains(&0) || !names.allow(name) {
            return Ok(None);
        }
        let found = if names.are_exact() {
            zap.lookup(name)?.map(|value| (value, name.to_vec()))
        } else {
            let match_case = names.case() == CaseSensitivity::Mixed;
            zap.lookup_normalised(name, match_case)?
        };
        found.map(|(value, stored)| self.entry_value(dir, name, &value).map(|v| (v, stored))).transpose()
    }

    pub(super) fn list(&self, dir: u64, cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        let zap = self.dir_zap(dir)?;
        let dot = |name: &[u8], id, next_cookie| DirEntry {
            name: name.to_vec(),
            node: NodeId(id),
            kind: FileKind::Directory,
            next_cookie,
        };
        if cookie == 0 && !sink(dot(b".", dir, 1)) {
            return Ok(());
        }
        if cookie <= 1 && !sink(dot(b"..", self.parent_of(dir)?, 2)) {
            return Ok(());
        }
        let from = if cookie <= COOKIES_BEFORE_ENTRIES { 0 } else { cookie };
        for step in zap.cursor(from) {
            let (entry, next_cookie) = step?;
            let value = self.entry_value(dir, &entry.name, &entry.value)?;
            // Before ZPL version 2, entries had no type. A file that cannot be read is still
            // listed.
            let kind = match kind_of(value.kind) {
                Some(kind) => kind,
                None => self.znode(value.object).map_or(FileKind::Regular, |z| z.kind()),
            };
            if !sink(DirEntry { name: entry.name, node: NodeId(value.object), kind, next_cookie }) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The error for an entry whose object is missing: the directory is damaged, as opposed to a name
/// that does not exist.
pub(super) fn dangling(error: Error, dir: u64, name: &[u8]) -> Error {
    match error {
        Error::NotFound { what, .. } => {
            let name = String::from_utf8_lossy(name).into_owned();
            Error::corrupt(format!("object {dir}"), format!("entry {name:?} names {what}, which does not exist"))
        }
        other => other,
    }
}
