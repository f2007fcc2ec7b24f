//! Walks the tree: creates directories, links and devices, and queues files for the workers.

use super::attributes::{self, Target};
use super::file::{OutFile, PIECE_BYTES};
use super::options::Options;
use super::reach::reach;
use super::report::Report;
use crate::tree;
use anyhow::{Context, Result, anyhow, bail};
use files::vfs::{Attr, FileKind, NodeId, Vfs};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;

/// Limit for jobs that wait for a worker. Bounds open files and memory; guessed.
const QUEUE: usize = 64;

enum Job {
    /// A piece of a large file.
    Piece(Arc<OutFile>, Range<u64>),
    /// A small file as a whole.
    Small(Box<OutFile>),
}

/// An object of the tree, to be copied to `to`.
struct Item {
    attr: Attr,
    shown: String,
    to: PathBuf,
    /// Given by the user: then a link at the target is followed, as in cp(1).
    named: bool,
}

struct Walker<'a> {
    vfs: &'a dyn Vfs,
    options: &'a Options,
    report: &'a Report,
    jobs: SyncSender<Job>,
    /// Target of the first name of a file with several.
    links: HashMap<NodeId, PathBuf>,
    /// Further names, to be linked when the first is complete.
    later: Vec<(PathBuf, PathBuf, String)>,
    /// Directories in the order of creation: their attributes are set when nothing more is created
    /// in them.
    directories: Vec<(Attr, String, PathBuf)>,
    seen: HashSet<NodeId>,
}

/// Copies a file or a tree, as [`super::copy`] describes.
pub(super) fn copy(
    vfs: &dyn Vfs,
    attr: &Attr,
    shown: &str,
    to: &Path,
    options: &Options,
    report: &Report,
) -> Result<()> {
    if attr.kind == FileKind::Directory && !options.recursive {
        bail!("is a directory (-r copies directories)");
    }
    let (jobs, receiver) = sync_channel(QUEUE);
    let mut walker = Walker {
        vfs,
        options,
        report,
        jobs,
        links: HashMap::new(),
        later: Vec::new(),
        directories: Vec::new(),
        seen: HashSet::new(),
    };
    let receiver = Mutex::new(receiver);
    let (later, directories) = std::thread::scope(|scope| {
        for _ in 0..options.workers.max(1) {
            scope.spawn(|| work(vfs, &receiver, options, report));
        }
        walker.walk(Item { attr: *attr, shown: shown.to_owned(), to: to.to_owned(), named: true });
        // Dropping the walker closes the queue, which ends the workers.
        (walker.later, walker.directories)
    });
    for (first, to, shown) in later {
        let made = remove_in_the_way(&to).and_then(|()| Ok(fs::hard_link(&*reach(&first)?, &*reach(&to)?)?));
        if let Err(e) = made {
            report.fail(&shown, format_args!("cannot be linked to {}: {e:#}", first.display()));
        }
    }
    for (attr, shown, to) in directories.into_iter().rev() {
        match open_directory(&to) {
            Ok(dir) => attributes::apply(vfs, &attr, &shown, &Target::Open(&dir), options, report),
            Err(e) => report.fail(&to.display().to_string(), e),
        }
    }
    Ok(())
}

fn work(vfs: &dyn Vfs, jobs: &Mutex<Receiver<Job>>, options: &Options, report: &Report) {
    loop {
        // One worker waits on the queue, and the others for its lock, which is free as soon as
        // there is a job.
        let job = jobs.lock().recv();
        match job {
            Err(_) => return,
            Ok(Job::Piece(file, range)) => {
                file.copy(vfs, range, options, report);
                if let Some(file) = Arc::into_inner(file) {
                    file.finish(vfs, options, report);
                }
            }
            Ok(Job::Small(file)) => {
                let mut at = 0;
                while let Some(piece) = file.next_piece(vfs, at, options) {
                    at = piece.end;
                    file.copy(vfs, piece, options, report);
                }
                file.finish(vfs, options, report);
            }
        }
    }
}

impl Walker<'_> {
    fn walk(&mut self, first: Item) {
        let mut stack = vec![first];
        while let Some(item) = stack.pop() {
            let shown = item.shown.clone();
            match self.item(item) {
                // Names are taken from the end of the stack, so they are pushed in reverse order.
                Ok(mut below) => {
                    below.reverse();
                    stack.append(&mut below);
                }
                Err(e) => self.report.fail(&shown, format_args!("{e:#}")),
            }
        }
    }

    /// Copies an object or queues it. Returns the contents of a directory.
    fn item(&mut self, item: Item) -> Result<Vec<Item>> {
        if item.attr.kind == FileKind::Directory {
            return self.directory(item);
        }
        if item.attr.links > 1 {
            if let Some(first) = self.links.get(&item.attr.node) {
                self.later.push((first.clone(), item.to, item.shown));
                return Ok(Vec::new());
            }
            self.links.insert(item.attr.node, item.to.clone());
        }
        match item.attr.kind {
            FileKind::Regular => self.file(item)?,
            _ => self.other(&item)?,
        }
        Ok(Vec::new())
    }

    fn directory(&mut self, item: Item) -> Result<Vec<Item>> {
        // A directory has one parent. A damaged or malicious pool may claim otherwise, which would
        // never end.
        if !self.seen.insert(item.attr.node) {
            bail!("directory loop: this directory was already visited");
        }
        // Accessible only to this user until its contents are copied: its final mode may forbid
        // writing.
        let reached = reach(&item.to).with_context(|| item.shown.clone())?;
        match rustix::fs::mkdir(&*reached, Mode::RWXU) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => {
                let meta = if item.named { fs::metadata(&*reached) } else { fs::symlink_metadata(&*reached) };
                if !meta.with_context(|| item.to.display().to_string())?.is_dir() {
                    bail!("{} exists and is not a directory", item.to.display());
                }
            }
            Err(e) => return Err(io::Error::from(e)).with_context(|| item.to.display().to_string()),
        }
        let to = if item.named { fs::canonicalize(&item.to)? } else { item.to };
        self.report.now_at(&item.shown);
        self.directories.push((item.attr, item.shown.clone(), to.clone()));
        let report = self.report;
        let mut bad = |name: &[u8]| {
            let name = String::from_utf8_lossy(&tree::shown(name, true)).into_owned();
            report.fail(&item.shown, format_args!("entry '{name}' is not a valid file name"));
        };
        let entries = tree::entries(self.vfs, item.attr.node, &mut bad)?;
        let slash = if item.shown.ends_with('/') { "" } else { "/" };
        let mut below = Vec::with_capacity(entries.len());
        for entry in entries {
            let name = String::from_utf8_lossy(&tree::shown(&entry.name, true)).into_owned();
            let shown = format!("{}{slash}{name}", item.shown);
            match self.vfs.attr(entry.node) {
                Ok(attr) => below.push(Item { attr, shown, to: to.join(OsStr::from_bytes(&entry.name)), named: false }),
                Err(e) => report.fail(&shown, e),
            }
        }
        Ok(below)
    }

    fn file(&mut self, item: Item) -> Result<()> {
        let file = create(&item.to, item.named).with_context(|| item.to.display().to_string())?;
        let out = OutFile::new(item.attr, item.shown, item.to, file)?;
        let gone = || anyhow!("the copying threads have exited");
        if out.attr.size <= PIECE_BYTES {
            return self.jobs.send(Job::Small(Box::new(out))).map_err(|_| gone());
        }
        self.report.now_at(&out.shown);
        let out = Arc::new(out);
        let mut at = 0;
        while let Some(piece) = out.next_piece(self.vfs, at, self.options) {
            at = piece.end;
            self.jobs.send(Job::Piece(out.clone(), piece)).map_err(|_| gone())?;
        }
        if let Some(out) = Arc::into_inner(out) {
            out.finish(self.vfs, self.options, self.report);
        }
        Ok(())
    }

    /// Symbolic links, devices, pipes and sockets.
    fn other(&self, item: &Item) -> Result<()> {
        let attr = &item.attr;
        let to = reach(&item.to)?;
        remove_in_the_way(&to)?;
        let kind = match attr.kind {
            FileKind::Symlink => {
                let target = self.vfs.read_link(attr.node)?;
                std::os::unix::fs::symlink(OsStr::from_bytes(&target), &*to)?;
                attributes::apply(self.vfs, attr, &item.shown, &Target::Path(&to), self.options, self.report);
                return Ok(());
            }
            FileKind::Fifo => FileType::Fifo,
            FileKind::Socket => FileType::Socket,
            FileKind::CharDevice => FileType::CharacterDevice,
            _ => FileType::BlockDevice,
        };
        let device = rustix::fs::makedev(attr.rdev_major, attr.rdev_minor);
        rustix::fs::mknodat(CWD, &*to, kind, Mode::RUSR | Mode::WUSR, device).map_err(|e| match e {
            rustix::io::Errno::PERM => anyhow!("only root can create device nodes"),
            e => io::Error::from(e).into(),
        })?;
        attributes::apply(self.vfs, attr, &item.shown, &Target::Path(&to), self.options, self.report);
        Ok(())
    }
}

/// Creates or truncates the target. Below the target given by the user no link is followed: it
/// would come from the tree itself.
fn create(to: &Path, named: bool) -> io::Result<File> {
    let reached = reach(to)?;
    let to = &*reached;
    let mut options = File::options();
    options.write(true).create(true).mode(0o600);
    if named {
        return options.truncate(true).open(to);
    }
    let is_file = fs::symlink_metadata(to).is_ok_and(|m| m.is_file());
    if !is_file && let Err(e) = fs::remove_file(to) {
        match e.kind() {
            io::ErrorKind::NotFound => {}
            _ => return Err(e),
        }
    }
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    options.truncate(true).custom_flags(flags).open(to)
}

fn remove_in_the_way(to: &Path) -> Result<()> {
    match fs::remove_file(&*reach(to)?) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("{} already exists", to.display()))
        }
        _ => Ok(()),
    }
}

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(&*reach(path)?)
}
