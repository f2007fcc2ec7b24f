//! Kills the server while clients write, and checks everything that was acknowledged as durable.
//!
//! ```text
//!   writer threads ── connections ──> the filer's process ── SIGKILL, again and again
//!     └ a model: names and files as acknowledged; compared after each restart with what is
//!       found; then the writers continue, as a hard mount does
//! ```
//! Some kills hit the server while it opens the pool and replays its log.
//!
//! Invariants:
//!   * writes answered with DATA_SYNC or FILE_SYNC, writes covered by a COMMIT with the same
//!     verifier, and all changes of names are never missing
//!   * earlier file handles remain valid; those of removed files are stale
//!   * a client that retransmits a call that was not answered gets no error that the first
//!     execution does not explain

pub(crate) mod file;
mod totals;
mod writer;

pub use totals::Totals;

use crate::{Filer, Server};
use anyhow::{Context, Result, bail};
use crash::Layout;
use rig::Chance;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use writer::Writer;

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// This crate's own program.
    pub program: PathBuf,
    /// The server to kill.
    pub server: Server,
    /// Layout of the pool.
    pub layout: Layout,
    /// Directory for the pool.
    pub folder: PathBuf,
    /// Seed of all random choices. The interleaving of threads is not reproducible.
    pub seed: u64,
    pub kills: u64,
    /// Number of clients, each a thread.
    pub threads: u64,
    /// zdb checks the pool after this many kills.
    pub zdb_every: u64,
}

impl Plan {
    /// Runs it. An error describes the failure.
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
            // The writers wait for a server that does not come back. Their errors are not the
            // cause.
            let messages: Vec<String> = threads
                .into_iter()
                .filter(|t| t.is_finished())
                .filter_map(|t| t.join().ok()?.1.err())
                .map(|e| format!("{e:#}"))
                .collect();
            filer.kill().ok();
            return Err(result.expect_err("it failed").context(format!("writers: {messages:#?}")));
        }
        let mut writers = Vec::new();
        for (n, thread) in threads.into_iter().enumerate() {
            let (writer, result) = thread.join().map_err(|_| anyhow::anyhow!("writer {n} panicked"))?;
            result.with_context(|| format!("writer {n}"))?;
            writers.push(writer);
        }
        // Another run with a clean end: nothing of the previous ones may be left over.
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
            let judged = filer.judge_remains(&mut chance, round, self.zdb_every).with_context(at)?;
            totals.zdb += u64::from(judged.by_zdb);
            totals.kills.1 += u64::from(judged.was_killed_again);
            filer.start().with_context(at)?;
        }
        // Time to finish operations in progress.
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    }
}
