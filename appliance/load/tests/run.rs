//! Loads a directory of this machine, and an NFS server on a file system in memory: what was done is what the report says.

use load::{Arrivals, Kind, Plan, Target};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn plan(kind: Kind, target: Target) -> Plan {
    Plan {
        kind,
        targets: vec![target],
        size: 4096,
        threads: 2,
        depth: 1,
        arrivals: Arrivals::Closed,
        time: Some(Duration::from_millis(300)),
        file_size: 256 << 10,
        span: None,
        sync: false,
        zeros: 50,
        seed: 7,
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
fn a_server_of_nfs_with_several_calls_under_way_and_at_a_rate() {
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
    // The arithmetic of rates is a test of `pace`; a busy machine may do less here, never more.
    plan.arrivals = Arrivals::Poisson(200.0);
    plan.time = Some(Duration::from_secs(1));
    let report = plan.run(&never).expect("done");
    assert!(report.ops > 0 && report.ops < 320, "{}", report.ops);
}

#[test]
fn what_cannot_be_is_said() {
    let never = AtomicBool::new(false);
    let error = |plan: Plan| format!("{:#}", plan.run(&never).expect_err("it cannot be"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = Target::Path(folder.path().join("file"));
    assert!(error(Plan { size: 0, ..plan(Kind::RandRead, file.clone()) }).contains("operations have"));
    assert!(error(Plan { size: 1 << 20, ..plan(Kind::RandRead, file.clone()) }).contains("say --file-size"));
    assert!(error(Plan { depth: 2, ..plan(Kind::Meta, Target::Path(folder.path().into())) }).contains("meta"));
    assert!(error(plan(Kind::Meta, file)).contains("no directory"));
    let nobody = "nfs://127.0.0.1:1/export/file".parse().expect("an URL");
    assert!(error(plan(Kind::RandRead, nobody)).contains("127.0.0.1:1"));
}

mod support;
