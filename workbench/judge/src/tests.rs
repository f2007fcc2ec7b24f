//! Twelve misleading runs, each refused or labelled for its own reason, and twelve clean runs that
//! pass all checks.

use super::*;
use crate::compare::compare;
use serde_json::{Map, json};

const MB: f64 = 1e6;
/// Bytes per second of 10 GbE.
const TEN_GBE: f64 = 1.25e9;

fn configuration() -> Map<String, serde_json::Value> {
    let all = json!({
        "version": "weir 0.1.0", "kernel": "6.12", "processors": { "count": 8 }, "memory_bytes": 64e9, "disks": ["sda"], "links": ["eth0"],
        "pool": "mirror", "properties": { "recordsize": "8K" }, "capacity_percent": 40, "fragmentation_percent": 3,
    });
    all.as_object().cloned().expect("an object")
}

fn link(name: &str, limit: f64, carried: f64) -> Link {
    Link { name: name.to_owned(), limit_bytes_per_second: Some(limit), carried_bytes: Some(carried), mtu: Some(9000) }
}

/// One peak around `at` nanoseconds.
fn hump(at: f64, count: u64) -> Vec<(u64, u64)> {
    let part = |i: i64| {
        ((at * 2f64.powf(i as f64 / 8.0)) as u64, (count as f64 * (-(i * i) as f64 / 40.0).exp() / 11.0) as u64)
    };
    (-16..=16).map(part).filter(|(_, n)| *n > 0).collect()
}

/// A clean run: ten clients read 8 KiB at random from the memory of a server, over 10 GbE; the
/// server's processors are the limit.
fn clean() -> Facts {
    let (seconds, clients, each) = (60.0, 10, 1_000_000.0);
    let client = |n: usize| Client {
        name: format!("client{n}"),
        ops: each,
        bytes: each * 8192.0,
        read_bytes: each * 8192.0,
        cpu_busy: Some(0.4),
        memory_bytes: Some(8e9),
        link: Some(link("eth0", TEN_GBE, each * 8400.0)),
    };
    let ops = each * f64::from(clients);
    let noise = |i: u64| 1.0 + (i.wrapping_mul(2_654_435_761) % 1000) as f64 / 1e5;
    Facts {
        load: Load {
            name: "randread".to_owned(),
            random: true,
            op_bytes: 8192,
            working_set_bytes: Some(20e9),
            direct: true,
            ..Load::default()
        },
        seconds,
        clients: (0..clients as usize).map(client).collect(),
        server: Some(Server {
            ops: Some(ops),
            cpu_busy: Some(0.97),
            cores: Some(8),
            chips: Some(1),
            links: vec![link("eth0", TEN_GBE, ops * 8400.0 / 2.0), link("eth1", TEN_GBE, ops * 8400.0 / 2.0)],
            disks: vec![Disk {
                name: "sda".to_owned(),
                busy: Some(0.01),
                bytes: Some(MB),
                limit_bytes_per_second: Some(200.0 * MB),
            }],
            cache_hits: Some(ops),
            cache_misses: Some(10.0),
            cache_bytes: Some((30e9, 30e9)),
            cache_max_bytes: Some(32e9),
            dirty_max_bytes: Some(4e9),
            record_bytes: Some(8192),
            layout: Some("4 mirrors of 2".to_owned()),
            compress_ratio: Some(1.0),
            has_log_device: Some(true),
            sync_property: Some("standard".to_owned()),
            sync_ops: Some(0.0),
            device_flushes: Some(24.0),
            atime: Some(false),
            ..Server::default()
        }),
        series: (0..60).map(|i| Second { seconds: 1.0, ops: ops / seconds * noise(i) }).collect(),
        latency: hump(600_000.0, ops as u64),
        repeats: vec![ops / seconds, ops / seconds * 1.01, ops / seconds * 0.99],
        configuration: configuration(),
        ..Facts::default()
    }
}

fn server(f: &mut Facts) -> &mut Server {
    f.server.as_mut().expect("it has one")
}

/// A clean run on disks, at a rate.
fn clean_disk() -> Facts {
    let mut f = clean();
    f.load.claim = Some(Claim::Disk);
    f.load.requested_rate = Some(1500.0);
    for c in &mut f.clients {
        (c.ops, c.bytes, c.read_bytes) = (9000.0, 9000.0 * 8192.0, 9000.0 * 8192.0);
        c.link = Some(link("eth0", TEN_GBE, 9000.0 * 8400.0));
    }
    f.due = Some(90_010.0);
    let s = server(&mut f);
    (s.ops, s.cpu_busy, s.cache_hits, s.cache_misses) = (Some(90_000.0), Some(0.1), Some(100.0), Some(90_000.0));
    s.links = vec![link("eth0", TEN_GBE, 90_000.0 * 8400.0)];
    s.disks = (0..8)
        .map(|n| Disk {
            name: format!("sd{n}"),
            busy: Some(0.7),
            bytes: Some(90.0 * MB),
            limit_bytes_per_second: Some(200.0 * MB),
        })
        .collect();
    f.series.iter_mut().for_each(|s| s.ops /= 111.1);
    f.latency = hump(8e6, 90_000);
    f.repeats = vec![1500.0, 1499.0, 1500.0];
    f
}

fn clean_writes(sync: bool) -> Facts {
    let mut f = clean();
    f.load.sync = sync;
    f.clients.iter_mut().for_each(|c| c.read_bytes = 0.0);
    let s = server(&mut f);
    (s.sync_ops, s.device_flushes) = (Some(if sync { 1e7 } else { 0.0 }), Some(2e5));
    (s.cache_hits, s.cache_misses) = (Some(0.0), Some(0.0));
    f
}

/// A clean run on a local disk, with direct I/O.
fn clean_local() -> Facts {
    let mut f = clean_disk();
    f.clients.truncate(1);
    f.load.is_local = true;
    f.load.claim = None;
    let s = f.server.take().expect("it has one");
    f.server = Some(Server {
        disks: s.disks,
        cores: s.cores,
        compress_ratio: Some(1.0),
        record_bytes: Some(8192),
        layout: None,
        ..Server::default()
    });
    f.clients[0].link = None;
    f.due = Some(9000.0);
    f
}

fn same(check: Check, f: &Facts, expected: Verdict) -> Finding {
    let judgement = judge(f);
    let found = judgement.of(check).cloned().expect("all checks");
    assert_eq!(found.verdict, expected, "{}", judgement.text());
    for other in judgement.findings.iter().filter(|o| o.check != check) {
        assert_eq!(
            other.verdict,
            Verdict::Pass,
            "the reason is {}, and there is another one:\n{}",
            check.name(),
            judgement.text()
        );
    }
    assert!(!found.reason.is_empty());
    found
}

/// Asserts that a misleading run is refused by this check only, with these words.
fn refused(check: Check, f: &Facts, words: &str) {
    let found = same(check, f, Verdict::Refuse);
    assert!(found.reason.contains(words), "{found:?}");
}

#[test]
fn twelve_clean_runs_pass() {
    let with = |change: &dyn Fn(&mut Facts)| {
        let mut f = clean();
        change(&mut f);
        f
    };
    let runs: [(&str, Facts); 12] = [
        ("of memory", clean()),
        ("claimed to be of memory", with(&|f| f.load.claim = Some(Claim::Cache))),
        ("of disks at a rate", clean_disk()),
        ("writes", clean_writes(false)),
        ("stable writes", clean_writes(true)),
        (
            "requested compressible data",
            with(&|f| {
                f.load.compressible = true;
                server(f).compress_ratio = Some(2.0);
            }),
        ),
        ("a warm cache device", with(&|f| server(f).l2_bytes = Some((100e9, 100e9)))),
        (
            "three clients",
            with(&|f| {
                f.clients.truncate(3);
                let s = server(f);
                (s.ops, s.cache_hits) = (Some(3e6), Some(3e6));
            }),
        ),
        (
            "sequential, with records larger than operations",
            with(&|f| {
                f.load.random = false;
                server(f).record_bytes = Some(1 << 20);
            }),
        ),
        (
            "a link at its limit",
            with(&|f| {
                for c in &mut f.clients {
                    c.link = Some(link("eth0", c.bytes / 60.0 / 0.85, c.bytes));
                }
                let s = server(f);
                s.cpu_busy = Some(0.5);
                s.links = vec![link("eth0", 10.0 * 1e6 * 8192.0 / 60.0 / 0.92, 1e7 * 8192.0)];
            }),
        ),
        ("RAID-Z, declared", with(&|f| server(f).layout = Some("raidz2 of 6".to_owned()))),
        (
            "a rate that was reached",
            with(&|f| {
                f.load.requested_rate = Some(166_666.0);
                f.due = Some(1e7);
                server(f).cpu_busy = Some(0.6);
            }),
        ),
    ];
    for (name, facts) in runs {
        let judgement = judge(&facts);
        assert_eq!(judgement.verdict, Verdict::Pass, "{name}:\n{}", judgement.text());
        assert!(judgement.findings.iter().filter(|f| !f.arithmetic.is_empty()).count() >= 5, "{}", judgement.text());
    }
}

#[test]
fn a_local_disk_is_judged_by_the_checks_that_apply() {
    let judgement = judge(&clean_local());
    // Without a server's counts nothing can be cross-checked, and the check warns.
    assert_eq!(judgement.of(Check::Counts).map(|f| f.verdict), Some(Verdict::Warn), "{}", judgement.text());
    assert_eq!(judgement.of(Check::ClientCache).map(|f| f.verdict), Some(Verdict::Pass), "{}", judgement.text());
}

#[test]
fn a_file_smaller_than_the_clients_cache() {
    let mut f = clean();
    f.load.direct = false;
    f.load.working_set_bytes = Some(1e9);
    let s = server(&mut f);
    (s.ops, s.cache_hits) = (Some(1e5), Some(1e5));
    refused(Check::ClientCache, &f, "the client's cache was measured");
}

#[test]
fn zeros_as_data() {
    let mut f = clean();
    server(&mut f).compress_ratio = Some(500.0);
    refused(Check::Compressible, &f, "compressible, or zeros");
}

#[test]
fn three_hundred_megabytes_over_a_gigabit() {
    let mut f = clean();
    // 300 MB/s from one client with a link of 1 Gbit/s: served from its memory, or its clock is
    // wrong.
    f.clients.truncate(1);
    let bytes = 300.0 * MB * 60.0;
    let c = &mut f.clients[0];
    (c.ops, c.bytes, c.read_bytes) = (bytes / 8192.0, bytes, bytes);
    c.link = Some(link("eth0", 125.0 * MB, bytes));
    let s = server(&mut f);
    (s.ops, s.cache_hits) = (Some(bytes / 8192.0), Some(bytes / 8192.0));
    refused(
        Check::Limits,
        &f,
        "faster than the hardware allows: payload of client0 over eth0: 300.0 MB/s of at most 121.2 MB/s",
    );
}

#[test]
fn a_cold_server() {
    let mut f = clean();
    let s = server(&mut f);
    (s.cache_hits, s.cache_misses, s.cache_bytes) = (Some(8e6), Some(2e6), Some((1e9, 17e9)));
    refused(Check::CacheOrDisk, &f, "a cold server");
}

#[test]
fn a_warming_cache_device() {
    let mut f = clean();
    server(&mut f).l2_bytes = Some((2e9, 6e9));
    refused(Check::WarmUp, &f, "still filling");
}

#[test]
fn one_overloaded_client_of_ten() {
    let mut f = clean();
    let c = &mut f.clients[3];
    // 11.3 MB/s: a port of 100 Mbit/s.
    let ops = 11.3 * MB * 60.0 / 8192.0;
    (c.ops, c.bytes, c.read_bytes) = (ops, ops * 8192.0, ops * 8192.0);
    let all = f.ops();
    let s = server(&mut f);
    (s.ops, s.cache_hits) = (Some(all), Some(all));
    refused(Check::ClientBound, &f, "client client3 reached 11.3 MB/s, 8.3 % of the median rate");
}

#[test]
fn a_scrub_in_the_background() {
    let mut f = clean();
    server(&mut f).jobs = vec!["scrub of tank".to_owned()];
    refused(Check::Documented, &f, "something else was running: scrub of tank");
}

#[test]
fn an_ignored_fsync() {
    let mut f = clean_writes(true);
    server(&mut f).sync_property = Some("disabled".to_owned());
    refused(Check::SyncWrites, &f, "sync=disabled");
    let mut f = clean_writes(true);
    server(&mut f).device_flushes = Some(0.0);
    refused(Check::SyncWrites, &f, "no device was flushed");
}

#[test]
fn a_rate_that_the_generator_could_not_reach() {
    let mut f = clean_disk();
    f.load.requested_rate = Some(2000.0);
    f.due = Some(120_000.0);
    refused(Check::Steady, &f, "the requested rate was not reached");
}

#[test]
fn an_average_that_hides_two_humps() {
    let mut f = clean();
    f.latency = hump(100_000.0, 8_000_000);
    f.latency.extend(hump(8_000_000.0, 2_000_000));
    f.latency.sort_unstable();
    let found = same(Check::Steady, &f, Verdict::Warn);
    assert!(found.reason.contains("an average latency would hide"), "{found:?}");
    assert!(judge(&f).labels.contains(&"bimodal".to_owned()));
}

#[test]
fn two_runs_with_different_record_sizes_compared() {
    let (a, mut b) = (clean(), clean());
    server(&mut b).record_bytes = Some(131_072);
    b.configuration.insert("properties".to_owned(), json!({ "recordsize": "128K" }));
    let refused = compare(&a, &b, &[]);
    assert!(refused.refused.iter().any(|r| r.contains("recordsize: \"8K\" and \"128K\"")), "{refused:?}");
    // Declared factors may differ.
    let declared = compare(&a, &b, &["recordsize".to_owned(), "record_bytes".to_owned()]);
    assert_eq!(declared.refused, Vec::<String>::new());
    assert!(declared.text.contains("no significant difference"), "{}", declared.text);
    b.repeats.iter_mut().for_each(|r| *r *= 1.2);
    let better = compare(&a, &b, &["recordsize".to_owned(), "record_bytes".to_owned()]);
    let (gain, half) = better.gain.expect("repeated");
    assert!((gain - 0.2).abs() < 0.01 && half < 0.05, "{better:?}");
    b.repeats.truncate(1);
    assert!(
        compare(&a, &b, &["recordsize".to_owned(), "record_bytes".to_owned()]).refused[0].contains("repeated 1 times")
    );
}

#[test]
fn too_short_for_a_steady_state() {
    let mut f = clean();
    f.seconds = 5.0;
    f.series.truncate(5);
    f.clients.iter_mut().for_each(|c| {
        (c.ops, c.bytes, c.read_bytes) = (c.ops / 12.0, c.bytes / 12.0, c.read_bytes / 12.0);
        c.link = Some(link("eth0", TEN_GBE, c.bytes));
    });
    let s = server(&mut f);
    (s.ops, s.cache_hits) = (Some(1e7 / 12.0), Some(1e7 / 12.0));
    refused(Check::Steady, &f, "too short");
    // Long enough, but never steady.
    let mut f = clean();
    f.series.iter_mut().enumerate().for_each(|(i, s)| s.ops *= 1.0 + i as f64 / 100.0);
    refused(Check::Steady, &f, "not steady: the rate rose by");
}

#[test]
fn unknown_facts_are_reported_and_never_pass() {
    let mut f = clean();
    f.server = Some(Server::default());
    f.repeats.clear();
    f.configuration.remove("kernel");
    f.clients.iter_mut().for_each(|c| (c.cpu_busy, c.link, c.memory_bytes) = (None, None, None));
    let judgement = judge(&f);
    let warned = judgement.findings.iter().filter(|f| f.verdict == Verdict::Warn).count();
    assert!(warned >= 8, "{}", judgement.text());
    let empty = judge(&Facts::default());
    assert_eq!(empty.verdict, Verdict::Refuse);
}

#[test]
fn a_forced_result_is_marked_on_each_line_and_numbers_have_denominators() {
    let text = clean().text();
    assert!(
        text.contains("for each core (8): 20833 a second")
            && text.contains("for each chip (1)")
            && text.contains("for each disk (1)"),
        "{text}"
    );
    let stamped = stamped(&text);
    assert!(stamped.lines().count() == text.lines().count() && stamped.lines().all(|l| l.starts_with("UNVERIFIED ")));
}

#[test]
fn facts_and_judgements_survive_their_file() {
    let mut facts = clean_disk();
    // A number may lose its last bit in JSON.
    facts.series.iter_mut().for_each(|s| s.ops = s.ops.round());
    let text = serde_json::to_string(&facts).expect("JSON");
    assert_eq!(serde_json::from_str::<Facts>(&text).expect("facts"), facts);
    let judgement = judge(&facts);
    let text = serde_json::to_string(&judgement).expect("JSON");
    assert!(text.contains("\"PASS\""));
    assert_eq!(serde_json::from_str::<Judgement>(&text).expect("a judgement"), judgement);
}
