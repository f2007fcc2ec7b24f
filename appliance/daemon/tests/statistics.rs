//! Statistics of the layers below the file system: a mirrored pool that is served by NFS is put
//! under load, outgrows its cache, and is damaged.

use crate::rig::{Client, PATIENCE, Rig};
use daemon::config::{Config, Portmap};
use load::{Kind, Plan};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

type Sums = BTreeMap<String, u64>;

struct Filer {
    rig: Rig,
    root: Client,
    address: std::net::SocketAddr,
    begun: u64,
}

fn seconds() -> u64 {
    std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs()
}

impl Filer {
    fn new() -> Self {
        let mut config = Config::default();
        config.nfs.listen = vec!["127.0.0.1:0".parse().expect("an address")];
        (config.nfs.portmap, config.nfs.secure) = (Portmap::Off, false);
        let rig = Rig::with(config, false);
        rig.service.owner.house.set_cache_bytes(8 * MIB);
        let root = rig.administrator();
        let begun = seconds();
        let paths = [rig.file("left"), rig.file("right")];
        let group = json!({"layout": "mirror", "paths": paths, "make_files_bytes": 256 * MIB});
        let properties = json!({"mountpoint": "/tank", "compression": "off", "sharenfs": "rw,no_root_squash,insecure"});
        let body = json!({"name": "tank", "groups": [group], "dataset_properties": properties});
        let made = rig.ask(&root, "POST", "/v1/pools", Some(&body));
        assert_eq!(made.status, 201, "{}", made.text());
        rig.service.start_nfs().expect("it listens");
        let address = rig.service.servers.nfs.lock().as_ref().expect("a server").addresses()[0];
        Self { rig, root, address, begun }
    }

    /// Puts load on a file of 24 MiB.
    fn load(&self, kind: Kind, sync: bool) {
        let port = self.address.port();
        let target = format!("nfs://127.0.0.1/tank/file?nfsport={port}&mountport={port}&uid=0");
        let plan = Plan {
            kind,
            targets: vec![target.parse().expect("an URL")],
            size: 64 << 10,
            threads: 2,
            time: Some(Duration::from_millis(500)),
            file_size: 24 * MIB,
            sync,
            seed: 7,
            ..Plan::default()
        };
        let report = plan.run(&AtomicBool::new(false)).expect("it is loaded");
        assert_eq!((report.failed, report.first_failure), (0, None));
    }

    fn count(&self, name: &str) {
        let made = self.rig.ask(&self.root, "POST", "/v1/analytics/datasets", Some(&json!({"name": name})));
        assert_eq!(made.status, 201, "{}", made.text());
    }

    fn get(&self, what: &str, name: &str, more: &str) -> Value {
        let name = name.replace('[', "%5B").replace(']', "%5D").replace('=', "%3D");
        let found = self.rig.ask(&self.root, "GET", &format!("/v1/analytics/{what}?name={name}{more}"), None);
        assert_eq!(found.status, 200, "{}", found.text());
        found.json()
    }

    /// Counts of a statistic by key since the start, and its total.
    fn sums(&self, name: &str) -> (Sums, u64) {
        let series = self.get("query", name, &format!("&from={}&to={}", self.begun, seconds() + 1));
        let (mut sums, mut total) = (BTreeMap::new(), 0);
        for column in series["columns"].as_array().expect("columns") {
            total += column["total"].as_u64().expect("a number");
            for cell in column["cells"].as_array().expect("cells").chunks(2) {
                let key = &series["keys"][cell[0].to_string()];
                let key = key.as_str().map_or_else(|| key["from"].to_string(), str::to_owned);
                *sums.entry(key).or_default() += cell[1].as_u64().expect("a number");
            }
        }
        (sums, total)
    }

    /// Waits until enough has been counted.
    fn until(&self, name: &str, is_enough: impl Fn(&Sums) -> bool, meanwhile: impl Fn()) -> Sums {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (sums, total) = self.sums(name);
            assert_eq!(sums.values().sum::<u64>(), total, "{name}: {sums:?}");
            if is_enough(&sums) {
                return sums;
            }
            assert!(Instant::now() < deadline, "{name}: {sums:?}");
            meanwhile();
        }
    }
}

/// Whether each of these keys has a count.
fn has(keys: &[&str]) -> impl Fn(&Sums) -> bool {
    move |sums| keys.iter().all(|key| sums.get(*key).is_some_and(|n| *n > 0))
}

fn any(sums: &Sums) -> bool {
    !sums.is_empty()
}

fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn operations_below_the_file_system_are_counted() {
    let filer = Filer::new();
    for name in [
        "txg.phases[phase]",
        "txg.phases[phase=sync][latency]",
        "txg.bytes[pool]",
        "txg.dirty[pool]",
        "arc.size[component]",
        "arc.evicted[component]",
        "ip.bytes[client]",
        "ip.bytes[direction]",
        "ip.bytes[hostname]",
    ] {
        filer.count(name);
    }
    let write = || filer.load(Kind::RandWrite, true);
    filer.load(Kind::SeqWrite, false);
    let phases = filer.until("txg.phases[phase]", has(&["open", "quiesce", "sync"]), write);
    assert!(phases["sync"] == phases["quiesce"] && phases["open"] <= phases["sync"], "{phases:?}");
    filer.until("txg.phases[phase=sync][latency]", any, write);
    // Both sides of the mirror.
    filer.until("txg.bytes[pool]", |sums| sums.get("tank").is_some_and(|n| *n >= 2 * 24 * MIB), write);
    filer.until("txg.dirty[pool]", has(&["tank"]), write);

    let log = filer.until("zil.ops[op]", has(&["commit", "write"]), write);
    let blocks = filer.until("zil.bytes[share]", has(&["tank"]), write);
    assert!(blocks["tank"] >= log["write"], "each block has records: {log:?} {blocks:?}");
    filer.until("zil.ops[op=commit][latency]", any, pause);
    assert!(filer.sums("zil.ops[op=commit][size]").0.keys().eq(["0"]), "the log's blocks have the bytes");

    let read = || filer.load(Kind::RandRead, false);
    read();
    filer.until("arc.evicted[component]", has(&["data"]), read);
    filer.until("arc.size[component]", has(&["data", "metadata", "headers"]), read);
    // The written data was received.
    filer.until("ip.bytes[direction]", |sums| has(&["in", "out"])(sums) && sums["in"] >= 24 * MIB, read);
    filer.until("ip.bytes[client]", has(&["127.0.0.1"]), read);
    filer.until("ip.bytes[hostname]", any, read);
}

#[test]
fn repaired_reads_are_counted_by_disk_and_explain_a_storm_of_repairs() {
    let filer = Filer::new();
    filer.load(Kind::SeqWrite, true);
    let read = || filer.load(Kind::RandRead, false);
    filer.until("io.ops[op=read][disk]", has(&[&filer.rig.file("left"), &filer.rig.file("right")]), read);
    assert!(!filer.sums("io.ops[result]").0.contains_key("checksum"));
    // Overwrites one side between the front labels and those at the end.
    let rotten = std::fs::OpenOptions::new().write(true).open(filer.rig.file("right")).expect("an image");
    let noise: Vec<u8> = (0..MIB as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for piece in 8..248 {
        std::os::unix::fs::FileExt::write_all_at(&rotten, &noise, piece * MIB).expect("written");
    }
    let from = seconds() + 1;
    while seconds() < from {
        pause();
    }
    filer.until("io.ops[result]", has(&["ok", "checksum"]), read);
    let disks = filer.until("io.ops[result=checksum][disk]", has(&[&filer.rig.file("right")]), read);
    assert_eq!(disks.len(), 1, "the other side is right: {disks:?}");
    // Further reads would find repaired blocks.
    let to = seconds() + 1;
    let deadline = Instant::now() + PATIENCE;
    // The last second is available once it is over.
    loop {
        let found = filer.get("explain", "io.ops[op=read]", &format!("&from={from}&to={to}"));
        // On a busy machine, the disk may stand out more than the result.
        let fields = found["fields"].as_array().expect("fields");
        let first = fields.iter().find(|field| field["field"] == "result").map(|field| &field["values"][0]);
        if let Some(first) = first.filter(|first| first["value"] == "checksum") {
            assert_eq!(first["outside"], 0);
            break;
        }
        assert!(Instant::now() < deadline, "{found:#}");
        pause();
    }
    let counted: u64 = filer.sums("io.ops[result=checksum]").1;
    let status = filer.rig.ask(&filer.root, "GET", "/v1/pools/tank", None).text();
    assert!(counted > 0 && status.contains("checksum"), "{status}");
}
