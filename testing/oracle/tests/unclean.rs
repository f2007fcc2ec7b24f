//! The kernel's unfinished log, replayed by us, gives the tree that the kernel had when it was stopped.
//!
//! What a replay writes to gets the time of the replay, from the kernel too: of those the time of change is not compared.
//!
//! `WEIR_FIXTURES` and `WEIR_EXPECTED` as for `fixtures`.

use dataset::intent_log::claim_logs;
use dataset::{KeyStore, LiveDatasets};
use files::FileSystem;
use files::zpl::owners_of;
use host::device::{Device, MemoryDevice};
use oracle::{recorded, tree};
use pool::scan::{self, Options};
use pool::writer::WriteOptions;
use pool::{OpenOptions, Pool, Writer, search_devices};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What the log's records write to.
const TOUCHED: [&str; 5] = [".", "./logdir", "./logged", "./syncfile", "./random.bin"];

/// The line of an entry, without its time if a replay changes it.
fn without_time(line: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&line).into_owned();
    let mut fields: Vec<&str> = text.split('|').collect();
    match fields.len() {
        9 if TOUCHED.contains(&fields[8]) => {
            fields[5] = "";
            fields.join("|").into_bytes()
        }
        _ => line,
    }
}

#[test]
fn the_kernels_log_replays_to_the_kernels_tree() {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let Some(images) = folder("WEIR_FIXTURES") else {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked scenarios, WEIR_EXPECTED to what was recorded");
        return;
    };
    let expected = folder("WEIR_EXPECTED").unwrap_or_else(|| images.clone()).join("unclean-log/tree-after-replay");
    let bytes = std::fs::read(images.join("unclean-log/u0")).unwrap();
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("u0", bytes));
    let options =
        WriteOptions { claim_logs: Some(claim_logs), interval: Duration::from_secs(3600), ..WriteOptions::default() };
    let found = search_devices([device.clone()]).pools.remove(0);
    let writer = Writer::open(&found, &OpenOptions::default(), &options).unwrap();
    let live = LiveDatasets::new(writer.clone(), Arc::new(KeyStore::new()));
    let dataset = live.open("tu/fs", Some(owners_of)).unwrap();
    let files = FileSystem::mount(&dataset).unwrap();
    let compare = |files: &FileSystem, when: &str| {
        let lines = |lines: Vec<Vec<u8>>| lines.into_iter().map(without_time).collect::<Vec<_>>();
        let ours = lines(tree::tree(files, &tree::Mounts::new()).unwrap());
        if let Some(text) = recorded::differences(&lines(recorded::tree(&expected).unwrap()), &ours) {
            panic!("{when}: {text}");
        }
    };
    compare(&files, "right after the replay");
    drop(files);
    live.close(&dataset).unwrap();
    drop((dataset, live));
    writer.export().unwrap();
    drop(writer);

    if let Some(to) = std::env::var_os("WEIR_KEEP") {
        let mut bytes = vec![0; device.size_bytes() as usize];
        device.read_at(0, &mut bytes).unwrap();
        std::fs::write(to, bytes).unwrap();
    }
    let found = search_devices([device]).pools.remove(0);
    let pool = Pool::open(&found, &OpenOptions::default()).unwrap();
    let report = scan::verify(&pool, &Options { threads: 2 }, &|_| true).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let datasets = dataset::Datasets::open(pool).unwrap();
    let objset = datasets.dataset("tu/fs").unwrap().objset(&KeyStore::new()).unwrap();
    compare(&FileSystem::open(objset, files::zpl::Options::default()).unwrap(), "from disk");
}
