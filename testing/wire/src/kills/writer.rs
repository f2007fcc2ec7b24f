//! One client, which works in its own directory over several connections and waits for the server
//! as a hard mount does.
//!
//! An operation in progress when the server dies stays in the model until it was sent again and
//! answered. After each restart, the client first checks everything that it has.

use super::file::File;
use super::totals::Totals;
use anyhow::{Context, Result, anyhow, bail, ensure};
use load::nfs::{self as client, Attributes, Connection, PATIENCE, args, procedure as p};
use rig::Chance;
use serve::nfs::xdr::{Malformed, Reader, Writer as Xdr};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 3;
const NAMES: u64 = 8;
const FILE_BYTES_MAX: usize = 300 << 10;
/// Number of permanent directories: names are `0/f3`, `1/d2`.
const DIRS: usize = 2;
const OK: u32 = 0;
const NOENT: u32 = 2;
const EXIST: u32 = 17;
const STALE: u32 = 70;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File(usize),
    Dir,
    Symlink(String),
}

/// A permanent directory, and a name in it.
type Name = (usize, String);
type Names = BTreeMap<Name, Entry>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Unchecked,
    Guarded,
    Exclusive([u8; 8]),
}

/// A change of names.
#[derive(Debug, Clone)]
enum Step {
    Create(Name, usize, How),
    Mkdir(Name),
    Symlink(Name, String),
    Remove(Name),
    Rmdir(Name),
    Rename(Name, Name),
    Link(Name, Name),
}

/// Why an attempt failed.
enum Failure {
    /// The server is gone. It is restarted, and the attempt repeated.
    Lost,
    /// A wrong result, which ends the run.
    Wrong(anyhow::Error),
}

type Attempt<T> = std::result::Result<T, Failure>;

impl From<anyhow::Error> for Failure {
    fn from(e: anyhow::Error) -> Self {
        Self::Wrong(e)
    }
}

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Self::Wrong(anyhow!("a reply is truncated"))
    }
}

fn lost(error: io::Error) -> Failure {
    use io::ErrorKind as K;
    match error.kind() {
        K::InvalidData => Failure::Wrong(anyhow!(error)),
        K::WouldBlock | K::TimedOut => Failure::Wrong(anyhow!("no answer within {PATIENCE:?}, and the server lives")),
        _ => Failure::Lost,
    }
}

pub(super) struct Writer {
    pub totals: Totals,
    address: SocketAddr,
    root: Vec<u8>,
    number: u64,
    chance: Chance,
    connections: Vec<Option<Connection>>,
    /// Handles of the permanent directories; empty before they were created.
    dirs: Vec<Vec<u8>>,
    names: Names,
    files: BTreeMap<usize, File>,
    next_file: usize,
    doing: Option<Step>,
    /// The step was found to be done, although it was not answered.
    has_landed: bool,
    /// Handles of removed files, which must stay stale.
    removed: Vec<Vec<u8>>,
}

fn apply(names: &mut Names, step: &Step) {
    match step {
        Step::Create(name, file, _) => drop(names.insert(name.clone(), Entry::File(*file))),
        Step::Mkdir(name) => drop(names.insert(name.clone(), Entry::Dir)),
        Step::Symlink(name, to) => drop(names.insert(name.clone(), Entry::Symlink(to.clone()))),
        Step::Remove(name) | Step::Rmdir(name) => drop(names.remove(name)),
        Step::Rename(from, to) => {
            if let Some(entry) = names.remove(from) {
                names.insert(to.clone(), entry);
            }
        }
        Step::Link(from, to) => {
            if let Some(entry) = names.get(from).cloned() {
                names.insert(to.clone(), entry);
            }
        }
    }
}

/// The names and types, without the identity of files, which file handles determine.
fn shape(names: &Names) -> BTreeMap<&Name, Option<&str>> {
    let kind = |e: &'_ Entry| match e {
        Entry::File(_) => None,
        Entry::Dir => Some("/"),
        Entry::Symlink(_) => Some("@"),
    };
    names.iter().map(|(n, e)| (n, kind(e))).collect()
}

/// `sattr3` with only a mode.
fn put_mode(w: &mut Xdr, mode: Option<u32>) {
    w.bool(mode.is_some());
    if let Some(mode) = mode {
        w.u32(mode);
    }
    (0..5).for_each(|_| w.u32(0));
}

impl Writer {
    pub fn new(address: SocketAddr, root: Vec<u8>, number: u64, seed: u64) -> Self {
        Self {
            totals: Totals::default(),
            address,
            root,
            number,
            chance: Chance::new(seed),
            connections: (0..CONNECTIONS).map(|_| None).collect(),
            dirs: Vec::new(),
            names: Names::new(),
            files: BTreeMap::new(),
            next_file: 0,
            doing: None,
            has_landed: false,
            removed: Vec::new(),
        }
    }

    /// Works until `stop` is set, then commits and checks everything.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut is_new_life = true;
        loop {
            let attempt = if is_new_life { self.recover() } else { Ok(()) };
            let attempt = attempt.and_then(|()| {
                is_new_life = false;
                if stop.load(Ordering::SeqCst) {
                    self.settle_all()?;
                    return self.judge().map(|()| true);
                }
                self.operation().map(|()| false)
            });
            match attempt {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Failure::Lost) => {
                    self.wait_for_server()?;
                    is_new_life = true;
                }
                Err(Failure::Wrong(e)) => return Err(e),
            }
        }
    }

    pub fn check_at_the_end(&mut self) -> Result<()> {
        self.wait_for_server()?;
        match self.judge() {
            Ok(()) => Ok(()),
            Err(Failure::Lost) => bail!("the server is gone"),
            Err(Failure::Wrong(e)) => Err(e),
        }
    }

    fn wait_for_server(&mut self) -> Result<()> {
        self.connections.iter_mut().for_each(|c| *c = None);
        let deadline = Instant::now() + 3 * PATIENCE;
        while Connection::open(self.address).is_err() {
            ensure!(Instant::now() < deadline, "the server does not come back");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn connection(&mut self, n: usize) -> Attempt<&mut Connection> {
        if self.connections[n].is_none() {
            self.connections[n] = Some(Connection::open(self.address).map_err(lost)?);
        }
        self.connections[n].as_mut().ok_or(Failure::Lost)
    }

    fn call(&mut self, procedure: u32, write: impl FnOnce(&mut Xdr)) -> Attempt<Vec<u8>> {
        let n = self.chance.below(CONNECTIONS as u64) as usize;
        let args = args(write);
        let answer = self.connection(n)?.call(procedure, &args).map_err(lost)?;
        self.totals.calls += 1;
        Ok(answer)
    }

    /// After a restart of the server: checks what is found, then sends unanswered operations again.
    fn recover(&mut self) -> Attempt<()> {
        if self.dirs.len() < DIRS {
            self.make_dirs()?;
        }
        self.judge()?;
        if self.doing.is_some() {
            self.totals.done_again += 1;
            self.perform()?;
        }
        let ids: Vec<usize> = self.files.keys().copied().collect();
        for id in ids {
            if let Some(len) = self.file(id)?.resizing {
                self.set_size(id, len)?;
            }
            if let Some(mode) = self.file(id)?.mode.1 {
                self.set_mode(id, mode)?;
            }
            let again = self.file(id)?.unanswered();
            self.write_again(id, again)?;
        }
        Ok(())
    }

    fn make_dirs(&mut self) -> Attempt<()> {
        let root = self.root.clone();
        let top = self.make_dir(&root, &format!("client{}", self.number))?;
        self.dirs.clear();
        for n in 0..DIRS {
            let dir = self.make_dir(&top, &n.to_string())?;
            self.dirs.push(dir);
        }
        Ok(())
    }

    fn make_dir(&mut self, dir: &[u8], name: &str) -> Attempt<Vec<u8>> {
        let answer = self.call(p::MKDIR, |w| {
            w.opaque(dir);
            w.opaque(name.as_bytes());
            put_mode(w, Some(0o755));
        })?;
        match client::status(&answer)?.0 {
            OK | EXIST => Ok(self.lookup(dir, name)?.context("a created directory is missing")?),
            other => Err(anyhow!("MKDIR {name} returned {other}").into()),
        }
    }

    fn lookup(&mut self, dir: &[u8], name: &str) -> Attempt<Option<Vec<u8>>> {
        let answer = self.call(p::LOOKUP, |w| {
            w.opaque(dir);
            w.opaque(name.as_bytes());
        })?;
        let (status, mut r) = client::status(&answer)?;
        match status {
            OK => Ok(Some(r.opaque(64)?.to_vec())),
            NOENT => Ok(None),
            other => Err(anyhow!("LOOKUP {name} returned {other}").into()),
        }
    }

    fn file(&mut self, id: usize) -> Result<&mut File> {
        self.files.get_mut(&id).context("a file that was never created")
    }

    // ---- checking

    fn judge(&mut self) -> Attempt<()> {
        self.totals.judged += 1;
        let mut found: BTreeMap<Name, (Attributes, Vec<u8>)> = BTreeMap::new();
        for dir in 0..self.dirs.len() {
            for (name, attributes, handle) in self.list(dir)? {
                found.insert((dir, name), (attributes, handle));
            }
        }
        let kinds = |(a, _): &(Attributes, Vec<u8>)| match a.kind {
            2 => Some("/"),
            5 => Some("@"),
            _ => None,
        };
        let there: BTreeMap<&Name, Option<&str>> = found.iter().map(|(n, e)| (n, kinds(e))).collect();
        let same_files = |names: &Names, files: &BTreeMap<usize, File>| {
            names.iter().all(|(n, e)| match (e, found.get(n)) {
                (Entry::File(id), Some((_, handle))) => {
                    files.get(id).is_some_and(|f| f.handle.is_empty() || f.handle == *handle)
                }
                _ => true,
            })
        };
        let is = |names: &Names| there == shape(names) && same_files(names, &self.files);
        self.has_landed = false;
        if !is(&self.names) {
            let mut after = self.names.clone();
            if let Some(step) = &self.doing {
                apply(&mut after, step);
            }
            if self.doing.is_none() || !is(&after) {
                return Err(anyhow!("names are {there:?}, not {:?}; under way: {:?}", self.names, self.doing).into());
            }
            self.has_landed = true;
        }
        let removing = self.leaves_nothing();
        let ids: Vec<usize> = self.files.keys().copied().collect();
        for id in ids {
            let file = self.file(id)?.clone();
            if file.handle.is_empty() || Some(id) == removing && self.has_landed {
                continue;
            }
            let Some((attributes, contents)) = self.read_all(&file.handle)? else {
                return Err(anyhow!("the handle of file {id} is stale").into());
            };
            file.judge(&contents).map_err(|what| anyhow!("file {id}: {what}; before: {:?}", file.history))?;
            self.file(id)?.note("another life".to_owned());
            let (mode, other) = file.mode;
            if attributes.mode != mode && Some(attributes.mode) != other {
                return Err(anyhow!("file {id} has mode {:o}, not {mode:o} {other:?}", attributes.mode).into());
            }
            if self.doing.is_none() {
                let names = self.names.values().filter(|e| **e == Entry::File(id)).count() as u32;
                if attributes.links != names {
                    return Err(anyhow!("file {id} has {} links, not {names}", attributes.links).into());
                }
            }
        }
        for handle in self.removed.clone() {
            if self.read_all(&handle)?.is_some() {
                return Err(anyhow!("the handle of a removed file is valid").into());
            }
        }
        Ok(())
    }

    /// The file that has no name after the step in progress.
    fn leaves_nothing(&self) -> Option<usize> {
        let mut after = self.names.clone();
        apply(&mut after, self.doing.as_ref()?);
        let ids = |names: &Names| -> BTreeSet<usize> {
            names.values().filter_map(|e| if let Entry::File(id) = e { Some(*id) } else { None }).collect()
        };
        ids(&self.names).difference(&ids(&after)).next().copied()
    }

    fn list(&mut self, dir: usize) -> Attempt<Vec<(String, Attributes, Vec<u8>)>> {
        let (handle, mut cookie, mut verifier) = (self.dirs[dir].clone(), 0, [0; 8]);
        let mut all = Vec::new();
        loop {
            let answer = self.call(p::READDIRPLUS, |w| {
                w.opaque(&handle);
                w.u64(cookie);
                w.fixed(&verifier);
                w.u32(4096);
                w.u32(1200);
            })?;
            let (status, mut r) = client::status(&answer)?;
            if status != OK {
                return Err(anyhow!("READDIRPLUS returned {status}").into());
            }
            client::optional_attributes(&mut r)?;
            verifier = r.fixed()?;
            while r.bool()? {
                let (_id, name) = (r.u64()?, String::from_utf8_lossy(r.opaque(255)?).into_owned());
                cookie = r.u64()?;
                let attributes = client::optional_attributes(&mut r)?;
                let handle = if r.bool()? { r.opaque(64)?.to_vec() } else { Vec::new() };
                if name != "." && name != ".." {
                    all.push((name, attributes.context("an entry without attributes")?, handle));
                }
            }
            if r.bool()? {
                return Ok(all);
            }
        }
    }

    /// All contents of a file; `None` if it was removed.
    fn read_all(&mut self, handle: &[u8]) -> Attempt<Option<(Attributes, Vec<u8>)>> {
        let mut contents = Vec::new();
        loop {
            let offset = contents.len() as u64;
            let answer = self.call(p::READ, |w| {
                w.opaque(handle);
                w.u64(offset);
                w.u32(256 << 10);
            })?;
            let (status, mut r) = client::status(&answer)?;
            match status {
                OK => {}
                STALE => return Ok(None),
                other => return Err(anyhow!("READ returned {other}").into()),
            }
            let attributes = client::optional_attributes(&mut r)?.context("READ without attributes")?;
            let (_count, is_end) = (r.u32()?, r.bool()?);
            contents.extend_from_slice(r.opaque(1 << 20)?);
            if is_end {
                return Ok(Some((attributes, contents)));
            }
            if contents.len() as u64 == offset {
                return Err(anyhow!("READ returned nothing at {offset}, before the end of the file").into());
            }
        }
    }

    // ---- working

    fn some_name(&mut self) -> Name {
        (self.chance.below(DIRS as u64) as usize, format!("f{}", self.chance.below(NAMES)))
    }

    fn some_file(&mut self) -> Option<(Name, usize)> {
        let all: Vec<(Name, usize)> = self
            .names
            .iter()
            .filter_map(|(n, e)| if let Entry::File(id) = e { Some((n.clone(), *id)) } else { None })
            .collect();
        self.chance.pick(&all).cloned()
    }

    fn operation(&mut self) -> Attempt<()> {
        let Some((name, id)) = self.some_file() else { return self.create() };
        match self.chance.below(20) {
            0 | 1 => self.create(),
            2 => {
                let to = self.some_name();
                match self.names.get(&to) {
                    Some(Entry::Dir) => Ok(()),
                    // Renaming a file to itself would do nothing.
                    Some(Entry::File(other)) if *other == id => Ok(()),
                    _ => self.step(Step::Rename(name, to)),
                }
            }
            3 => {
                let to = self.some_name();
                if self.names.contains_key(&to) { Ok(()) } else { self.step(Step::Link(name, to)) }
            }
            4 => self.step(Step::Remove(name)),
            5 => self.dirs_and_links(),
            6 => {
                let len = if self.chance.once_in(3) { 0 } else { self.chance.below(FILE_BYTES_MAX as u64) as usize };
                self.commit(id)?;
                self.set_size(id, len)
            }
            7 => {
                let mode = 0o600 | self.chance.below(0o100) as u32;
                self.set_mode(id, mode)
            }
            8 => self.replace(name),
            9..=11 => self.commit(id),
            _ => self.write(id),
        }
    }

    fn create(&mut self) -> Attempt<()> {
        let name = self.some_name();
        if self.names.contains_key(&name) {
            return Ok(());
        }
        self.create_at(name).map(|_| ())
    }

    fn create_at(&mut self, name: Name) -> Attempt<usize> {
        let id = self.next_file;
        self.next_file += 1;
        let how = match self.chance.below(3) {
            0 => How::Unchecked,
            1 => How::Guarded,
            _ => How::Exclusive(self.chance.next().to_be_bytes()),
        };
        let mode = if matches!(how, How::Exclusive(_)) { 0 } else { 0o600 };
        self.files.insert(id, File { mode: (mode, None), ..File::default() });
        self.step(Step::Create(name, id, how))?;
        Ok(id)
    }

    /// Replaces a file as editors do: writes a new file and renames it over the old one.
    fn replace(&mut self, name: Name) -> Attempt<()> {
        let new = (name.0, "new".to_owned());
        if self.names.contains_key(&new) {
            return self.step(Step::Remove(new));
        }
        let id = self.create_at(new.clone())?;
        self.write(id)?;
        self.commit(id)?;
        self.step(Step::Rename(new, name))
    }

    fn dirs_and_links(&mut self) -> Attempt<()> {
        let dir = self.chance.below(DIRS as u64) as usize;
        let name = (dir, format!("d{}", self.chance.below(2)));
        let link = (dir, format!("l{}", self.chance.below(2)));
        let step = match (self.chance.once_in(2), self.names.contains_key(&name), self.names.contains_key(&link)) {
            (true, false, _) => Step::Mkdir(name),
            (true, true, _) => Step::Rmdir(name),
            (false, _, false) => Step::Symlink(link, format!("to-{}", self.chance.below(1000))),
            (false, _, true) => Step::Remove(link),
        };
        self.step(step)
    }

    fn step(&mut self, step: Step) -> Attempt<()> {
        self.doing = Some(step);
        self.has_landed = false;
        self.perform()
    }

    /// Sends the step in progress, for the first time or again.
    fn perform(&mut self) -> Attempt<()> {
        let Some(step) = self.doing.clone() else { return Ok(()) };
        let dirs = self.dirs.clone();
        let put = |w: &mut Xdr, name: &Name| {
            w.opaque(&dirs[name.0]);
            w.opaque(name.1.as_bytes());
        };
        let new_mode = Some(0o600);
        let (answer, excused) = match &step {
            Step::Create(name, _, how) => {
                let answer = self.call(p::CREATE, |w| {
                    put(w, name);
                    match how {
                        How::Unchecked => {
                            w.u32(0);
                            put_mode(w, new_mode);
                        }
                        How::Guarded => {
                            w.u32(1);
                            put_mode(w, new_mode);
                        }
                        How::Exclusive(verifier) => {
                            w.u32(2);
                            w.fixed(verifier);
                        }
                    }
                })?;
                // A repeated exclusive create must succeed: that is its purpose.
                (answer, if *how == How::Guarded { EXIST } else { OK })
            }
            Step::Mkdir(name) => {
                let answer = self.call(p::MKDIR, |w| {
                    put(w, name);
                    put_mode(w, Some(0o700));
                })?;
                (answer, EXIST)
            }
            Step::Symlink(name, to) => {
                let answer = self.call(p::SYMLINK, |w| {
                    put(w, name);
                    put_mode(w, None);
                    w.opaque(to.as_bytes());
                })?;
                (answer, EXIST)
            }
            Step::Remove(name) => (self.call(p::REMOVE, |w| put(w, name))?, NOENT),
            Step::Rmdir(name) => (self.call(p::RMDIR, |w| put(w, name))?, NOENT),
            Step::Rename(from, to) => {
                let answer = self.call(p::RENAME, |w| {
                    put(w, from);
                    put(w, to);
                })?;
                (answer, NOENT)
            }
            Step::Link(from, to) => {
                let handle = match self.names.get(from) {
                    Some(Entry::File(id)) => self.file(*id)?.handle.clone(),
                    other => return Err(anyhow!("a link to {other:?}").into()),
                };
                let answer = self.call(p::LINK, |w| {
                    w.opaque(&handle);
                    put(w, to);
                })?;
                (answer, EXIST)
            }
        };
        let status = client::status(&answer)?.0;
        if status != OK && !(self.has_landed && status == excused) {
            let landed = if self.has_landed { "which was done before" } else { "which was not done before" };
            return Err(anyhow!("{step:?}, {landed}, returned {status}").into());
        }
        if let Step::Create(name, id, how) = &step {
            let dir = self.dirs[name.0].clone();
            let handle = self.lookup(&dir, &name.1)?.context("a created file is missing")?;
            self.file(*id)?.handle = handle;
            self.finish(&step);
            // As clients do, since the times contain the verifier.
            return if let How::Exclusive(_) = how { self.set_mode(*id, 0o600) } else { Ok(()) };
        }
        self.finish(&step);
        Ok(())
    }

    fn finish(&mut self, step: &Step) {
        if let Some(gone) = self.leaves_nothing()
            && let Some(file) = self.files.remove(&gone)
        {
            self.removed.push(file.handle);
            if self.removed.len() > 8 {
                self.removed.remove(0);
            }
        }
        apply(&mut self.names, step);
        self.doing = None;
        self.has_landed = false;
    }

    fn set_mode(&mut self, id: usize, mode: u32) -> Attempt<()> {
        let file = self.file(id)?;
        file.mode.1 = Some(mode);
        let handle = file.handle.clone();
        let answer = self.call(p::SETATTR, |w| {
            w.opaque(&handle);
            w.bool(true);
            w.u32(mode);
            // No user, group or size; both times to now, as after an exclusive create.
            [0, 0, 0, 1, 1, 0].iter().for_each(|n| w.u32(*n));
        })?;
        let status = client::status(&answer)?.0;
        if status != OK {
            return Err(anyhow!("SETATTR of a mode returned {status}").into());
        }
        self.file(id)?.mode = (mode, None);
        Ok(())
    }

    fn set_size(&mut self, id: usize, len: usize) -> Attempt<()> {
        let file = self.file(id)?;
        file.note(format!("to be {len} long"));
        file.resizing = Some(len);
        let handle = file.handle.clone();
        let answer = self.call(p::SETATTR, |w| {
            w.opaque(&handle);
            [0, 0, 0, 1].iter().for_each(|n| w.u32(*n));
            w.u64(len as u64);
            [0, 0, 0].iter().for_each(|n| w.u32(*n));
        })?;
        let status = client::status(&answer)?.0;
        if status != OK {
            return Err(anyhow!("SETATTR of a size returned {status}").into());
        }
        self.file(id)?.resized(len);
        Ok(())
    }

    /// Several writes at once, over one connection.
    fn write(&mut self, id: usize) -> Attempt<()> {
        let size = self.file(id)?.now.len() as u64;
        let mut pieces: Vec<(usize, Vec<u8>, u32)> = Vec::new();
        for _ in 0..=self.chance.below(5) {
            let most = if self.chance.once_in(6) { 128 << 10 } else { 12 << 10 };
            let len = 1 + self.chance.below(most) as usize;
            let offset = match self.chance.below(3) {
                0 => size,
                1 => self.chance.below(size + 1),
                _ => self.chance.below(FILE_BYTES_MAX as u64 / 2),
            } as usize;
            let is_apart = |(at, data, _): &(usize, Vec<u8>, u32)| offset + len <= *at || *at + data.len() <= offset;
            if offset + len > FILE_BYTES_MAX || !pieces.iter().all(is_apart) {
                continue;
            }
            let data = if self.chance.once_in(4) {
                vec![self.chance.below(255) as u8 + 1; len]
            } else {
                self.chance.bytes(len)
            };
            let stable = [0, 0, 0, 1, 2][self.chance.below(5) as usize];
            pieces.push((offset, data, stable));
        }
        self.write_pieces(id, pieces)
    }

    fn write_pieces(&mut self, id: usize, pieces: Vec<(usize, Vec<u8>, u32)>) -> Attempt<()> {
        let handle = self.file(id)?.handle.clone();
        for (offset, data, _) in &pieces {
            self.file(id)?.sends(*offset, data);
        }
        let n = self.chance.below(CONNECTIONS as u64) as usize;
        let mut sent = BTreeMap::new();
        for (offset, data, stable) in &pieces {
            let xid = client::next_xid();
            let args = args(|w| {
                w.opaque(&handle);
                w.u64(*offset as u64);
                w.u32(data.len() as u32);
                w.u32(*stable);
                w.opaque(data);
            });
            self.connection(n)?.send(xid, p::WRITE, &args).map_err(lost)?;
            sent.insert(xid, (*offset, data.len(), *stable));
        }
        while !sent.is_empty() {
            let (xid, answer) = self.connection(n)?.receive().map_err(lost)?;
            self.totals.calls += 1;
            let (offset, len, stable) = sent.remove(&xid).context("a reply without a call")?;
            let (status, mut r) = client::status(&answer)?;
            if status != OK {
                return Err(anyhow!("WRITE of {len} at {offset} returned {status}").into());
            }
            client::skip_wcc(&mut r)?;
            let (count, committed, verifier) = (r.u32()?, r.u32()?, r.fixed::<8>()?);
            if count as usize != len || committed < stable {
                return Err(anyhow!("WRITE of {len} as {stable} did {count} as {committed}").into());
            }
            if committed > 0 {
                self.totals.bytes += len as u64;
            }
            self.file(id)?.answered(offset, committed > 0, verifier);
        }
        Ok(())
    }

    /// Sends the current contents of the client's cache.
    fn write_again(&mut self, id: usize, again: Vec<(usize, usize)>) -> Attempt<()> {
        for (offset, len) in again {
            self.totals.sent_again += 1;
            let file = self.file(id)?;
            let data = file.now.get(offset..offset + len).context("a write beyond the end")?.to_vec();
            file.sends_again(offset, len);
            self.write_pieces(id, vec![(offset, data, 0)])?;
        }
        Ok(())
    }

    fn commit(&mut self, id: usize) -> Attempt<()> {
        loop {
            let file = self.file(id)?;
            let (handle, loose) = (file.handle.clone(), file.loose.iter().map(|l| l.data.len() as u64).sum::<u64>());
            let answer = self.call(p::COMMIT, |w| {
                w.opaque(&handle);
                w.u64(0);
                w.u32(0);
            })?;
            let (status, mut r): (u32, Reader<'_>) = client::status(&answer)?;
            if status != OK {
                return Err(anyhow!("COMMIT returned {status}").into());
            }
            client::skip_wcc(&mut r)?;
            let verifier = r.fixed::<8>()?;
            match self.file(id)?.committed(verifier) {
                Ok(()) => {
                    self.totals.bytes += loose;
                    return Ok(());
                }
                Err(again) => self.write_again(id, again)?,
            }
        }
    }

    fn settle_all(&mut self) -> Attempt<()> {
        let ids: Vec<usize> = self.files.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.commit(id))
    }
}
