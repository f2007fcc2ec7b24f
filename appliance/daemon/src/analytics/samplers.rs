//! Values sampled each second: of the machine from /proc, of the pools from their own statistics.

use super::hostnames::Hostnames;
use crate::owner::Owner;
use admin::house::OwnedPool;
use analytics::name::Field;
use analytics::sampler::{Label, Sample, Sampler};
use block::Store;
use observe::Events;
use parking_lot::Mutex;
use pool::Writer;
use pool::writer::TxgStats;
use serve::nfs::{Figures, Refusal};
use std::collections::HashMap;
use std::fs::read_to_string;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Processors and network devices.
#[derive(Default)]
pub struct Machine {
    /// Ticks of each processor: user, system, idle (including waiting).
    ticks: HashMap<String, [u64; 3]>,
    /// Bytes of each device: in, out.
    bytes: HashMap<String, [u64; 2]>,
}

/// Name of each processor, and its ticks in user mode, in the kernel, and idle (proc_stat(5)).
fn processors(text: &str) -> Vec<(String, [u64; 3])> {
    let processor = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?.strip_prefix("cpu").filter(|n| !n.is_empty())?.to_owned();
        let n: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
        let at = |i: usize| n.get(i).copied().unwrap_or(0);
        // user nice system idle iowait irq softirq steal
        Some((name, [at(0) + at(1), at(2) + at(5) + at(6) + at(7), at(3) + at(4)]))
    };
    text.lines().filter_map(processor).collect()
}

/// Name of each device, and bytes in and out (proc_pid_net(5)).
fn devices(text: &str) -> Vec<(String, [u64; 2])> {
    let device = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let n: Vec<u64> = rest.split_ascii_whitespace().map_while(|w| w.parse().ok()).collect();
        Some((name.trim().to_owned(), [*n.first()?, *n.get(8)?]))
    };
    text.lines().filter_map(device).collect()
}

impl Sampler for Machine {
    fn sample(&mut self, out: &mut Vec<Sample>) {
        let now = processors(&read_to_string("/proc/stat").unwrap_or_default());
        // Shares are rounded so that all processors together give whole percents: each value
        // carries the rounding error of the previous ones.
        let count = now.len().max(1) as f64;
        let mut rounded = 0.0;
        let mut reported = 0;
        for (cpu, ticks) in now {
            let before = self.ticks.insert(cpu.clone(), ticks).unwrap_or(ticks);
            let spent: Vec<u64> = ticks.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
            let all = spent.iter().sum::<u64>().max(1) as f64;
            for (mode, ticks) in ["user", "kernel"].iter().zip(&spent) {
                rounded += *ticks as f64 / all * 100.0 / count;
                let value = (rounded.round() as u64).saturating_sub(reported);
                reported += value;
                out.push(Sample::new("cpu.utilization", &[(Field::Mode, mode), (Field::Cpu, &cpu)], value));
            }
        }
        for (device, bytes) in devices(&read_to_string("/proc/net/dev").unwrap_or_default()) {
            let before = self.bytes.insert(device.clone(), bytes).unwrap_or(bytes);
            for (n, direction) in ["in", "out"].iter().enumerate() {
                let grown = bytes.get(n).zip(before.get(n)).map_or(0, |(now, before)| now.saturating_sub(*before));
                let labels = [(Field::Device, device.as_str()), (Field::Direction, *direction)];
                out.push(Sample::new("nic.kilobytes", &labels, grown));
            }
        }
    }
}

/// Traffic of the NFS server's clients.
pub struct Network {
    /// Statistics of the server, once there is one.
    pub server: Arc<Mutex<Weak<Figures>>>,
    /// Bytes of each client: in, out.
    bytes: HashMap<IpAddr, [u64; 2]>,
    /// Refused clients of each table.
    refused: [u64; Refusal::ALL.len()],
    names: Hostnames,
}

impl Network {
    pub fn new(server: Arc<Mutex<Weak<Figures>>>) -> std::io::Result<Self> {
        Ok(Self {
            server,
            bytes: HashMap::new(),
            refused: Default::default(),
            names: Hostnames::start(host::names::of)?,
        })
    }
}

/// Growth of a counter. A counter that became smaller has restarted from 0.
fn grown(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

impl Sampler for Network {
    fn sample(&mut self, out: &mut Vec<Sample>) {
        let Some(figures) = self.server.lock().upgrade() else { return };
        for ((table, count, _), before) in figures.refusals().into_iter().zip(&mut self.refused) {
            let labels = [(Field::Component, table.table())];
            out.push(Sample::new("nfs.refused", &labels, grown(count, std::mem::replace(before, count))));
        }
        // Without clients the value is 0.
        out.push(Sample::new("ip.bytes", &[], 0));
        let mut bytes = HashMap::new();
        for client in figures.clients() {
            let now = [client.received_bytes, client.sent_bytes];
            let before = self.bytes.get(&client.address).copied().unwrap_or_default();
            bytes.insert(client.address, now);
            let address = client.address.to_string();
            let grown = [grown(now[0], before[0]), grown(now[1], before[1])];
            if grown == [0, 0] {
                continue;
            }
            let name = self.names.name(client.address).unwrap_or_else(|| address.clone());
            for (direction, grown) in ["in", "out"].into_iter().zip(grown) {
                let labels = [(Field::Hostname, &*name), (Field::Client, &*address), (Field::Direction, direction)];
                out.push(Sample::new("ip.bytes", &labels, grown));
            }
        }
        self.bytes = bytes;
    }
}

/// Counts of a pool's cache devices that are reported as changes.
#[derive(Clone, Copy, Default)]
struct CacheDeviceCounts {
    hits: u64,
    misses: u64,
    written_bytes: u64,
    read_bytes: u64,
    errors: u64,
}

/// Caches, space, txgs and devices of the open pools.
pub struct Pools {
    owner: Weak<Owner>,
    events: Arc<Events>,
    busy: HashMap<(u64, u64), u64>,
    /// By pool: its last txg, and the bytes that its cache had evicted.
    seen: HashMap<u64, (u64, [u64; 2])>,
    /// By pool: previous counts of its cache devices.
    second: HashMap<u64, CacheDeviceCounts>,
    last: Instant,
}

impl Pools {
    pub fn new(owner: &Arc<Owner>, events: &Arc<Events>) -> Self {
        let (busy, seen, second) = Default::default();
        Self { owner: Arc::downgrade(owner), events: events.clone(), busy, seen, second, last: Instant::now() }
    }
}

/// Makes the devices and intent logs of a pool send events. Those that already do are not changed.
pub fn listen(pool: &OwnedPool, events: &Arc<Events>) {
    let name = pool.name();
    pool.store().tree().all_leaves().for_each(|leaf| leaf.record_to(events, &name));
    if let Some(writable) = pool.writable() {
        writable.live.record_to(events, &name);
    }
}

/// Samples the contents of a pool's cache and its evictions since `evicted`. Returns the total
/// evictions.
fn cache(name: &str, store: &Store, evicted: [u64; 2], out: &mut Vec<Sample>) -> [u64; 2] {
    let pool = (Field::Pool, name);
    let now = store.cache().counters();
    let data = now.size_bytes - now.metadata_bytes;
    for (component, bytes) in [("data", data), ("metadata", now.metadata_bytes), ("headers", now.header_bytes)] {
        out.push(Sample::new("arc.size", &[(Field::Component, component), pool], bytes));
    }
    out.push(Sample::new("arc.target", &[pool], now.cap_bytes));
    for (component, (now, before)) in ["data", "metadata"].into_iter().zip(now.evicted_bytes.into_iter().zip(evicted)) {
        out.push(Sample::new("arc.evicted", &[(Field::Component, component), pool], grown(now, before)));
    }
    now.evicted_bytes
}

/// Samples the cache devices of a pool: contents, and changes since `before`. Returns the current
/// counts. Nothing is sampled for a pool without cache devices.
fn second(name: &str, store: &Store, before: CacheDeviceCounts, out: &mut Vec<Sample>) -> CacheDeviceCounts {
    let figures = store.second().figures();
    let now = CacheDeviceCounts {
        hits: figures.hits,
        misses: figures.misses,
        written_bytes: figures.written_bytes,
        read_bytes: figures.read_bytes,
        errors: figures.wrong + figures.read_errors,
    };
    if store.tree().caches.is_empty() {
        return now;
    }
    let pool = (Field::Pool, name);
    for (word, now, before) in [("hit", now.hits, before.hits), ("miss", now.misses, before.misses)] {
        out.push(Sample::new("arc.l2_accesses", &[(Field::HitMiss, word), pool], grown(now, before)));
    }
    for (word, now, before) in
        [("in", now.written_bytes, before.written_bytes), ("out", now.read_bytes, before.read_bytes)]
    {
        out.push(Sample::new("arc.l2_bytes", &[(Field::Direction, word), pool], grown(now, before)));
    }
    out.push(Sample::new("arc.l2_size", &[pool], figures.stored_bytes));
    out.push(Sample::new("arc.l2_errors", &[pool], grown(now.errors, before.errors)));
    now
}

/// Samples the txgs of a pool that were synced after `last`, and its dirty data. Returns the newest
/// txg.
fn txgs(name: &str, writer: &Writer, last: u64, out: &mut Vec<Sample>) -> u64 {
    let pool = [(Field::Pool, name)];
    out.push(Sample::new("txg.dirty", &pool, writer.dirty_bytes()));
    let all = writer.txg_stats();
    let new = all.iter().filter(|t| t.txg > last);
    out.push(Sample::new("txg.bytes", &pool, new.clone().map(|t| t.written_bytes).sum()));
    // If no txg ended, the value is 0.
    out.push(Sample::new("txg.phases", &pool, 0));
    for TxgStats { open_ns, phase_ns: [quiesce, sync @ ..], .. } in new {
        for (phase, ns) in [("open", *open_ns), ("quiesce", *quiesce), ("sync", sync.iter().sum())] {
            let labels =
                [(Field::Phase, phase), (Field::Pool, name)].map(|(f, text)| (f, Label::Text(text.to_owned())));
            let labels = labels.into_iter().chain([(Field::Latency, Label::Number(ns))]).collect();
            out.push(Sample { stat: "txg.phases", labels, value: 1 });
        }
    }
    all.last().map_or(last, |t| t.txg)
}

impl Sampler for Pools {
    fn sample(&mut self, out: &mut Vec<Sample>) {
        let Some(owner) = self.owner.upgrade() else { return };
        let passed = u64::try_from(self.last.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
        self.last = Instant::now();
        let (mut busy, mut seen, mut seconds) = (HashMap::new(), HashMap::new(), HashMap::new());
        for open in owner.house.list() {
            let (guid, name) = (open.guid(), open.name());
            let labels = [(Field::Pool, name.as_str())];
            let store = open.store();
            let (mut last, evicted) = self.seen.get(&guid).copied().unwrap_or_default();
            let evicted = cache(&name, store, evicted, out);
            let before = self.second.get(&guid).copied().unwrap_or_default();
            seconds.insert(guid, second(&name, store, before, out));
            if let Some(writable) = open.writable() {
                last = txgs(&name, writable.writer(), last, out);
                let (used, size) = writable.writer().allocator().totals().allocated_and_size();
                out.push(Sample::new("cap.bytesused", &labels, used));
                out.push(Sample::new("cap.percentused", &labels, used.saturating_mul(100) / size.max(1)));
            }
            seen.insert(guid, (last, evicted));
            // Includes devices that were added since the last time.
            listen(&open, &self.events);
            // If nothing is in the queues, the value is 0.
            out.push(Sample::new("io.queue", &[(Field::Pool, &name)], 0));
            for leaf in store.tree().all_leaves() {
                let now = leaf.busy_ns();
                let before = self.busy.get(&(guid, leaf.guid)).copied().unwrap_or(now);
                busy.insert((guid, leaf.guid), now);
                let percent = (now.wrapping_sub(before).saturating_mul(100) / passed).min(100);
                let labels =
                    vec![(Field::Disk, Label::Text(leaf.path.clone())), (Field::Utilization, Label::Number(percent))];
                out.push(Sample { stat: "io.disks", labels, value: 1 });
                for (class, count) in leaf.in_queue().filter(|(_, count)| *count > 0) {
                    let labels = [(Field::Class, class), (Field::Disk, &leaf.path), (Field::Pool, &name)];
                    out.push(Sample::new("io.queue", &labels, count));
                }
            }
        }
        (self.busy, self.seen, self.second) = (busy, seen, seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_linux_are_read_as_it_writes_them() {
        let stat = "cpu  30 2 10 100 5 1 1 0 0 0\ncpu0 10 2 5 50 5 1 1 0 0 0\ncpu1 20 0 5 50 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(processors(stat), [("0".to_owned(), [12, 7, 55]), ("1".to_owned(), [20, 5, 50])]);
        let net = "Inter-|   Receive    |  Transmit\n face |bytes packets |bytes\n  eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n    lo:5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n";
        assert_eq!(devices(net), [("eth0".to_owned(), [100, 200]), ("lo".to_owned(), [5, 6])]);
    }

    #[test]
    fn the_shares_of_processors_add_up() {
        let mut machine = Machine::default();
        machine.sample(&mut Vec::new());
        let mut out = Vec::new();
        machine.sample(&mut out);
        let cpu: u64 = out.iter().filter(|s| s.stat == "cpu.utilization").map(|s| s.value).sum();
        assert!(cpu <= 100, "{cpu}");
        assert!(out.iter().any(|s| s.stat == "nic.kilobytes"));
    }
}
