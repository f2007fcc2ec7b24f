//! A short run of each judge; `testing/wire/run` and `make soak` run for hours.

use std::path::PathBuf;
use std::time::Duration;
use wire::{Server, kills, ledger, load, mutate};

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_wire"))
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a path");
    (folder, path)
}

fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    now.as_secs()
}

fn kill(server: Server, layout: &str) {
    let (_kept, folder) = folder();
    let layout = crash::Layout::find(layout).expect("a layout");
    let plan =
        kills::Plan { program: program(), server, layout, folder, seed: seed(), kills: 3, threads: 3, zdb_every: 3 };
    let totals = plan.run().unwrap_or_else(|e| panic!("{e:#}"));
    println!("{totals:?}");
    assert!(totals.judged > 3 && totals.calls > 100, "{totals:?}");
}

#[test]
fn nothing_acknowledged_over_nfs_is_missing_when_the_daemon_is_killed() {
    kill(Server::Weir(None), "single");
}

#[test]
fn nothing_acknowledged_over_nfs_is_missing_when_the_power_fails() {
    kill(Server::Cut, "encrypted-raidz1-log");
}

/// Extended attributes, copies, allocation, volumes: everything acknowledged to clients of 4.2 and
/// NBD as durable, while properties change.
#[test]
fn nothing_acknowledged_over_nfs_4_2_and_nbd_is_missing_when_the_power_fails_while_properties_change() {
    let (_kept, folder) = folder();
    let layout = crash::Layout::find("raidz1").expect("a layout");
    let plan = ledger::Plan { program: program(), layout, folder, seed: seed(), cuts: 4, clients: 2, zdb_every: 4 };
    let totals = plan.run().unwrap_or_else(|e| panic!("{e:#}"));
    println!("{totals}");
    let (contents, attributes, _, blocks) = totals.safe;
    assert!(totals.judged > 8 && contents > 20 && attributes > 10 && blocks > 20, "{totals}");
}

#[test]
fn concurrent_clients_read_what_was_written() {
    let (_kept, folder) = folder();
    let (time, reads_percent) = (Duration::from_secs(3), 80);
    let (connections, clients, outstanding) = (200, 8, 16);
    let server = Server::Weir(None);
    let plan =
        load::Plan { program: program(), server, folder, time, connections, clients, outstanding, reads_percent };
    let report = plan.run().unwrap_or_else(|e| panic!("{e:#}"));
    println!("{report}");
    // Speed can only be judged on a quiet machine.
    report.check(0).unwrap_or_else(|e| panic!("{e:#}"));
}

#[test]
fn calls_that_are_none_cost_their_connection_and_nothing_else() {
    let (_kept, folder) = folder();
    let (server, time) = (Server::Weir(None), Duration::from_secs(5));
    let plan = mutate::Plan { program: program(), server, folder, seed: seed(), time, keep: None };
    println!("{}", plan.run().unwrap_or_else(|e| panic!("{e:#}")));
}
