//! A thread that works in its directory of the mount and records what it does.

use crate::model::{Change, Entry, File as Modelled, Found, Model, State, Step, Tree};
use damage::promises::{Promise, Promises, Seen};
use rig::Chance;
use rustix::fs::{CWD, FallocateFlags, RenameFlags, XattrFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const FILES: u64 = 10;
const FILE_BYTES_MAX: u64 = 400 << 10;
const WRITE_BYTES_MAX: u64 = 30_000;
const XATTR: &str = "user.a";

/// A thread's directory, and its model.
pub struct Writer {
    /// What the thread did.
    pub model: Model,
    /// When the last acknowledged sync began.
    pub synced_since: Option<Instant>,
    /// Operations: (in total, synced).
    pub done: (u64, u64),
    promises: Arc<Promises>,
    chance: Chance,
    dir: PathBuf,
    /// Open files without a name. They must be gone when the pool is opened again.
    orphans: Vec<File>,
}

impl Writer {
    /// Works in `dir`, which need not exist yet. `promises` describes what a sync guarantees.
    pub fn new(dir: PathBuf, seed: u64, promises: Arc<Promises>) -> Self {
        let (model, chance) = (Model::default(), Chance::new(seed));
        Self { model, synced_since: None, done: (0, 0), promises, chance, dir, orphans: Vec::new() }
    }

    /// Works until an operation fails, which happens when the server dies.
    pub fn run(&mut self) -> io::Error {
        let error = loop {
            if let Err(error) = self.operation() {
                break error;
            }
            self.done.0 += 1;
        };
        self.orphans.clear();
        error
    }

    /// Reads the directory and compares it with the model.
    pub fn check(&mut self, synced_since: Option<Instant>) -> Result<(), String> {
        let mut found = Tree::new();
        let text = |e: io::Error| format!("cannot be read: {e}");
        if self.dir.exists() {
            read_tree(&self.dir, "", &mut found).map_err(text)?;
        } else {
            fs::create_dir(&self.dir).and_then(|()| File::open(&self.dir)?.sync_all()).map_err(text)?;
        }
        self.synced_since = None;
        self.model.judge(&found, synced_since)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    fn step(&mut self, step: Step, run: impl FnOnce(&Self) -> io::Result<()>) -> io::Result<()> {
        self.model.begin(step);
        run(self)?;
        self.model.finish();
        Ok(())
    }

    fn change(&mut self, file: usize, change: Change, run: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.model.begin_change(file, change);
        run()?;
        self.model.finish_change(file);
        Ok(())
    }

    fn sync(&mut self, file: usize, open: &File) -> io::Result<()> {
        let (since, before) = (Instant::now(), self.promises.look());
        if self.chance.once_in(3) {
            open.sync_data()?
        } else {
            open.sync_all()?
        }
        self.acknowledged(since, before, Some(file));
        Ok(())
    }

    /// A sync of a file, or of the directory's names, that began at `since` was acknowledged.
    fn acknowledged(&mut self, since: Instant, before: Seen, file: Option<usize>) {
        if self.promises.since(before) == Promise::Nothing {
            return;
        }
        match file {
            Some(file) => self.model.synced_file(file),
            None => self.model.synced_names(),
        }
        self.synced_since = Some(since);
        self.done.1 += 1;
    }

    fn sync_names(&mut self) -> io::Result<()> {
        let (dir, since, before) = (File::open(&self.dir)?, Instant::now(), self.promises.look());
        dir.sync_all()?;
        self.acknowledged(since, before, None);
        Ok(())
    }

    /// A path in the directory or one of its subdirectories, existing or not.
    fn any_path(&mut self) -> String {
        let dirs: Vec<String> = self.paths(|e| *e == Entry::Dir);
        let name = format!("f{}", self.chance.below(FILES));
        match self.chance.pick(&dirs) {
            Some(dir) if self.chance.clone().once_in(2) => format!("{dir}/{name}"),
            _ => name,
        }
    }

    fn paths(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<String> {
        self.model.now.iter().filter(|(_, e)| wanted(e)).map(|(p, _)| p.clone()).collect()
    }

    fn some_file(&mut self) -> Option<(String, usize)> {
        let all = self.paths(|e| matches!(e, Entry::File(_)));
        let path = self.chance.pick(&all)?.clone();
        match self.model.now.get(&path) {
            Some(Entry::File(file)) => Some((path, *file)),
            _ => None,
        }
    }

    fn operation(&mut self) -> io::Result<()> {
        let Some((path, file)) = self.some_file() else { return self.create().map(drop) };
        match self.chance.below(20) {
            0 => self.create().map(drop),
            1..=6 => self.write(&path, file),
            7 => self.truncate(&path, file),
            8 => self.punch(&path, file),
            9 => self.attributes(&path, file),
            10 | 11 => self.replace(),
            12 => self.rename(&path),
            13 => self.link(&path),
            14 => self.unlink(&path),
            15 => self.directory(),
            16 => self.orphan(),
            17 => self.sync_names(),
            _ => {
                let open = File::open(self.at(&path))?;
                self.sync(file, &open)
            }
        }
    }

    fn create(&mut self) -> io::Result<Option<(usize, File)>> {
        let path = self.any_path();
        if self.model.now.contains_key(&path) {
            return Ok(None);
        }
        if self.chance.once_in(12) {
            let to = format!("to-{}", self.chance.below(1000));
            let made = Step::Symlink(path.clone(), to.clone());
            self.step(made, |this| std::os::unix::fs::symlink(to, this.at(&path)))?;
            return Ok(None);
        }
        self.create_at(path).map(Some)
    }

    fn create_at(&mut self, path: String) -> io::Result<(usize, File)> {
        let index = self.model.files.len();
        self.model.files.push(Modelled::new(None, 0o600));
        self.model.begin(Step::Create(path.clone(), index));
        let open = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(self.at(&path))?;
        self.model.finish();
        self.model.files[index].inode = Some(open.metadata()?.ino());
        Ok((index, open))
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let len = 1 + self.chance.below(most);
        match self.chance.below(6) {
            // Compressible data, and data that fits into a block pointer.
            0 => vec![self.chance.below(255) as u8 + 1; len as usize],
            1 => self.chance.bytes(len as usize % 100 + 1),
            _ => self.chance.bytes(len as usize),
        }
    }

    fn write_data(&mut self, file: usize, open: &File) -> io::Result<()> {
        let size = self.model.files[file].now.data.len() as u64;
        let most = if self.chance.once_in(10) { FILE_BYTES_MAX / 2 } else { WRITE_BYTES_MAX };
        let data = self.bytes(most);
        let at = match self.chance.below(3) {
            0 => size,
            1 => self.chance.below(size + 1),
            _ => self.chance.below(FILE_BYTES_MAX / 2),
        };
        let at = at.min(FILE_BYTES_MAX - data.len() as u64);
        self.change(file, Change::Write(at, data.clone()), || open.write_all_at(&data, at))
    }

    fn write(&mut self, path: &str, file: usize) -> io::Result<()> {
        let path = self.at(path);
        match self.chance.below(8) {
            0 => {
                let data = self.bytes(WRITE_BYTES_MAX);
                let size = self.model.files[file].now.data.len() as u64;
                if size + data.len() as u64 > FILE_BYTES_MAX {
                    return Ok(());
                }
                let mut open = OpenOptions::new().append(true).open(path)?;
                self.change(file, Change::Write(size, data.clone()), || open.write_all(&data))?;
                self.sync(file, &open)
            }
            1 => {
                let flags = if self.chance.once_in(2) { rustix::fs::OFlags::SYNC } else { rustix::fs::OFlags::DSYNC };
                let open = OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(path)?;
                for _ in 0..=self.chance.below(4) {
                    let (since, before) = (Instant::now(), self.promises.look());
                    self.write_data(file, &open)?;
                    self.acknowledged(since, before, Some(file));
                }
                Ok(())
            }
            _ => {
                let open = OpenOptions::new().write(true).open(path)?;
                for _ in 0..=self.chance.below(3) {
                    self.write_data(file, &open)?;
                }
                if self.chance.once_in(3) { self.sync(file, &open) } else { Ok(()) }
            }
        }
    }

    fn truncate(&mut self, path: &str, file: usize) -> io::Result<()> {
        let len = if self.chance.once_in(3) { 0 } else { self.chance.below(FILE_BYTES_MAX) };
        let path = self.at(path);
        self.change(file, Change::Truncate(len), || {
            rustix::fs::open(&path, rustix::fs::OFlags::WRONLY, 0.into())
                .and_then(|f| rustix::fs::ftruncate(f, len))
                .map_err(Into::into)
        })
    }

    fn punch(&mut self, path: &str, file: usize) -> io::Result<()> {
        let size = self.model.files[file].now.data.len() as u64;
        let (at, len) = (self.chance.below(size + 1), 1 + self.chance.below(FILE_BYTES_MAX));
        let open = OpenOptions::new().write(true).open(self.at(path))?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.change(file, Change::Punch(at, len), || Ok(rustix::fs::fallocate(&open, flags, at, len)?))
    }

    fn attributes(&mut self, path: &str, file: usize) -> io::Result<()> {
        let path = self.at(path);
        match self.chance.below(3) {
            0 => {
                let mode = 0o600 | self.chance.below(0o100) as u32;
                self.change(file, Change::Mode(mode), || fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            }
            1 if self.model.files[file].now.xattr.is_some() => {
                self.change(file, Change::Xattr(None), || Ok(rustix::fs::removexattr(&path, XATTR)?))
            }
            _ => {
                let value = self.bytes(2000);
                let set = || Ok(rustix::fs::setxattr(&path, XATTR, &value, XattrFlags::empty())?);
                self.change(file, Change::Xattr(Some(value.clone())), set)
            }
        }
    }

    /// Replaces a file as editors and databases do: writes a new file and renames it over the old
    /// one.
    fn replace(&mut self) -> io::Result<()> {
        let path = self.any_path();
        if matches!(self.model.now.get(&path), Some(Entry::Dir)) || self.model.now.contains_key("new") {
            return Ok(());
        }
        let (file, open) = self.create_at("new".to_owned())?;
        for _ in 0..=self.chance.below(3) {
            self.write_data(file, &open)?;
        }
        if !self.chance.once_in(4) {
            self.sync(file, &open)?;
        }
        drop(open);
        self.step(Step::Rename("new".into(), path.clone()), |this| fs::rename(this.at("new"), this.at(&path)))?;
        if self.chance.once_in(2) {
            self.sync_names()?;
        }
        Ok(())
    }

    fn rename(&mut self, from: &str) -> io::Result<()> {
        let to = self.any_path();
        let (a, b) = (self.model.now.get(from).cloned(), self.model.now.get(&to).cloned());
        match b {
            // Renaming a file to itself would do nothing.
            _ if a == b => Ok(()),
            Some(_) if self.chance.once_in(2) => self.step(Step::Exchange(from.into(), to.clone()), |this| {
                Ok(rustix::fs::renameat_with(CWD, this.at(from), CWD, this.at(&to), RenameFlags::EXCHANGE)?)
            }),
            _ => self.step(Step::Rename(from.into(), to.clone()), |this| fs::rename(this.at(from), this.at(&to))),
        }
    }

    fn link(&mut self, from: &str) -> io::Result<()> {
        let to = self.any_path();
        if self.model.now.contains_key(&to) {
            return Ok(());
        }
        self.step(Step::Link(from.into(), to.clone()), |this| fs::hard_link(this.at(from), this.at(&to)))
    }

    fn unlink(&mut self, path: &str) -> io::Result<()> {
        self.step(Step::Unlink(path.into()), |this| fs::remove_file(this.at(path)))?;
        let links = self.paths(|e| matches!(e, Entry::Symlink(_)));
        match links.first() {
            Some(link) => self.step(Step::Unlink(link.clone()), |this| fs::remove_file(this.at(link))),
            None => Ok(()),
        }
    }

    fn directory(&mut self) -> io::Result<()> {
        let path = format!("d{}", self.chance.below(3));
        if !self.model.now.contains_key(&path) {
            return self.step(Step::Mkdir(path.clone()), |this| fs::create_dir(this.at(&path)));
        }
        let below = format!("{path}/");
        let other = format!("d{}", self.chance.below(3));
        if !self.model.now.contains_key(&other) {
            self.step(Step::Rename(path.clone(), other.clone()), |this| fs::rename(this.at(&path), this.at(&other)))
        } else if !self.model.now.keys().any(|p| p.starts_with(&below)) {
            self.step(Step::Rmdir(path.clone()), |this| fs::remove_dir(this.at(&path)))
        } else {
            Ok(())
        }
    }

    /// A file that is removed while it is open, and written afterwards.
    fn orphan(&mut self) -> io::Result<()> {
        if self.orphans.len() > 4 {
            self.orphans.remove(0);
        }
        let Some((file, open)) = self.create()? else { return Ok(()) };
        let Some(path) = self.paths(|e| *e == Entry::File(file)).pop() else { return Ok(()) };
        self.write_data(file, &open)?;
        self.step(Step::Unlink(path.clone()), |this| fs::remove_file(this.at(&path)))?;
        self.write_data(file, &open)?;
        if self.chance.once_in(2) {
            self.sync(file, &open)?;
        }
        self.orphans.push(open);
        Ok(())
    }
}

fn read_tree(dir: &Path, prefix: &str, found: &mut Tree) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let attributes = entry.path().symlink_metadata()?;
        if attributes.is_dir() {
            read_tree(&entry.path(), &format!("{path}/"), found)?;
            found.insert(path, Found::Dir);
        } else if attributes.is_symlink() {
            let target = fs::read_link(entry.path())?.to_string_lossy().into_owned();
            found.insert(path, Found::Symlink(target));
        } else {
            let mut value = vec![0; 64 << 10];
            let xattr = match rustix::fs::getxattr(entry.path(), XATTR, &mut value[..]) {
                Ok(len) => Some(value[..len].to_vec()),
                Err(rustix::io::Errno::NODATA) => None,
                Err(e) => return Err(e.into()),
            };
            let state = State { data: fs::read(entry.path())?, mode: attributes.mode() & 0o7777, xattr };
            found.insert(path, Found::File(attributes.ino(), attributes.nlink(), state));
        }
    }
    Ok(())
}
