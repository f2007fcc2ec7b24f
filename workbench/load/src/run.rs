//! Runs one kind of operations on files, servers and volumes.

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

/// Maximum sleep of an idle thread, so that it notices the stop flag.
const NAP: Duration = Duration::from_millis(100);

/// Description of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub kind: Kind,
    /// Targets; threads are assigned to them round-robin.
    pub targets: Vec<Target>,
    /// Size of an operation in bytes.
    pub size: u64,
    /// Total number of threads, each with its own connection.
    pub threads: usize,
    /// Maximum number of operations in flight per thread.
    pub depth: usize,
    pub arrivals: Arrivals,
    /// Duration; `None`: until `stop`.
    pub time: Option<Duration>,
    /// A shorter file is first extended to this size in bytes.
    pub file_size: u64,
    /// Restricts operations to this many bytes from the start of a file.
    pub span: Option<u64>,
    /// Whether writes are stable when acknowledged.
    pub sync: bool,
    /// Percentage of zero bytes in written data, so that it compresses.
    pub zeros: u8,
    /// Seed: the same seed gives the same operations.
    pub seed: u64,
    /// Whether files are accessed with direct I/O (O_DIRECT).
    pub direct: bool,
    /// Number of writes after which a sync is requested; 0: never.
    pub fsync: u64,
    /// Length of the ramp at the start, which is not counted.
    pub ramp: Duration,
    /// Starts the threads in steps.
    pub steps: Option<Steps>,
    /// Also ends the run when each thread (or each operation in flight on a file) has started this
    /// many operations.
    pub ops: Option<u64>,
}

/// Threads that start one by one: a load that increases in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// Number of threads at the start.
    pub from: usize,
    /// Interval after which another thread is added.
    pub every: Duration,
}

impl Steps {
    /// When thread `n`, counted from 0, starts.
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

/// The share of one thread.
struct Share {
    /// Index of the target.
    target: usize,
    /// Maximum number of operations in flight.
    depth: usize,
    /// Share of the rate.
    weight: f64,
    /// When it starts, after the start of the run.
    begins: Duration,
}

impl Plan {
    fn check(&self) -> Result<()> {
        ensure!(!self.targets.is_empty(), "nothing to load");
        ensure!((1..=16 << 20).contains(&self.size), "operations have 1 byte to 16M, not {}", self.size);
        ensure!((1..=4096).contains(&self.threads), "1 to 4096 threads, not {}", self.threads);
        ensure!((1..=1024).contains(&self.depth), "1 to 1024 operations in flight, not {}", self.depth);
        ensure!(self.kind != Kind::Meta || self.depth == 1, "meta has one operation in flight per thread");
        ensure!(self.zeros <= 100, "{} % of the bytes cannot be zeros", self.zeros);
        ensure!(self.arrivals.rate().is_none_or(|r| r > 0.0 && r.is_finite()), "a rate must be greater than 0");
        ensure!(
            !self.direct || self.kind == Kind::Meta || self.size.is_multiple_of(512),
            "with direct I/O, operations must be multiples of 512 bytes, not {}",
            self.size
        );
        ensure!(self.time.is_none_or(|t| t > self.ramp), "the ramp is longer than the run");
        Ok(())
    }

    /// The threads of the run. A local file takes one operation at a time, so several in flight
    /// require as many threads.
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

    /// Runs the load until its time is over or `stop` is set.
    pub fn run(&self, stop: &AtomicBool) -> Result<Report> {
        self.run_with(Control::plain(stop))
    }

    /// Runs the load, with callbacks.
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
                "{target} has {span} bytes, an operation {}: use --file-size",
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

/// Runs several plans concurrently, each with a name; returns their reports in the same order.
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

/// A barrier for runs that start together.
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

/// Waits until `begins`; false if the run is over before.
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
    /// Number of operations left to start.
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
                // Operations that were due but did not start are counted.
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
                    // Other operations that are due are sent together with it, before waiting for
                    // replies.
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
