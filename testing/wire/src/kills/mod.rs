//! Kills the server under clients that write, and judges what they were told is safe.
//!
//! ```text
//!   writer threads ── connections ──> the filer's process ── SIGKILL, again and again
//!     └ a model: names and files as acknowledged; at each new life: what is there, against it; then on, as a hard mount does
//! ```
//! Some kills hit the server while it opens the pool and replays its log.
//!
//! Invariants:
//!   * what was answered with DATA_SYNC or FILE_SYNC, what a COMMIT under the same verifier covers, and all changes of names, are never
//!     missing
//!   * handles of before are good; those of removed files are stale
//!   * a client that sends again what got no answer gets no error that the first one does not explain

pub(crate) mod file;
mod writer;

use crate::{Filer, Server};
use anyhow::{Context, Result, bail};
use crash::Layout;
use damage::chance::Chance;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use writer::Writer;

/// How it goes.
#[derive(Debug, Clone)]
pub struct Plan {
    /// This crate's own program.
    pub program: PathBuf,
    /// What is killed.
    pub server: Server,
    /// What the pool is made of.
    pub layout: Layout,
    /// Where the pool is made.
    pub folder: PathBuf,
    /// Of everything random, but for how threads meet.
    pub seed: u64,
    /// How often the server is killed.
    pub kills: u64,
    /// Clients.
    pub threads: u64,
    /// zdb judges after as many kills.
    pub zdb_every: u64,
}

/// What was done.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Kills, of which while the pool was being opened.
    pub kills: (u64, u64),
    /// Calls answered.
    pub calls: u64,
    /// Bytes that were acknowledged as safe.
    pub bytes: u64,
    /// Writes that were sent again because the verifier had changed or no answer came.
    pub sent_again: u64,
    /// Changes of names that were sent again.
    pub done_again: u64,
    /// Times that a client judged all that it had.
    pub judged: u64,
    /// Times that zdb looked.
    pub zdb: u64,
}

impl Plan {
    /// Runs it; an error is what went wrong.
    pub fn run(&self) -> Result<Totals> {
        let mut filer = Filer::create(&self.program, self.server.clone(), self.layout, &self.folder, self.seed, "64M")?;
        filer.start()?;
        let root = load::nfs::mount(filer.address, crate::filer::SHARE)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut totals = Totals::default();
        let threads: Vec<_> = (0..self.threads)
            .map(|n| {
                let mut writer = Writer::new(filer.address, root.clone(), n, self.seed ^ n << 32);
                let stop = stop.clone();
                std::thread::spawn(move || {
                    let result = writer.run(&stop);
                    (writer, result)
                })
            })
            .collect();
        let result = self.kill_and_start(&mut filer, &threads, &mut totals);
        stop.store(true, Ordering::SeqCst);
        if result.is_err() {
            // They wait for a server that does not come; what they say is not the reason.
            let said: Vec<String> = threads
                .into_iter()
                .filter(|t| t.is_finished())
                .filter_map(|t| t.join().ok()?.1.err())
                .map(|e| format!("{e:#}"))
                .collect();
            filer.kill().ok();
            return Err(result.expect_err("it failed").context(format!("writers: {said:#?}")));
        }
        let mut writers = Vec::new();
        for (n, thread) in threads.into_iter().enumerate() {
            let (writer, result) = thread.join().map_err(|_| anyhow::anyhow!("writer {n} panicked"))?;
            result.with_context(|| format!("writer {n}"))?;
            writers.push(writer);
        }
        // Another life, ended well: nothing may be left over of those before.
        filer.end()?;
        filer.verify().context("exported")?;
        filer.zdb().context("exported")?;
        totals.zdb += 1;
        filer.start()?;
        for writer in &mut writers {
            writer.check_at_the_end().context("after a clean stop")?;
            totals.add(writer.totals);
        }
        filer.end()?;
        filer.check_log()?;
        Ok(totals)
    }

    fn kill_and_start<T>(
        &self,
        filer: &mut Filer,
        threads: &[std::thread::JoinHandle<T>],
        totals: &mut Totals,
    ) -> Result<()> {
        for round in 0..self.kills {
            let mut chance = Chance::of_case(self.seed, round);
            let at = || format!("layout {} seed {} round {round}", self.layout.name, self.seed);
            let work = if chance.once_in(8) { chance.below(5000) } else { chance.below(1000) };
            let until = Instant::now() + Duration::from_millis(work);
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10).min(until - Instant::now().min(until)));
                if threads.iter().any(|t| t.is_finished()) {
                    bail!("{}: a writer gave up", at());
                }
            }
            filer.check_alive().with_context(at)?;
            filer.kill()?;
            totals.kills.0 += 1;
            // As the kill left it.
            if chance.once_in(5) {
                filer.verify().with_context(at)?;
            }
            if (round + 1).is_multiple_of(self.zdb_every.max(1)) {
                filer.zdb().with_context(at)?;
                totals.zdb += 1;
            }
            // A kill while the log of the last one is being replayed.
            if chance.once_in(4) {
                filer.begin()?;
                std::thread::sleep(Duration::from_millis(chance.below(400)));
                filer.kill()?;
                totals.kills.1 += 1;
            }
            filer.start().with_context(at)?;
        }
        // Time to end what is under way.
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    }
}

impl Totals {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.kills = (self.kills.0 + other.kills.0, self.kills.1 + other.kills.1);
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.sent_again += other.sent_again;
        self.done_again += other.done_again;
        self.judged += other.judged;
        self.zdb += other.zdb;
    }
}
