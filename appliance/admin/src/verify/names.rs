//! Translates the number of a damaged block into a name.

use crate::OpenPool;
use block::Bookmark;
use dataset::{Dataset, DatasetKind};
use files::vfs::{Attr, FileKind, NodeId, Vfs};
use pool::scan::Damage;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Number of dnodes in a block of dnodes.
const DNODES_PER_BLOCK: u64 = 32;
/// Level of intent log blocks.
const LOG_LEVEL: i64 = -2;
/// Maximum number of ranges listed per object; the rest becomes one range up to the end of the
/// last.
const RANGES_MAX: usize = 1000;
/// Numbers from here on are the accounting objects of an object set.
const ACCOUNTING_FROM: u64 = u64::MAX - 2;

/// Where the damage is, in the terms of its dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Contents of a file or volume.
    File {
        /// Path in the dataset; empty for a volume.
        path: Vec<u8>,
        /// Byte ranges that cannot be read, with exclusive ends.
        ranges: Vec<(u64, u64)>,
    },
    /// A directory: some of its names cannot be read.
    Directory {
        /// Path in the dataset.
        path: Vec<u8>,
    },
    /// Attributes stored apart from the file (extended attributes, ACLs).
    Attributes {
        /// Path in the dataset.
        path: Vec<u8>,
    },
    /// An object that is not a file with a path.
    Object {
        /// Description of the object.
        what: String,
        /// Byte ranges that cannot be read, with exclusive ends.
        ranges: Vec<(u64, u64)>,
    },
    /// The objects in this range of numbers cannot be read: files and directories may be hidden.
    Objects {
        first: u64,
        /// Exclusive.
        end: u64,
    },
    /// Nothing of the dataset can be read.
    Everything,
}

/// A damaged file or object.
#[derive(Debug, Clone)]
pub struct DamagedFile {
    /// Name of the dataset or snapshot; `MOS` for the pool's own objects.
    pub dataset: String,
    /// Object number; 0 for the meta dnode.
    pub object: u64,
    pub place: Place,
    /// Number of damaged blocks.
    pub blocks: u64,
    /// Why the first of them cannot be read.
    pub error: String,
    /// Later snapshots, heads and clones that share the damage.
    pub also_in: Vec<String>,
}

/// Name of dataset `id`.
pub fn dataset(pool: &OpenPool, id: u64) -> String {
    match id {
        0 => "MOS".to_owned(),
        _ => open(pool, id).map_or_else(|| format!("{} dataset {id}", pool.pool().name()), |d| d.name().to_owned()),
    }
}

fn open(pool: &OpenPool, id: u64) -> Option<Dataset> {
    pool.datasets.dataset_by_id(id).ok()
}

/// Names the damaged files and objects: one entry for each object.
pub fn damaged(pool: &OpenPool, damage: &[Damage]) -> Vec<DamagedFile> {
    let mut by_objset: BTreeMap<u64, BTreeMap<u64, Vec<&Damage>>> = BTreeMap::new();
    for d in damage {
        by_objset.entry(d.at.objset).or_default().entry(d.at.object).or_default().push(d);
    }
    let mut names = HashMap::new();
    let mut found = Vec::new();
    for (objset, objects) in by_objset {
        let name = dataset(pool, objset);
        let files = open(pool, objset).and_then(|d| {
            let is_volume = d.kind().ok() == Some(DatasetKind::Volume);
            Some((pool.files(&d).ok()?, is_volume))
        });
        let paths = match &files {
            Some((vfs, false)) => find_paths(&**vfs, objects.keys().copied().collect()),
            _ => HashMap::new(),
        };
        for (object, blocks) in objects {
            let mut also: Vec<u64> = blocks.iter().flat_map(|d| d.also_in.iter().copied()).collect();
            also.sort_unstable();
            also.dedup();
            let also_in =
                also.into_iter().map(|id| names.entry(id).or_insert_with(|| dataset(pool, id)).clone()).collect();
            for (place, blocks) in places(object, &blocks, files.as_ref().map(|(v, is)| (&**v, *is)), &paths) {
                found.push(DamagedFile {
                    dataset: name.clone(),
                    object,
                    place,
                    blocks: blocks.len() as u64,
                    error: blocks.first().map(|d| d.error.clone()).unwrap_or_default(),
                    also_in: Vec::clone(&also_in),
                });
            }
        }
    }
    found
}

/// Classifies the damaged blocks of one object.
fn places<'d>(
    object: u64,
    blocks: &[&'d Damage],
    files: Option<(&dyn Vfs, bool)>,
    paths: &HashMap<u64, (Vec<u8>, Attr)>,
) -> Vec<(Place, Vec<&'d Damage>)> {
    let mut found = Vec::new();
    if object == 0 || blocks.iter().any(|d| d.at.level < 0) {
        for d in blocks {
            let place = match d.at.level {
                LOG_LEVEL => {
                    Place::Object { what: "its intent log, which is replayed up to there".into(), ranges: Vec::new() }
                }
                ..0 => Place::Everything,
                _ => objects(&d.at),
            };
            found.push((place, vec![*d]));
        }
        return found;
    }
    let (spill, data): (Vec<&Damage>, Vec<&Damage>) = blocks.iter().partition(|d| d.at.blkid == u64::MAX);
    let path = paths.get(&object);
    if !spill.is_empty() {
        let place = match path {
            Some((path, _)) => Place::Attributes { path: path.clone() },
            None => Place::Object { what: "attributes of a file without a path".into(), ranges: Vec::new() },
        };
        found.push((place, spill));
    }
    // An invalid dnode has no range: the object itself is lost.
    let (gone, data): (Vec<&Damage>, Vec<&Damage>) =
        data.into_iter().partition(|d| d.span_bytes == 0 && d.at.level == 0 && d.at.blkid == 0);
    if !gone.is_empty() {
        found.push((Place::Objects { first: object, end: object.saturating_add(1) }, gone));
    }
    if data.is_empty() {
        return found;
    }
    let place = match (path, files) {
        (Some((path, attr)), _) if attr.kind == FileKind::Directory => Place::Directory { path: path.clone() },
        (Some((path, attr)), _) => Place::File { path: path.clone(), ranges: ranges(&data, attr.size) },
        // The contents of a volume are object 1.
        (None, Some((vfs, true))) if object == 1 => {
            let size = vfs.attr(vfs.root()).map_or(u64::MAX, |a| a.size);
            Place::File { path: Vec::new(), ranges: ranges(&data, size) }
        }
        (None, _) => Place::Object { what: what(object, files).into(), ranges: ranges(&data, u64::MAX) },
    };
    found.push((place, data));
    found
}

fn what(object: u64, files: Option<(&dyn Vfs, bool)>) -> &'static str {
    if object >= ACCOUNTING_FROM {
        return "the accounting of space by owner";
    }
    match files.map(|(vfs, is_volume)| (is_volume, vfs.attr(NodeId(object)))) {
        Some((false, Ok(attr))) if attr.links == 0 => "a file that was deleted while it was open",
        Some((false, Ok(attr))) if attr.kind == FileKind::Directory => "a directory that no readable path leads to",
        Some((false, Ok(_))) => "a file that no readable path leads to",
        Some(_) => "metadata",
        None => "an object of a dataset that cannot be opened (damaged, or its key is not loaded)",
    }
}

/// Objects whose dnodes were in a block of the meta dnode.
fn objects(at: &Bookmark) -> Place {
    // An indirect block at level 1 leads to 1024 blocks of dnodes, and so on.
    let per_block = DNODES_PER_BLOCK.saturating_mul(1u64.checked_shl(at.level.clamp(0, 5) as u32 * 10).unwrap_or(1));
    let first = at.blkid.saturating_mul(per_block);
    Place::Objects { first, end: first.saturating_add(per_block) }
}

/// The byte ranges of the blocks, joined, and truncated at the file's size.
fn ranges(blocks: &[&Damage], size: u64) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = blocks
        .iter()
        .map(|d| {
            let from = d.at.blkid.saturating_mul(d.span_bytes);
            (from, if d.span_bytes == 0 { size } else { from.saturating_add(d.span_bytes) })
        })
        .map(|(from, to)| (from.min(size), to.min(size)))
        .collect();
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in all {
        let is_full = joined.len() >= RANGES_MAX;
        match joined.last_mut() {
            Some((_, end)) if from <= *end || is_full => *end = to.max(*end),
            _ => joined.push((from, to)),
        }
    }
    joined
}

/// Paths of the wanted objects, from one walk through the whole tree. If an object has several
/// names, one is returned.
fn find_paths(vfs: &dyn Vfs, mut wanted: HashSet<u64>) -> HashMap<u64, (Vec<u8>, Attr)> {
    let mut found = HashMap::new();
    let mut seen = HashSet::from([vfs.root()]);
    let mut waiting = vec![(vfs.root(), Vec::new())];
    if wanted.remove(&vfs.root().0)
        && let Ok(attr) = vfs.attr(vfs.root())
    {
        found.insert(vfs.root().0, (b"/".to_vec(), attr));
    }
    while let Some((dir, path)) = waiting.pop() {
        if wanted.is_empty() {
            break;
        }
        // A directory that cannot be listed hides what is below it; its damage is reported
        // separately.
        let _ = vfs.read_dir(dir, 0, &mut |entry| {
            if entry.name == b"." || entry.name == b".." {
                return true;
            }
            let is_wanted = wanted.contains(&entry.node.0);
            let is_dir = entry.kind == FileKind::Directory && seen.insert(entry.node);
            if is_wanted || is_dir {
                let full = [path.as_slice(), b"/", &entry.name].concat();
                if is_wanted && let Ok(attr) = vfs.attr(entry.node) {
                    wanted.remove(&entry.node.0);
                    found.insert(entry.node.0, (full.clone(), attr));
                }
                if is_dir {
                    waiting.push((entry.node, full));
                }
            }
            !wanted.is_empty()
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;

    fn damage(object: u64, level: i64, blkid: u64, span_bytes: u64) -> Damage {
        let at = Bookmark { objset: 5, object, level, blkid };
        Damage { at, span_bytes, error: "gone".into(), also_in: Vec::new() }
    }

    #[test]
    fn neighbouring_blocks_are_one_range_that_ends_with_the_file() {
        let blocks = [damage(7, 0, 3, 100), damage(7, 0, 0, 100), damage(7, 0, 2, 100), damage(7, 0, 9, 100)];
        let blocks: Vec<&Damage> = blocks.iter().collect();
        // Bytes after the end of the file belong to its last block.
        assert_eq!(ranges(&blocks, 350), [(0, 100), (200, 350)]);
    }

    #[test]
    fn a_file_is_found_by_its_number_in_any_directory() {
        let mut t = MemoryVfs::new();
        let a = t.add_dir(t.root(), "a");
        let b = t.add_dir(a, "b");
        let file = t.add_file(b, "f", "contents");
        let found = find_paths(&t, HashSet::from([file.0, 999]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[&file.0].0, b"/a/b/f");
    }

    #[test]
    fn lost_dnodes_are_reported_as_the_objects_they_describe() {
        let Place::Objects { first, end } = objects(&Bookmark { objset: 1, object: 0, level: 0, blkid: 2 }) else {
            panic!("not objects");
        };
        assert_eq!((first, end), (64, 96));
        let Place::Objects { end, .. } = objects(&Bookmark { objset: 1, object: 0, level: 1, blkid: 0 }) else {
            panic!("not objects");
        };
        assert_eq!(end, 32 * 1024);
    }

    #[test]
    fn a_bad_block_of_an_intent_log_is_not_the_whole_dataset() {
        let blocks = [damage(0, -2, 7, 0), damage(0, -1, 0, 0)];
        let found = places(0, &blocks.iter().collect::<Vec<_>>(), None, &HashMap::new());
        assert!(matches!(&found[0].0, Place::Object { what, .. } if what.contains("intent log")), "{found:?}");
        assert_eq!(found[1].0, Place::Everything);
    }

    #[test]
    fn attributes_and_contents_of_a_file_are_distinguished() {
        let mut t = MemoryVfs::new();
        let file = t.add_file(t.root(), "f", "contents");
        let attr = t.attr(file).expect("there");
        let paths = HashMap::from([(file.0, (b"/f".to_vec(), attr))]);
        let blocks = [damage(file.0, 0, u64::MAX, 512), damage(file.0, 0, 0, 512)];
        let found = places(file.0, &blocks.iter().collect::<Vec<_>>(), Some((&t, false)), &paths);
        let kinds: Vec<&Place> = found.iter().map(|(p, _)| p).collect();
        assert_eq!(*kinds[0], Place::Attributes { path: b"/f".to_vec() });
        assert_eq!(*kinds[1], Place::File { path: b"/f".to_vec(), ranges: vec![(0, 8)] });
    }
}
