//! Derives facts from counters. What no counter reports stays unknown.

use super::counters::{Counters, is};
use super::server::{self, Known};
use super::setup::Setup;
use super::work::Work;
use crate::clients::One;
use crate::drive::Report;
use crate::session::remote;
use crate::target::Target;
use crate::watch::What;
use judge::{Client, Disk, Facts, Link, Load, Second, Server};
use serde_json::{Map, Value, json};
use std::os::unix::fs::MetadataExt;

/// A repetition, with the counters before and after it.
pub(super) struct Seen {
    pub report: Report,
    /// The reports of all clients, if there are several.
    pub each: Vec<One>,
    pub before: Counters,
    pub after: Counters,
}

/// Length of a file in bytes, and the bytes it occupies.
fn measured(target: &Target) -> Option<(f64, Option<f64>)> {
    match target {
        Target::Path(path) => {
            let found = std::fs::metadata(path).ok()?;
            found.is_file().then(|| (found.len() as f64, Some(found.blocks() as f64 * 512.0)))
        }
        Target::Nfs(nfs) => remote::lengths(nfs).ok().map(|(size, used)| (size as f64, Some(used as f64))),
        Target::Nbd(nbd) => crate::nbd::Connection::open(nbd).ok().map(|c| (c.size as f64, None)),
    }
}

/// Compression ratio of the files. Recently written data may not be on disk yet: retries for some
/// seconds.
fn compress_ratio(targets: &[Target]) -> Option<f64> {
    let ratio = || {
        // Files that a flow has removed are ignored.
        let all: Vec<(f64, Option<f64>)> = targets.iter().filter_map(measured).collect();
        let size: f64 = all.iter().map(|(s, _)| s).sum();
        let used: f64 = all.iter().map(|(_, u)| *u).sum::<Option<f64>>()?;
        (size > 0.0).then(|| size / used.max(1.0))
    };
    let mut last = ratio()?;
    for _ in 0..12 {
        if last <= 1.05 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
        last = last.min(ratio()?);
    }
    Some(last)
}

fn load(setup: &Setup) -> Load {
    let work = &setup.work;
    Load {
        name: setup.name.clone(),
        random: work.is_random(),
        op_bytes: work.op_bytes(),
        sync: work.is_sync(),
        direct: work.is_direct(),
        working_set_bytes: work.working_set(&|target| measured(target).map(|(size, _)| size)),
        requested_rate: work.rate(),
        compressible: work.zeros() > 0,
        claim: setup.claim,
        is_local: !matches!(work, Work::Clients(..)) && work.targets().iter().all(server::is_here),
    }
}

/// The network device of this machine that carried the most bytes, and how many; a loopback device
/// receives what it sends.
fn busiest_link(seen: &Seen) -> Option<Link> {
    let carried = |device: &String| {
        let grown = |name: &str| seen.after.grown(&seen.before, name, is("device", device)).unwrap_or(0.0);
        grown("net.received_bytes").max(grown("net.sent_bytes"))
    };
    let devices = seen.after.labels("net.received_bytes", "device");
    let busiest = devices.iter().max_by(|a, b| carried(a).total_cmp(&carried(b)))?;
    Some(Link {
        name: busiest.clone(),
        limit_bytes_per_second: host::proc::network_speed_bytes(busiest),
        carried_bytes: Some(carried(busiest)),
        mtu: None,
    })
}

fn client_of(name: &str, report: &Report, threads: usize, link: Option<Link>, memory_bytes: Option<f64>) -> Client {
    // Threads in excess of the processors cannot be busy.
    let busy =
        |processors: usize| report.cpu_seconds / report.seconds.max(1e-9) / threads.min(processors).max(1) as f64;
    Client {
        name: name.to_owned(),
        ops: report.ops as f64,
        bytes: report.bytes as f64,
        read_bytes: report.of(What::Read).bytes as f64,
        cpu_busy: report.processors.map(busy),
        memory_bytes,
        link,
    }
}

/// The load generators: this machine, or several clients.
fn clients(setup: &Setup, seen: &Seen) -> Vec<Client> {
    let declared = setup.link_bytes.map(|limit| Link {
        name: "the declared link".to_owned(),
        limit_bytes_per_second: Some(limit),
        ..Link::default()
    });
    let Work::Clients(_, works) = &setup.work else {
        let is_remote = setup.work.targets().iter().any(|t| !matches!(t, Target::Path(_)));
        let found = busiest_link(seen).filter(|_| is_remote);
        let link = match (declared, found) {
            (Some(declared), Some(found)) => Some(Link { carried_bytes: found.carried_bytes, ..declared }),
            (_, found) => found,
        };
        let memory = seen.after.all("memory.total");
        return vec![client_of("this machine", &seen.report, setup.work.threads(), link, memory)];
    };
    let one = |(one, work): (&One, &Work)| client_of(&one.host, &one.report, work.threads(), declared.clone(), None);
    seen.each.iter().zip(works).map(one).collect()
}

/// The server's count of this client's operations, in the unit of the client's count.
fn served(setup: &Setup, seen: &Seen) -> Option<f64> {
    let grown = |name: &str| seen.after.grown(&seen.before, name, |_| true);
    let report = &seen.report;
    if report.bytes > 0 {
        let protocol = if setup.work.targets().iter().any(|t| matches!(t, Target::Nbd(_))) { "nbd" } else { "nfs" };
        let read = grown(&format!("weir_{protocol}_read_bytes_total"))?;
        let written = grown(&format!("weir_{protocol}_written_bytes_total"))?;
        return Some((read + written) / report.bytes as f64 * report.ops as f64);
    }
    if !setup.work.is_meta() {
        return None;
    }
    let ours = |c: &record::Column| {
        let procedure = c.labels.get("procedure").map(|p| p.to_ascii_lowercase()).unwrap_or_default();
        ["create", "lookup", "remove"].contains(&procedure.as_str())
    };
    seen.after.grown(&seen.before, "weir_nfs_call_time_seconds_count", ours)
}

fn disks(seen: &Seen, known: Option<&Known>) -> Vec<Disk> {
    let seconds = seen.report.seconds.max(1e-9);
    let of_machine: Vec<Disk> = seen
        .after
        .labels("disk.busy_time", "device")
        .into_iter()
        .map(|device| {
            let grown = |name: &str| seen.after.grown(&seen.before, name, is("device", &device));
            let bytes = grown("disk.read_bytes").zip(grown("disk.written_bytes")).map(|(r, w)| r + w);
            let busy = grown("disk.busy_time").map(|b| (b / seconds).min(1.0));
            Disk { name: device, busy, bytes, limit_bytes_per_second: None }
        })
        .filter(|d| d.bytes.is_some_and(|b| b > 0.0))
        .collect();
    let Some(known) = known else { return of_machine };
    let busiest =
        of_machine.iter().filter_map(|d| d.busy).fold(None, |m: Option<f64>, b| Some(m.map_or(b, |m| m.max(b))));
    let of_pool = |name: &str, device: &str| {
        let (device, pool) = (device.to_owned(), known.pool.clone());
        let wanted = move |c: &record::Column| {
            c.labels.get("device") == Some(&device) && c.labels.get("pool").is_none_or(|p| *p == pool)
        };
        seen.after.grown(&seen.before, name, wanted)
    };
    let devices = seen.after.labels("weir_device_read_bytes_total", "device");
    let disk = |device: String| {
        let read = of_pool("weir_device_read_bytes_total", &device)?;
        let bytes = read + of_pool("weir_device_written_bytes_total", &device)?;
        // A device that is a disk of the machine is as busy as that disk; a file is as busy as the
        // busiest disk.
        let own = of_machine.iter().find(|d| device.rsplit('/').next() == Some(d.name.as_str())).and_then(|d| d.busy);
        let is_idle = bytes == 0.0;
        let busy = own.or(if is_idle { Some(0.0) } else { busiest });
        Some(Disk { name: device, busy, bytes: Some(bytes), limit_bytes_per_second: None })
    };
    devices.into_iter().filter_map(disk).collect()
}

fn number(map: &Map<String, Value>, name: &str) -> Option<f64> {
    map.get(name)?.as_str()?.trim_end_matches('%').parse().ok()
}

fn server_of(setup: &Setup, seen: &Seen, known: Option<&Known>, (cores, chips): (u32, Option<u32>)) -> Server {
    let grown = |name: &str| seen.after.grown(&seen.before, name, |_| true);
    let both = |name: &str| seen.before.all(name).zip(seen.after.all(name));
    let is_here = setup.work.targets().iter().all(server::is_here);
    let report = &seen.report;
    let syncs =
        if setup.work.writes_are_stable() { report.of(What::Write).count } else { 0 } + report.of(What::Sync).count;
    let text = |name: &str| known.and_then(|k| k.properties.get(name)).and_then(Value::as_str).map(str::to_owned);
    let records =
        known.and_then(|k| number(&k.properties, "recordsize").or_else(|| number(&k.properties, "volblocksize")));
    let is_served = known.is_some();
    Server {
        ops: served(setup, seen),
        cpu_busy: seen.after.busy(&seen.before).filter(|_| is_here),
        cores: is_here.then_some(cores),
        chips: chips.filter(|_| is_here),
        // With clients on other machines, the link is that of the server.
        links: match setup.work {
            Work::Clients(..) if is_here => busiest_link(seen).into_iter().collect(),
            _ => Vec::new(),
        },
        disks: if is_here { disks(seen, known) } else { Vec::new() },
        cache_hits: grown("weir_cache_hits_total"),
        cache_misses: grown("weir_cache_misses_total"),
        cache_bytes: both("weir_cache_size_bytes"),
        cache_max_bytes: seen.after.all("weir_cache_cap_bytes"),
        // A cache device that was just added is reported once it has contents.
        l2_bytes: seen
            .after
            .all("weir_l2_size_bytes")
            .filter(|after| *after > 0.0)
            .map(|after| (seen.before.all("weir_l2_size_bytes").unwrap_or(0.0), after)),
        dirty_max_bytes: seen.after.all("weir_txg_dirty_cap_bytes"),
        record_bytes: records.map(|r| r as u64),
        layout: known.and_then(|k| k.layout.clone()),
        compress_ratio: compress_ratio(&setup.work.files()),
        has_log_device: known.map(|k| k.has_log),
        sync_property: text("sync"),
        sync_ops: is_served.then_some(syncs as f64),
        device_flushes: grown("weir_device_flush_time_seconds_count").filter(|_| is_served),
        jobs: known.map(|k| k.jobs.clone()).unwrap_or_default(),
        atime: text("atime").map(|v| v == "on"),
    }
}

/// Number of processor chips of this machine.
fn chips() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut ids: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("physical id")).collect();
    ids.sort_unstable();
    ids.dedup();
    u32::try_from(ids.len()).ok().filter(|n| *n > 0)
}

/// All facts about the last repetition, and the rates of all.
pub(super) fn facts(setup: &Setup, machine: &Map<String, Value>, known: Option<&Known>, seen: &[Seen]) -> Facts {
    let Some(last) = seen.last() else { return Facts::default() };
    let cores = last.after.all("cpu.count").unwrap_or(1.0);
    let report = &last.report;
    let mut configuration = machine.clone();
    configuration.insert("version".to_owned(), json!(concat!("weir ", env!("CARGO_PKG_VERSION"))));
    configuration.insert("directory".to_owned(), json!(setup.folder.display().to_string()));
    configuration.insert("command".to_owned(), json!(std::env::args().skip(1).collect::<Vec<_>>().join(" ")));
    configuration
        .insert("targets".to_owned(), json!(setup.work.targets().iter().map(ToString::to_string).collect::<Vec<_>>()));
    let work = &setup.work;
    configuration.insert("threads".to_owned(), json!({ "count": work.threads(), "depth": work.depth() }));
    configuration.insert("compressible_percent".to_owned(), json!(work.zeros()));
    if let Some(known) = known {
        configuration.insert("pool".to_owned(), json!(known.pool));
        configuration.insert("dataset".to_owned(), json!(known.dataset));
        configuration.insert("properties".to_owned(), Value::Object(known.properties.clone()));
        configuration.insert("capacity_percent".to_owned(), json!(number(&known.of_pool, "capacity")));
        configuration.insert("fragmentation_percent".to_owned(), json!(number(&known.of_pool, "fragmentation")));
        configuration.insert("health".to_owned(), known.of_pool.get("health").cloned().unwrap_or(Value::Null));
    }
    Facts {
        load: load(setup),
        seconds: report.seconds,
        due: report.requested.map(|_| report.due as f64),
        failed: report.failed as f64,
        clients: clients(setup, last),
        server: Some(server_of(setup, last, known, (cores as u32, chips()))),
        series: report.series.iter().map(|s| Second { seconds: s.took, ops: s.ops as f64 }).collect(),
        latency: report.latency.classes.clone(),
        repeats: seen.iter().map(|s| s.report.rate()).collect(),
        configuration,
    }
}
