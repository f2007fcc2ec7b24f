//! Each reason from the inputs that give it, and none from inputs that do not.

use super::super::inputs::DiskTimes;
use super::*;
use api::{AlertReduction, AlertRule, AlertSide, Device, Health, Pool, Scan, State};

const NOW: u64 = 1_795_303_000;

fn device(kind: &str, name: &str, state: State, children: Vec<Device>) -> Device {
    Device {
        name: name.to_owned(),
        kind: kind.to_owned(),
        class: "normal".to_owned(),
        guid: String::new(),
        state,
        reason: None,
        path: None,
        io: None,
        read_errors: 0,
        write_errors: 0,
        checksum_errors: 0,
        slow_operations: 0,
        self_healed_bytes: 0,
        read_operations: 0,
        read_bytes: 0,
        write_operations: 0,
        write_bytes: 0,
        size_bytes: 0,
        allocated_bytes: 0,
        fragmentation_percent: None,
        children,
    }
}

fn leaf(name: &str, state: State) -> Device {
    device("disk", name, state, Vec::new())
}

/// A top-level device with these states of its disks: `a`, `b`, `c` …
fn top(kind: &str, name: &str, states: &[State]) -> Device {
    let leaves = ('a'..).zip(states).map(|(letter, state)| leaf(&letter.to_string(), *state)).collect();
    let state = if states.iter().all(|s| *s == State::Online) { State::Online } else { State::Degraded };
    device(kind, name, state, leaves)
}

fn pool(tops: Vec<Device>) -> PoolInput {
    let good = tops.iter().all(|top| top.state == State::Online);
    let root = device("root", "tank", State::Online, tops);
    let status = || Some("One or more devices could not be opened.".to_owned());
    PoolInput {
        pool: Pool {
            name: "tank".to_owned(),
            guid: String::new(),
            state: if good { State::Online } else { State::Degraded },
            health: Health {
                ok: good,
                status: status().filter(|_| !good),
                action: (!good).then(|| "Attach it.".to_owned()),
                see: None,
            },
            read_only: false,
            size_bytes: 0,
            allocated_bytes: 0,
            free_bytes: 0,
            capacity_percent: 0,
            fragmentation_percent: None,
            used_bytes: 10,
            available_bytes: 90,
            dedup_ratio: 1.0,
            altroot: None,
            error_count: 0,
            txg: 1,
            scan: None,
        },
        devices: vec![root],
        spares: Vec::new(),
        disks: Vec::new(),
        scan: LastScan::Finished(NOW - 100),
    }
}

fn of_pool(pool: PoolInput) -> Vec<HealthReason> {
    of(Inputs { pools: vec![pool], ..Inputs::default() })
}

fn of(inputs: Inputs) -> Vec<HealthReason> {
    assess(&Inputs { now: NOW, ..inputs }).reasons
}

/// Severity, condition and subject of the only reason.
fn only(reasons: &[HealthReason]) -> (HealthVerdict, HealthKind, &str) {
    let [one] = reasons else { panic!("{reasons:#?}") };
    (one.severity, one.kind, &one.subject)
}

use HealthVerdict::{Attention, Serious};
use State::{Faulted, Offline, Online, Removed, Unavail};

#[test]
fn everything_is_good_if_nothing_is_wrong_or_nothing_is_known() {
    for inputs in [
        Inputs::default(),
        Inputs { pools: vec![pool(vec![top("mirror", "mirror-0", &[Online, Online])])], ..Inputs::default() },
    ] {
        assert_eq!(assess(&inputs), SystemHealth { verdict: HealthVerdict::Good, reasons: Vec::new() });
    }
}

#[test]
fn a_lost_device_is_serious_if_it_was_the_last_redundancy() {
    let cases: &[(&str, &str, &[State], HealthVerdict)] = &[
        ("mirror", "mirror-0", &[Online, Faulted], Serious),
        ("mirror", "mirror-0", &[Online, Online, Removed], Attention),
        ("raidz", "raidz1-0", &[Online, Online, Unavail], Serious),
        ("raidz", "raidz2-0", &[Online, Online, Offline, Online], Attention),
        ("draid", "draid2:4d:8c:1s-0", &[Online, Faulted, Online], Attention),
    ];
    for (kind, name, states, expected) in cases {
        let reasons = of_pool(pool(vec![top(kind, name, states)]));
        let (severity, kind, subject) = only(&reasons);
        assert_eq!((severity, kind, subject.starts_with("tank: ")), (*expected, HealthKind::Device, true), "{name}");
        assert_eq!((reasons[0].link.as_str(), reasons[0].action.as_deref()), ("/pools/tank", Some("Attach it.")));
    }
    let reasons = of_pool(pool(vec![top("raidz", "raidz2-0", &[Online, Online, Unavail])]));
    assert_eq!(reasons[0].what, "The device is UNAVAIL. raidz2-0 survives the loss of one more device.");
}

#[test]
fn devices_that_are_replaced_and_spares_in_use_are_no_reason() {
    let replacing =
        device("replacing", "replacing-0", State::Degraded, vec![leaf("old", Unavail), leaf("new", Online)]);
    let mut input = pool(vec![device("mirror", "mirror-0", State::Degraded, vec![leaf("a", Online), replacing])]);
    input.pool.scan = Some(Scan {
        kind: "resilver".to_owned(),
        state: "active".to_owned(),
        started: 0,
        ended: None,
        done_bytes: 0,
        total_bytes: 0,
        repaired_bytes: 0,
        errors: 0,
    });
    // Then the pool's status is the reason: it is being resilvered.
    assert_eq!(only(&of_pool(input)), (Attention, HealthKind::Pool, "tank"));
    let mut input = pool(vec![top("mirror", "mirror-0", &[Online, Online])]);
    input.spares = vec![leaf("s", State::Avail), leaf("t", State::Inuse), leaf("u", Unavail)];
    assert_eq!(only(&of_pool(input)), (Attention, HealthKind::Device, "tank: u"));
}

#[test]
fn errors_of_a_device_in_service_need_attention() {
    let mut input = pool(vec![top("mirror", "mirror-0", &[Online, Online])]);
    input.devices[0].children[0].children[1].checksum_errors = 3;
    let reasons = of_pool(input);
    assert_eq!(only(&reasons), (Attention, HealthKind::Device, "tank: b"));
    assert!(reasons[0].what.starts_with("0 read, 0 write and 3 checksum errors"), "{}", reasons[0].what);
}

#[test]
fn a_cache_device_holds_no_data() {
    let mut input = pool(vec![top("mirror", "mirror-0", &[Online, Online])]);
    input.devices.push(Device { class: "l2cache".to_owned(), ..leaf("cache", Faulted) });
    assert_eq!(only(&of_pool(input)), (Attention, HealthKind::Device, "tank: cache"));
}

#[test]
fn damaged_files_and_suspended_pools_are_serious() {
    let mut input = pool(vec![top("mirror", "mirror-0", &[Online, Online])]);
    (input.pool.health.ok, input.pool.error_count) = (false, 2);
    assert_eq!(only(&of_pool(input)), (Serious, HealthKind::Pool, "tank"));
    let mut input = pool(vec![top("mirror", "mirror-0", &[Online, Online])]);
    (input.pool.health.ok, input.pool.state) = (false, State::Suspended);
    assert_eq!(only(&of_pool(input)), (Serious, HealthKind::Pool, "tank"));
    let inputs = Inputs { closed: vec!["gone".to_owned()], ..Inputs::default() };
    assert_eq!(only(&of(inputs)), (Serious, HealthKind::Pool, "gone"));
}

#[test]
fn space_is_judged_by_what_datasets_can_use() {
    let full = |used: u64, available: u64| {
        let mut input = pool(vec![top("mirror", "mirror-0", &[Online, Online])]);
        (input.pool.used_bytes, input.pool.available_bytes) = (used, available);
        of_pool(input)
    };
    assert_eq!((full(80, 20), full(0, 0)), (Vec::new(), Vec::new()));
    for (used, severity) in [(81, Attention), (90, Attention), (91, Serious), (96, Serious), (100, Serious)] {
        let reasons = full(used, 100 - used);
        assert_eq!(only(&reasons), (severity, HealthKind::Space, "tank"), "{used}");
        assert!(reasons[0].what.starts_with(&format!("{used} % of the usable space")), "{}", reasons[0].what);
    }
    let mut input = pool(vec![top("mirror", "mirror-0", &[Online, Online])]);
    (input.pool.used_bytes, input.pool.available_bytes, input.pool.read_only) = (99, 1, true);
    assert_eq!(of_pool(input), []);
}

#[test]
fn a_disk_is_slow_only_compared_with_disks_of_the_same_load() {
    let disk = |name: &str, siblings: &str, read_ms: u64| DiskTimes {
        name: name.to_owned(),
        siblings: siblings.to_owned(),
        read_p99_ns: Some(read_ms * 1_000_000),
        write_p99_ns: None,
    };
    let slow = |disks: &[DiskTimes]| slow_disks(disks).into_iter().map(|slow| slow.name).collect::<Vec<_>>();
    assert_eq!(slow(&[disk("a", "mirror-0", 10), disk("b", "mirror-0", 60)]), ["b"]);
    assert_eq!(slow(&[disk("a", "mirror-0", 10), disk("b", "mirror-0", 40)]), [""; 0]);
    // Flash and spinning disks.
    assert_eq!(slow(&[disk("a", "mirror-0", 1), disk("b", "mirror-1", 60)]), [""; 0]);
    // All are slow: that is the load.
    assert_eq!(slow(&[disk("a", "raidz1-0", 90), disk("b", "raidz1-0", 80), disk("c", "raidz1-0", 95)]), [""; 0]);
    // Fast enough.
    assert_eq!(slow(&[disk("a", "mirror-0", 0), disk("b", "mirror-0", 4)]), [""; 0]);
    let unknown = DiskTimes { read_p99_ns: None, ..disk("a", "mirror-0", 0) };
    assert_eq!(slow(&[unknown, disk("b", "mirror-0", 60)]), [""; 0]);
    let writes = |name: &str, ms: u64| DiskTimes { write_p99_ns: Some(ms * 1_000_000), ..disk(name, "mirror-0", 10) };
    let mut input = pool(vec![top("mirror", "mirror-0", &[Online, Online])]);
    input.disks = vec![writes("a", 2), writes("b", 100)];
    let reasons = of_pool(input);
    assert_eq!(only(&reasons), (Attention, HealthKind::SlowDisk, "tank: b"));
    assert!(reasons[0].what.starts_with("99 % of writes take up to 100.0 ms, 2.0 ms on its siblings."));
}

#[test]
fn an_old_scrub_needs_attention_and_an_unknown_one_does_not() {
    let scrubbed = |scan| of_pool(PoolInput { scan, ..pool(vec![top("mirror", "mirror-0", &[Online, Online])]) });
    let (recent, old) = (NOW - SCRUB_DAYS * DAY, NOW - 60 * DAY);
    for scan in [
        LastScan::Unknown,
        LastScan::Finished(recent),
        LastScan::NoneSince(recent),
        LastScan::OtherEnded(recent),
        LastScan::Finished(NOW + 100),
    ] {
        assert_eq!(scrubbed(scan), [], "{scan:?}");
    }
    for (scan, what) in [
        (LastScan::Finished(old), "The last scrub finished 60 days ago."),
        (LastScan::NoneSince(old), "The pool was created 60 days ago and never scrubbed."),
        (LastScan::OtherEnded(old), "No scrub has finished for 60 days."),
    ] {
        let reasons = scrubbed(scan);
        assert_eq!((only(&reasons), reasons[0].since), ((Attention, HealthKind::Scrub, "tank"), Some(old)));
        assert!(reasons[0].what.starts_with(what), "{}", reasons[0].what);
    }
}

#[test]
fn a_failed_stream_needs_attention_only_where_one_succeeded_before() {
    let stream = |last_success, failure: Option<u64>| {
        let failure = failure.map(|time| (time, "broken pipe".to_owned()));
        let stream = StreamRecord { kind: JobKind::Send, dataset: "tank/a".to_owned(), last_success, failure };
        of(Inputs { streams: vec![stream], ..Inputs::default() })
    };
    assert_eq!((stream(None, Some(NOW)), stream(Some(NOW), None)), (Vec::new(), Vec::new()));
    assert_eq!(stream(Some(1), Some(NOW - (STREAM_DAYS + 1) * DAY)), []);
    let reasons = stream(Some(NOW - 7200), Some(NOW - 60));
    assert_eq!((only(&reasons), reasons[0].since), ((Attention, HealthKind::Replication, "tank/a"), Some(NOW - 60)));
    assert_eq!(reasons[0].what, "The last send failed: broken pipe. The last successful one ended 2 h ago.");
}

#[test]
fn a_certificate_needs_attention_before_it_expires() {
    let left = |lifetime_days: u64, left: u64| {
        let not_after = NOW + left;
        let validity = Validity { not_before: not_after - lifetime_days * DAY, not_after };
        of(Inputs { certificate: Some(validity), ..Inputs::default() })
    };
    assert_eq!(left(90, 15 * DAY), []);
    for (seconds, severity) in [(13 * DAY, Attention), (2 * DAY, Serious), (0, Serious)] {
        assert_eq!(only(&left(90, seconds)), (severity, HealthKind::Certificate, "HTTPS"), "{seconds}");
    }
    // One for six days is renewed when two are left.
    assert_eq!(left(6, 2 * DAY), []);
    let expired = Validity { not_before: 0, not_after: NOW - 5 };
    let reasons = of(Inputs { certificate: Some(expired), ..Inputs::default() });
    assert_eq!((reasons[0].since, reasons[0].severity), (Some(NOW - 5), Serious));
}

#[test]
fn refused_clients_are_a_reason_for_an_hour() {
    let refused = |last| {
        let refusals = vec![(Refusal::Clients, 3, last), (Refusal::Opens, 0, 0)];
        of(Inputs { refusals, ..Inputs::default() })
    };
    assert_eq!(refused(NOW - REFUSED_SECONDS - 1), []);
    let reasons = refused(NOW - 60);
    assert_eq!((only(&reasons), reasons[0].since), ((Attention, HealthKind::Clients, "NFS"), Some(NOW - 60)));
    assert!(reasons[0].what.contains("NFSv4 clients (3 times)."), "{}", reasons[0].what);
}

fn firing(builtin: Option<HealthKind>) -> Alert {
    Alert {
        id: 1,
        rule: AlertRule {
            title: "slow reads".to_owned(),
            statistic: "nfs3.ops".to_owned(),
            reduction: AlertReduction::Total,
            percentile: None,
            side: AlertSide::Above,
            limit: 5.0,
            for_seconds: 60,
            clear_seconds: 60,
            suspended: false,
            silent_until: None,
            actions: Vec::new(),
        },
        owner: "ann".to_owned(),
        builtin,
        unit: "ops/s".to_owned(),
        firing_since: Some(NOW - 9),
        last_value: Some(7.5),
        waiting: 0,
        last_error: None,
    }
}

#[test]
fn a_firing_alert_is_a_reason_unless_it_is_silenced_or_repeats_another_one() {
    let alerts = |alert: Alert| of(Inputs { alerts: vec![alert], ..Inputs::default() });
    let reasons = alerts(firing(None));
    assert_eq!((only(&reasons), reasons[0].since), ((Attention, HealthKind::Alert, "slow reads"), Some(NOW - 9)));
    assert_eq!(reasons[0].what, "The alert fires: 7.5 ops/s, above 5 ops/s.");
    assert_eq!(alerts(Alert { firing_since: None, ..firing(None) }), []);
    let mut silenced = firing(None);
    silenced.rule.silent_until = Some(NOW + 10);
    assert_eq!(alerts(silenced.clone()), []);
    silenced.rule.silent_until = Some(NOW - 10);
    assert_eq!(alerts(silenced.clone()).len(), 1);
    silenced.rule.suspended = true;
    assert_eq!(alerts(silenced), []);
    // With another limit than the verdict's, a built-in alert is a reason of its own.
    assert_eq!(only(&alerts(firing(Some(HealthKind::Space)))).1, HealthKind::Alert);
    let mut full = pool(vec![top("mirror", "mirror-0", &[Online, Online])]);
    (full.pool.used_bytes, full.pool.available_bytes) = (85, 15);
    let inputs = Inputs { pools: vec![full], alerts: vec![firing(Some(HealthKind::Space))], ..Inputs::default() };
    assert_eq!(only(&of(inputs)).1, HealthKind::Space);
}

#[test]
fn the_most_severe_reason_is_first_and_decides() {
    let mut full = pool(vec![top("mirror", "mirror-0", &[Online, Faulted])]);
    (full.pool.used_bytes, full.pool.available_bytes) = (85, 15);
    let health = assess(&Inputs { now: NOW, pools: vec![full], alerts: vec![firing(None)], ..Inputs::default() });
    let severities: Vec<_> = health.reasons.iter().map(|r| r.severity).collect();
    assert_eq!((health.verdict, severities), (Serious, vec![Serious, Attention, Attention]));
}
