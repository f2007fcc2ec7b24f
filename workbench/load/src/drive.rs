//! Starts threads simultaneously, samples their counters each second, and builds the report.

use crate::watch::{Second, Seen, Total, Totals, What};
use anyhow::Result;
use observe::Spread;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

/// External control of a run.
pub struct Control<'a> {
    /// If set, the run ends.
    pub stop: &'a AtomicBool,
    /// Called when all threads are connected; the load starts when it returns.
    pub ready: Option<&'a dyn Fn() -> Result<()>>,
    /// Called with each second.
    pub each: Option<&'a mut dyn FnMut(&Second)>,
}

impl<'a> Control<'a> {
    /// Starts immediately, without callbacks.
    pub fn plain(stop: &'a AtomicBool) -> Self {
        Self { stop, ready: None, each: None }
    }
}

/// The clients' view of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Duration in seconds, without the ramp.
    pub seconds: f64,
    /// Number of operations that succeeded.
    pub ops: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Number of operations that failed.
    pub failed: u64,
    /// Error of the first failure.
    pub first_failure: Option<String>,
    /// Requested operations per second.
    pub requested: Option<f64>,
    /// Number of operations that were due, if there is a rate.
    pub due: u64,
    /// Latency in nanoseconds, from the time an operation was due to its completion.
    pub latency: Spread,
    /// Totals by type of operation, including auxiliary operations.
    pub kinds: Vec<(What, Total)>,
    /// The seconds of the run, without the ramp.
    pub series: Vec<Second>,
    /// Seconds from the start until the first thread was done; the last one was done after
    /// `seconds`.
    pub first_done: f64,
    /// Processor time used by this process in seconds.
    pub cpu_seconds: f64,
    /// Start time in seconds since 1970.
    pub began_unix: f64,
    /// Number of processors of the client; `None` for several clients.
    pub processors: Option<usize>,
}

impl Report {
    /// Successful operations per second, without the ramp.
    pub fn rate(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }

    /// Completed operations as a share of those that were due; `None` if no rate was requested.
    pub fn kept(&self) -> Option<f64> {
        self.requested.map(|_| self.ops as f64 / self.due.max(1) as f64)
    }

    /// Totals of one type of operation.
    pub fn of(&self, what: What) -> Total {
        self.kinds.iter().find(|(w, _)| *w == what).map_or_else(Total::default, |(_, t)| *t)
    }
}

fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Parameters of a run.
pub(crate) struct Drive {
    pub threads: usize,
    /// Length of the ramp at the start, which is not counted.
    pub ramp: Duration,
    pub requested: Option<f64>,
}

/// Runs threads: each opens what it needs (not counted), all start simultaneously, and `work`
/// receives the start time and the stop flags.
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
    // Number of threads that are not done, and when the first one was done.
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
                // The start signal.
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
                // A partial second at the end is reported if it is long enough.
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
