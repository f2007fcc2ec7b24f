//! Datasets and bookmarks by name, and lists of them. A snapshot is found by name without reading
//! the others; a full list reads each dataset's own object once.

use super::datasets::Datasets;
use crate::bookmark::Bookmark;
use crate::dataset::{Dataset, DatasetKind};
use crate::name::{DatasetName, Tail, listing_order};
use errors::{Error, Result};
use std::sync::Arc;

/// A dataset or a bookmark.
#[derive(Clone)]
pub enum Entry {
    /// A file system, volume or snapshot.
    Dataset(Dataset),
    Bookmark(Bookmark),
}

impl Entry {
    /// Full name, such as `tank/home@monday`.
    pub fn name(&self) -> &str {
        match self {
            Self::Dataset(d) => d.name(),
            Self::Bookmark(b) => b.name(),
        }
    }

    pub fn kind(&self) -> Result<DatasetKind> {
        match self {
            Self::Dataset(d) => d.kind(),
            Self::Bookmark(_) => Ok(DatasetKind::Bookmark),
        }
    }

    /// Creation txg: orders snapshots.
    pub fn creation_txg(&self) -> u64 {
        match self {
            Self::Dataset(d) => d.phys().creation_txg.0,
            Self::Bookmark(b) => b.phys().creation_txg.0,
        }
    }

    /// The dataset, unless this is a bookmark.
    pub fn dataset(&self) -> Option<&Dataset> {
        match self {
            Self::Dataset(d) => Some(d),
            Self::Bookmark(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ListOptions {
    pub filesystems: bool,
    pub volumes: bool,
    pub snapshots: bool,
    pub bookmarks: bool,
    /// Maximum depth below each root; 0: only the roots; `None`: unlimited.
    pub depth: Option<usize>,
    /// Includes datasets that OpenZFS omits from lists, such as `$ORIGIN`.
    pub hidden: bool,
}

impl ListOptions {
    /// All kinds at any depth, without hidden datasets.
    pub fn all() -> Self {
        Self { filesystems: true, volumes: true, snapshots: true, bookmarks: true, depth: None, hidden: false }
    }

    /// All file systems and volumes.
    pub fn heads() -> Self {
        Self { snapshots: false, bookmarks: false, ..Self::all() }
    }

    fn wants(&self, kind: DatasetKind) -> bool {
        match kind {
            DatasetKind::FileSystem => self.filesystems,
            DatasetKind::Volume => self.volumes,
            DatasetKind::Snapshot => self.snapshots,
            DatasetKind::Bookmark => self.bookmarks,
        }
    }
}

/// A list, and the errors of entries that could not be read.
#[derive(Default)]
pub struct Listing {
    /// Entries in the order of `zfs list`.
    pub entries: Vec<Entry>,
    /// Errors from damaged entries missing from the list.
    pub errors: Vec<Error>,
}

impl Datasets {
    /// Opens the file system, volume or snapshot `name`.
    pub fn dataset(self: &Arc<Self>, name: &str) -> Result<Dataset> {
        match self.entry(name)? {
            Entry::Dataset(dataset) => Ok(dataset),
            Entry::Bookmark(_) => Err(Error::invalid(name, "a bookmark has no contents")),
        }
    }

    /// Opens the file system, volume, snapshot or bookmark `name`.
    pub fn entry(self: &Arc<Self>, name: &str) -> Result<Entry> {
        let parsed = DatasetName::parse(name)?;
        let head = self.head(&self.dir(parsed.dir)?)?;
        Ok(match parsed.tail {
            Tail::Head => Entry::Dataset(head),
            Tail::Snapshot(snapshot) => Entry::Dataset(head.snapshot(snapshot)?),
            Tail::Bookmark(bookmark) => Entry::Bookmark(head.bookmark(bookmark)?),
        })
    }

    /// Lists `roots` and their descendants as `options` select; with no roots, the whole pool.
    /// Damaged entries are omitted and reported with the list.
    pub fn list(self: &Arc<Self>, roots: &[&str], options: &ListOptions) -> Result<Listing> {
        let mut found = Listing::default();
        let roots = match roots {
            [] => vec![Entry::Dataset(self.head(self.root())?)],
            names => names.iter().map(|name| self.entry(name)).collect::<Result<_>>()?,
        };
        for root in roots {
            self.list_below(root, 0, options, &mut found);
        }
        found.entries.sort_by(|a, b| listing_order((a.name(), a.creation_txg()), (b.name(), b.creation_txg())));
        found.entries.dedup_by(|a, b| a.name() == b.name());
        Ok(found)
    }

    fn list_below(self: &Arc<Self>, entry: Entry, depth: usize, options: &ListOptions, found: &mut Listing) {
        let kind = match entry.kind() {
            Ok(kind) => kind,
            Err(e) => {
                found.errors.push(e);
                DatasetKind::FileSystem
            }
        };
        if options.wants(kind) {
            found.entries.push(entry.clone());
        }
        let Entry::Dataset(dataset) = entry else { return };
        if dataset.is_snapshot() || options.depth.is_some_and(|limit| depth >= limit) {
            return;
        }
        if options.snapshots {
            match dataset.snapshot_names() {
                Ok(names) => {
                    for (name, id) in names.iter() {
                        match Dataset::open(self, dataset.dir(), id, Some(name)) {
                            Ok(snapshot) => found.entries.push(Entry::Dataset(snapshot)),
                            Err(e) => found.errors.push(e),
                        }
                    }
                }
                Err(e) => found.errors.push(e),
            }
        }
        if options.bookmarks {
            match dataset.bookmarks() {
                Ok(bookmarks) => found.entries.extend(bookmarks.into_iter().map(Entry::Bookmark)),
                Err(e) => found.errors.push(e),
            }
        }
        match self.children_ids(dataset.dir(), options.hidden) {
            Ok(children) => {
                for (name, id) in children {
                    match self.child(dataset.dir(), &name, id) {
                        Ok(dir) if dir.phys().head_dataset == 0 => {}
                        Ok(dir) => match self.head(&dir) {
                            Ok(head) => self.list_below(Entry::Dataset(head), depth + 1, options, found),
                            Err(e) => found.errors.push(e),
                        },
                        Err(e) => found.errors.push(e),
                    }
                }
            }
            Err(e) => found.errors.push(e),
        }
    }
}
