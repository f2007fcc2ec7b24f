//! A few kills on each of two pools; `make soak` runs hundreds on all.

use crash::{Layout, Plan};
use std::path::PathBuf;

fn kill(layout: &str, kills: u64) {
    if !std::path::Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        println!("skipped: mounting needs root and /dev/fuse");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    let plan = Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_crash")),
        weir: None,
        folder: folder.path().canonicalize().expect("a path"),
        layout: Layout::find(layout).expect("a layout"),
        seed: now.as_secs(),
        kills,
        threads: 3,
        zdb_every: 4,
    };
    let totals = plan.run().unwrap_or_else(|e| panic!("{e:#}"));
    println!("{layout}: {totals:?}");
}

#[test]
fn nothing_synced_is_missing_when_the_server_is_killed() {
    kill("single", 3);
    kill("encrypted-raidz1-log", 3);
}
