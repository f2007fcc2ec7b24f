//! Cuts the power under clients of NFSv4.2 and NBD, and checks everything that was acknowledged as
//! durable.
//!
//! ```text
//!   files   ── NFSv4.2: WRITE COMMIT SETATTR SETXATTR REMOVEXATTR ─┐
//!              COPY CLONE ALLOCATE DEALLOCATE                      │
//!   volume  ── NBD: write, FUA, flush, trim, write zeroes ─────────┼─> wire cut
//!   changes ── sync, recordsize, compression, xattr, logbias … ────┘
//! ```
//! Each client keeps its journal in this process: what was acknowledged as durable, and what may be
//! present or not. After each restart of the server it compares the result with the journal and
//! continues from it.
//!
//! Invariants:
//!   * what was acknowledged as durable is present: FILE_SYNC, COMMIT, SETXATTR, COPY, …, FUA,
//!     flush
//!   * a change that was not answered is present or not; for contents, each byte is new or old
//!   * changing properties meanwhile affects neither; while `sync=disabled`, acknowledgements
//!     guarantee nothing

mod client;
mod files;
mod nbd;
mod v42;
mod volume;

pub use client::Totals;

use crate::{Filer, Server};
use anyhow::{Context, Result, anyhow, bail};
use client::{Client, Failure, run};
use crash::Layout;
use parking_lot::RwLock;
use rig::Chance;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// This crate's own program.
    pub program: PathBuf,
    /// Layout of the pool.
    pub layout: Layout,
    /// Directory for the pool.
    pub folder: PathBuf,
    /// Seed of all random choices. The interleaving of threads is not reproducible.
    pub seed: u64,
    /// Number of power cuts.
    pub cuts: u64,
    /// Number of NFSv4.2 clients; there is also one NBD client.
    pub clients: u64,
    /// zdb checks the pool after this many cuts.
    pub zdb_every: u64,
}

/// Properties that change while clients work.
const PROPERTIES: [(&str, &[&str]); 7] = [
    ("recordsize", &["4k", "16k", "128k"]),
    ("compression", &["off", "lz4", "zstd", "gzip-1"]),
    ("logbias", &["latency", "throughput"]),
    ("xattr", &["sa", "dir"]),
    ("sync", &["standard", "always"]),
    ("copies", &["1", "2"]),
    ("checksum", &["fletcher4", "sha256", "blake3"]),
];

impl Plan {
    /// Runs it. An error describes the failure.
    pub fn run(&self) -> Result<Totals> {
        let mut filer = Filer::create(&self.program, Server::Cut, self.layout, &self.folder, self.seed, "64M")?;
        filer.has_volume = true;
        filer.start()?;
        let (stop, promises) = (Arc::new(AtomicBool::new(false)), Arc::new(RwLock::new(true)));
        let mut totals = Totals::default();
        let mut clients: Vec<Box<dyn Client>> = vec![Box::new(volume::Volume::new(filer.nbd_socket(), self.seed))];
        for n in 0..self.clients {
            clients.push(Box::new(files::Files::new(filer.address, n, self.seed ^ (n + 1) << 32)));
        }
        let threads: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                let (stop, promises) = (stop.clone(), promises.clone());
                std::thread::spawn(move || {
                    let result = run(&mut *client, &stop, &promises);
                    (client, result)
                })
            })
            .collect();
        let result = self.cut_and_start(&mut filer, &threads, &promises, &mut totals);
        stop.store(true, Ordering::SeqCst);
        if let Err(error) = result {
            // The clients wait for a server that does not come back. Their errors are not the
            // cause.
            let ended = threads.into_iter().filter(|t| t.is_finished());
            let messages: Vec<String> = ended.filter_map(|t| Some(format!("{:#}", t.join().ok()?.1.err()?))).collect();
            filer.kill().ok();
            return Err(error.context(format!("clients: {messages:#?}")));
        }
        let mut clients = Vec::new();
        for thread in threads {
            let (client, result) = thread.join().map_err(|_| anyhow!("a client panicked"))?;
            result.with_context(|| self.at(self.cuts))?;
            clients.push(client);
        }
        // Another run with a clean end: nothing of the previous ones may be left over.
        filer.end()?;
        filer.verify().context("exported")?;
        filer.zdb().context("exported")?;
        totals.zdb += 1;
        filer.start()?;
        for client in &mut clients {
            client.forget();
            match client.begin() {
                Ok(()) => totals.add(client.totals()),
                Err(Failure::Lost) => bail!("the server is gone"),
                Err(Failure::Wrong(e)) => return Err(e.context("after a clean stop")),
            }
        }
        filer.end()?;
        filer.check_log()?;
        Ok(totals)
    }

    fn at(&self, round: u64) -> String {
        format!("layout {} seed {} round {round}", self.layout.name, self.seed)
    }

    fn cut_and_start<T>(
        &self,
        filer: &mut Filer,
        threads: &[std::thread::JoinHandle<T>],
        promises: &RwLock<bool>,
        totals: &mut Totals,
    ) -> Result<()> {
        for round in 0..self.cuts {
            let (mut chance, at) = (Chance::of_case(self.seed, round), || self.at(round));
            let work = if chance.once_in(8) { chance.below(5000) } else { 100 + chance.below(1000) };
            let until = Instant::now() + Duration::from_millis(work);
            while Instant::now() < until {
                let pause = Duration::from_millis(chance.below(150));
                std::thread::sleep(pause.min(until.saturating_duration_since(Instant::now())));
                if threads.iter().any(std::thread::JoinHandle::is_finished) {
                    bail!("{}: a client gave up", at());
                }
                self.change(filer, &mut chance, promises).with_context(at)?;
                totals.properties += 1;
            }
            filer.check_alive().with_context(at)?;
            filer.kill()?;
            totals.cuts.0 += 1;
            let judged = filer.judge_remains(&mut chance, round, self.zdb_every).with_context(at)?;
            totals.zdb += u64::from(judged.by_zdb);
            totals.cuts.1 += u64::from(judged.was_killed_again);
            filer.start().with_context(at)?;
            if !*promises.read() {
                self.promise(filer, promises).with_context(at)?;
            }
        }
        // Time to finish operations in progress.
        std::thread::sleep(Duration::from_millis(300));
        if *promises.read() { Ok(()) } else { self.promise(filer, promises) }
    }

    /// Changes a property during operation.
    fn change(&self, filer: &mut Filer, chance: &mut Chance, promises: &RwLock<bool>) -> Result<()> {
        if !*promises.read() {
            return self.promise(filer, promises);
        }
        if chance.once_in(6) {
            // An acknowledgement from before the change must not be taken for one from after it.
            let mut promises = promises.write();
            *promises = false;
            return filer.set("sync", "disabled");
        }
        let (name, values) = *chance.pick(&PROPERTIES).context("properties")?;
        filer.set(name, chance.pick(values).context("values")?)
    }

    /// From the return of the command on, acknowledgements guarantee durability.
    fn promise(&self, filer: &mut Filer, promises: &RwLock<bool>) -> Result<()> {
        filer.set("sync", "standard")?;
        *promises.write() = true;
        Ok(())
    }
}
