//! Random changes through a [`Vfs`], each recorded in the [`Model`], some synced.
//!
//! Few names in few directories, so that changes interact: renames replace files, removed names
//! come back, links share nodes.

use crate::model::{Found, Kind, Model, Path, State};
use anyhow::{Context, Result, bail};
use damage::promises::{Promise, Promises, Seen};
use files::vfs::{Allocate, Caller, FileKind, NewNode, NodeId, RenameFlags, SetAttr, SetXattr, SyncKind, Vfs};
use rig::Chance;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of files per directory.
const NAMES: u64 = 8;
/// Maximum depth of directories.
const DEPTH_MAX: usize = 3;
const FILE_BYTES_MAX: u64 = 600 << 10;
/// Each step writes within one record of this size, so that it is a single change.
const RECORD_BYTES: u64 = 128 << 10;

/// Extended attributes that hold POSIX ACLs.
const LISTS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// Drives a tree and records its expected state.
pub struct Workload<'a> {
    vfs: &'a dyn Vfs,
    /// The directory under test.
    root: NodeId,
    /// Returns the machine's number of operations so far.
    clock: &'a (dyn Fn() -> u64 + Sync),
    chance: Chance,
    who: Caller,
    promises: Option<&'a Promises>,
    with_lists: bool,
    pub model: Model,
}

impl<'a> Workload<'a> {
    /// Works below the empty directory `root`, which is already durable.
    pub fn new(seed: u64, vfs: &'a dyn Vfs, root: NodeId, clock: &'a (dyn Fn() -> u64 + Sync)) -> Result<Self> {
        let mut model = Model::new(vfs.attr(root)?.mode);
        model.acknowledge(0, None);
        let who = Caller { privileged: true, ..Caller::default() };
        Ok(Self { vfs, root, clock, chance: Chance::of_case(seed, 1), who, promises: None, with_lists: false, model })
    }

    fn node(&self, path: &str) -> Result<NodeId> {
        node_at(self.vfs, self.root, path)
    }

    fn pick(&mut self, wanted: impl Fn(&Kind) -> bool) -> Option<(Path, usize)> {
        let all: Vec<(&Path, &usize)> =
            self.model.names().iter().filter(|(_, n)| wanted(self.model.kind(**n))).collect();
        let (path, node) = self.chance.pick(&all)?;
        Some(((*path).clone(), **node))
    }

    /// A path in some directory, which may exist.
    fn place(&mut self) -> (Path, Path) {
        let name = match self.chance.below(20) {
            0 => format!("long-{}", "n".repeat(60 + self.chance.below(180) as usize)),
            _ => format!("n{}", self.chance.below(NAMES)),
        };
        let (dir, _) = self.pick(|k| *k == Kind::Directory).unwrap_or_default();
        (dir, name)
    }

    /// Takes the guarantees of acknowledgements from `promises`; without them, synced data is
    /// durable.
    pub fn promised_by(&mut self, promises: &'a Promises) {
        self.promises = Some(promises);
    }

    /// Also sets and inherits POSIX ACLs (`acltype=posix`).
    pub fn with_lists(&mut self) {
        self.with_lists = true;
    }

    /// Makes one change. If `sync` was `always` throughout, all changes so far are durable.
    pub fn step(&mut self) -> Result<()> {
        let before = self.promises.map(Promises::look);
        self.change()?;
        if self.promised(before) == Promise::All {
            self.model.acknowledge((self.clock)(), None);
        }
        Ok(())
    }

    fn promised(&self, before: Option<Seen>) -> Promise {
        match (self.promises, before) {
            (Some(promises), Some(before)) => promises.since(before),
            _ => Promise::Asked,
        }
    }

    fn change(&mut self) -> Result<()> {
        let what = self.chance.below(100);
        self.model.begin((self.clock)());
        match what {
            0..12 => self.create(),
            12..15 => self.make_directory(),
            15..17 => self.make_symlink(),
            17 => self.create_unnamed(),
            18..21 => self.link(),
            21 => self.replace(),
            22..30 => self.remove(),
            30..40 => self.rename(),
            40..60 => self.write(),
            60..66 => self.copy(),
            66..70 => self.truncate(),
            70..73 => self.punch(),
            73..77 => self.set_mode(),
            77..82 => self.set_xattr(),
            82..84 if self.with_lists => self.set_list(),
            82..97 => self.sync_one(),
            _ => self.sync_all(),
        }
    }

    fn create(&mut self) -> Result<()> {
        let (dir, name) = self.place();
        let path = join(&dir, &name);
        if self.model.names().contains_key(&path) {
            return Ok(());
        }
        let mode = 0o600 | (self.chance.below(64) as u32);
        let made = self.vfs.create(&self.who, self.node(&dir)?, name.as_bytes(), &NewNode::Regular, mode, 0);
        let state = self.state_now(made.context("create")?.node, Vec::new(), BTreeMap::new())?;
        let node = self.model.add_like(Kind::File, state);
        self.model.rename(|n| n.insert(path, node));
        Ok(())
    }

    /// The current state of a file, with the given contents and `user.` attributes. Mode and ACLs,
    /// which are inherited or change each other, are read from the file: their correctness is the
    /// subject of other tests.
    fn state_now(&self, id: NodeId, data: Vec<u8>, mut xattrs: BTreeMap<Vec<u8>, Vec<u8>>) -> Result<State> {
        let mode = self.vfs.attr(id)?.mode;
        for name in LISTS.into_iter().filter(|_| self.with_lists) {
            match self.vfs.get_xattr(id, name)? {
                Some(list) => drop(xattrs.insert(name.to_vec(), list)),
                None => drop(xattrs.remove(name)),
            }
        }
        Ok(State { data: Arc::new(data), mode, xattrs: Arc::new(xattrs) })
    }

    /// Records the result of changing the mode or an ACL.
    fn note_mode(&mut self, id: NodeId, node: usize) -> Result<()> {
        let xattrs = BTreeMap::clone(&self.model.state(node).xattrs);
        let now = self.state_now(id, Vec::new(), xattrs)?;
        self.model.change(node, |state| (state.mode, state.xattrs) = (now.mode, now.xattrs));
        Ok(())
    }

    /// Creates a complete file before it gets its name, possibly replacing another, as with
    /// `O_TMPFILE` and `linkat`.
    fn create_unnamed(&mut self) -> Result<()> {
        let (dir, name) = self.place();
        let path = join(&dir, &name);
        if self.model.names().contains_key(&path) {
            return Ok(());
        }
        let parent = self.node(&dir)?;
        let id = self.vfs.create_unnamed(&self.who, parent, 0o640, 0).context("O_TMPFILE")?.node;
        self.vfs.open_node(id)?;
        let len = self.chance.below(9000) as usize;
        let data = self.chance.bytes(len);
        let xattrs = BTreeMap::from([(b"user.x0".to_vec(), vec![7; 40])]);
        let done = self.vfs.write(&self.who, id, 0, &data).and_then(|()| {
            self.vfs.set_xattr(&self.who, id, b"user.x0", &[7; 40], SetXattr::Either)?;
            self.vfs.link(&self.who, id, parent, name.as_bytes())
        });
        self.vfs.close_node(id);
        done.context("linkat")?;
        let state = self.state_now(id, data, xattrs)?;
        let node = self.model.add_like(Kind::File, state);
        self.model.rename(|n| n.insert(path, node));
        Ok(())
    }

    /// Replaces a file with a new one after syncing it, as editors and databases do. Three steps.
    fn replace(&mut self) -> Result<()> {
        let Some((path, _)) = self.pick(|k| *k == Kind::File) else { return Ok(()) };
        let (dir, name) = split(&path);
        let (new_name, parent) = (format!("{}.new", &name[..name.len().min(9)]), self.node(dir)?);
        let new_path = join(dir, &new_name);
        if self.model.names().contains_key(&new_path) {
            return Ok(());
        }
        let made = self.vfs.create(&self.who, parent, new_name.as_bytes(), &NewNode::Regular, 0o600, 0)?;
        let state = self.state_now(made.node, Vec::new(), BTreeMap::new())?;
        let node = self.model.add_like(Kind::File, state);
        self.model.rename(|n| n.insert(new_path.clone(), node));
        self.model.begin((self.clock)());
        let len = 1 + self.chance.below(20_000) as usize;
        let data = self.chance.bytes(len);
        self.vfs.write(&self.who, made.node, 0, &data)?;
        self.model.change(node, |state| state.data = Arc::new(data));
        if self.chance.once_in(2) {
            self.sync_node(made.node, node)?;
        }
        self.model.begin((self.clock)());
        let flags = RenameFlags::default();
        self.vfs.rename(&self.who, parent, new_name.as_bytes(), parent, name.as_bytes(), flags)?;
        self.model.rename(|names| {
            names.remove(&new_path);
            names.insert(path.clone(), node)
        });
        Ok(())
    }

    /// Copies between files, within the size of the target. Blocks are cloned if possible.
    fn copy(&mut self) -> Result<()> {
        let (Some((from, source)), Some((to, target))) =
            (self.pick(|k| *k == Kind::File), self.pick(|k| *k == Kind::File))
        else {
            return Ok(());
        };
        let sizes = [source, target].map(|n| self.model.state(n).data.len() as u64);
        if source == target || sizes.contains(&0) {
            return Ok(());
        }
        let align = [1, 4096, 32 << 10, 128 << 10][self.chance.below(4) as usize];
        let [at, put] = sizes.map(|size| self.chance.below(size) / align * align);
        let len = 1 + self.chance.below((sizes[0] - at).min(sizes[1] - put));
        let (from, to) = (self.node(&from)?, self.node(&to)?);
        let copied = self.vfs.copy_range(&self.who, from, at, to, put, len).context("copy_file_range")?;
        let piece = self.model.state(source).data[at as usize..(at + copied) as usize].to_vec();
        self.model.change(target, |state| {
            Arc::make_mut(&mut state.data)[put as usize..put as usize + piece.len()].copy_from_slice(&piece);
        });
        Ok(())
    }

    fn make_directory(&mut self) -> Result<()> {
        let (dir, name) = self.place();
        let path = join(&dir, &name);
        if self.model.names().contains_key(&path) || path.matches('/').count() >= DEPTH_MAX {
            return Ok(());
        }
        self.vfs
            .create(&self.who, self.node(&dir)?, name.as_bytes(), &NewNode::Directory, 0o755, 0)
            .context("mkdir")?;
        let state = self.state_now(self.node(&path)?, Vec::new(), BTreeMap::new())?;
        let node = self.model.add_like(Kind::Directory, state);
        self.model.rename(|n| n.insert(path, node));
        Ok(())
    }

    fn make_symlink(&mut self) -> Result<()> {
        let (dir, name) = self.place();
        let path = join(&dir, &name);
        if self.model.names().contains_key(&path) {
            return Ok(());
        }
        let target = format!("to/{}", self.chance.below(1000)).into_bytes();
        let new = NewNode::Symlink(target.clone());
        let attr = self.vfs.create(&self.who, self.node(&dir)?, name.as_bytes(), &new, 0o777, 0).context("symlink")?;
        let node = self.model.add(Kind::Symlink(target), attr.mode);
        self.model.rename(|n| n.insert(path, node));
        Ok(())
    }

    fn link(&mut self) -> Result<()> {
        let Some((from, node)) = self.pick(|k| *k == Kind::File) else { return Ok(()) };
        let (dir, name) = self.place();
        let path = join(&dir, &name);
        if self.model.names().contains_key(&path) {
            return Ok(());
        }
        self.vfs.link(&self.who, self.node(&from)?, self.node(&dir)?, name.as_bytes()).context("link")?;
        self.model.rename(|n| n.insert(path, node));
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let Some((path, node)) = self.pick(|_| true) else { return Ok(()) };
        if path.is_empty() || self.has_children(&path) {
            return Ok(());
        }
        let (dir, name) = split(&path);
        let parent = self.node(dir)?;
        match self.model.kind(node) {
            Kind::Directory => self.vfs.rmdir(&self.who, parent, name.as_bytes()).context("rmdir")?,
            _ => self.vfs.unlink(&self.who, parent, name.as_bytes()).context("unlink")?,
        }
        self.model.rename(|n| n.remove(&path));
        Ok(())
    }

    fn rename(&mut self) -> Result<()> {
        let Some((from, node)) = self.pick(|_| true) else { return Ok(()) };
        let (to_dir, to_name) = self.place();
        let to = join(&to_dir, &to_name);
        let is_dir = *self.model.kind(node) == Kind::Directory;
        let below = format!("{from}/");
        if from.is_empty() || from == to || to.starts_with(&below) || from.starts_with(&format!("{to}/")) {
            return Ok(());
        }
        let target = self.model.names().get(&to).copied();
        let exchange = target.is_some() && self.chance.once_in(3);
        if let Some(target) = target {
            let target_is_dir = *self.model.kind(target) == Kind::Directory;
            if !exchange && (is_dir != target_is_dir || self.has_children(&to) || target == node) {
                return Ok(());
            }
            if exchange && (is_dir || target_is_dir) {
                return Ok(());
            }
        }
        if is_dir && to.matches('/').count() >= DEPTH_MAX {
            return Ok(());
        }
        let (dir, name) = split(&from);
        let flags = RenameFlags { exchange, ..RenameFlags::default() };
        self.vfs
            .rename(&self.who, self.node(dir)?, name.as_bytes(), self.node(&to_dir)?, to_name.as_bytes(), flags)
            .with_context(|| format!("rename {from} to {to}"))?;
        self.model.rename(|names| {
            if exchange {
                let target = names.insert(to.clone(), node).expect("looked up above");
                names.insert(from.clone(), target);
                return;
            }
            let moved: Vec<(Path, usize)> = names
                .iter()
                .filter(|(p, _)| **p == from || p.starts_with(&below))
                .map(|(p, n)| (p.clone(), *n))
                .collect();
            for (path, node) in moved {
                names.remove(&path);
                names.insert(format!("{to}{}", &path[from.len()..]), node);
            }
        });
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let Some((path, node)) = self.pick(|k| *k == Kind::File) else { return Ok(()) };
        let size = self.model.state(node).data.len() as u64;
        let offset = match self.chance.below(4) {
            0 => size,
            1 => self.chance.below(FILE_BYTES_MAX),
            _ => self.chance.below(size + 1),
        };
        let room = (RECORD_BYTES - offset % RECORD_BYTES).min(FILE_BYTES_MAX.saturating_sub(offset));
        let most = [100, 5000, 30_000, RECORD_BYTES][self.chance.below(4) as usize].min(room);
        if most == 0 {
            return Ok(());
        }
        let len = 1 + self.chance.below(most) as usize;
        // Half of it is compressible.
        let mut data = self.chance.bytes(len);
        data[len / 2..].fill((offset % 251) as u8);
        self.vfs.write(&self.who, self.node(&path)?, offset, &data).context("write")?;
        self.model.change(node, |state| {
            let all = Arc::make_mut(&mut state.data);
            let end = offset as usize + len;
            if all.len() < end {
                all.resize(end, 0);
            }
            all[offset as usize..end].copy_from_slice(&data);
        });
        Ok(())
    }

    fn truncate(&mut self) -> Result<()> {
        let Some((path, node)) = self.pick(|k| *k == Kind::File) else { return Ok(()) };
        let old = self.model.state(node).data.len() as u64;
        let size = match self.chance.below(3) {
            0 => 0,
            1 => self.chance.below(FILE_BYTES_MAX),
            _ => self.chance.below(old + 1),
        };
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.vfs.set_attr(&self.who, self.node(&path)?, &set).context("truncate")?;
        self.model.change(node, |state| Arc::make_mut(&mut state.data).resize(size as usize, 0));
        Ok(())
    }

    fn punch(&mut self) -> Result<()> {
        let Some((path, node)) = self.pick(|k| *k == Kind::File) else { return Ok(()) };
        let size = self.model.state(node).data.len() as u64;
        if size < 2 {
            return Ok(());
        }
        let offset = self.chance.below(size - 1);
        let len = 1 + self.chance.below(size - offset);
        self.vfs.allocate(&self.who, self.node(&path)?, Allocate::Punch, offset, len).context("punch")?;
        self.model.change(node, |state| {
            let end = ((offset + len) as usize).min(state.data.len());
            Arc::make_mut(&mut state.data)[offset as usize..end].fill(0);
        });
        Ok(())
    }

    fn set_mode(&mut self) -> Result<()> {
        let Some((path, node)) = self.pick(|k| matches!(k, Kind::File | Kind::Directory)) else { return Ok(()) };
        let mode = 0o700 | self.chance.below(64) as u32;
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        let id = self.node(&path)?;
        self.vfs.set_attr(&self.who, id, &set).context("chmod")?;
        self.note_mode(id, node)
    }

    fn set_list(&mut self) -> Result<()> {
        let Some((path, node)) = self.pick(|k| matches!(k, Kind::File | Kind::Directory)) else { return Ok(()) };
        let is_default = *self.model.kind(node) == Kind::Directory && self.chance.once_in(2);
        let name = LISTS[usize::from(is_default)];
        let id = self.node(&path)?;
        if self.model.state(node).xattrs.contains_key(name) && self.chance.once_in(4) {
            self.vfs.remove_xattr(&self.who, id, name).context("removing an access list")?;
        } else {
            let mut list = 2u32.to_le_bytes().to_vec();
            let user = 1000 + self.chance.below(100) as u32;
            for (tag, bits, id) in [
                (1u16, 7, u32::MAX),
                (2, self.chance.below(8), user),
                (4, 5, u32::MAX),
                (16, 7, u32::MAX),
                (32, 0, u32::MAX),
            ] {
                list.extend([&tag.to_le_bytes()[..], &(bits as u16).to_le_bytes(), &id.to_le_bytes()].concat());
            }
            self.vfs.set_xattr(&self.who, id, name, &list, SetXattr::Either).context("setting an access list")?;
        }
        self.note_mode(id, node)
    }

    fn set_xattr(&mut self) -> Result<()> {
        let Some((path, node)) = self.pick(|k| matches!(k, Kind::File | Kind::Directory)) else { return Ok(()) };
        let name = format!("user.x{}", self.chance.below(4)).into_bytes();
        let id = self.node(&path)?;
        if self.model.state(node).xattrs.contains_key(&name) && self.chance.once_in(3) {
            self.vfs.remove_xattr(&self.who, id, &name).context("removexattr")?;
            self.model.change(node, |state| drop(Arc::make_mut(&mut state.xattrs).remove(&name)));
            return Ok(());
        }
        let len = match self.chance.below(12) {
            0 => 0,
            1 => 30_000 + self.chance.below(35_000) as usize,
            _ => 1 + self.chance.below(600) as usize,
        };
        let value = self.chance.bytes(len);
        self.vfs.set_xattr(&self.who, id, &name, &value, SetXattr::Either).context("setxattr")?;
        self.model.change(node, |state| drop(Arc::make_mut(&mut state.xattrs).insert(name, value)));
        Ok(())
    }

    fn sync_one(&mut self) -> Result<()> {
        let Some((path, node)) = self.pick(|_| true) else { return Ok(()) };
        self.sync_node(self.node(&path)?, node)
    }

    fn sync_node(&mut self, id: NodeId, node: usize) -> Result<()> {
        let before = self.promises.map(Promises::look);
        let kind = if self.chance.once_in(3) { SyncKind::Data } else { SyncKind::All };
        self.vfs.sync_node(id, kind).context("fsync")?;
        if self.promised(before) != Promise::Nothing {
            self.model.acknowledge((self.clock)(), Some(node));
        }
        Ok(())
    }

    fn sync_all(&mut self) -> Result<()> {
        let before = self.promises.map(Promises::look);
        self.vfs.sync_all().context("sync")?;
        if self.promised(before) != Promise::Nothing {
            self.model.acknowledge((self.clock)(), None);
        }
        Ok(())
    }

    fn has_children(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.model.names().range(below.clone()..).next().is_some_and(|(p, _)| p.starts_with(&below))
    }
}

fn join(dir: &str, name: &str) -> Path {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn node_at(vfs: &dyn Vfs, root: NodeId, path: &str) -> Result<NodeId> {
    let mut node = root;
    for name in path.split('/').filter(|n| !n.is_empty()) {
        node = vfs.lookup(node, name.as_bytes()).with_context(|| path.to_owned())?.node;
    }
    Ok(node)
}

/// The tree below `root`, in the form that the model checks.
pub fn read_tree(vfs: &dyn Vfs, root: NodeId) -> Result<BTreeMap<Path, Found>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![(String::new(), root)];
    while let Some((path, node)) = todo.pop() {
        let attr = vfs.attr(node).with_context(|| path.clone())?;
        let mut data = Vec::new();
        let kind = match attr.kind {
            FileKind::Regular => {
                data = read_file(vfs, node, attr.size).with_context(|| path.clone())?;
                Kind::File
            }
            FileKind::Directory => {
                vfs.read_dir(node, 0, &mut |entry| {
                    if entry.name != b"." && entry.name != b".." {
                        todo.push((join(&path, &String::from_utf8_lossy(&entry.name)), entry.node));
                    }
                    true
                })?;
                Kind::Directory
            }
            FileKind::Symlink => Kind::Symlink(vfs.read_link(node)?),
            other => bail!("{path} is a {other:?}"),
        };
        let mut xattrs = BTreeMap::new();
        for name in vfs.list_xattr(node)?.into_iter().filter(|n| n.starts_with(b"user.") || LISTS.contains(&&n[..])) {
            let value =
                vfs.get_xattr(node, &name)?.with_context(|| format!("{path}: a listed attribute is missing"))?;
            xattrs.insert(name, value);
        }
        let state = State { data: Arc::new(data), mode: attr.mode, xattrs: Arc::new(xattrs) };
        found.insert(path, Found { identity: node.0, kind, links: u64::from(attr.links), state });
    }
    Ok(found)
}

fn read_file(vfs: &dyn Vfs, node: NodeId, size: u64) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    while (data.len() as u64) < size {
        let piece = vfs.read(node, data.len() as u64, 1 << 20)?;
        if piece.is_empty() {
            bail!("ends at {} of {size} bytes", data.len());
        }
        data.extend_from_slice(&piece);
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;

    /// The tree in memory matches the model after every step, so a mismatch on disk is a fault of
    /// the disk's engine.
    #[test]
    fn a_tree_in_memory_passes_the_judge_after_every_step() {
        for seed in 0..20 {
            let vfs = MemoryVfs::new().writable();
            let clock = std::sync::atomic::AtomicU64::new(0);
            let now = || clock.load(std::sync::atomic::Ordering::Relaxed);
            let mut workload = Workload::new(seed, &vfs, vfs.root(), &now).unwrap();
            for i in 0..300 {
                clock.store(i, std::sync::atomic::Ordering::Relaxed);
                workload.step().unwrap_or_else(|e| panic!("seed {seed} step {i}: {e:#}"));
                if i % 20 == 0 {
                    workload.model.acknowledge(i, None);
                    let step = workload.model.judge(i, &read_tree(&vfs, vfs.root()).unwrap());
                    assert!(step.is_ok(), "seed {seed}: {}", step.unwrap_err());
                }
            }
            assert!(workload.model.names().len() > 5);
        }
    }
}
