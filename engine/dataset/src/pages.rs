//! Paged lists: a limited number of datasets after a given one, without walking everything before
//! or after.
//!
//! Names are stored in directories, a ZAP each, in hash order. A page needs them in name order, so
//! the sorted names of large directories are cached ([`Names`]) across synced txgs. So are those of
//! snapshots, of which a dataset may have many: they are listed by creation txg, which only the
//! snapshots themselves record.
//!
//! ```text
//!   order of lists          a   a@s1   a@s2   a-x   a-x/c   a/b      (names byte by byte; a
//!                                                   dataset's snapshots directly after it)
//!   steps of a directory   [a .............] [a-x]  [a-x/..] [a/..]  each child twice: itself,
//!                                                                    and its descendants
//! ```
//!
//! Invariants:
//!   * a cache entry is used only while the ZAP's block pointers are unchanged: every change moves
//!     or re-checksums them, so the cache needs no notification of changes
//!   * at most [`NAMES_MAX`] names are cached, of the most recently used directories

use crate::DatasetKind;
use crate::dataset::Dataset;
use crate::dir::Dir;
use crate::name::{is_hidden, listing_order};
use crate::tree::{Datasets, Entry, ListOptions};
use crate::zap::open_zap;
use errors::{Error, Place, Result};
use host::sync::Mutex;
use ondisk::BlkPtr;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum names in the cache. Guessed: 50 MB of typical names, ten times what a filer needs.
const NAMES_MAX: usize = 1_000_000;
/// Directories with fewer names are re-read each time.
const LARGE: usize = 64;

/// A cache of the sorted names of a pool's large directories, across txgs.
#[derive(Default)]
pub struct Names(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    /// Keyed by the ZAP's object.
    directories: HashMap<u64, Directory>,
    names: usize,
    clock: u64,
}

struct Directory {
    at: Vec<BlkPtr>,
    children: Arc<Children>,
    used: u64,
}

/// The children of a directory in list order.
#[derive(Default)]
pub struct Children {
    /// Name and object, sorted by name.
    children: Vec<(Box<str>, u64)>,
    /// Index of a child times two; odd values denote its descendants.
    steps: Vec<u32>,
}

/// A page of a list.
#[derive(Default)]
pub struct Page {
    /// Entries in the order of `zfs list`.
    pub entries: Vec<Entry>,
    /// Whether more entries follow.
    pub more: bool,
    /// Errors from damaged entries missing from the list.
    pub errors: Vec<Error>,
}

/// The part of a list to return.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Kinds and depth.
    pub options: &'a ListOptions,
    /// Returns only entries after this name.
    pub after: Option<&'a str>,
    /// Returns only names that contain this text.
    pub search: &'a str,
    /// Maximum number of entries.
    pub limit: usize,
}

impl Children {
    fn new(mut children: Vec<(String, u64)>) -> Self {
        children.retain(|(name, _)| !is_hidden(name));
        children.sort();
        // A directory has one name. If one had two, below another with two, it would be listed
        // 2^depth times.
        let mut seen = HashSet::with_capacity(children.len());
        children.retain(|(_, id)| seen.insert(*id));
        let children: Vec<(Box<str>, u64)> = children.into_iter().map(|(name, id)| (name.into(), id)).collect();
        let mut this = Self { children, steps: Vec::new() };
        let mut steps: Vec<u32> = (0..u32::try_from(this.children.len() * 2).unwrap_or(u32::MAX)).collect();
        steps.sort_by(|a, b| this.bytes(*a).cmp(this.bytes(*b)));
        this.steps = steps;
        this
    }

    /// The name at a step, with a trailing slash for the descendants.
    fn bytes(&self, step: u32) -> impl Iterator<Item = u8> + '_ {
        let name = &self.children[step as usize / 2].0;
        name.bytes().chain((step % 2 == 1).then_some(b'/'))
    }

    pub fn len(&self) -> usize {
        self.children.len()
    }

    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }
}

impl Names {
    pub fn children(&self, datasets: &Datasets, dir: &Dir) -> Result<Arc<Children>> {
        let zap = dir.phys().children_zap;
        if zap == 0 {
            return Ok(Arc::default());
        }
        let object = datasets.mos().object(zap).at(dir.name())?;
        let at = &object.dnode().blkptrs;
        if let Some(found) = self.kept(zap, at) {
            return Ok(found);
        }
        let children = Arc::new(Children::new(dir.child_ids(datasets.mos())?));
        self.keep(zap, at, &children);
        Ok(children)
    }

    /// Returns the cache entry of the ZAP, if it is still valid.
    fn kept(&self, zap: u64, at: &[BlkPtr]) -> Option<Arc<Children>> {
        let mut kept = self.0.lock();
        kept.clock += 1;
        let clock = kept.clock;
        let found = kept.directories.get_mut(&zap).filter(|found| found.at == at)?;
        found.used = clock;
        Some(found.children.clone())
    }

    fn keep(&self, zap: u64, at: &[BlkPtr], children: &Arc<Children>) {
        let mut kept = self.0.lock();
        if let Some(old) = kept.directories.remove(&zap) {
            kept.names -= old.children.len();
        }
        if !(LARGE..=NAMES_MAX).contains(&children.len()) {
            return;
        }
        while kept.names + children.len() > NAMES_MAX {
            let Some(oldest) = kept.directories.iter().min_by_key(|(_, d)| d.used).map(|(zap, _)| *zap) else { break };
            let gone = kept.directories.remove(&oldest).map_or(0, |d| d.children.len());
            kept.names -= gone;
        }
        kept.names += children.len();
        let used = kept.clock;
        kept.directories.insert(zap, Directory { at: at.to_vec(), children: children.clone(), used });
    }

    /// The snapshots of `head`, oldest first.
    fn snapshots(&self, datasets: &Arc<Datasets>, head: &Dataset) -> Result<Arc<Children>> {
        let zap = head.phys().snapnames_zap;
        if zap == 0 {
            return Ok(Arc::default());
        }
        let object = datasets.mos().object(zap).at(head.name())?;
        let at = &object.dnode().blkptrs;
        if let Some(found) = self.kept(zap, at) {
            return Ok(found);
        }
        let all = head.snapshots()?.into_iter();
        let children = all.filter_map(|s| Some((s.snapshot_name()?.into(), s.id()))).collect();
        let snapshots = Arc::new(Children { children, steps: Vec::new() });
        self.keep(zap, at, &snapshots);
        Ok(snapshots)
    }

    /// Number of children of a directory.
    pub fn child_count(&self, datasets: &Datasets, dir: &Dir) -> Result<u64> {
        let zap = dir.phys().children_zap;
        if zap == 0 || open_zap(datasets.mos(), zap).and_then(|zap| zap.count()).at(dir.name())? == 0 {
            return Ok(0);
        }
        Ok(self.children(datasets, dir)?.len() as u64)
    }

    /// Returns the requested part of the list of `root` and its descendants.
    pub fn page(&self, datasets: &Arc<Datasets>, root: &str, part: &Part<'_>) -> Result<Page> {
        if part.options.bookmarks {
            return whole(datasets, root, part);
        }
        let mut walk = Walk { names: self, datasets, part, page: Page::default() };
        let flow = match datasets.entry(root)? {
            Entry::Dataset(dataset) if !dataset.is_snapshot() => walk.head(&dataset.dir().clone(), 0, Some(dataset)),
            entry => walk.emit(entry),
        };
        walk.page.more = flow.is_break();
        Ok(walk.page)
    }
}

/// Lists everything, then selects: bookmarks are ordered among the other names, so a list with them
/// requires a full walk.
fn whole(datasets: &Arc<Datasets>, root: &str, part: &Part<'_>) -> Result<Page> {
    let listing = datasets.list(&[root], part.options)?;
    let txg = part.after.map_or(0, |after| datasets.entry(after).map_or(0, |entry| entry.creation_txg()));
    let is_after = |entry: &Entry| {
        let at = (entry.name(), entry.creation_txg());
        part.after.is_none_or(|after| listing_order(at, (after, txg)) == Ordering::Greater)
    };
    let wanted = |entry: &Entry| entry.name().contains(part.search) && is_after(entry);
    let mut entries: Vec<Entry> = listing.entries.into_iter().filter(wanted).take(part.limit + 1).collect();
    let more = entries.len() > part.limit;
    entries.truncate(part.limit);
    Ok(Page { entries, more, errors: listing.errors })
}

struct Walk<'a> {
    names: &'a Names,
    datasets: &'a Arc<Datasets>,
    part: &'a Part<'a>,
    page: Page,
}

/// Whether to continue, or stop because the page is full.
type Flow = ControlFlow<()>;

impl Walk<'_> {
    fn emit(&mut self, entry: Entry) -> Flow {
        let kind = match entry.kind() {
            Ok(kind) => kind,
            Err(e) => {
                self.page.errors.push(e);
                DatasetKind::FileSystem
            }
        };
        let options = self.part.options;
        let wanted = match kind {
            DatasetKind::FileSystem => options.filesystems,
            DatasetKind::Volume => options.volumes,
            DatasetKind::Snapshot => options.snapshots,
            DatasetKind::Bookmark => options.bookmarks,
        };
        if !wanted || !entry.name().contains(self.part.search) {
            return Flow::Continue(());
        }
        if self.page.entries.len() == self.part.limit {
            return Flow::Break(());
        }
        self.page.entries.push(entry);
        Flow::Continue(())
    }

    /// The dataset name, without the snapshot, after which the list begins.
    fn after(&self) -> Option<&str> {
        self.part.after.map(|after| after.split('@').next().unwrap_or(after))
    }

    /// Lists a dataset with all its descendants.
    fn head(&mut self, dir: &Arc<Dir>, depth: usize, head: Option<Dataset>) -> Flow {
        self.itself(dir, head)?;
        self.below(dir, depth)
    }

    /// Lists a dataset and its snapshots.
    fn itself(&mut self, dir: &Arc<Dir>, head: Option<Dataset>) -> Flow {
        let order = self.after().map_or(Ordering::Greater, |after| dir.name().cmp(after));
        let options = self.part.options;
        let may_match = options.snapshots || dir.name().contains(self.part.search);
        if order == Ordering::Less || dir.phys().head_dataset == 0 || !may_match {
            return Flow::Continue(());
        }
        let head = match head.map_or_else(|| self.datasets.head(dir), Ok) {
            Ok(head) => head,
            Err(e) => {
                self.page.errors.push(e);
                return Flow::Continue(());
            }
        };
        if order == Ordering::Greater {
            self.emit(Entry::Dataset(head.clone()))?;
        }
        if options.snapshots {
            self.snapshots(&head)?;
        }
        Flow::Continue(())
    }

    fn snapshots(&mut self, head: &Dataset) -> Flow {
        let all = match self.names.snapshots(self.datasets, head) {
            Ok(all) => all,
            Err(e) => {
                self.page.errors.push(e);
                return Flow::Continue(());
            }
        };
        // Snapshots are ordered by txg, then by name.
        let after = self.part.after.and_then(|after| after.split_once('@')).filter(|(of, _)| *of == head.name());
        let start = after.map_or(0, |(_, after)| match all.children.iter().position(|(name, _)| **name == *after) {
            Some(at) => at + 1,
            // The snapshot was destroyed meanwhile: its name alone does not give its position, so
            // nothing is skipped.
            None => 0,
        });
        for (name, id) in &all.children[start..] {
            if !self.part.search.is_empty() && !format!("{}@{name}", head.name()).contains(self.part.search) {
                continue;
            }
            match Dataset::open(self.datasets, head.dir(), *id, Some(name)) {
                Ok(snapshot) => self.emit(Entry::Dataset(snapshot))?,
                Err(e) => self.page.errors.push(e),
            }
        }
        Flow::Continue(())
    }

    fn below(&mut self, dir: &Arc<Dir>, depth: usize) -> Flow {
        if self.part.options.depth.is_some_and(|limit| depth >= limit) {
            return Flow::Continue(());
        }
        let children = match self.names.children(self.datasets, dir) {
            Ok(children) => children,
            Err(e) => {
                self.page.errors.push(e);
                return Flow::Continue(());
            }
        };
        let start = self.after().map_or(0, |after| {
            let Some(rest) = after.strip_prefix(dir.name()).and_then(|rest| rest.strip_prefix('/')) else { return 0 };
            children.steps.partition_point(|step| match step % 2 {
                0 => children.bytes(*step).lt(rest.bytes()),
                // All its descendants begin with its name and a slash.
                _ => {
                    let length = children.bytes(*step).count();
                    children.bytes(*step).lt(rest.bytes()) && !rest.bytes().take(length).eq(children.bytes(*step))
                }
            })
        });
        for step in &children.steps[start..] {
            let (name, id) = &children.children[*step as usize / 2];
            let child = match self.datasets.child(dir, name, *id) {
                Ok(child) => child,
                Err(e) => {
                    self.page.errors.push(e);
                    continue;
                }
            };
            match step % 2 {
                0 => self.itself(&child, None)?,
                _ if child.phys().head_dataset == 0 => {}
                _ => self.below(&child, depth + 1)?,
            }
        }
        Flow::Continue(())
    }
}
