//! Many clients at once: most connections send a call now and then, some always have several calls
//! in flight: cached reads, writes, COMMIT. Data that is read is compared with what was written.
//!
//! Every 4 KiB of a file contain the client, the position and the version. A read must return the
//! version that was last acknowledged when it was sent, or a later one. Latency is measured by the
//! client, from sending to the answer, and includes up to `clients * outstanding` calls that are
//! ahead in the queue.

use crate::{Filer, Server};
use anyhow::{Context, Result, anyhow, ensure};
use crash::Layout;
use load::nfs::{self as client, Connection, args, procedure as p};
use rig::Chance;
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// Blocks of each client's file: 50 files fit into the cache.
const BLOCKS: usize = 256;
/// Size of the block cache.
const CACHE: (&str, u64) = ("128M", 128 << 20);
/// Memory that the server may use in addition to its cache.
const BEYOND_BYTES: u64 = 200 << 20;

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// This crate's own program.
    pub program: PathBuf,
    pub server: Server,
    /// Directory for the pool.
    pub folder: PathBuf,
    pub time: Duration,
    /// Total number of connections.
    pub connections: usize,
    /// Number of connections that always have calls in flight.
    pub clients: usize,
    /// Number of calls in flight on each of them.
    pub outstanding: usize,
    pub reads_percent: u64,
}

/// Histogram of latencies, with [`STEPS`] steps per power of two.
#[derive(Clone)]
struct Waits(Vec<u64>);

const STEPS: usize = 32;

impl Waits {
    fn new() -> Self {
        Self(vec![0; 64 * STEPS])
    }

    fn add(&mut self, wait: Duration) {
        let us = (wait.as_micros() as u64).max(1);
        let power = us.ilog2() as usize;
        let step = ((us as u128 * STEPS as u128) >> power) as usize - STEPS;
        self.0[power * STEPS + step] += 1;
    }

    fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The time in microseconds within which `per_mille` of 1000 calls were answered.
    fn within(&self, per_mille: u64) -> u64 {
        let (wanted, mut seen) = (self.count() * per_mille / 1000, 0);
        for (i, count) in self.0.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return ((STEPS + i % STEPS + 1) as u64).wrapping_shl((i / STEPS) as u32) / STEPS as u64;
            }
        }
        0
    }
}

/// Results of a run.
pub struct Report {
    time: Duration,
    reads: Waits,
    writes: Waits,
    commits: Waits,
    seldom: u64,
    processor: Duration,
    first: u64,
    last: u64,
    most: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.time.as_secs_f64();
        for (name, w) in [("cached reads", &self.reads), ("writes", &self.writes), ("commits", &self.commits)] {
            let ms = |per_mille| w.within(per_mille) as f64 / 1000.0;
            writeln!(
                f,
                "{name:<12} {:>9}, {:>7.0} a second; half within {:.2} ms, 99 % {:.2} ms, 99.9 % {:.2} ms, all {:.2} ms",
                w.count(),
                w.count() as f64 / s,
                ms(500),
                ms(990),
                ms(999),
                ms(1000)
            )?;
        }
        writeln!(f, "{} calls over the other connections; {:.0} s", self.seldom, s)?;
        let mb = |b: u64| b as f64 / f64::from(1 << 20);
        write!(
            f,
            "server: {:.0} s of processor; memory {:.0} MiB at first, {:.0} at the end, {:.0} at most; cache {:.0}. No error, only written data was read",
            self.processor.as_secs_f64(),
            mb(self.first),
            mb(self.last),
            mb(self.most),
            mb(CACHE.1)
        )
    }
}

impl Report {
    /// Fails if memory exceeded its limit, or if 99.9 % of the cached reads took longer than
    /// `slowest_ms` milliseconds (unless that is 0).
    pub fn check(&self, slowest_ms: u64) -> Result<()> {
        ensure!(self.most <= CACHE.1 + BEYOND_BYTES, "the server used {} MiB", self.most >> 20);
        let slow = self.reads.within(999);
        ensure!(slowest_ms == 0 || slow <= slowest_ms * 1000, "99.9 % of the cached reads within {slow} us");
        Ok(())
    }
}

/// Contents of a block.
fn block(client: u64, number: u64, version: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK);
    [client, number, version].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
    let mut chance = Chance::new(client << 40 ^ number << 20 ^ version);
    bytes.extend(chance.bytes(BLOCK / 2 - 24));
    bytes.resize(BLOCK, version as u8);
    bytes
}

#[derive(Clone, Copy)]
enum Call {
    /// The block, and its acknowledged version when the read was sent.
    Read(u64, u64),
    Write(u64, u64),
    Commit,
}

struct Client {
    number: u64,
    connection: Connection,
    handle: Vec<u8>,
    /// Versions of each block: (acknowledged, last sent).
    versions: Vec<(u64, u64)>,
    /// Blocks with a write in flight.
    busy: Vec<bool>,
    pending: HashMap<u32, (Call, Instant)>,
    chance: Chance,
    waits: [Waits; 3],
}

impl Client {
    fn open(address: SocketAddr, root: &[u8], number: u64) -> Result<Self> {
        let mut connection = Connection::open(address)?;
        let name = format!("file{number}");
        let answer = connection.call(
            p::CREATE,
            &args(|w| {
                w.opaque(root);
                w.opaque(name.as_bytes());
                w.u32(0);
                (0..6).for_each(|_| w.u32(0));
            }),
        )?;
        let (status, mut r) = client::status(&answer)?;
        ensure!(status == 0, "CREATE returned {status}");
        let malformed = |_| anyhow!("CREATE answers without a handle");
        ensure!(r.bool().map_err(malformed)?, "CREATE answers without a handle");
        let handle = r.opaque(64).map_err(malformed)?.to_vec();
        let mut this = Self {
            number,
            connection,
            handle,
            versions: vec![(0, 0); BLOCKS],
            busy: vec![false; BLOCKS],
            pending: HashMap::new(),
            chance: Chance::new(number),
            waits: [Waits::new(), Waits::new(), Waits::new()],
        };
        for n in 0..BLOCKS as u64 {
            this.send_write(n)?;
            this.receive()?;
        }
        this.send(p::COMMIT, Call::Commit, |w| (0..3).for_each(|_| w.u32(0)))?;
        this.receive()?;
        this.waits = [Waits::new(), Waits::new(), Waits::new()];
        Ok(this)
    }

    fn send(&mut self, procedure: u32, call: Call, write: impl FnOnce(&mut serve::nfs::xdr::Writer)) -> Result<()> {
        let xid = client::next_xid();
        let args = args(|w| {
            w.opaque(&self.handle);
            write(w);
        });
        self.pending.insert(xid, (call, Instant::now()));
        Ok(self.connection.send(xid, procedure, &args)?)
    }

    fn send_write(&mut self, n: u64) -> Result<()> {
        let at = &mut self.versions[n as usize];
        at.1 += 1;
        let version = at.1;
        self.busy[n as usize] = true;
        let data = block(self.number, n, version);
        let stable = if version > 1 && self.chance.once_in(50) { 2 } else { 0 };
        self.send(p::WRITE, Call::Write(n, version), |w| {
            w.u64(n * BLOCK as u64);
            w.u32(BLOCK as u32);
            w.u32(stable);
            w.opaque(&data);
        })
    }

    fn ask(&mut self, reads_percent: u64) -> Result<()> {
        let n = self.chance.below(BLOCKS as u64);
        if self.chance.below(100) >= reads_percent && !self.busy[n as usize] {
            return self.send_write(n);
        }
        if self.chance.once_in(500) {
            return self.send(p::COMMIT, Call::Commit, |w| (0..3).for_each(|_| w.u32(0)));
        }
        let version = self.versions[n as usize].0;
        self.send(p::READ, Call::Read(n, version), |w| {
            w.u64(n * BLOCK as u64);
            w.u32(BLOCK as u32);
        })
    }

    fn receive(&mut self) -> Result<()> {
        let (xid, answer) = self.connection.receive()?;
        let (call, at) = self.pending.remove(&xid).context("a reply without a call")?;
        let wait = at.elapsed();
        let (status, mut r) = client::status(&answer)?;
        ensure!(status == 0, "client {}: status {status}", self.number);
        match call {
            Call::Commit => self.waits[2].add(wait),
            Call::Write(n, version) => {
                self.waits[1].add(wait);
                self.versions[n as usize].0 = version;
                self.busy[n as usize] = false;
            }
            Call::Read(n, version) => {
                self.waits[0].add(wait);
                let malformed = |_| anyhow!("READ returned {} truncated bytes", answer.len());
                client::optional_attributes(&mut r).map_err(malformed)?;
                let (count, _end) = (r.u32().map_err(malformed)?, r.bool().map_err(malformed)?);
                let data = r.opaque(1 << 20).map_err(malformed)?;
                ensure!(count as usize == BLOCK && data.len() == BLOCK, "READ returned {count} bytes");
                let found = u64::from_le_bytes(data[16..24].try_into()?);
                let newest = self.versions[n as usize].1;
                ensure!(
                    (version..=newest).contains(&found) && data == block(self.number, n, found),
                    "client {} block {n}: found version {found}, or bytes of none; {version} was acknowledged, {newest} sent",
                    self.number
                );
            }
        }
        Ok(())
    }

    fn work(&mut self, plan: &Plan, until: Instant) -> Result<()> {
        for _ in 0..plan.outstanding {
            self.ask(plan.reads_percent)?;
        }
        while Instant::now() < until {
            self.receive()?;
            self.ask(plan.reads_percent)?;
        }
        while !self.pending.is_empty() {
            self.receive()?;
        }
        Ok(())
    }
}

/// The connections with occasional calls: about one call per second each.
fn seldom(connections: &mut [Connection], root: &[u8], stop: &AtomicBool, calls: &AtomicU64) -> Result<()> {
    let args = args(|w| w.opaque(root));
    while !stop.load(Ordering::Relaxed) {
        for connection in connections.iter_mut() {
            let answer = connection.call(p::GETATTR, &args)?;
            let status = client::status(&answer)?.0;
            ensure!(status == 0, "GETATTR returned {status}");
            calls.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(())
}

impl Plan {
    /// Runs it. An error describes the failure.
    pub fn run(&self) -> Result<Report> {
        let layout = Layout::find("single")?;
        let mut filer = Filer::create(&self.program, self.server.clone(), layout, &self.folder, 1, CACHE.0)?;
        filer.start()?;
        let root = client::mount(filer.address, crate::filer::SHARE)?;
        let open = |n| Client::open(filer.address, &root, n);
        let mut clients = (0..self.clients as u64).map(open).collect::<Result<Vec<_>>>()?;
        let others = self.connections.saturating_sub(self.clients);
        let connect = |n| Connection::open(filer.address).with_context(|| format!("connection {n}"));
        let mut others = (0..others).map(connect).collect::<Result<Vec<_>>>()?;
        let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
        let (first, before) = (filer.memory()?.0, filer.processor_time()?);
        let began = Instant::now();
        let until = began + self.time;
        std::thread::scope(|scope| -> Result<()> {
            let (stop, calls, root) = (&stop, &calls, &root);
            let seldom = scope.spawn(move || seldom(&mut others, root, stop, calls));
            let threads: Vec<_> =
                clients.iter_mut().map(|client| scope.spawn(move || client.work(self, until))).collect();
            let mut result = Ok(());
            for thread in threads {
                let worked = thread.join().map_err(|_| anyhow!("a client panicked")).flatten();
                result = result.and(worked);
            }
            stop.store(true, Ordering::Relaxed);
            result.and(seldom.join().map_err(|_| anyhow!("a client panicked")).flatten())
        })?;
        let time = began.elapsed();
        let processor = filer.processor_time()? - before;
        let (last, most) = filer.memory()?;
        filer.end()?;
        filer.verify()?;
        filer.check_log()?;
        let mut all = [Waits::new(), Waits::new(), Waits::new()];
        for (sum, waits) in clients.iter().flat_map(|c| c.waits.iter().enumerate()) {
            all[sum].0.iter_mut().zip(&waits.0).for_each(|(a, b)| *a += b);
        }
        let [reads, writes, commits] = all;
        let seldom = calls.load(Ordering::Relaxed);
        Ok(Report { time, reads, writes, commits, seldom, processor, first, last, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_reported_to_three_percent() {
        let mut waits = Waits::new();
        (1..=1000).for_each(|ms| waits.add(Duration::from_millis(ms)));
        for per_mille in [500, 990, 999] {
            let (found, right) = (waits.within(per_mille), per_mille * 1000);
            assert!(found >= right && found <= right * 104 / 100, "{per_mille}: {found}");
        }
    }
}
