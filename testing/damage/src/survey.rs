//! Everything that a pool returns: each file, attribute and piece of contents as one line, and
//! every error.
//!
//! Invariants:
//!   * an error ends only the survey of what it concerns
//!   * a survey always ends: entries, depth and bytes are limited

use crate::image::Opened;
use dataset::tree::{Entry, ListOptions};
use files::vfs::{Attr, FileKind, NodeId, Vfs};
use rig::Chance;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Limits of a survey.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Directory entries in total.
    pub entries: usize,
    /// Bytes of contents in total.
    pub bytes: u64,
    /// Examine one in this many entries, chosen by `seed`.
    pub one_in: u64,
    /// Seed that chooses the entries.
    pub seed: u64,
}

impl Limits {
    /// Everything that a valid pool contains.
    pub const ALL: Self = Self { entries: 1 << 20, bytes: 1 << 40, one_in: 1, seed: 0 };
}

/// Maximum depth of directories.
const DEPTH_MAX: usize = 40;
/// Number of bytes that are read and hashed at once.
const PIECE_BYTES: u64 = 256 << 10;
/// Maximum number of pieces of one file; of longer files, half are taken from the start and half
/// from the end.
const PIECES_MAX: u64 = 256;

/// Result of a survey.
#[derive(Debug, Default)]
pub struct Survey {
    /// Keys are dataset and path, plus `@` and offset for contents.
    pub lines: BTreeMap<String, String>,
    /// What could not be read.
    pub errors: BTreeMap<String, String>,
    limits_left: (usize, u64),
}

impl Survey {
    /// Surveys all datasets of the pool.
    pub fn of(opened: &Opened, limits: Limits) -> Self {
        let mut survey = Self { limits_left: (limits.entries, limits.bytes), ..Self::default() };
        let options = ListOptions { bookmarks: false, ..ListOptions::all() };
        let list = match opened.pool.datasets.list(&[], &options) {
            Ok(list) => list,
            Err(e) => {
                survey.errors.insert("datasets".into(), e.to_string());
                return survey;
            }
        };
        for (i, e) in list.errors.iter().enumerate() {
            survey.errors.insert(format!("datasets {i}"), e.to_string());
        }
        for entry in list.entries {
            let Entry::Dataset(dataset) = entry else { continue };
            let name = dataset.name().to_owned();
            match opened.files(&dataset) {
                Ok(vfs) => survey.tree(&name, &*vfs, &limits),
                Err(e) => drop(survey.errors.insert(name, format!("{e:#}"))),
            }
        }
        survey
    }

    /// Lines that differ from the undamaged pool. With `complete`, also lines that are missing.
    pub fn differences(&self, undamaged: &Self, complete: bool) -> Vec<String> {
        let wrong = self.lines.iter().filter(|(key, line)| undamaged.lines.get(*key) != Some(line));
        let mut found: Vec<String> =
            wrong.map(|(key, line)| format!("{key}: {line}, expected {:?}", undamaged.lines.get(key))).collect();
        if complete {
            found.extend(undamaged.lines.keys().filter(|k| !self.lines.contains_key(*k)).map(|k| format!("{k}: gone")));
            found.extend(self.errors.iter().map(|(key, e)| format!("{key}: {e}")));
        }
        found
    }

    fn note<T>(&mut self, key: &str, result: Result<T, errors::Error>) -> Option<T> {
        result.map_err(|e| self.errors.insert(key.to_owned(), e.to_string())).ok()
    }

    fn tree(&mut self, dataset: &str, vfs: &dyn Vfs, limits: &Limits) {
        let root = vfs.root();
        let _ = self.note(&format!("{dataset} statfs"), vfs.stat_fs(root));
        let key = format!("{dataset}:");
        let Some(attr) = self.note(&key, vfs.attr(root)) else { return };
        let mut waiting = vec![(key, attr, 0)];
        while let Some((path, attr, depth)) = waiting.pop() {
            self.entry(&path, vfs, &attr);
            if attr.kind != FileKind::Directory || depth >= DEPTH_MAX {
                continue;
            }
            for (name, node) in self.children(&path, vfs, attr.node) {
                let child = format!("{path}/{}", String::from_utf8_lossy(&name));
                let looked_up = self.note(&child, vfs.lookup(attr.node, &name));
                let Some(attr) = self.note(&child, vfs.attr(node)) else { continue };
                if looked_up.is_some_and(|found| found.node != node) {
                    self.lines.insert(format!("{child} lookup"), "leads to another node".into());
                }
                let chosen = attr.kind == FileKind::Directory
                    || Chance::of_case(limits.seed, hash(child.as_bytes())).once_in(limits.one_in);
                if chosen {
                    waiting.push((child, attr, depth + 1));
                }
            }
        }
    }

    fn children(&mut self, path: &str, vfs: &dyn Vfs, dir: NodeId) -> Vec<(Vec<u8>, NodeId)> {
        let mut found = Vec::new();
        let left = &mut self.limits_left.0;
        let result = vfs.read_dir(dir, 0, &mut |entry| {
            *left = left.saturating_sub(1);
            if entry.name != b"." && entry.name != b".." {
                found.push((entry.name, entry.node));
            }
            *left > 0
        });
        self.note(&format!("{path} entries"), result);
        found
    }

    fn entry(&mut self, path: &str, vfs: &dyn Vfs, attr: &Attr) {
        let a = attr;
        let times = [a.mtime, a.ctime, a.btime].map(|t| format!("{}.{}", t.seconds, t.nanoseconds)).join(" ");
        let owner = format!("{}:{}:{}", a.uid, a.gid, a.project);
        let line = format!("{:?} {:o} {owner} {} {} {} {times}", a.kind, a.mode, a.links, a.size, a.ino);
        self.lines.insert(path.to_owned(), line);
        if a.kind == FileKind::Symlink
            && let Some(target) = self.note(&format!("{path} target"), vfs.read_link(a.node))
        {
            self.lines.insert(format!("{path} target"), String::from_utf8_lossy(&target).into_owned());
        }
        let names = self.note(&format!("{path} attributes"), vfs.list_xattr(a.node)).unwrap_or_default();
        for name in names.iter().take(100) {
            let key = format!("{path} {}", String::from_utf8_lossy(name));
            if let Some(value) = self.note(&key, vfs.get_xattr(a.node, name)) {
                self.lines.insert(key, format!("{:x}", hash(&value.unwrap_or_default())));
            }
        }
        if a.kind == FileKind::Regular {
            let _ = self.note(&format!("{path} data"), vfs.seek_data(a.node, 0));
            let _ = self.note(&format!("{path} hole"), vfs.seek_hole(a.node, 0));
            self.contents(path, vfs, attr);
        }
    }

    fn contents(&mut self, path: &str, vfs: &dyn Vfs, attr: &Attr) {
        let count = attr.size.div_ceil(PIECE_BYTES);
        let head = if count > PIECES_MAX { PIECES_MAX / 2 } else { count };
        let tail = if count > PIECES_MAX { count - PIECES_MAX / 2 } else { count };
        for i in (0..head).chain(tail..count) {
            let offset = i * PIECE_BYTES;
            let len = (attr.size - offset).min(PIECE_BYTES);
            if self.limits_left.1 < len {
                return;
            }
            self.limits_left.1 -= len;
            let key = format!("{path}@{offset}");
            if let Some(bytes) = self.note(&key, vfs.read(attr.node, offset, len as usize)) {
                let sum = Sha256::digest(&bytes);
                let start = sum.first_chunk::<8>().map_or(0, |b| u64::from_be_bytes(*b));
                self.lines.insert(key, format!("{} bytes {start:016x}", bytes.len()));
            }
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    Sha256::digest(bytes).first_chunk::<8>().map_or(0, |b| u64::from_be_bytes(*b))
}
