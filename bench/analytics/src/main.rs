//! What does Analytics cost per operation? Nanoseconds of CPU time, on the thread that answers it
//! and on the one that counts.
//!
//!   cargo run --release -p weir-bench-analytics
//!
//! NFSv3 reads of 4 KiB from memory, by 8 clients from 50 files: as many as fast servers handle, in
//! turns of a tenth of a second. CPU time of the thread rather than wall-clock time, so that other
//! work on the machine has little influence. Each figure is the median of [`ROUNDS`], with the
//! minimum and maximum. `weir analytics overhead` measures the same on a running daemon, as seen by
//! clients.

use analytics::engine::{Config, Engine, Resolver, Retention};
use observe::event::{Event, Events, Layer, Lookups, note};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;

const ROUNDS: usize = 7;
/// Events per turn: 200,000 a second.
const EVENTS: u64 = 20_000;
const TURNS: u64 = 40;
const SECOND: u64 = 1_000_000_000;

/// Every breakdown of NFS by name, and the three heat maps.
const ALL: &[&str] = &[
    "nfs3.ops[op]",
    "nfs3.ops[client]",
    "nfs3.ops[file]",
    "nfs3.ops[share]",
    "nfs3.ops[user]",
    "nfs3.ops[latency]",
    "nfs3.ops[size]",
    "nfs3.ops[offset]",
];

struct Plain;

impl Resolver for Plain {
    fn file(&self, _dataset: &str, object: u64) -> Option<String> {
        Some(format!("/file{object}"))
    }

    fn user(&self, id: u32) -> Option<String> {
        Some(format!("user{id}"))
    }
}

/// CPU time used by this thread, in nanoseconds.
fn spent() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * SECOND + t.tv_nsec as u64
}

/// xorshift64*.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20
    }
}

/// A read, noted and recorded as `serve::nfs` does.
fn read(events: &Events, noise: &mut Noise, clients: &[u32], place: u32, done: u64) {
    let n = noise.next();
    note::clear();
    note::file(place, 10 + n % 50);
    note::span(n / 50 % 256 * 4096, 4096);
    note::change(|note| note.cache = Lookups { data_hits: 1, ..Lookups::default() });
    let client = clients[(n / 7 % clients.len() as u64) as usize];
    let latency = 8_000 + n % 30_000;
    events.record(Event { done, latency, layer: Layer::Nfs3, op: 6, client, user: 1000, note: note::take() });
}

struct Cost {
    record: f64,
    count: f64,
}

fn measure(names: &[&str], ring: u64, on: bool) -> Cost {
    let folder = tempfile::tempdir().expect("a folder");
    let events = Arc::new(Events::new(4, 1 << 20));
    let config = Config { folder: Some(folder.path().to_owned()), ring, retention: Retention::default() };
    let engine = Engine::open(&config, events.clone(), Arc::new(Plain), Vec::new()).expect("it opens");
    for name in names {
        engine.count(&name.parse().expect("a name"), true).expect("counted");
    }
    events.switch(on);
    let clients: Vec<u32> = (1..=8).map(|n| events.clients.number(&format!("10.0.0.{n}"))).collect();
    let place = events.places.number("tank/home");
    let mut noise = Noise(42);
    let (mut record, mut count) = (0, 0);
    let start = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    for turn in 0..TURNS {
        let now = start + turn * SECOND / 10;
        let before = spent();
        for n in 0..EVENTS {
            read(&events, &mut noise, &clients, place, now + n * (SECOND / 10) / EVENTS);
        }
        let between = spent();
        engine.turn(now + SECOND / 10);
        record += between - before;
        count += spent() - between;
    }
    black_box(&engine);
    let each = |n: u64| n as f64 / (EVENTS * TURNS) as f64;
    Cost { record: each(record), count: each(count) }
}

fn main() {
    type Case = (&'static str, Vec<&'static str>, u64, bool);
    let cases: [Case; 4] = [
        ("off", Vec::new(), 0, false),
        ("default", Vec::new(), 0, true),
        ("default and recorder", Vec::new(), 256 << 20, true),
        ("everything", ALL.to_vec(), 256 << 20, true),
    ];
    println!("ns of processor time an operation, median (least..most) of {ROUNDS} rounds, interleaved");
    let mut found: Vec<Vec<Cost>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (all, (_, names, ring, on)) in found.iter_mut().zip(&cases) {
            all.push(measure(names, *ring, *on));
        }
    }
    println!("{:<22} {:>22} {:>22}", "", "recording, reporting", "counting");
    for ((name, ..), all) in cases.iter().zip(&found) {
        let text = |of: fn(&Cost) -> f64| {
            let mut all: Vec<f64> = all.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            format!("{:.1} ({:.1}..{:.1})", all[ROUNDS / 2], all[0], all[ROUNDS - 1])
        };
        println!("{name:<22} {:>22} {:>22}", text(|c| c.record), text(|c| c.count));
    }
}
