//! Replays the intent log that the kernel left in the image `unclean-log`. The result must equal
//! the tree after the kernel's own replay.

use dataset::intent_log::claim_logs;
use dataset::live::LiveDatasets;
use dataset::{Datasets, KeyStore};
use files::zpl::{FileSystem, Options, owners_of};
use host::device::{Device, MemoryDevice};
use oracle::tree::{Mounts, tree};
use pool::writer::WriteOptions;
use pool::{OpenOptions, Pool, Writer, scan, search_devices};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Removes the mtime, which a replay sets to its own time.
fn timeless(lines: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let timeless = |line: Vec<u8>| {
        let mut fields: Vec<&[u8]> = line.splitn(9, |b| *b == b'|').collect();
        if fields.len() == 9 {
            fields.remove(5);
        }
        fields.join(&b'|')
    };
    lines.into_iter().map(timeless).collect()
}

#[test]
fn the_kernels_log_leads_to_the_tree_that_the_kernel_came_to() {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from) else {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked images");
        return;
    };
    let bytes = std::fs::read(folder.join("unclean-log/u0")).unwrap();
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("u0", bytes));
    let found = || search_devices([device.clone()]).pools.remove(0);
    let options =
        WriteOptions { claim_logs: Some(claim_logs), interval: Duration::from_secs(3600), ..WriteOptions::default() };
    let writer = Writer::open(&found(), &OpenOptions::default(), &options).unwrap();
    let live = LiveDatasets::new(writer.clone(), Arc::new(KeyStore::new()));
    let dataset = live.open("tu/fs", Some(owners_of)).unwrap();
    assert!(dataset.log().needs_replay());
    let files = FileSystem::mount(&dataset).unwrap();
    assert!(!dataset.log().needs_replay());

    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../images/unclean-log/tree-after-replay");
    let expected = timeless(oracle::recordings::tree(&manifest).unwrap());
    let compare = |files: &FileSystem, when: &str| {
        let found = timeless(tree(files, &Mounts::new()).unwrap());
        if let Some(text) = oracle::recordings::differences(&expected, &found) {
            panic!("{when}: {text}");
        }
    };
    compare(&files, "after the replay");
    live.close_all().unwrap();
    writer.export().unwrap();
    let pool = Pool::open(&found(), &OpenOptions::default()).unwrap();
    let report = scan::verify(&pool, &scan::Options { threads: 2 }, &|_| true).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let objset = Datasets::open(pool).unwrap().dataset("tu/fs").unwrap().objset(&KeyStore::new()).unwrap();
    compare(&FileSystem::open(objset, Options::default()).unwrap(), "on disk");
}
