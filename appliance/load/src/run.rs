//! A run of one kind of operations on files, servers and volumes.

use crate::drive::{Control, Drive, Report, drive};
pub use crate::pace::Arrivals;
use crate::pace::Pace;
use crate::pattern::{Kind, Pattern};
use crate::session::{Session, Settings};
use crate::target::Target;
use crate::watch::{Seen, What};
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long a thread that has nothing to do sleeps at most, so that it hears that it should stop.
const NAP: Duration = Duration::from_millis(100);

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What kind of operations.
    pub kind: Kind,
    /// On what: threads take them in turn.
    pub targets: Vec<Target>,
    /// Bytes of an operation.
    pub size: u64,
    /// Threads in all, each with a connection of its own.
    pub threads: usize,
    /// Operations that each of them has under way at most.
    pub depth: usize,
    /// When they begin.
    pub arrivals: Arrivals,
    /// For how long; `None`: until `stop`.
    pub time: Option<Duration>,
    /// A file that is shorter is filled up to this first.
    pub file_size: u64,
    /// Only so many bytes from the front of a file are touched.
    pub span: Option<u64>,
    /// Writes are on stable storage when they are answered.
    pub sync: bool,
    /// Of a hundred bytes written so many are zeros, so that they compress.
    pub zeros: u8,
    /// The same seed does the same operations.
    pub seed: u64,
    /// Files are read and written past the memory of this machine (O_DIRECT).
    pub direct: bool,
    /// After so many writes what was written is asked to be on stable storage; 0: never.
    pub fsync: u64,
    /// So much of the beginning is not counted.
    pub ramp: Duration,
    /// Not all threads at once.
    pub steps: Option<Steps>,
    /// It ends, too, when each thread (or each operation under way of a file) has begun so many.
    pub ops: Option<u64>,
}

/// Threads that join one by one: a load that is stepped up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// So many begin at the start.
    pub from: usize,
    /// One more each time this is over.
    pub every: Duration,
}

impl Steps {
    /// When thread `n`, counted from 0, begins.
    pub(crate) fn begins(self, n: usize) -> Duration {
        self.every * u32::try_from((n + 1).saturating_sub(self.from)).unwrap_or(u32::MAX)
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            kind: Kind::RandRead,
            targets: Vec::new(),
            size: 8192,
            threads: 1,
            depth: 1,
            arrivals: Arrivals::Closed,
            time: None,
            file_size: 0,
            span: None,
            sync: false,
            zeros: 0,
            seed: 1,
            direct: false,
            fsync: 0,
            ramp: Duration::ZERO,
            steps: None,
            ops: None,
        }
    }
}

/// One thread's part.
struct Share {
    /// Which target.
    target: usize,
    /// Operations under way.
    depth: usize,
    /// Of how many in all.
    weight: f64,
    /// When it joins.
    begins: Duration,
}

impl Plan {
    fn check(&self) -> Result<()> {
        ensure!(!self.targets.is_empty(), "nothing to load");
        ensure!((1..=16 << 20).contains(&self.size), "operations have 1 byte to 16M, not {}", self.size);
        ensure!((1..=4096).contains(&self.threads), "1 to 4096 threads, not {}", self.threads);
        ensure!((1..=1024).contains(&self.depth), "1 to 1024 operations under way, not {}", self.depth);
        ensure!(self.kind != Kind::Meta || self.depth == 1, "meta has one operation under way for each thread");
        ensure!(self.zeros <= 100, "{} of a hundred bytes cannot be zeros", self.zeros);
        ensure!(self.arrivals.rate().is_none_or(|r| r > 0.0 && r.is_finite()), "a rate is more than 0");
        ensure!(
            !self.direct || self.kind == Kind::Meta || self.size.is_multiple_of(512),
            "past the machine's memory operations are multiples of 512 bytes, not {}",
            self.size
        );
        ensure!(self.time.is_none_or(|t| t > self.ramp), "the beginning that is not counted is longer than the run");
        Ok(())
    }

    /// Threads: a file of this machine takes one operation at a time, so several under way are so many threads.
    fn shares(&self) -> Vec<Share> {
        let mut shares = Vec::new();
        for n in 0..self.threads {
            let target = n % self.targets.len();
            let begins = self.steps.map_or(Duration::ZERO, |s| s.begins(n));
            let (count, depth) = match self.targets[target] {
                Target::Path(_) => (self.depth, 1),
                Target::Nfs(_) | Target::Nbd(_) => (1, self.depth),
            };
            shares.extend((0..count).map(|_| Share { target, depth, weight: depth as f64, begins }));
        }
        let all: f64 = shares.iter().map(|s| s.weight).sum();
        shares.iter_mut().for_each(|s| s.weight /= all);
        shares
    }

    fn settings(&self, seed: u64) -> Settings {
        Settings { size: self.size as usize, sync: self.sync, zeros: self.zeros, seed, direct: self.direct }
    }

    /// Does it, until its time is over or `stop` is set.
    pub fn run(&self, stop: &AtomicBool) -> Result<Report> {
        self.run_with(Control::plain(stop))
    }

    /// Does it, and tells of it on the way.
    pub fn run_with(&self, control: Control<'_>) -> Result<Report> {
        self.check()?;
        let meta = self.kind == Kind::Meta;
        let mut spans = Vec::new();
        for target in &self.targets {
            let len =
                target.prepare(self.file_size, meta, self.settings(self.seed)).with_context(|| target.to_string())?;
            let span = self.span.map_or(len, |s| s.min(len));
            ensure!(
                meta || span >= self.size,
                "{target} has {span} bytes, an operation {}: say --file-size",
                self.size
            );
            spans.push(span);
        }
        let writes = matches!(self.kind, Kind::RandWrite | Kind::SeqWrite | Kind::Mix(_));
        let seen = Seen::default();
        let shares = self.shares();
        let count = shares.len();
        let seed = |n: usize| self.seed ^ (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let how = Drive { threads: count, ramp: self.ramp, requested: self.arrivals.rate() };
        let open = |n: usize| {
            let target = &self.targets[shares[n].target];
            target.open(meta, writes, self.settings(seed(n))).with_context(|| target.to_string())
        };
        let work = |n: usize, mut session: Box<dyn Session>, start: Instant, stop: &[&AtomicBool]| {
            let share = &shares[n];
            let begins = start + share.begins;
            let end = self.time.map(|t| start + t);
            if !wait_until(begins, end, stop) {
                return Ok(());
            }
            seen.at_work(1);
            let mut worker = Worker {
                pace: Pace::new(self.arrivals.part(share.weight), begins, n as f64 / count as f64),
                pattern: Pattern::new(self.kind, self.size, spans[share.target], (n, count)).with_fsync(self.fsync),
                rng: Rng::with_seed(seed(n)),
                depth: share.depth,
                left: self.ops.unwrap_or(u64::MAX),
                seen: &seen,
            };
            let done = worker.work(session.as_mut(), end, stop);
            seen.at_work(-1);
            done.with_context(|| self.targets[share.target].to_string())
        };
        drive(&how, control, &seen, open, work)
    }
}

/// Runs that begin together, each with a name; their reports in the same order.
pub fn together(plans: &[(String, Plan)], stop: &AtomicBool) -> Result<Vec<Report>> {
    let ready = Ready { left: Mutex::new(plans.len()), all: Condvar::new() };
    let failed = AtomicBool::new(false);
    let results: Vec<Result<Report>> = std::thread::scope(|scope| {
        let threads = plans.iter().map(|(name, plan)| {
            let (ready, failed) = (&ready, &failed);
            scope.spawn(move || {
                let wait = || ready.wait(failed);
                let done =
                    plan.run_with(Control { stop, ready: Some(&wait), each: None }).with_context(|| name.clone());
                if done.is_err() {
                    failed.store(true, Ordering::Relaxed);
                    ready.all.notify_all();
                }
                done
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    results.into_iter().collect()
}

/// Runs that wait for each other.
struct Ready {
    left: Mutex<usize>,
    all: Condvar,
}

impl Ready {
    fn wait(&self, failed: &AtomicBool) -> Result<()> {
        let mut left = self.left.lock().unwrap_or_else(|e| e.into_inner());
        *left -= 1;
        self.all.notify_all();
        while *left > 0 {
            ensure!(!failed.load(Ordering::Relaxed), "not started, because another one failed to start");
            left = self.all.wait_timeout(left, NAP).unwrap_or_else(|e| e.into_inner()).0;
        }
        Ok(())
    }
}

/// Waits; false: the run is over before.
pub(crate) fn wait_until(begins: Instant, end: Option<Instant>, stop: &[&AtomicBool]) -> bool {
    loop {
        let now = Instant::now();
        if now >= begins {
            return true;
        }
        if end.is_some_and(|e| now >= e) || stop.iter().any(|s| s.load(Ordering::Relaxed)) {
            return false;
        }
        std::thread::sleep((begins - now).min(NAP));
    }
}

struct Worker<'a> {
    pace: Pace,
    pattern: Pattern,
    rng: Rng,
    depth: usize,
    /// So many more.
    left: u64,
    seen: &'a Seen,
}

impl Worker<'_> {
    fn work(&mut self, session: &mut dyn Session, end: Option<Instant>, stop: &[&AtomicBool]) -> Result<()> {
        let mut under_way: HashMap<u64, (Instant, What)> = HashMap::new();
        let mut tag = 0;
        loop {
            let now = Instant::now();
            let is_late = end.is_some_and(|e| now >= e) || stop.iter().any(|s| s.load(Ordering::Relaxed));
            let over = is_late || self.left == 0;
            if over && under_way.is_empty() {
                // What should have begun and did not is not forgotten.
                if self.left > 0 {
                    self.seen.due(self.pace.missed(end.map_or(now, |e| e.min(now)), &mut self.rng));
                }
                return Ok(());
            }
            let room = !over && under_way.len() < self.depth;
            let wait = match self.pace.due() {
                _ if !room => NAP,
                Some(due) if due > now => due - now,
                _ => {
                    let since = self.pace.begin(now, &mut self.rng);
                    let op = self.pattern.next(&mut self.rng);
                    self.seen.due(u64::from(self.pace.due().is_some()));
                    under_way.insert(tag, (since, op.what()));
                    session.begin(tag, op)?;
                    tag += 1;
                    self.left -= 1;
                    // Others that are due go out with it, before any of them is waited for.
                    if under_way.len() < self.depth {
                        continue;
                    }
                    NAP
                }
            };
            let wait = end.filter(|_| !over).map_or(wait, |e| wait.min(e.saturating_duration_since(now))).min(NAP);
            if let Some((tag, result)) = session.done(wait)? {
                let (since, what) = under_way.remove(&tag).unwrap_or((now, What::Read));
                match result {
                    Ok(bytes) => self.seen.done(what, bytes, since.elapsed()),
                    Err(why) => self.seen.failed(why),
                }
            }
        }
    }
}
