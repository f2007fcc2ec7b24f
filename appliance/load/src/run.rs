//! A run: threads that load, and what they saw.

pub use crate::pace::Arrivals;
use crate::pace::Pace;
use crate::pattern::{Kind, Pattern};
use crate::session::{Session, Settings};
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use observe::{Counter, Histogram, Spread};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
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
}

/// What the clients saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Seconds that it took.
    pub seconds: f64,
    /// Operations that succeeded.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Operations that failed.
    pub failed: u64,
    /// How the first of those did.
    pub first_failure: Option<String>,
    /// Operations a second that were asked for.
    pub requested: Option<f64>,
    /// Nanoseconds from when an operation should have begun to its end.
    pub latency: Spread,
}

#[derive(Default)]
struct Seen {
    latency: Histogram,
    bytes: Counter,
    failed: Counter,
    first_failure: Mutex<Option<String>>,
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
        Ok(())
    }

    /// Does it, until its time is over or `stop` is set.
    pub fn run(&self, stop: &AtomicBool) -> Result<Report> {
        self.check()?;
        let meta = self.kind == Kind::Meta;
        let settings = |seed| Settings { size: self.size as usize, sync: self.sync, zeros: self.zeros, seed };
        let mut spans = Vec::new();
        for target in &self.targets {
            let len = target.prepare(self.file_size, meta, settings(self.seed)).with_context(|| target.to_string())?;
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
        let broken = AtomicBool::new(false);
        let begin = Barrier::new(self.threads + 1);
        let start = Mutex::new(Instant::now());
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for n in 0..self.threads {
                let which = n % self.targets.len();
                let (target, span) = (&self.targets[which], spans[which]);
                let seed = self.seed ^ (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let (seen, begin, start, broken) = (&seen, &begin, &start, &broken);
                threads.push(scope.spawn(move || {
                    let opened = target.open(meta, writes, settings(seed));
                    begin.wait();
                    // The starting shot.
                    begin.wait();
                    let start = *start.lock().unwrap_or_else(|e| e.into_inner());
                    let done = opened.and_then(|mut session| {
                        let mut worker = Worker {
                            pace: Pace::new(self.arrivals.shared(self.threads), start, n as f64 / self.threads as f64),
                            pattern: Pattern::new(self.kind, self.size, span, (n, self.threads)),
                            rng: Rng::with_seed(seed),
                            depth: self.depth,
                            seen,
                        };
                        worker.work(session.as_mut(), self.time.map(|t| start + t), &[stop, broken])
                    });
                    if done.is_err() {
                        broken.store(true, Ordering::Relaxed);
                    }
                    done.with_context(|| target.to_string())
                }));
            }
            begin.wait();
            *start.lock().unwrap_or_else(|e| e.into_inner()) = Instant::now();
            begin.wait();
            let results: Vec<Result<()>> =
                threads.into_iter().map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect();
            results.into_iter().collect::<Result<()>>()
        })?;
        let seconds = start.lock().unwrap_or_else(|e| e.into_inner()).elapsed().as_secs_f64();
        let latency = seen.latency.spread();
        Ok(Report {
            seconds,
            ops: latency.count,
            bytes: seen.bytes.get(),
            failed: seen.failed.get(),
            first_failure: seen.first_failure.into_inner().unwrap_or_else(|e| e.into_inner()),
            requested: self.arrivals.rate(),
            latency,
        })
    }
}

struct Worker<'a> {
    pace: Pace,
    pattern: Pattern,
    rng: Rng,
    depth: usize,
    seen: &'a Seen,
}

impl Worker<'_> {
    fn work(&mut self, session: &mut dyn Session, end: Option<Instant>, stop: &[&AtomicBool]) -> Result<()> {
        let mut under_way: HashMap<u64, Instant> = HashMap::new();
        let mut tag = 0;
        loop {
            let now = Instant::now();
            let over = end.is_some_and(|e| now >= e) || stop.iter().any(|s| s.load(Ordering::Relaxed));
            if over && under_way.is_empty() {
                return Ok(());
            }
            let room = !over && under_way.len() < self.depth;
            let wait = match self.pace.due() {
                _ if !room => NAP,
                Some(due) if due > now => due - now,
                _ => {
                    let since = self.pace.begin(now, &mut self.rng);
                    under_way.insert(tag, since);
                    session.begin(tag, self.pattern.next(&mut self.rng))?;
                    tag += 1;
                    // Others that are due go out before this one is waited for.
                    if under_way.len() < self.depth { Duration::ZERO } else { NAP }
                }
            };
            let wait = end.filter(|_| !over).map_or(wait, |e| wait.min(e.saturating_duration_since(now))).min(NAP);
            if let Some((tag, result)) = session.done(wait)? {
                let since = under_way.remove(&tag).unwrap_or(now);
                match result {
                    Ok(bytes) => {
                        self.seen.latency.record(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX));
                        self.seen.bytes.add(bytes);
                    }
                    Err(what) => {
                        self.seen.failed.add(1);
                        self.seen.first_failure.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(what);
                    }
                }
            }
        }
    }
}
