//! What the tests of changes to devices share: files of random data, and questions about the
//! devices of a [`Rig`].

use super::{Rig, new_file};
use dataset::LiveDataset;
use errors::{Error, Result};
use host::device::{Device, MemoryDevice};
use pool::writer::NewLeaf;
use rig::noise;
use std::sync::Arc;

pub const BLOCK: u64 = 128 << 10;
pub const DISK_BYTES: usize = 160 << 20;

/// Files of random data, each in a txg of its own.
pub struct Files {
    pub live: Arc<LiveDataset>,
    pub files: Vec<u64>,
}

impl Files {
    pub fn new(rig: &Rig) -> Self {
        rig.create("tank/a", &[]).unwrap();
        Self { live: rig.open("tank/a"), files: Vec::new() }
    }

    pub fn put(&mut self, rig: &Rig) {
        let seed = self.files.len() as u64 + 1;
        let id = {
            let tx = self.live.begin(8 * BLOCK).unwrap();
            let id = new_file(self.live.objset(), &tx, 1).unwrap();
            self.live.objset().object(id).unwrap().write_at(&tx, 0, &noise(seed, 6 * BLOCK as usize)).unwrap();
            id
        };
        rig.live.writer().sync().unwrap();
        self.files.push(id);
    }
}

/// The on-disk state is correct, both to Weir and to OpenZFS; every file has its contents.
pub fn check(rig: &Rig, files: &Files) {
    check_ours(rig, files);
    rig.judge();
}

pub fn check_ours(rig: &Rig, files: &Files) {
    rig.live.writer().sync().unwrap();
    let found = rig.found();
    let report = pool::scan::verify(&found, &pool::scan::Options { threads: 1 }, &|_| true).unwrap();
    assert!(report.is_consistent() && report.lost_blocks == 0, "{report:#?}");
    let tree = dataset::Datasets::open(found).unwrap();
    let set = tree.dataset("tank/a").unwrap().objset(rig.live.keys()).unwrap();
    for (id, seed) in files.files.iter().zip(1..) {
        let read = set.object(*id).unwrap().read_vec(0, 6 * BLOCK as usize).unwrap();
        assert!(read == noise(seed, 6 * BLOCK as usize), "file {seed}");
    }
}

pub fn disk(name: &str) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(name, vec![0; DISK_BYTES]))
}

pub fn new_leaf(device: &Arc<dyn Device>) -> NewLeaf {
    NewLeaf {
        kind: "file",
        path: device.name().to_owned(),
        device: Some(device.clone()),
        ashift: 9,
        spare: None,
        sequentially: false,
    }
}

/// The current leaf on the device of that name.
pub fn guid(rig: &Rig, name: &str) -> u64 {
    let tree = rig.live.writer().store().tree();
    tree.leaves().into_iter().find(|leaf| leaf.path == name).unwrap_or_else(|| panic!("{name}")).guid
}

pub fn stale(rig: &Rig, name: &str) -> Vec<(u64, u64)> {
    let tree = rig.live.writer().store().tree();
    tree.leaves().into_iter().find(|leaf| leaf.path == name).unwrap().stale_ranges()
}

pub fn refusal<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Invalid { what, .. }) => what,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// Lines of zdb's output about the configuration in the MOS, without leading spaces; empty if zdb
/// is not installed.
pub fn config(rig: &Rig) -> Vec<String> {
    let text = rig.zdb(&["-C", "tank"]).unwrap_or_default();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

pub fn has(config: &[String], line: &str) -> bool {
    config.is_empty() || config.iter().any(|l| l.starts_with(line))
}

/// Re-imports the pool with those of its devices that are present.
pub fn reopen(rig: Rig, files: Files) -> (Rig, Files) {
    let Files { live, files } = files;
    drop(live);
    let rig = rig.reopen();
    let live = rig.open("tank/a");
    (rig, Files { live, files })
}

/// Waits until a resilver has done everything it can.
pub fn resilvered(rig: &Rig) {
    let writer = rig.live.writer();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let tree = || writer.store().tree();
    while tree().leaves().iter().any(|leaf| leaf.is_open() && !leaf.stale_ranges().is_empty()) {
        assert!(std::time::Instant::now() < end, "no resilver: {:?}", rig.found().status().unwrap().scan);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    writer.sync().unwrap();
}

/// Waits until the scan's thread is idle.
pub fn settle(rig: &Rig) {
    let (writer, since) = (rig.live.writer(), std::time::Instant::now());
    loop {
        let now = writer.scan_activity();
        if !now.resilvering && !now.scrubbing {
            return;
        }
        assert!(since.elapsed().as_secs() < 60, "{now:?}");
        writer.wait_for_scan(std::time::Duration::from_millis(20));
    }
}
