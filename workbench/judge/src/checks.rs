//! The twelve checks. Every threshold is defined here, with its origin.

use crate::facts::{Claim, Facts, Server};
use crate::judgement::{Check, Finding, Judgement, Verdict};
use crate::statistics::{drift, humps, interval};

/// Maximum share of payload in a link's speed: Ethernet, IP and TCP headers take 5 to 6 % with an
/// MTU of 1500 bytes, less with 9000.
const PAYLOAD: f64 = 0.97;
/// Maximum difference between two counts of the same operations: operations in progress at the
/// edges of the run.
const SAME: f64 = 0.02;
/// Utilization from which a resource is busy.
const BUSY: f64 = 0.9;
/// Utilization below which the server was not the bottleneck.
const IDLE: f64 = 0.8;
/// Minimum rate of a client relative to the median of all clients.
const UNFAIR: f64 = 0.7;
/// Maximum compression ratio of the data.
const SHRINKS: f64 = 1.05;
/// Runs shorter than this many seconds have no steady state. Guessed: two txgs of 5 s each.
const SHORT_SECONDS: f64 = 10.0;
/// Maximum drift over the run that counts as steady.
const DRIFT: f64 = 0.05;
/// Minimum share of the requested rate that must be reached.
const KEPT: f64 = 0.99;

/// The function of a check.
type Judge = fn(&Facts) -> Found;

struct Found {
    verdict: Verdict,
    reason: String,
    arithmetic: Vec<String>,
    label: Option<String>,
}

fn found(verdict: Verdict, reason: impl Into<String>) -> Found {
    Found { verdict, reason: reason.into(), arithmetic: Vec::new(), label: None }
}

fn pass(reason: impl Into<String>) -> Found {
    found(Verdict::Pass, reason)
}

fn warn(reason: impl Into<String>) -> Found {
    found(Verdict::Warn, reason)
}

fn refuse(reason: impl Into<String>) -> Found {
    found(Verdict::Refuse, reason)
}

impl Found {
    fn with(mut self, line: impl Into<String>) -> Self {
        self.arithmetic.push(line.into());
        self
    }

    fn all(mut self, lines: Vec<String>) -> Self {
        self.arithmetic.extend(lines);
        self
    }

    fn called(mut self, label: &str) -> Self {
        self.label = Some(label.to_owned());
        self
    }
}

fn mb(bytes: f64) -> String {
    format!("{:.1} MB/s", bytes / 1e6)
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// Judges a run with all checks.
pub fn judge(facts: &Facts) -> Judgement {
    let checks: [(Check, Judge); 12] = [
        (Check::Limits, limits),
        (Check::Counts, counts),
        (Check::ClientCache, client_cache),
        (Check::ClientBound, client_bound),
        (Check::Limiter, limiter),
        (Check::CacheOrDisk, cache_or_disk),
        (Check::Profile, profile),
        (Check::WarmUp, warm_up),
        (Check::SyncWrites, sync_writes),
        (Check::Documented, documented),
        (Check::Compressible, compressible),
        (Check::Steady, steady),
    ];
    let (mut findings, mut labels) = (Vec::new(), Vec::new());
    for (check, run) in checks {
        let Found { verdict, reason, arithmetic, label } = run(facts);
        labels.extend(label);
        findings.push(Finding { check, verdict, reason, arithmetic });
    }
    let verdict = findings.iter().map(|f| f.verdict).max().unwrap_or(Verdict::Pass);
    Judgement { verdict, labels, findings }
}

fn limits(f: &Facts) -> Found {
    let (mut lines, mut over) = (Vec::new(), None);
    let mut hold = |what: String, rate: f64, limit: f64| {
        let line = format!("{what}: {} of at most {} ({})", mb(rate), mb(limit), percent(rate / limit.max(1.0)));
        if rate > limit {
            over.get_or_insert(line.clone());
        }
        lines.push(line);
    };
    let seconds = f.seconds.max(1e-9);
    for client in &f.clients {
        if let Some(link) = &client.link
            && let Some(limit) = link.limit_bytes_per_second
        {
            hold(format!("payload of {} over {}", client.name, link.name), client.bytes / seconds, limit * PAYLOAD);
        }
    }
    if let Some(server) = &f.server {
        let limits: Vec<f64> = server.links.iter().filter_map(|l| l.limit_bytes_per_second).collect();
        if !limits.is_empty() && limits.len() == server.links.len() && !f.load.is_local {
            let sum = limits.iter().sum::<f64>() * PAYLOAD;
            hold("payload of all clients over the server's links".to_owned(), f.bytes() / seconds, sum);
        }
        for disk in &server.disks {
            if let (Some(bytes), Some(limit)) = (disk.bytes, disk.limit_bytes_per_second) {
                hold(format!("disk {}", disk.name), bytes / seconds, limit);
            }
        }
    }
    if f.load.op_bytes > 0 {
        let (product, bytes) = (f.ops() * f.load.op_bytes as f64, f.bytes());
        lines.push(format!(
            "{:.0} operations of {} bytes are {:.0} bytes; {bytes:.0} bytes were transferred",
            f.ops(),
            f.load.op_bytes,
            product
        ));
        if bytes > product * (1.0 + SAME) {
            return refuse("more bytes were transferred than the operations account for").all(lines);
        }
    }
    match over {
        Some(line) => refuse(format!("faster than the hardware allows: {line}")).all(lines),
        None if lines.is_empty() => warn("no limit is known: neither links nor disks report their speed"),
        None => pass("nothing exceeded its limit").all(lines),
    }
}

fn counts(f: &Facts) -> Found {
    let Some(server) = &f.server else {
        return pass("there is no server: the load used local disks or files");
    };
    let mut lines = Vec::new();
    let Some(ops) = server.ops else { return warn("the server's counts are unknown: nothing was cross-checked") };
    let ours = f.ops();
    lines.push(format!("clients counted {ours:.0} operations, the server {ops:.0}: {}", percent(ops / ours.max(1.0))));
    if ops > ours * (1.0 + SAME) {
        return refuse("the server did more than these clients requested: others use it, too").all(lines);
    }
    for link in f.clients.iter().filter_map(|c| c.link.as_ref()).chain(&server.links) {
        if let Some(carried) = link.carried_bytes {
            // If a server has several links or other users, only the total is meaningful.
            lines.push(format!("{} carried {:.0} MB", link.name, carried / 1e6));
        }
    }
    let carried: Option<f64> = server.links.iter().map(|l| l.carried_bytes).sum::<Option<f64>>().filter(|c| *c > 0.0);
    if let Some(carried) = carried.filter(|_| ops >= ours * (1.0 - SAME)) {
        let payload = f.bytes();
        lines.push(format!("payload {:.0} MB, wire {:.0} MB", payload / 1e6, carried / 1e6));
        // Reads and writes travel in opposite directions; the busier direction carries at least
        // half.
        if carried < payload * 0.5 * (1.0 - SAME) {
            return refuse("less crossed the network than was transferred").all(lines);
        }
    }
    pass("the counts of clients and server agree").all(lines)
}

fn client_cache(f: &Facts) -> Found {
    let memory: Option<f64> = f.clients.iter().map(|c| c.memory_bytes).sum();
    let mut lines = Vec::new();
    if let (Some(set), Some(memory)) = (f.load.working_set_bytes, memory) {
        lines.push(format!(
            "the working set has {:.0} MB, the clients have {:.0} MB of memory",
            set / 1e6,
            memory / 1e6
        ));
    }
    lines.push(format!("bypasses the client's cache: {}", if f.load.direct { "yes" } else { "no" }));
    if let Some(ops) = f.server.as_ref().and_then(|s| s.ops) {
        let share = ops / f.ops().max(1.0);
        lines.push(format!("{} of the clients' operations reached the server", percent(share)));
        if share < 1.0 - SAME {
            return refuse("the client's cache was measured: not all operations reached the server")
                .all(lines)
                .called("client cache");
        }
        return pass("all operations reached the server").all(lines);
    }
    if f.load.direct {
        return pass("files were read and written without the client's cache").all(lines);
    }
    let read: f64 = f.clients.iter().map(|c| c.read_bytes).sum();
    let disks: Option<f64> = f.server.as_ref().and_then(|s| s.disks.iter().map(|d| d.bytes).sum());
    if let Some(disks) = disks.filter(|_| read > 0.0) {
        lines.push(format!("{:.0} MB were read, disks transferred {:.0} MB", read / 1e6, disks / 1e6));
        if disks < read * (1.0 - SAME) {
            return refuse("this machine's memory was measured: the load read more than the disks did")
                .all(lines)
                .called("client cache");
        }
        return pass("the data came from disks").all(lines);
    }
    match (f.load.working_set_bytes, memory) {
        (Some(set), Some(memory)) if set < memory => {
            refuse("the working set fits the client's memory, and it is unknown what reached the server")
                .all(lines)
                .called("client cache")
        }
        _ => warn("it is unknown whether operations reached the server").all(lines),
    }
}

fn client_bound(f: &Facts) -> Found {
    let mut lines = Vec::new();
    let server = f.server.as_ref().and_then(|s| s.cpu_busy);
    let mut rates: Vec<f64> = f.clients.iter().map(|c| c.ops).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
    let mut known = false;
    for client in &f.clients {
        let link =
            client.link.as_ref().and_then(|l| Some(client.bytes / f.seconds.max(1e-9) / l.limit_bytes_per_second?));
        for (what, busy) in [("processors", client.cpu_busy), ("link", link)] {
            let Some(busy) = busy else { continue };
            known = true;
            lines.push(format!("{}: {what} {} busy", client.name, percent(busy)));
            if busy >= BUSY && server.is_none_or(|s| s < IDLE) && f.server.is_some() {
                let of_server = server.map_or("unknown".to_owned(), |busy| percent(busy) + " busy");
                let reason = format!(
                    "client {} was the bottleneck: {what} {} busy, processors of the server {of_server}",
                    client.name,
                    percent(busy)
                );
                return refuse(reason).all(lines).called("client-bound");
            }
        }
    }
    if f.clients.len() > 2 {
        let slowest = f.clients.iter().min_by(|a, b| a.ops.total_cmp(&b.ops));
        if let Some(slowest) = slowest {
            let part = slowest.ops / median.max(1.0);
            lines.push(format!("{} did {} of the median of {} clients", slowest.name, percent(part), f.clients.len()));
            if part < UNFAIR {
                let rate = mb(slowest.bytes / f.seconds.max(1e-9));
                let reason = format!(
                    "client {} reached {rate}, {} of the median rate: it or its link was measured, too",
                    slowest.name,
                    percent(part)
                );
                return refuse(reason).all(lines).called("client-bound");
            }
        }
    }
    if known {
        pass("the clients were not the bottleneck").all(lines)
    } else {
        warn("the clients' utilization is unknown").all(lines)
    }
}

fn limiter(f: &Facts) -> Found {
    let mut all: Vec<(String, f64)> = Vec::new();
    let seconds = f.seconds.max(1e-9);
    for client in &f.clients {
        all.extend(client.cpu_busy.map(|b| (format!("processors of client {}", client.name), b)));
        let link = client.link.as_ref();
        all.extend(
            link.and_then(|l| Some((format!("link {}", l.name), client.bytes / seconds / l.limit_bytes_per_second?))),
        );
    }
    if let Some(server) = &f.server {
        all.extend(server.cpu_busy.map(|b| ("processors of the server".to_owned(), b)));
        for link in &server.links {
            if let (Some(bytes), Some(limit)) = (link.carried_bytes, link.limit_bytes_per_second) {
                all.push((format!("link {}", link.name), bytes / seconds / limit));
            }
        }
        all.extend(server.disks.iter().filter_map(|d| Some((format!("disk {}", d.name), d.busy?))));
    }
    let lines = all.iter().map(|(name, busy)| format!("{name}: {} busy", percent(*busy))).collect();
    if let Some(rate) = f.load.requested_rate {
        return pass(format!("limited by the requested rate, {rate} a second")).all(lines);
    }
    match all.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((name, busy)) if *busy >= BUSY => pass(format!("limited by {name}, {} busy", percent(*busy))).all(lines),
        Some((name, busy)) => {
            let reason = format!(
                "nothing was at its limit ({name} is closest, {} busy): the result may not be called a maximum",
                percent(*busy)
            );
            warn(reason).all(lines).called("not a maximum")
        }
        None => warn("the limiting factor is unknown: the result may not be called a maximum").called("not a maximum"),
    }
}

fn cache_or_disk(f: &Facts) -> Found {
    let Some(server) = &f.server else { return pass("the load used local disks or files").called("disk") };
    let mut lines = Vec::new();
    let read: f64 = f.clients.iter().map(|c| c.read_bytes).sum();
    let written = f.bytes() - read;
    if written > read {
        let Some(most) = server.dirty_max_bytes else {
            return warn("the limit of unwritten data in memory is unknown").all(lines);
        };
        lines.push(format!(
            "{:.0} MB were written, memory may hold {:.0} MB of unwritten data",
            written / 1e6,
            most / 1e6
        ));
        if written < 3.0 * most && f.load.requested_rate.is_none() {
            return refuse("too little was written: memory could hold most of it").all(lines).called("cache");
        }
    }
    if read == 0.0 {
        return pass(if written > 0.0 {
            "more was written than memory can hold"
        } else {
            "no data was read or written"
        })
        .all(lines);
    }
    let (Some(hits), Some(misses)) = (server.cache_hits, server.cache_misses) else {
        return warn("it is unknown whether memory or disks answered").all(lines);
    };
    let share = hits / (hits + misses).max(1.0);
    lines.push(format!("{hits:.0} blocks were in memory, {misses:.0} were not: {} hits", percent(share)));
    if let Some((before, after)) = server.cache_bytes {
        lines.push(format!("the cache had {:.0} MB at the start, {:.0} MB at the end", before / 1e6, after / 1e6));
        let grown = after - before;
        // A small cache fills with few misses relative to the traffic.
        if share > 0.01 && grown > 0.05 * after.max(1.0) {
            let reason = "a cold server: its cache filled during the measurement; fill it first, with --warm";
            return refuse(reason).all(lines).called("cold");
        }
    }
    let label = if share > 0.01 { "cache" } else { "disk" };
    match f.load.claim {
        Some(Claim::Disk) if share > 0.01 => {
            refuse(format!("{} of the blocks came from memory: this does not measure disks", percent(share)))
                .all(lines)
                .called(label)
        }
        Some(Claim::Cache) if share < 0.99 => {
            refuse(format!("{} of the blocks came from disks: this does not measure memory", percent(1.0 - share)))
                .all(lines)
                .called(label)
        }
        _ if share > 0.01 && share < 0.99 => {
            pass(format!("memory answered {}, disks the rest", percent(share))).all(lines).called("cache and disk")
        }
        _ => pass(format!("answered by {label}")).all(lines).called(label),
    }
}

fn profile(f: &Facts) -> Found {
    let Some(server) = &f.server else { return pass("there is no pool") };
    match &server.layout {
        None => warn("the pool's layout is unknown"),
        Some(layout) if layout.contains("raid") => {
            pass(format!("{layout}; for random operations, compare it with mirrors of the same disks"))
        }
        Some(layout) => pass(layout.clone()),
    }
}

fn warm_up(f: &Facts) -> Found {
    let Some(server) = &f.server else { return pass("there is no server") };
    let mut lines = Vec::new();
    if let Some((before, after)) = server.l2_bytes {
        let rate = (after - before) / f.seconds.max(1e-9);
        lines.push(format!(
            "cache devices had {:.0} MB at the start, {:.0} MB at the end: {}",
            before / 1e6,
            after / 1e6,
            mb(rate)
        ));
        if after > before * 1.01 + 1e6 {
            return refuse("cache devices were still filling").all(lines).called("warming");
        }
    }
    match server.record_bytes {
        Some(record) if f.load.random && f.load.op_bytes > 0 && record != f.load.op_bytes => {
            let factor = record as f64 / f.load.op_bytes as f64;
            lines.push(format!("records of {record} bytes, operations of {}: {factor:.2}", f.load.op_bytes));
            if factor > 1.0 {
                warn(format!("each random operation accesses a record {factor:.0} times as large")).all(lines)
            } else {
                pass("each operation covers several records").all(lines)
            }
        }
        None if f.load.random => warn("the record size is unknown").all(lines),
        _ => pass("caches were warm, and records are no larger than the operations").all(lines),
    }
}

fn sync_writes(f: &Facts) -> Found {
    if !f.load.sync {
        return pass("no stable writes were requested");
    }
    let Some(server) = &f.server else {
        return warn("it is unknown whether the local disks keep what they acknowledge");
    };
    let mut lines = Vec::new();
    if let Some(property) = &server.sync_property {
        lines.push(format!("sync={property}"));
        if property == "disabled" {
            return refuse("sync=disabled: writes were acknowledged as stable before they were").all(lines);
        }
    }
    if let (Some(syncs), Some(flushes)) = (server.sync_ops, server.device_flushes) {
        lines.push(format!("{syncs:.0} operations required stable storage, devices were flushed {flushes:.0} times"));
        if syncs > 0.0 && flushes < 1.0 {
            return refuse(
                "stable writes were acknowledged, but no device was flushed: something below ignores flushes",
            )
            .all(lines);
        }
    } else {
        return warn("the number of device flushes is unknown").all(lines);
    }
    match server.has_log_device {
        Some(true) => pass("stable writes, on a log device").all(lines),
        Some(false) => pass("stable writes, without a log device").all(lines),
        None => warn("it is unknown whether there is a log device").all(lines),
    }
}

/// Entries that the description of any system must have.
const DOCUMENTED: [&str; 6] = ["version", "kernel", "processors", "memory_bytes", "disks", "links"];
/// Additional entries for a system that serves a pool.
const OF_A_POOL: [&str; 4] = ["pool", "properties", "capacity_percent", "fragmentation_percent"];

fn documented(f: &Facts) -> Found {
    let server = f.server.as_ref();
    if let Some(jobs) = server.map(|s| &s.jobs).filter(|j| !j.is_empty()) {
        return refuse(format!("something else was running: {}", jobs.join(", "))).called("disturbed");
    }
    if f.configuration.is_empty() {
        return refuse("the systems are not described: there is no result without a description");
    }
    let pool: &[&str] = if server.is_some_and(|s| s.layout.is_some()) { &OF_A_POOL } else { &[] };
    let missing: Vec<&str> =
        DOCUMENTED.iter().chain(pool).copied().filter(|k| !f.configuration.contains_key(*k)).collect();
    if !missing.is_empty() {
        return warn(format!("not documented: {}", missing.join(", ")));
    }
    let mut mtu: Vec<u32> = f.clients.iter().filter_map(|c| c.link.as_ref()?.mtu).collect();
    mtu.extend(server.into_iter().flat_map(|s| &s.links).filter_map(|l| l.mtu));
    mtu.sort_unstable();
    mtu.dedup();
    if mtu.len() > 1 && !f.load.is_local {
        return warn(format!("the links have different MTUs: {mtu:?}"));
    }
    if server.and_then(|s| s.atime) == Some(true) {
        return warn("atime=on: reads cause writes");
    }
    pass("the systems are described, and nothing else was running")
}

fn compressible(f: &Facts) -> Found {
    let ratio = |s: &Server| s.compress_ratio;
    match f.server.as_ref().and_then(ratio) {
        _ if f.load.compressible => pass("compressible data was requested").called("compressible"),
        None if f.bytes() == 0.0 => pass("no data was transferred"),
        None => warn("the compression ratio of the data is unknown"),
        Some(ratio) => {
            let line = format!("compression ratio {ratio:.2}, at most {SHRINKS}");
            if ratio > SHRINKS {
                refuse("the data is compressible, or zeros, which was not requested").with(line).called("compressible")
            } else {
                pass("the data does not compress").with(line)
            }
        }
    }
}

fn steady(f: &Facts) -> Found {
    let mut lines = Vec::new();
    if f.ops() == 0.0 {
        return refuse("no operation was completed");
    }
    if f.failed > 0.0 {
        lines.push(format!("{:.0} failed, {:.0} succeeded", f.failed, f.ops()));
        if f.failed > f.ops() * 0.001 {
            return refuse("operations failed").all(lines);
        }
    }
    if let Some(due) = f.due {
        let kept = f.ops() / due.max(1.0);
        lines.push(format!("{due:.0} operations were due, {:.0} were completed: {}", f.ops(), percent(kept)));
        if kept < KEPT {
            return refuse("the requested rate was not reached").all(lines).called("rate not kept");
        }
    }
    lines.push(format!("{:.1} s, at least {SHORT_SECONDS}", f.seconds));
    if f.seconds < SHORT_SECONDS * 0.99 {
        return refuse("too short to know whether it is steady").all(lines).called("too short");
    }
    let rates: Vec<f64> = f.series.iter().filter(|s| s.seconds > 0.5).map(|s| s.ops / s.seconds).collect();
    match drift(&rates) {
        None => return warn("too few seconds to detect a trend").all(lines),
        Some((rise, is_sure)) => {
            lines.push(format!(
                "trend from the first to the last second: {:+.1} % of the mean{}",
                rise * 100.0,
                if is_sure { "" } else { " (may be chance)" }
            ));
            if is_sure && rise.abs() > DRIFT {
                let reason = format!(
                    "not steady: the rate {} by {} during the measurement",
                    if rise > 0.0 { "rose" } else { "fell" },
                    percent(rise.abs())
                );
                return refuse(reason).all(lines).called("not steady");
            }
        }
    }
    if let Some((low, high)) = humps(&f.latency) {
        lines.push(format!(
            "latencies have two peaks, at {:.3} and {:.3} ms; 50 % within {:.3}, 99 % {:.3}, all {:.3} ms",
            low as f64 / 1e6,
            high as f64 / 1e6,
            f.percentile(50.0) as f64 / 1e6,
            f.percentile(99.0) as f64 / 1e6,
            f.percentile(100.0) as f64 / 1e6
        ));
        return warn(
            "an average latency would hide that there are two kinds of operations: report both peaks, or the heat map",
        )
        .all(lines)
        .called("bimodal");
    }
    if f.repeats.len() < 3 {
        return warn(format!("run {} times: at least 3 are needed to estimate the interval", f.repeats.len().max(1)))
            .all(lines);
    }
    if let Some((mean, half)) = interval(&f.repeats) {
        lines.push(format!(
            "{} repetitions: {mean:.0} a second, 95 % interval ± {half:.0} ({})",
            f.repeats.len(),
            percent(half / mean.max(1e-9))
        ));
        if half > 0.1 * mean {
            return warn("the repetitions differ so much that the interval is wider than a tenth of the mean")
                .all(lines);
        }
    }
    pass("long enough, steady, and repeated").all(lines)
}
