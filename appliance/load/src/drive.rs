//! Threads that begin together, a watch that looks each second, and what it makes of it.

use crate::watch::{Second, Seen, Total, Totals, What};
use anyhow::Result;
use observe::Spread;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What a run is told from outside.
pub struct Control<'a> {
    /// Set: it ends.
    pub stop: &'a AtomicBool,
    /// Called when all threads are connected; the load begins when it returns.
    pub ready: Option<&'a dyn Fn() -> Result<()>>,
    /// Told of each second.
    pub each: Option<&'a mut dyn FnMut(&Second)>,
}

impl<'a> Control<'a> {
    /// Begins at once, and is told nothing.
    pub fn plain(stop: &'a AtomicBool) -> Self {
        Self { stop, ready: None, each: None }
    }
}

/// What the clients saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Seconds that it took, without what was asked not to count.
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
    /// Operations that should have begun, where there is a rate.
    pub due: u64,
    /// Nanoseconds from when an operation should have begun to its end.
    pub latency: Spread,
    /// What was done, by kind; also what came beside the load.
    pub kinds: Vec<(What, Total)>,
    /// Second by second, without what was asked not to count.
    pub series: Vec<Second>,
    /// Seconds from the start until the first thread was done; until the last one it is `seconds`.
    pub first_done: f64,
    /// Seconds of processor that this process used.
    pub cpu_seconds: f64,
    /// When it began, in seconds since 1970.
    pub began_unix: f64,
    /// Processors of the machine that made load; of several clients nothing.
    pub processors: Option<usize>,
}

impl Report {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }

    /// What share of the operations that should have begun was done; `None`: as many as went were wanted.
    pub fn kept(&self) -> Option<f64> {
        self.requested.map(|_| self.ops as f64 / self.due.max(1) as f64)
    }

    /// Of those of a kind.
    pub fn of(&self, what: What) -> Total {
        self.kinds.iter().find(|(w, _)| *w == what).map_or_else(Total::default, |(_, t)| *t)
    }
}

fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// How a run is driven.
pub(crate) struct Drive {
    pub threads: usize,
    /// So much of the beginning is not counted.
    pub ramp: Duration,
    pub requested: Option<f64>,
}

/// Runs threads: each opens what it needs (not counted), all begin together, `work` is told when that was and when to stop.
pub(crate) fn drive<W>(
    drive: &Drive,
    control: Control<'_>,
    seen: &Seen,
    open: impl Fn(usize) -> Result<W> + Sync,
    work: impl Fn(usize, W, Instant, &[&AtomicBool]) -> Result<()> + Sync,
) -> Result<Report> {
    let Control { stop, ready, mut each } = control;
    let broken = AtomicBool::new(false);
    let barrier = Barrier::new(drive.threads + 1);
    let start = Mutex::new(Instant::now());
    // Threads that are not done, and when the first of them was.
    let left = (Mutex::new((drive.threads, None::<Instant>)), Condvar::new());
    let mut series = Vec::new();
    let mut base = Totals::default();
    let mut began = Instant::now();
    let mut began_unix = 0.0;
    let mut cpu_before = 0.0;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for n in 0..drive.threads {
            let (open, work, barrier, start, broken, left) = (&open, &work, &barrier, &start, &broken, &left);
            threads.push(scope.spawn(move || {
                let opened = open(n);
                barrier.wait();
                // The starting shot.
                barrier.wait();
                let start = *start.lock().unwrap_or_else(|e| e.into_inner());
                let done = opened.and_then(|opened| work(n, opened, start, &[stop, broken]));
                if done.is_err() {
                    broken.store(true, Ordering::Relaxed);
                }
                let mut count = left.0.lock().unwrap_or_else(|e| e.into_inner());
                count.0 -= 1;
                count.1.get_or_insert_with(Instant::now);
                left.1.notify_all();
                done
            }));
        }
        barrier.wait();
        let go = ready.map_or(Ok(()), |ready| ready());
        if go.is_err() {
            broken.store(true, Ordering::Relaxed);
        }
        began = Instant::now();
        began_unix = std::time::UNIX_EPOCH.elapsed().map_or(0.0, |t| t.as_secs_f64());
        cpu_before = cpu();
        *start.lock().unwrap_or_else(|e| e.into_inner()) = began;
        barrier.wait();
        let mut before = Totals::default();
        let mut looked = began;
        let mut ramp = (drive.ramp > Duration::ZERO).then(|| began + drive.ramp);
        loop {
            let next = ramp.unwrap_or(looked + Duration::from_secs(1));
            let count = left.0.lock().unwrap_or_else(|e| e.into_inner());
            let wait = next.saturating_duration_since(Instant::now());
            let (count, _) = left.1.wait_timeout_while(count, wait, |c| c.0 > 0).unwrap_or_else(|e| e.into_inner());
            let over = count.0 == 0;
            drop(count);
            let now = Instant::now();
            if !over && now < next {
                continue;
            }
            let totals = seen.totals();
            if ramp.take().is_some() && !over {
                (base, began, cpu_before) = (totals.clone(), now, cpu());
            } else {
                let took = (now - looked).as_secs_f64();
                let second = totals.since(&before).second((now - began).as_secs_f64(), took, seen.threads());
                // The rest of a second at the end is told where it is long enough to be one.
                if took >= 0.5 {
                    if let Some(each) = each.as_mut() {
                        each(&second);
                    }
                    series.push(second);
                }
            }
            (before, looked) = (totals, now);
            if over {
                break;
            }
        }
        let results: Vec<Result<()>> =
            threads.into_iter().map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect();
        go.and_then(|()| results.into_iter().collect::<Result<()>>())
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let totals = seen.totals().since(&base);
    let first = left.0.into_inner().unwrap_or_else(|e| e.into_inner()).1;
    Ok(Report {
        seconds,
        ops: totals.latency.count,
        bytes: totals.bytes(),
        failed: totals.failed,
        first_failure: seen.first_failure(),
        requested: drive.requested,
        due: totals.due,
        kinds: What::ALL.into_iter().map(|w| (w, totals.of(w))).filter(|(_, t)| t.count > 0).collect(),
        latency: totals.latency,
        series,
        first_done: first.map_or(seconds, |at| at.saturating_duration_since(began).as_secs_f64()),
        cpu_seconds: cpu() - cpu_before,
        began_unix,
        processors: std::thread::available_parallelism().ok().map(usize::from),
    })
}
