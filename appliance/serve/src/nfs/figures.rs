//! Statistics of the NFS server: calls and latencies by procedure, bytes, and the same by client.

use host::clock::nanoseconds;
use observe::event::note;
use observe::{Collector, Counter, Event, Events, Histogram, Info, Layer, Source, Unit};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

static TIME: Info = Info {
    name: "nfs_call_time",
    unit: Unit::Nanoseconds,
    help: "Duration of calls of NFS and its side protocols; the count is the number of calls.",
};
static READ: Info = Info { name: "nfs_read", unit: Unit::Bytes, help: "Bytes of files sent to NFS clients." };
static WRITTEN: Info =
    Info { name: "nfs_written", unit: Unit::Bytes, help: "Bytes of files received from NFS clients." };
static MEMORY: Info = Info {
    name: "nfs_memory",
    unit: Unit::Bytes,
    help: "Memory used by calls that are not yet answered and by replies that are not yet sent.",
};
static REFUSED: Info = Info {
    name: "nfs_refused",
    unit: Unit::Number,
    help: "Requests and connections of clients that were refused because a table of the server was full.",
};
static CONNECTIONS: Info = Info { name: "nfs_connections", unit: Unit::Number, help: "Connections of NFS clients." };

/// Maximum number of remembered clients. Above it, clients that are not connected are dropped, the
/// oldest first.
const CLIENTS_MAX: usize = 1024;

/// Versions of NFS, as clients are listed with them.
const PROTOCOLS: [&str; 4] = ["nfs3", "nfs4.0", "nfs4.1", "nfs4.2"];

/// Table that was full when a client was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Clients of NFSv4.
    Clients,
    /// Sessions of NFSv4.1 and 4.2.
    Sessions,
    /// Open and lock owners of NFSv4.0.
    Owners,
    /// Opens and locks of NFSv4.
    Opens,
    /// Connections.
    Connections,
}

impl Refusal {
    pub const ALL: [Self; 5] = [Self::Clients, Self::Sessions, Self::Owners, Self::Opens, Self::Connections];

    /// Name of the table, as the label of the metric.
    pub fn table(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Sessions => "sessions",
            Self::Owners => "owners",
            Self::Opens => "opens",
            Self::Connections => "connections",
        }
    }
}

/// Refusals because of one table.
#[derive(Default)]
struct Refused {
    count: Counter,
    last: AtomicU64,
}

/// Statistics of one client.
#[derive(Default)]
pub struct ClientFigures {
    /// Calls of all programs.
    pub calls: Counter,
    /// Bytes of files read by the client, without the overhead of the protocol.
    pub read: Counter,
    /// Bytes of files written by the client, without the overhead of the protocol.
    pub written: Counter,
    /// Network bytes received from the client.
    pub received: Counter,
    /// Network bytes sent to the client.
    pub sent: Counter,
    /// Bit n: the client used `PROTOCOLS[n]`.
    protocols: AtomicU8,
    connections: AtomicU64,
    number: AtomicU32,
    last_seen: AtomicU64,
}

impl ClientFigures {
    /// Records that the client used NFS version 3.
    pub(super) fn used_v3(&self) {
        self.used(0);
    }

    /// Records that the client used NFS version 4 with this minor version.
    pub(super) fn used_v4(&self, minor: u32) {
        self.used(minor + 1);
    }

    fn used(&self, nth: u32) {
        let bit = 1 << nth;
        if self.protocols.load(Ordering::Relaxed) & bit == 0 {
            self.protocols.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn protocols(&self) -> Vec<&'static str> {
        let used = self.protocols.load(Ordering::Relaxed);
        PROTOCOLS.iter().enumerate().filter(|(nth, _)| used & 1 << nth != 0).map(|(_, name)| *name).collect()
    }
}

/// Statistics of one client, as totals. Rates are differences of two samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    pub address: IpAddr,
    /// Versions of NFS that the client has used: `nfs3`, `nfs4.0`, `nfs4.1`, `nfs4.2`.
    pub protocols: Vec<&'static str>,
    /// Current number of connections.
    pub connections: u64,
    /// Calls of all programs so far.
    pub calls: u64,
    /// File bytes read so far.
    pub read_bytes: u64,
    /// File bytes written so far.
    pub written_bytes: u64,
    /// Network bytes received from the client so far.
    pub received_bytes: u64,
    /// Network bytes sent to the client so far.
    pub sent_bytes: u64,
    /// When the client last connected or disconnected, in seconds since 1970.
    pub last_seen_seconds: u64,
}

struct ProgramTimes {
    program: &'static str,
    version: u32,
    procedures: &'static [&'static str],
    times: Vec<Histogram>,
}

/// Statistics of one server.
#[derive(Default)]
pub struct Figures {
    programs: Mutex<Vec<Arc<ProgramTimes>>>,
    /// File bytes read by clients.
    pub read: Counter,
    /// File bytes written by clients.
    pub written: Counter,
    clients: Mutex<HashMap<IpAddr, Arc<ClientFigures>>>,
    events: OnceLock<Arc<Events>>,
    /// By table, in the order of [`Refusal::ALL`].
    refused: [Refused; Refusal::ALL.len()],
    /// Memory used by calls and by answers. The transport updates it.
    pub(super) calls_memory: Arc<AtomicUsize>,
    pub(super) answers_memory: Arc<AtomicUsize>,
}

/// Latencies of one version of a program.
#[derive(Clone)]
pub struct Times(Arc<ProgramTimes>);

impl Times {
    /// Records a call that took `ns` nanoseconds.
    pub fn record(&self, procedure: u32, ns: u64) {
        if let Some(times) = self.0.times.get(procedure as usize) {
            times.record(ns);
        }
    }
}

impl Figures {
    /// The latencies of a program's procedures; creates them if necessary.
    pub fn times(&self, name: &'static str, version: u32, procedures: &'static [&'static str]) -> Times {
        let mut programs = self.programs.lock();
        if let Some(known) = programs.iter().find(|p| (p.program, p.version) == (name, version)) {
            return Times(known.clone());
        }
        let times = procedures.iter().map(|_| Histogram::default()).collect();
        let new = Arc::new(ProgramTimes { program: name, version, procedures, times });
        programs.push(new.clone());
        Times(new)
    }

    /// Starts recording each call in `events`. Only the first call has an effect.
    pub fn record_to(&self, events: Arc<Events>) {
        for (address, client) in &*self.clients.lock() {
            client.number.store(events.clients.number(&address.to_string()), Ordering::Relaxed);
        }
        let _ = self.events.set(events);
    }

    /// Where to record calls, if recording is on.
    pub(super) fn events(&self) -> Option<&Arc<Events>> {
        self.events.get().filter(|events| events.is_on())
    }

    /// Records an operation that was answered, with the notes of this thread.
    pub(super) fn record_call(events: &Events, layer: Layer, op: u32, client: &ClientFigures, user: u32, latency: u64) {
        events.record(Event {
            done: nanoseconds(),
            latency,
            layer,
            op: u8::try_from(op).unwrap_or(u8::MAX),
            client: client.number.load(Ordering::Relaxed),
            user,
            note: note::take(),
        });
    }

    /// Notes which file an operation accesses. `dataset` is the name of the file system `guid`.
    pub(super) fn note_file(&self, guid: u64, dataset: &str, object: u64) {
        thread_local! {
            /// The dataset of the last operation, which is usually that of the next one too.
            static LAST: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
        }
        let Some(events) = self.events() else { return };
        let (last, mut number) = LAST.get();
        if last != guid || number == 0 {
            number = events.places.number(dataset);
            LAST.set((guid, number));
        }
        note::file(number, object);
    }

    /// Records that a client was refused.
    pub(super) fn refuse(&self, table: Refusal) {
        let Some(refused) = self.refused.get(table as usize) else { return };
        refused.count.increment();
        refused.last.store(host::clock::seconds(), Ordering::Relaxed);
    }

    /// For each table, how often clients were refused since the server started, and when that last
    /// happened, in seconds since 1970; 0: never.
    pub fn refusals(&self) -> [(Refusal, u64, u64); Refusal::ALL.len()] {
        Refusal::ALL.map(|table| {
            let refused = self.refused.get(table as usize);
            refused.map_or((table, 0, 0), |r| (table, r.count.get(), r.last.load(Ordering::Relaxed)))
        })
    }

    /// Records that a client has connected.
    pub(super) fn connected(&self, address: IpAddr) -> Arc<ClientFigures> {
        let mut clients = self.clients.lock();
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(&address) {
            let idle = clients.iter().filter(|(_, c)| c.connections.load(Ordering::Relaxed) == 0);
            let oldest = idle.min_by_key(|(_, c)| c.last_seen.load(Ordering::Relaxed)).map(|(a, _)| *a);
            if let Some(oldest) = oldest {
                clients.remove(&oldest);
            }
        }
        let client = clients.entry(address).or_default().clone();
        if let Some(events) = self.events.get().filter(|_| client.number.load(Ordering::Relaxed) == 0) {
            client.number.store(events.clients.number(&address.to_string()), Ordering::Relaxed);
        }
        client.connections.fetch_add(1, Ordering::Relaxed);
        client.last_seen.store(host::clock::seconds(), Ordering::Relaxed);
        client
    }

    /// Records that one of the client's connections was closed.
    pub(super) fn gone(&self, client: &ClientFigures) {
        client.connections.fetch_sub(1, Ordering::Relaxed);
        client.last_seen.store(host::clock::seconds(), Ordering::Relaxed);
    }

    /// All remembered clients, by address.
    pub fn clients(&self) -> Vec<ClientInfo> {
        let clients = self.clients.lock();
        let mut all: Vec<_> = clients
            .iter()
            .map(|(address, c)| ClientInfo {
                address: *address,
                protocols: c.protocols(),
                connections: c.connections.load(Ordering::Relaxed),
                calls: c.calls.get(),
                read_bytes: c.read.get(),
                written_bytes: c.written.get(),
                received_bytes: c.received.get(),
                sent_bytes: c.sent.get(),
                last_seen_seconds: c.last_seen.load(Ordering::Relaxed),
            })
            .collect();
        all.sort_by_key(|c| c.address);
        all
    }
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Figures").finish_non_exhaustive()
    }
}

impl Source for Figures {
    fn collect(&self, out: &mut Collector<'_>) {
        for program in self.programs.lock().iter() {
            let version = program.version.to_string();
            for (procedure, times) in program.procedures.iter().zip(&program.times).filter(|(_, t)| t.count() > 0) {
                let labels = [("program", program.program), ("version", version.as_str()), ("procedure", *procedure)];
                out.histogram(&TIME, &labels, times);
            }
        }
        out.counter(&READ, &[], &self.read);
        out.counter(&WRITTEN, &[], &self.written);
        for (table, refused) in Refusal::ALL.into_iter().zip(&self.refused) {
            out.counter(&REFUSED, &[("table", table.table())], &refused.count);
        }
        let connections = self.clients.lock().values().map(|c| c.connections.load(Ordering::Relaxed)).sum();
        out.put(&CONNECTIONS, &[], observe::Value::Level(connections));
        let memory = [&self.calls_memory, &self.answers_memory].map(|bytes| bytes.load(Ordering::Relaxed) as u64);
        out.put(&MEMORY, &[], observe::Value::Level(memory.iter().sum()));
    }
}
