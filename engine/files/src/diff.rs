//! The differences between two states of a file system, by path: `zfs diff`.
//!
//! Below: [`dataset::ObjectChange`] reports which objects may differ. This module compares them as
//! files, and resolves objects to paths by following parents up to the root. Facts:
//! lib/libzfs/libzfs_diff.c, `zfs_obj_to_path` in module/zfs/zfs_znode.c.

use crate::vfs::{Attr, FileKind, NodeId, Time, Vfs};
use crate::zpl::FileSystem;
use dataset::{Dataset, ObjectChange};
use errors::{Error, Result};
use std::collections::{HashMap, HashSet};

/// Number of directories whose names are cached by object: neighbouring changes are usually in the
/// same few directories.
const DIRS_KEPT_MAX: usize = 256;
/// Maximum directory depth; paths on Linux have 4096 bytes.
const DEPTH_MAX: usize = 4096;
/// Path reported for a file that was removed while open.
const ON_DELETE_QUEUE: &[u8] = b"(on_delete_queue)";

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Removed,
    /// Its contents or attributes changed.
    Modified,
    /// Its number of hard links changed.
    Links(i64),
    /// It was renamed to this path.
    Renamed(Vec<u8>),
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    /// Path from the file system's root, which is `/`.
    pub path: Vec<u8>,
    pub file: FileKind,
    /// Time of its last attribute change.
    pub ctime: Time,
}

/// Output format of a change.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiffFormat {
    /// `-F`: include a letter for the file type.
    pub classify: bool,
    /// `-H`: separate all columns by tabs, also in renames.
    pub scripted: bool,
    /// `-t`: include the time of the change.
    pub timestamps: bool,
    /// `-h`: print paths without escapes.
    pub raw_paths: bool,
}

impl Change {
    /// The line that `zfs diff` prints, without the newline; `mountpoint` is where the file system
    /// is mounted.
    pub fn line(&self, mountpoint: &str, format: &DiffFormat) -> Vec<u8> {
        let mut out = Vec::new();
        if format.timestamps {
            let (seconds, nanoseconds) = (self.ctime.seconds, self.ctime.nanoseconds);
            out.extend_from_slice(format!("{seconds:>10}.{nanoseconds:09}\t").as_bytes());
        }
        out.push(match self.kind {
            ChangeKind::Added => b'+',
            ChangeKind::Removed => b'-',
            ChangeKind::Modified | ChangeKind::Links(_) => b'M',
            ChangeKind::Renamed(_) => b'R',
        });
        out.push(b'\t');
        if format.classify {
            out.extend_from_slice(&[letter(self.file), b'\t']);
        }
        let mut path = |path: &[u8]| {
            for part in [mountpoint.as_bytes(), path] {
                if format.raw_paths { out.extend_from_slice(part) } else { escape(part, &mut out) }
            }
        };
        path(&self.path);
        match &self.kind {
            ChangeKind::Links(delta) => out.extend_from_slice(format!("\t({delta:+})").as_bytes()),
            ChangeKind::Renamed(to) => {
                out.extend_from_slice(if format.scripted { b"\t" } else { b" -> " });
                for part in [mountpoint.as_bytes(), to] {
                    if format.raw_paths { out.extend_from_slice(part) } else { escape(part, &mut out) }
                }
            }
            _ => {}
        }
        out
    }
}

fn letter(kind: FileKind) -> u8 {
    match kind {
        FileKind::Regular => b'F',
        FileKind::Directory => b'/',
        FileKind::Symlink => b'@',
        FileKind::Fifo => b'|',
        FileKind::Socket => b'=',
        FileKind::CharDevice => b'C',
        FileKind::BlockDevice => b'B',
    }
}

/// Escapes everything but visible ASCII as a backslash and four octal digits.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &b in bytes {
        if b > b' ' && b != b'\\' && b < 0x7f {
            out.push(b)
        } else {
            out.extend_from_slice(format!("\\{b:04o}").as_bytes())
        }
    }
}

/// A file in one of the two compared states.
struct Side {
    attr: Attr,
    path: Vec<u8>,
}

/// Resolves the objects of one state to paths.
pub struct Paths<'f> {
    files: &'f FileSystem,
    deleted: HashSet<u64>,
    names: HashMap<u64, HashMap<u64, Vec<u8>>>,
}

impl<'f> Paths<'f> {
    /// For a file system or snapshot.
    pub fn new(files: &'f FileSystem) -> Result<Self> {
        let deleted = files.unlinked()?.into_iter().collect();
        Ok(Self { files, deleted, names: HashMap::new() })
    }

    /// The file in object `id`; `None` if there is no such object, it is not a file, or no name
    /// leads to it.
    fn side(&mut self, id: u64) -> Result<Option<Side>> {
        if !self.files.is_file(id)? {
            return Ok(None);
        }
        let attr = self.files.attr(NodeId(id))?;
        if self.deleted.contains(&id) {
            return Ok(Some(Side { attr, path: ON_DELETE_QUEUE.to_vec() }));
        }
        Ok(self.path(id)?.map(|path| Side { attr, path }))
    }

    /// The path of object `id` from the root; `None` if no name leads to it.
    pub fn path(&mut self, id: u64) -> Result<Option<Vec<u8>>> {
        let (mut at, mut components) = (id, Vec::<Vec<u8>>::new());
        for _ in 0..DEPTH_MAX {
            let (parent, is_xattr_dir) = self.files.parent_for_path(at)?;
            if parent == at {
                let mut path = Vec::new();
                for component in components.iter().rev() {
                    path.push(b'/');
                    path.extend_from_slice(component);
                }
                if path.is_empty() {
                    path.push(b'/');
                }
                return Ok(Some(path));
            }
            let component = if is_xattr_dir { Some(b"<xattrdir>".to_vec()) } else { self.name_in(parent, at)? };
            // An object records the parent of its most recent link, which may be gone.
            let Some(component) = component else { return Ok(None) };
            components.push(component);
            if !self.files.is_file(parent)? {
                return Ok(None);
            }
            at = parent;
        }
        Err(Error::corrupt(format!("object {id}"), "the chain of parents does not end"))
    }

    /// The first name, in directory order, that leads to `id`.
    fn name_in(&mut self, dir: u64, id: u64) -> Result<Option<Vec<u8>>> {
        if !self.names.contains_key(&dir) {
            let entries = match self.files.names_by_object(dir) {
                Ok(entries) => entries,
                Err(Error::Invalid { .. } | Error::NotFound { .. }) => return Ok(None),
                Err(e) => return Err(e),
            };
            if self.names.len() >= DIRS_KEPT_MAX {
                self.names.clear();
            }
            self.names.insert(dir, entries);
        }
        Ok(self.names.get(&dir).and_then(|names| names.get(&id)).cloned())
    }
}

/// Calls `sink` with each change from snapshot `from` to the later state `to`, in the order of
/// `zfs diff`.
///
/// A damaged file is reported through `sink` as an error, and the comparison continues.
pub fn diff(
    (from, from_files): (&Dataset, &FileSystem),
    (to, to_files): (&Dataset, &FileSystem),
    sink: &mut dyn FnMut(Result<Change>),
) -> Result<()> {
    let (mut before, mut after) = (Paths::new(from_files)?, Paths::new(to_files)?);
    let shares = to_files.shares().map(|node| node.0);
    to.changed_objects(to_files.objset(), from, &mut |change| {
        match change {
            ObjectChange::InUse(id) if Some(id) == shares => {}
            ObjectChange::InUse(id) => match before.side(id).and_then(|b| Ok((b, after.side(id)?))) {
                Ok((before, after)) => compare(before, after, &mut |change| sink(Ok(change))),
                Err(e) => sink(Err(e)),
            },
            ObjectChange::Free { first, last } => {
                let mut at = first.saturating_sub(1);
                while let Some(id) = from_files.objset().next_object(at)?.filter(|id| *id <= last) {
                    at = id;
                    if Some(id) == shares || before.deleted.contains(&id) {
                        continue;
                    }
                    match before.side(id) {
                        Ok(Some(side)) => sink(Ok(change_of(ChangeKind::Removed, side))),
                        Ok(None) => {}
                        Err(e) => sink(Err(e)),
                    }
                }
            }
        }
        Ok(())
    })
}

fn change_of(kind: ChangeKind, side: Side) -> Change {
    Change { kind, path: side.path, file: side.attr.kind, ctime: side.attr.ctime }
}

fn compare(before: Option<Side>, after: Option<Side>, sink: &mut dyn FnMut(Change)) {
    let (before, after) = match (before, after) {
        (None, None) => return,
        (None, Some(after)) => return sink(change_of(ChangeKind::Added, after)),
        (Some(before), None) => return sink(change_of(ChangeKind::Removed, before)),
        (Some(before), Some(after)) => (before, after),
    };
    let (old, new) = (&before.attr, &after.attr);
    if old.kind != new.kind || old.generation != new.generation {
        // The object number was reused.
        sink(change_of(ChangeKind::Removed, before));
        return sink(change_of(ChangeKind::Added, after));
    }
    if old.ctime == new.ctime {
        return;
    }
    let countable = old.kind != FileKind::Directory && old.links != 0 && new.links != 0;
    let (file, ctime) = (new.kind, new.ctime);
    match i64::from(new.links) - i64::from(old.links) {
        delta if countable && delta != 0 => {
            let path = if delta > 0 { before.path } else { after.path };
            sink(Change { kind: ChangeKind::Links(delta), path, file, ctime });
        }
        _ if before.path == after.path => sink(change_of(ChangeKind::Modified, after)),
        _ => sink(Change { kind: ChangeKind::Renamed(after.path), path: before.path, file, ctime }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ChangeKind) -> Change {
        let ctime = Time { seconds: 1_795_257_581, nanoseconds: 420_000_000 };
        Change { kind, path: b"/a b".to_vec(), file: FileKind::Regular, ctime }
    }

    fn line(kind: ChangeKind, format: DiffFormat) -> String {
        String::from_utf8(change(kind).line("/tank", &format).clone()).unwrap()
    }

    #[test]
    fn lines_are_those_of_zfs_diff() {
        let plain = DiffFormat::default();
        assert_eq!(line(ChangeKind::Modified, plain), "M\t/tank/a\\0040b");
        assert_eq!(line(ChangeKind::Links(-1), plain), "M\t/tank/a\\0040b\t(-1)");
        assert_eq!(line(ChangeKind::Renamed(b"/c".to_vec()), plain), "R\t/tank/a\\0040b -> /tank/c");
        let all = DiffFormat { classify: true, scripted: true, timestamps: true, raw_paths: true };
        assert_eq!(line(ChangeKind::Added, all), "1795257581.420000000\t+\tF\t/tank/a b");
        assert_eq!(line(ChangeKind::Renamed(b"/c".to_vec()), all), "1795257581.420000000\tR\tF\t/tank/a b\t/tank/c");
    }
}
