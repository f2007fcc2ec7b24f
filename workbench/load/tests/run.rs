//! Loads a local directory, and an NFS server with a file system in memory: the report must match
//! what was done.

use load::{Arrivals, Kind, Plan, Steps, Target, What};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn plan(kind: Kind, target: Target) -> Plan {
    Plan {
        kind,
        targets: vec![target],
        size: 4096,
        threads: 2,
        time: Some(Duration::from_millis(300)),
        file_size: 256 << 10,
        zeros: 50,
        seed: 7,
        ..Plan::default()
    }
}

fn kinds(target: impl Fn(Kind) -> Target) {
    let never = AtomicBool::new(false);
    for kind in [Kind::SeqWrite, Kind::RandWrite, Kind::SeqRead, Kind::RandRead, Kind::Mix(50), Kind::Meta] {
        let report = plan(kind, target(kind)).run(&never).unwrap_or_else(|e| panic!("{}: {e:#}", kind.name()));
        assert_eq!((report.failed, report.first_failure.as_deref()), (0, None), "{}", kind.name());
        assert!(report.ops > 0, "{}", kind.name());
        assert_eq!(report.bytes, if kind == Kind::Meta { 0 } else { report.ops * 4096 }, "{}", kind.name());
    }
}

#[test]
fn files_of_this_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    kinds(|kind| Target::Path(if kind == Kind::Meta { folder.path().into() } else { folder.path().join("file") }));
    assert_eq!(folder.path().join("file").metadata().expect("made").len(), 256 << 10);
}

#[test]
fn an_nfs_server_with_several_calls_in_flight_and_at_a_rate() {
    let server = support::server();
    let target = |kind| {
        let file = if kind == Kind::Meta { "" } else { "/deep/file" };
        format!("nfs://{0}/export{file}?uid=0", server.address).parse().expect("an URL")
    };
    kinds(target);
    let mut plan = plan(Kind::RandRead, target(Kind::RandRead));
    plan.depth = 8;
    let never = AtomicBool::new(false);
    assert!(plan.run(&never).expect("done").ops > 0);
    // The arithmetic of rates is tested in `pace`; a busy machine may do less here, never more.
    plan.arrivals = Arrivals::Poisson(200.0);
    plan.time = Some(Duration::from_secs(1));
    let report = plan.run(&never).expect("done");
    assert!(report.ops > 0 && report.ops < 320, "{}", report.ops);
}

#[test]
fn an_nbd_volume_with_several_requests_in_flight_and_flushes() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let _server = support::volume(&socket);
    let target = |name: &str| format!("nbd+unix:///{name}?socket={}", socket.display()).parse().expect("an URL");
    let never = AtomicBool::new(false);
    for kind in [Kind::SeqWrite, Kind::RandRead, Kind::Mix(50)] {
        let plan = Plan { depth: 8, fsync: 16, file_size: 0, ..plan(kind, target("tank/v")) };
        let report = plan.run(&never).unwrap_or_else(|e| panic!("{}: {e:#}", kind.name()));
        assert_eq!((report.failed, report.first_failure.as_deref()), (0, None), "{}", kind.name());
        let (moved, synced) = (report.of(What::Read).count + report.of(What::Write).count, report.of(What::Sync).count);
        assert_eq!((report.bytes, report.ops), (moved * 4096, moved + synced), "{}", kind.name());
        assert_eq!(synced > 0, kind != Kind::RandRead, "{}", kind.name());
    }
    let error = plan(Kind::RandRead, target("tank/w")).run(&never).expect_err("there is none");
    assert!(format!("{error:#}").contains("export 'tank/w'"), "{error:#}");
}

#[test]
fn a_load_that_is_stepped_up_has_more_threads_each_step_and_counts_its_operations_by_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = Target::Path(folder.path().join("file"));
    let plan = Plan {
        threads: 3,
        // Two seconds more than the steps take: a busy machine starts the last thread late.
        time: Some(Duration::from_secs(5)),
        steps: Some(Steps { from: 1, every: Duration::from_secs(1) }),
        ops: Some(u64::MAX),
        ..plan(Kind::RandRead, file.clone())
    };
    let report = plan.run(&AtomicBool::new(false)).expect("done");
    assert!(report.series.len() >= 3, "{}", report.series.len());
    assert_eq!(report.series.iter().map(|s| s.threads).max(), Some(3));
    assert!(report.series[0].threads < 3);
    let in_seconds: u64 = report.series.iter().map(|s| s.ops).sum();
    assert!(in_seconds <= report.ops && in_seconds * 2 > report.ops);
    // A number of operations ends it, too.
    let plan = Plan { ops: Some(10), time: None, steps: None, ..plan };
    assert_eq!(plan.run(&AtomicBool::new(false)).expect("done").ops, 30);
    // With direct I/O, if the file system supports it.
    let plan = Plan { ops: Some(10), time: None, direct: true, ..self::plan(Kind::Mix(50), file) };
    match plan.run(&AtomicBool::new(false)) {
        Ok(report) => assert_eq!((report.ops, report.failed), (20, 0)),
        Err(error) => assert!(format!("{error:#}").contains("Invalid argument"), "{error:#}"),
    }
}

#[test]
fn impossible_loads_are_refused_with_a_reason() {
    let never = AtomicBool::new(false);
    let error = |plan: Plan| format!("{:#}", plan.run(&never).expect_err("refused"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = Target::Path(folder.path().join("file"));
    assert!(error(Plan { size: 0, ..plan(Kind::RandRead, file.clone()) }).contains("operations have"));
    assert!(error(Plan { size: 1 << 20, ..plan(Kind::RandRead, file.clone()) }).contains("use --file-size"));
    assert!(error(Plan { depth: 2, ..plan(Kind::Meta, Target::Path(folder.path().into())) }).contains("meta"));
    assert!(error(plan(Kind::Meta, file)).contains("is not a directory"));
    let nobody = "nfs://127.0.0.1:1/export/file".parse().expect("an URL");
    assert!(error(plan(Kind::RandRead, nobody)).contains("127.0.0.1:1"));
}

mod flows;
mod support;
