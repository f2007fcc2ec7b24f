//! Malformed calls over the network: valid calls of all programs in which values are changed,
//! truncated, duplicated or have a wrong length; also RPC headers, credentials and record marks.
//! Values from answers (file handles, stateids, sessions) are used in later calls.
//!
//! Correct behaviour: the server sends an RPC reply or closes the connection; it stays alive,
//! answers other clients and respects its memory limit. Each connection's sending side is closed
//! after its calls, so a server that has answered everything closes it: a connection that stays
//! open hangs.

mod grammar;

use crate::{Filer, Server};
use anyhow::{Context, Result, anyhow, bail, ensure};
use crash::Layout;
use grammar::{Found, Maker, Value};
use load::nfs::{self as client, Connection, PATIENCE, procedure as p};
use parking_lot::Mutex;
use rig::Chance;
use serve::nfs::xdr::{Reader, Writer};
use std::fmt;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
/// Size of the block cache.
const CACHE: (&str, u64) = ("32M", 32 << 20);
/// Memory that the server may use in addition to its cache: changes that wait for a txg, calls in
/// progress, code.
const BEYOND_BYTES: u64 = 300 << 20;

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// This crate's own program.
    pub program: PathBuf,
    pub server: Server,
    /// Directory for the pool.
    pub folder: PathBuf,
    /// Seed of all random choices. The interleaving of threads is not reproducible.
    pub seed: u64,
    pub time: Duration,
    /// Where to save the bytes of the last connections after a failure.
    pub keep: Option<PathBuf>,
}

/// Results of a run.
#[derive(Debug, Default)]
pub struct Report {
    seconds: u64,
    seed: u64,
    connections: AtomicU64,
    calls: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
    closed: AtomicU64,
    slowest_ms: u64,
    memory: (u64, u64, u64),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let (first, last, most) = self.memory;
        write!(
            f,
            "mutate: seed {}, {} s: {} calls over {} connections; {} answered, {} refused, {} connections closed before all was answered; \
             others were answered within {} ms; memory {} MiB after a while, {} at the end, {} at most",
            self.seed,
            self.seconds,
            n(&self.calls),
            n(&self.connections),
            n(&self.done),
            n(&self.refused),
            n(&self.closed),
            self.slowest_ms,
            first >> 20,
            last >> 20,
            most >> 20
        )
    }
}

/// Changes, adds, removes, repeats or swaps values, at random.
fn mutate(values: &mut Vec<Value>, chance: &mut Chance) {
    let n = chance.below(values.len() as u64 + 1) as usize;
    let number = |chance: &mut Chance| match chance.below(5) {
        0 => u64::MAX - chance.below(3),
        1 => 1 << chance.below(64),
        2 => (1 << chance.below(64)) - 1,
        3 => chance.below(8),
        _ => chance.next(),
    };
    let Some(value) = values.get_mut(n) else {
        let len = chance.below(40) as usize;
        return values.push(Value::Fixed(chance.bytes(len)));
    };
    match chance.below(8) {
        0 => drop(values.remove(n)),
        1 => {
            let again = value.clone();
            values.insert(n, again);
        }
        2 => values.truncate(n),
        3 => {
            let other = chance.below(values.len() as u64) as usize;
            values.swap(n, other);
        }
        _ => match value {
            Value::U32(v) => *v = number(chance) as u32,
            Value::U64(v) => *v = number(chance),
            Value::Opaque(bytes) | Value::Fixed(bytes) | Value::Lie(_, bytes) => match chance.below(6) {
                0 => bytes.clear(),
                1 => {
                    let len = [16, 44, 63, 64, 65, 128, 255, 256, 1024, 1025, 4096, 70_000][chance.below(12) as usize];
                    bytes.resize(len, b'x');
                }
                2 => {
                    let len = bytes.len();
                    let lie = if chance.once_in(2) {
                        number(chance) as u32
                    } else {
                        (len as u32).wrapping_add(chance.below(9) as u32).wrapping_sub(4)
                    };
                    *value = Value::Lie(lie, std::mem::take(bytes));
                }
                _ if !bytes.is_empty() => {
                    let at = chance.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << chance.below(8);
                }
                _ => bytes.push(0),
            },
        },
    }
}

/// Generates one connection: its bytes, the number of its calls, and whether its records are framed
/// correctly.
fn connection(chance: &mut Chance, found: &mut Found) -> (Vec<u8>, u64, bool) {
    let (mut bytes, mut is_framed) = (Vec::new(), true);
    let count = 1 + chance.below(30);
    for _ in 0..count {
        let ((mut program, mut version, mut procedure), mut values) = Maker { chance, found }.call();
        if !chance.once_in(3) {
            for _ in 0..=chance.below(3) {
                mutate(&mut values, chance);
            }
        }
        match chance.below(60) {
            0 => program = program.wrapping_add(chance.below(5) as u32),
            1 => version = chance.below(9) as u32,
            2 => procedure = chance.next() as u32,
            _ => {}
        }
        let mut w = Writer::new();
        if chance.once_in(15) {
            // A mutated RPC header.
            let mut head: Vec<Value> =
                [client::next_xid(), 0, 2, program, version, procedure, 1].map(Value::U32).to_vec();
            let mut credential = Writer::new();
            credential.u32(0);
            credential.opaque(b"wire");
            [0, 0, 2, 1, 2].iter().for_each(|n| credential.u32(*n));
            head.extend([Value::Opaque(credential.to_vec()), Value::U32(0), Value::Opaque(Vec::new())]);
            mutate(&mut head, chance);
            grammar::write(&head, &mut w);
        } else {
            client::put_head(&mut w, client::next_xid(), (program, version, procedure));
        }
        grammar::write(&values, &mut w);
        let mut record = w.to_vec();
        if chance.once_in(10) && !record.is_empty() {
            for _ in 0..=chance.below(4) {
                let at = chance.below(record.len() as u64) as usize;
                record[at] ^= 1 << chance.below(8);
            }
        }
        match chance.below(40) {
            // Split into fragments, one of them empty.
            0 => {
                let (head, tail) = record.split_at(chance.below(record.len() as u64 + 1) as usize);
                for (part, last) in [(head, 0), (&[][..], 0), (tail, 1 << 31)] {
                    bytes.extend((part.len() as u32 | last).to_be_bytes());
                    bytes.extend(part);
                }
            }
            1 => {
                is_framed = false;
                bytes.extend((chance.next() as u32).to_be_bytes());
                bytes.extend(record);
            }
            _ => {
                bytes.extend((record.len() as u32 | 1 << 31).to_be_bytes());
                bytes.extend(record);
            }
        }
    }
    if chance.once_in(20) {
        is_framed = false;
        let len = chance.below(bytes.len() as u64) as usize;
        bytes.truncate(len);
    }
    (bytes, count, is_framed)
}

/// Writes an initial corpus for fuzzing in one process (`fuzz/fuzz_targets/rpc.rs`): valid calls to
/// the tree of `serve::nfs::fuzz`.
pub fn seeds(folder: &std::path::Path, count: u64) -> Result<()> {
    use serve::nfs::fuzz::{mark, root_handle};
    std::fs::create_dir_all(folder)?;
    for n in 0..count {
        let mut chance = Chance::new(n);
        let client = u64::from_be_bytes(mark::CLIENT);
        let mut found = Found {
            handles: vec![root_handle()],
            states: vec![mark::STATE.to_vec()],
            clients: vec![(client, 1)],
            confirms: vec![(client, mark::CONFIRM.to_vec())],
            sessions: Vec::new(),
        };
        let mut calls = Vec::new();
        let mut maker = Maker { chance: &mut chance, found: &mut found };
        match n % 3 {
            // A 4.0 client, a client with a session, or version 3 only.
            0 => calls.extend([35, 36].map(|op| maker.alone(0, op))),
            1 => {
                calls.extend([42, 43].map(|op| maker.alone(1, op)));
                maker.found.sessions.push((mark::SESSION.to_vec(), 1));
            }
            _ => {}
        }
        calls.extend((0..12).map(|_| maker.call()));
        let mut bytes = Vec::new();
        for (xid, (call, values)) in (1..).zip(calls) {
            let mut w = Writer::new();
            client::put_head(&mut w, xid, call);
            grammar::write(&values, &mut w);
            bytes.extend((w.len() as u32 | 1 << 31).to_be_bytes());
            bytes.extend(w.to_vec());
        }
        std::fs::write(folder.join(format!("connection-{n}")), bytes)?;
    }
    Ok(())
}

struct Worker<'a> {
    address: SocketAddr,
    report: &'a Report,
    chance: Chance,
    found: Found,
    last: &'a Mutex<Vec<Vec<u8>>>,
}

impl Worker<'_> {
    fn work(&mut self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let (bytes, count, is_framed) = connection(&mut self.chance, &mut self.found);
            {
                let mut last = self.last.lock();
                last.push(bytes.clone());
                let len = last.len();
                if len > 50 {
                    last.remove(0);
                }
            }
            let answers = self.exchange(&bytes)?;
            self.report.connections.fetch_add(1, Ordering::Relaxed);
            self.report.calls.fetch_add(count, Ordering::Relaxed);
            let answered = self.judge(&answers)?;
            if is_framed && answered < count {
                self.report.closed.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Sends the bytes and reads until the server closes the connection.
    fn exchange(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut connection = Connection::open(self.address).context("connect")?;
        let stream = connection.stream();
        let mut other = stream.try_clone()?;
        let sending = bytes.to_vec();
        let pieces = 1 + self.chance.below(4) as usize;
        let sender = std::thread::spawn(move || {
            for piece in sending.chunks(sending.len().div_ceil(pieces).max(1)) {
                // The server may close the connection meanwhile.
                if other.write_all(piece).is_err() {
                    return;
                }
            }
            let _ = other.shutdown(Shutdown::Write);
        });
        let mut answers = Vec::new();
        let result = stream.read_to_end(&mut answers);
        let _ = sender.join();
        match result {
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                bail!("an idle connection is not closed within {PATIENCE:?}")
            }
            // A reset counts as closed.
            _ => Ok(answers),
        }
    }

    /// Checks that answers are RPC replies. Returns their number.
    fn judge(&mut self, mut rest: &[u8]) -> Result<u64> {
        let mut count = 0;
        while let Some((mark, behind)) = rest.split_first_chunk::<4>() {
            let mark = u32::from_be_bytes(*mark);
            let len = (mark & !(1 << 31)) as usize;
            // Closing a connection may truncate its last answer.
            let Some(record) = behind.get(..len) else { break };
            rest = &behind[len..];
            let mut r = Reader::new(record);
            let head = (|| Ok::<_, serve::nfs::xdr::Malformed>((r.u32()?, r.u32()?, r.u32()?, r.u32()?)))();
            match head {
                // A reply; or a callback of the server for a lock that was waited for.
                Ok((_, 1, 0 | 1, _)) => {}
                Ok((_, 0, 2, _)) => continue,
                _ => bail!("no answer of RPC: {record:02x?}"),
            }
            count += 1;
            let is_done = record.get(8..12) == Some(&[0; 4]) && record.get(20..24) == Some(&[0; 4]);
            let counter = if is_done { &self.report.done } else { &self.report.refused };
            counter.fetch_add(1, Ordering::Relaxed);
            self.found.harvest(&record[record.len().min(24)..]);
        }
        Ok(count)
    }
}

impl Plan {
    /// Runs it. An error describes the failure.
    pub fn run(&self) -> Result<Report> {
        let layout = Layout::find("single")?;
        let mut filer = Filer::create(&self.program, self.server.clone(), layout, &self.folder, self.seed, CACHE.0)?;
        filer.start()?;
        let root = client::mount(filer.address, crate::filer::SHARE)?;
        let mut report = Report { seconds: self.time.as_secs(), seed: self.seed, ..Report::default() };
        let (stop, last) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let (mut slowest, mut first) = (Duration::ZERO, 0);
        let result = std::thread::scope(|scope| -> Result<()> {
            let (stop, report, last, root) = (&stop, &report, &last, &root);
            let address = filer.address;
            let threads: Vec<_> = (0..THREADS)
                .map(|n| {
                    let found = Found { handles: vec![root.clone()], ..Found::default() };
                    let mut worker = Worker { address, report, chance: Chance::new(self.seed ^ n << 32), found, last };
                    scope.spawn(move || worker.work(stop))
                })
                .collect();
            let began = Instant::now();
            let mut watch = || -> Result<()> {
                while began.elapsed() < self.time && !threads.iter().any(|t| t.is_finished()) {
                    std::thread::sleep(Duration::from_millis(500).min(self.time));
                    filer.check_alive()?;
                    let sent = Instant::now();
                    Connection::open(address)?.call(p::GETATTR, &client::args(|w| w.opaque(root)))?;
                    slowest = slowest.max(sent.elapsed());
                    let (now, most) = filer.memory()?;
                    if began.elapsed() < self.time / 4 {
                        first = now;
                    }
                    ensure!(most <= CACHE.1 + BEYOND_BYTES, "the server used {} MiB", most >> 20);
                }
                Ok(())
            };
            let mut result = watch();
            stop.store(true, Ordering::Relaxed);
            for thread in threads {
                result = result.and(thread.join().map_err(|_| anyhow!("a thread of the judge panicked")).flatten());
            }
            result
        });
        let result = result.and_then(|()| filer.check_log());
        if let (Err(_), Some(to)) = (&result, &self.keep) {
            std::fs::create_dir_all(to)?;
            for (n, bytes) in last.lock().iter().enumerate() {
                std::fs::write(to.join(format!("connection-{n}")), bytes)?;
            }
            std::fs::write(to.join("log"), filer.log())?;
        }
        result.with_context(|| format!("seed {}", self.seed))?;
        report.slowest_ms = slowest.as_millis() as u64;
        let (now, most) = filer.memory()?;
        report.memory = (first, now, most);
        filer.end()?;
        filer.verify()?;
        filer.check_log()?;
        Ok(report)
    }
}
