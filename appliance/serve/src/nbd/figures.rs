//! Statistics of the NBD server: requests by type with latencies, bytes, and an event for each
//! request.

use super::proto::Command;
use host::clock::nanoseconds;
use observe::event::note;
use observe::{Collector, Counter, Event, Events, Histogram, Info, Layer, Source, Unit};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

static TIME: Info = Info {
    name: "nbd_request_time",
    unit: Unit::Nanoseconds,
    help: "Duration of requests from NBD clients; the count is the number of requests.",
};
static READ: Info = Info { name: "nbd_read", unit: Unit::Bytes, help: "Bytes of volumes sent to NBD clients." };
static WRITTEN: Info =
    Info { name: "nbd_written", unit: Unit::Bytes, help: "Bytes of volumes received from NBD clients." };
static MEMORY: Info = Info {
    name: "nbd_memory",
    unit: Unit::Bytes,
    help: "Memory used by NBD requests in progress and by replies that are not yet sent.",
};
static CONNECTIONS: Info = Info { name: "nbd_connections", unit: Unit::Number, help: "Connections of NBD clients." };

/// Statistics of one server.
pub struct Figures {
    times: Vec<Histogram>,
    read: Counter,
    written: Counter,
    pub(super) connections: AtomicU64,
    pub(super) memory: Arc<AtomicUsize>,
    events: OnceLock<Arc<Events>>,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            times: Layer::Nbd.operations().iter().map(|_| Histogram::default()).collect(),
            read: Counter::default(),
            written: Counter::default(),
            connections: AtomicU64::new(0),
            memory: Arc::default(),
            events: OnceLock::new(),
        }
    }
}

/// The client and the volume of a request, as numbers of [`observe::event::Names`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Names {
    pub client: u32,
    pub place: u32,
}

impl Figures {
    /// Starts recording each request in `events`. Only the first call has an effect.
    pub fn record_to(&self, events: Arc<Events>) {
        let _ = self.events.set(events);
    }

    fn events(&self) -> Option<&Arc<Events>> {
        self.events.get().filter(|events| events.is_on())
    }

    /// The numbers of a client and a volume, if requests are recorded.
    pub(super) fn names(&self, client: &str, volume: &str) -> Names {
        match self.events.get() {
            Some(events) => Names { client: events.clients.number(client), place: events.places.number(volume) },
            None => Names::default(),
        }
    }

    /// Records a request that was answered, with the notes of this thread.
    pub(super) fn answered(&self, names: Names, what: &Answered) {
        let code = what.command.code();
        if let Some(times) = self.times.get(usize::from(code)) {
            times.record(what.latency_ns);
        }
        let bytes = u64::from(what.length);
        match what.command {
            Command::Read if what.errno == 0 => self.read.add(bytes),
            Command::Write if what.errno == 0 => self.written.add(bytes),
            _ => {}
        }
        let Some(events) = self.events() else { return };
        let mut note = note::take();
        (note.place, note.object) = (names.place, 1);
        // Trims, zeros and block status transfer no data.
        let passes = matches!(what.command, Command::Read | Command::Write);
        (note.offset, note.size) = (what.offset, if passes { what.length } else { 0 });
        note.result = u16::try_from(what.errno).unwrap_or(u16::MAX);
        note.queue_wait = u32::try_from(what.waited_ns / 1000).unwrap_or(u32::MAX);
        events.record(Event {
            done: nanoseconds(),
            latency: what.latency_ns,
            layer: Layer::Nbd,
            op: code,
            client: names.client,
            user: 0,
            note,
        });
    }
}

/// A request that was answered.
pub(super) struct Answered {
    pub command: Command,
    pub offset: u64,
    pub length: u32,
    /// 0, or the error number.
    pub errno: u32,
    pub latency_ns: u64,
    /// The part of the latency that the request spent in a queue.
    pub waited_ns: u64,
}

impl Source for Figures {
    fn collect(&self, out: &mut Collector<'_>) {
        for (name, times) in Layer::Nbd.operations().iter().zip(&self.times).filter(|(_, t)| t.count() > 0) {
            out.histogram(&TIME, &[("operation", *name)], times);
        }
        out.counter(&READ, &[], &self.read);
        out.counter(&WRITTEN, &[], &self.written);
        out.put(&CONNECTIONS, &[], observe::Value::Level(self.connections.load(Ordering::Relaxed)));
        let memory = self.memory.load(Ordering::Relaxed);
        out.put(&MEMORY, &[], observe::Value::Level(memory as u64));
    }
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Figures").finish_non_exhaustive()
    }
}
