//! The clients' measurements: counts by operation, latencies, second by second.

use observe::{Counter, Histogram, Spread};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A type of operation, as distinguished in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// Reading bytes of a file.
    Read,
    /// Writing bytes of a file.
    Write,
    Create,
    Open,
    Close,
    /// Reading attributes.
    Look,
    /// Setting attributes.
    Change,
    Remove,
    MakeDirectory,
    RemoveDirectory,
    List,
    /// Syncing written data to stable storage.
    Sync,
}

impl What {
    /// All types, in the order of reports.
    pub const ALL: [Self; 12] = [
        Self::Read,
        Self::Write,
        Self::Create,
        Self::Open,
        Self::Close,
        Self::Look,
        Self::Change,
        Self::Remove,
        Self::MakeDirectory,
        Self::RemoveDirectory,
        Self::List,
        Self::Sync,
    ];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Open => "open",
            Self::Close => "close",
            Self::Look => "getattr",
            Self::Change => "setattr",
            Self::Remove => "delete",
            Self::MakeDirectory => "mkdir",
            Self::RemoveDirectory => "rmdir",
            Self::List => "readdir",
            Self::Sync => "sync",
        }
    }
}

/// Totals of one type of operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Number of operations that succeeded.
    pub count: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Their total duration in nanoseconds.
    pub nanos: u64,
}

#[derive(Default)]
struct Tally {
    count: Counter,
    bytes: Counter,
    nanos: Counter,
}

/// The measurements of all threads of a run.
#[derive(Default)]
pub(crate) struct Seen {
    latency: Histogram,
    kinds: [Tally; What::ALL.len()],
    failed: Counter,
    first_failure: Mutex<Option<String>>,
    /// Number of operations that were due during the run, if there is a rate.
    due: Counter,
    working: AtomicUsize,
}

impl Seen {
    /// Records a successful operation of the load.
    pub fn done(&self, what: What, bytes: u64, took: Duration) {
        self.latency.record(nanos(took));
        self.record_auxiliary(what, bytes, took);
    }

    /// Records an auxiliary operation that is not part of the load, such as an open before reads.
    pub fn record_auxiliary(&self, what: What, bytes: u64, took: Duration) {
        let tally = &self.kinds[what as usize];
        tally.count.increment();
        tally.bytes.add(bytes);
        tally.nanos.add(nanos(took));
    }

    pub fn failed(&self, why: String) {
        self.failed.increment();
        self.first_failure.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(why);
    }

    pub fn first_failure(&self) -> Option<String> {
        self.first_failure.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub fn due(&self, operations: u64) {
        self.due.add(operations);
    }

    pub fn at_work(&self, threads: isize) {
        self.working.fetch_add(threads as usize, Ordering::Relaxed);
    }

    pub fn totals(&self) -> Totals {
        let total = |t: &Tally| Total { count: t.count.get(), bytes: t.bytes.get(), nanos: t.nanos.get() };
        Totals {
            latency: self.latency.spread(),
            kinds: self.kinds.iter().map(total).collect(),
            failed: self.failed.get(),
            due: self.due.get(),
        }
    }

    pub fn threads(&self) -> usize {
        self.working.load(Ordering::Relaxed)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Counts up to some time, or between two.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub latency: Spread,
    /// In the order of [`What::ALL`].
    pub kinds: Vec<Total>,
    pub failed: u64,
    pub due: u64,
}

impl Totals {
    pub fn since(&self, before: &Self) -> Self {
        let zero = Total::default();
        let kinds = self.kinds.iter().enumerate().map(|(i, now)| {
            let old = before.kinds.get(i).unwrap_or(&zero);
            Total { count: now.count - old.count, bytes: now.bytes - old.bytes, nanos: now.nanos - old.nanos }
        });
        Self {
            latency: self.latency.since(&before.latency),
            kinds: kinds.collect(),
            failed: self.failed - before.failed,
            due: self.due - before.due,
        }
    }

    pub fn of(&self, what: What) -> Total {
        self.kinds.get(what as usize).copied().unwrap_or_default()
    }

    pub fn bytes(&self) -> u64 {
        self.kinds.iter().map(|k| k.bytes).sum()
    }

    pub fn second(&self, at: f64, took: f64, threads: usize) -> Second {
        Second {
            at,
            took,
            threads,
            ops: self.latency.count,
            read: self.of(What::Read),
            write: self.of(What::Write),
            failed: self.failed,
            latency: self.latency.clone(),
        }
    }
}

/// One second of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Second {
    /// Seconds from the start of the run to the end of this second.
    pub at: f64,
    /// Actual length in seconds.
    pub took: f64,
    /// Number of active threads at its end.
    pub threads: usize,
    /// Number of operations of the load completed in it.
    pub ops: u64,
    /// Reads, including auxiliary ones.
    pub read: Total,
    /// Writes, including auxiliary ones.
    pub write: Total,
    /// Number of operations that failed in it.
    pub failed: u64,
    /// Latency in nanoseconds, from the time an operation was due to its completion.
    pub latency: Spread,
}

/// Names and units of the columns of [`Second::row`].
pub const COLUMNS: &str =
    "second_s,took_s,threads,ops,read_ops,write_ops,read_bytes,write_bytes,failed_ops,p50_ns,p99_ns,p99.9_ns,max_ns";

impl Second {
    /// The second as a CSV line, in the order of [`COLUMNS`].
    pub fn row(&self) -> String {
        let p = |percent| self.latency.percentile(percent);
        format!(
            "{:.3},{:.4},{},{},{},{},{},{},{},{},{},{},{}",
            self.at,
            self.took,
            self.threads,
            self.ops,
            self.read.count,
            self.write.count,
            self.read.bytes,
            self.write.bytes,
            self.failed,
            p(50.0),
            p(99.0),
            p(99.9),
            p(100.0)
        )
    }
}
