//! Runs the threads of a flow.

use super::files::Files;
use super::{Flow, Format, Group, Mix, Order, Step};
use crate::drive::{Control, Drive, Report, drive};
use crate::pace::Pace;
use crate::tree::{self, Mode, Node, TRANSFER_MAX, Tree};
use crate::watch::{Seen, What};
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a thread that finds no file waits before retrying, while others release theirs.
const NOTHING: Duration = Duration::from_millis(1);
const NAP: Duration = Duration::from_millis(100);

impl Flow {
    /// Prepares the files and runs the flow.
    pub fn run(&self, control: Control<'_>) -> Result<Report> {
        self.check()?;
        let files: Vec<Files> = self.filesets.iter().map(Files::new).collect();
        for set in &files {
            set.prepare(self.format, self.access, self.seed, &control)?;
            let needs_files = |g: &Group| self.filesets[g.fileset] == set.set && !g.steps.iter().any(makes_files);
            ensure!(
                set.has_some() || self.format != Format::Keep || !self.groups.iter().any(needs_files),
                "{}: no files in {}; format=yes creates them",
                set.set.name,
                set.set.anchor
            );
        }
        let parts = self.parts();
        let mut threads = Vec::new();
        for (group, part) in self.groups.iter().zip(&parts) {
            threads.extend((0..group.threads).map(|_| (group, part / group.threads as f64)));
        }
        let cursors: Vec<AtomicU64> = self.groups.iter().map(|_| AtomicU64::new(0)).collect();
        let cursor_of = |group: &Group| self.groups.iter().position(|g| std::ptr::eq(g, group)).unwrap_or(0);
        let seen = Seen::default();
        let seed = |n: usize| self.seed ^ (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let how = Drive { threads: threads.len(), ramp: self.ramp, requested: self.arrivals.rate() };
        let open = |n: usize| {
            let anchor = &self.filesets[threads[n].0.fileset].anchor;
            tree::open(anchor, self.access, largest(&threads[n].0.steps), seed(n)).with_context(|| anchor.to_string())
        };
        let work = |n: usize, tree: Box<dyn Tree>, start: Instant, stop: &[&AtomicBool]| {
            let (group, part) = threads[n];
            let phase = n as f64 / threads.len() as f64;
            let mut worker = Worker {
                tree,
                files: &files[group.fileset],
                group,
                cursor: &cursors[cursor_of(group)],
                pace: Pace::new(self.arrivals.part(part), start, phase),
                rng: Rng::with_seed(seed(n)),
                seen: &seen,
                end: self.time.map(|t| start + t),
                stop,
                held: None,
            };
            seen.at_work(1);
            let done = worker.work();
            seen.at_work(-1);
            done.with_context(|| format!("{}: {}", group.name, worker.files.set.anchor))
        };
        drive(&how, control, &seen, open, work)
    }
}

fn makes_files(step: &Step) -> bool {
    matches!(step, Step::Create | Step::MakeDirectory)
}

fn largest(steps: &[Step]) -> usize {
    let of = |step: &Step| match step {
        Step::ReadAll(m) | Step::WriteAll(m) | Step::Append(m) => m.largest(),
        Step::Parts { transfer, .. } => transfer.largest(),
        _ => 0,
    };
    steps.iter().map(of).max().unwrap_or(0).clamp(4096, TRANSFER_MAX as u64) as usize
}

/// Why steps end early.
enum End {
    /// The run is over, or this thread is finished.
    Run,
    /// This round of steps is over.
    Round,
    /// The connection failed.
    Broken(io::Error),
}

/// A file reserved by a thread.
struct Held {
    n: u64,
    path: String,
    node: Option<Node>,
    /// Offset of the next sequential operation.
    at: u64,
}

struct Worker<'a> {
    tree: Box<dyn Tree>,
    files: &'a Files,
    group: &'a Group,
    cursor: &'a AtomicU64,
    pace: Pace,
    rng: Rng,
    seen: &'a Seen,
    end: Option<Instant>,
    stop: &'a [&'a AtomicBool],
    held: Option<Held>,
}

impl Worker<'_> {
    fn work(&mut self) -> Result<()> {
        loop {
            for step in &self.group.steps {
                match self.step(step) {
                    Ok(()) => {}
                    Err(End::Round) => break,
                    Err(End::Broken(error)) => return Err(error.into()),
                    Err(End::Run) => {
                        // Once everything is done, nothing more is due.
                        let is_over = self.is_over();
                        let _ = self.release();
                        if is_over {
                            let end = self.end.map_or_else(Instant::now, |e| e.min(Instant::now()));
                            self.seen.due(self.pace.missed(end, &mut self.rng));
                        }
                        return Ok(());
                    }
                }
            }
            match self.release() {
                Ok(()) | Err(End::Round) => {}
                Err(End::Run) => return Ok(()),
                Err(End::Broken(error)) => return Err(error.into()),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some_and(|e| Instant::now() >= e) || self.stop.iter().any(|s| s.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, until: Instant) -> Result<(), End> {
        loop {
            if self.is_over() {
                return Err(End::Run);
            }
            let now = Instant::now();
            if now >= until {
                return Ok(());
            }
            let end = self.end.map_or(NAP, |e| e.saturating_duration_since(now));
            std::thread::sleep((until - now).min(NAP).min(end));
        }
    }

    /// Runs an operation, at its due time if there is a rate.
    fn op<T>(
        &mut self,
        what: What,
        path: &str,
        run: impl FnOnce(&mut dyn Tree) -> io::Result<(T, u64)>,
    ) -> Result<T, End> {
        let counted = self.group.counted.is_empty() || self.group.counted.contains(&what);
        let mut since = Instant::now();
        if counted {
            if let Some(due) = self.pace.due() {
                self.sleep_until(due)?;
                since = self.pace.begin(Instant::now(), &mut self.rng);
                self.seen.due(1);
            } else if self.is_over() {
                return Err(End::Run);
            }
        }
        match run(self.tree.as_mut()) {
            Ok((value, bytes)) if counted => {
                self.seen.done(what, bytes, since.elapsed());
                Ok(value)
            }
            Ok((value, bytes)) => {
                self.seen.record_auxiliary(what, bytes, since.elapsed());
                Ok(value)
            }
            Err(error) if is_broken(&error) => Err(End::Broken(error)),
            Err(error) => {
                self.seen.failed(format!("{} of {path}: {error}", what.name()));
                Err(End::Round)
            }
        }
    }

    /// Where to start searching for the next of `count` files or directories.
    fn next(&mut self, count: u64) -> Result<u64, End> {
        match self.group.order {
            Order::Random => Ok(self.rng.u64(0..count.max(1))),
            Order::Sequential => Ok(self.cursor.fetch_add(1, Ordering::Relaxed) % count.max(1)),
            Order::Once => {
                let n = self.cursor.fetch_add(1, Ordering::Relaxed);
                if n < count { Ok(n) } else { Err(End::Run) }
            }
        }
    }

    /// Reserves a file that exists, or one that does not. Waits if other threads hold all of them;
    /// if there are none, the thread is finished.
    fn take(&mut self, is_there: bool) -> Result<Held, End> {
        self.release()?;
        let from = self.next(self.files.set.count())?;
        let mut looked = 0;
        loop {
            if let Some(n) = self.files.take(from, is_there) {
                return Ok(Held { n, path: self.files.set.path(n), node: None, at: 0 });
            }
            if self.is_over() || looked > 1000 {
                return Err(End::Run);
            }
            looked += 1;
            std::thread::sleep(NOTHING);
        }
    }

    fn hold(&mut self, held: Held) -> &mut Held {
        self.held.insert(held)
    }

    fn release(&mut self) -> Result<(), End> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        let closed = held.node.take().map(|node| self.op(What::Close, &held.path, |t| t.close(node).map(|()| ((), 0))));
        self.files.give_back(held.n);
        closed.unwrap_or(Ok(()))
    }

    /// Runs an operation with the reserved file.
    fn with<T>(&mut self, run: impl FnOnce(&mut Self, &mut Held) -> Result<T, End>) -> Result<T, End> {
        let Some(mut held) = self.held.take() else { return Err(End::Round) };
        let done = run(self, &mut held);
        self.held = Some(held);
        done
    }

    fn transfer(&mut self, held: &mut Held, write: bool, at: u64, len: u64) -> Result<u64, End> {
        let len = len.min(TRANSFER_MAX as u64) as usize;
        let Some(node) = held.node.as_mut() else { return Err(End::Round) };
        let what = if write { What::Write } else { What::Read };
        let moved = self.op(what, &held.path, |tree| {
            let moved = if write { tree.write(node, at, len) } else { tree.read(node, at, len) }?;
            Ok((moved, moved))
        })?;
        if write {
            self.files.grow(held.n, at + moved);
        }
        Ok(moved)
    }

    fn whole(&mut self, write: bool, size: Option<u64>, transfer: &Mix) -> Result<(), End> {
        self.with(|this, held| {
            let size = size.unwrap_or_else(|| this.files.size(held.n));
            let mut at = 0;
            while at < size {
                let len = transfer.draw(&mut this.rng).max(1).min(size - at);
                match this.transfer(held, write, at, len)? {
                    0 => break,
                    moved => at += moved,
                }
            }
            Ok(())
        })
    }

    fn step(&mut self, step: &Step) -> Result<(), End> {
        match step {
            Step::Create => {
                let held = self.take(false)?;
                let path = held.path.clone();
                let n = held.n;
                self.hold(held);
                let node = self.op(What::Create, &path, |t| t.open(&path, Mode::Create).map(|node| (node, 0)))?;
                self.files.set_there(n, true, 0);
                if let Some(held) = self.held.as_mut() {
                    held.node = Some(node);
                }
                Ok(())
            }
            Step::Open(write) => {
                let held = self.take(true)?;
                let path = held.path.clone();
                self.hold(held);
                let mode = if *write { Mode::Write } else { Mode::Read };
                let node = self.op(What::Open, &path, |t| t.open(&path, mode).map(|node| (node, 0)))?;
                if let Some(held) = self.held.as_mut() {
                    held.node = Some(node);
                }
                Ok(())
            }
            Step::ReadAll(transfer) => self.whole(false, None, transfer),
            Step::WriteAll(transfer) => {
                let size = self.held.as_ref().map(|h| self.files.set.sizes.of_number(h.n));
                self.whole(true, size, transfer)
            }
            Step::Append(bytes) => self.with(|this, held| {
                let (at, len) = (this.files.size(held.n), bytes.draw(&mut this.rng));
                this.transfer(held, true, at, len).map(|_| ())
            }),
            Step::Parts { reads, random, transfer, count } => self.parts((*reads, *random), transfer, *count),
            Step::Sync => self.with(|this, held| {
                let Some(node) = held.node.as_mut() else { return Err(End::Round) };
                this.op(What::Sync, &held.path, |t| t.sync(node).map(|()| ((), 0)))
            }),
            Step::Close => self.release(),
            Step::Delete => {
                let held = self.take(true)?;
                let (n, path) = (held.n, held.path.clone());
                self.hold(held);
                self.op(What::Remove, &path, |t| t.remove(&path).map(|()| ((), 0)))?;
                self.files.set_there(n, false, 0);
                self.release()
            }
            Step::Look | Step::Change => {
                let held = self.take(true)?;
                let path = held.path.clone();
                self.hold(held);
                if *step == Step::Look {
                    self.op(What::Look, &path, |t| t.look(&path).map(|_| ((), 0)))?;
                } else {
                    self.op(What::Change, &path, |t| t.change(&path).map(|()| ((), 0)))?;
                }
                self.release()
            }
            Step::MakeDirectory => self.directory(false),
            Step::RemoveDirectory => self.directory(true),
            Step::List => {
                let from = self.next(self.files.set.directories())?;
                let path = self.files.set.directory(from);
                self.op(What::List, &path, |t| t.list(&path).map(|_| ((), 0)))
            }
            Step::Think(time) => self.sleep_until(Instant::now() + *time),
        }
    }

    fn parts(&mut self, (reads, random): (u8, bool), transfer: &Mix, count: Option<u64>) -> Result<(), End> {
        self.with(|this, held| {
            let size = this.files.size(held.n);
            let mut done = 0;
            while count.is_none_or(|c| done < c) {
                let len = transfer.draw(&mut this.rng).max(1);
                let at = match random {
                    true if size <= len => 0,
                    true => this.rng.u64(0..size / len) * len,
                    false => held.at,
                };
                let len = len.min(size.saturating_sub(at));
                if len == 0 {
                    break;
                }
                let write = this.rng.u8(0..100) >= reads;
                if this.transfer(held, write, at, len)? == 0 {
                    break;
                }
                held.at = at + len;
                done += 1;
            }
            Ok(())
        })
    }

    /// Creates or removes a directory. Parents must be created first, which `take_directory` does
    /// not know: what is not possible yet is retried elsewhere.
    fn directory(&mut self, remove: bool) -> Result<(), End> {
        let from = self.next(self.files.set.directories())?;
        let Some(n) = self.files.take_directory(from, remove) else { return Err(End::Run) };
        let path = self.files.set.directory(n);
        let what = if remove { What::RemoveDirectory } else { What::MakeDirectory };
        let done = self.op(what, &path, |t| {
            let done = if remove { t.remove_directory(&path) } else { t.make_directory(&path) };
            done.map(|()| ((), 0))
        });
        self.files.give_directory(n, remove != done.is_ok());
        done
    }
}

fn is_broken(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, TimedOut, UnexpectedEof, WouldBlock,
    };
    [BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, TimedOut, UnexpectedEof, WouldBlock]
        .contains(&error.kind())
}
