//! An intent log left by the kernel: claimed by an import, kept over a second one, returned record
//! by record, freed.
//!
//! The image is that of `testing/images/unclean-log` (`WEIR_FIXTURES`).

use dataset::intent_log::claim_logs;
use dataset::live::LiveDatasets;
use dataset::{KeyStore, ListOptions};
use host::device::{Device, MemoryDevice};
use pool::scan::{self, Options};
use pool::writer::WriteOptions;
use pool::{OpenOptions, Pool, Writer, search_devices};
use std::sync::Arc;
use std::time::Duration;

fn image() -> Option<Arc<dyn Device>> {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES") else {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked images");
        return None;
    };
    let bytes = std::fs::read(std::path::Path::new(&folder).join("unclean-log/u0")).unwrap();
    Some(Arc::new(MemoryDevice::new("u0", bytes)))
}

fn options() -> WriteOptions {
    WriteOptions { claim_logs: Some(claim_logs), interval: Duration::from_secs(3600), ..WriteOptions::default() }
}

fn open(device: &Arc<dyn Device>) -> Arc<Writer> {
    let found = search_devices([device.clone()]).pools.remove(0);
    Writer::open(&found, &OpenOptions::default(), &options()).unwrap()
}

fn verify(device: &Arc<dyn Device>) -> Arc<Pool> {
    if let Some(to) = std::env::var_os("WEIR_KEEP") {
        let mut bytes = vec![0; device.size_bytes() as usize];
        device.read_at(0, &mut bytes).unwrap();
        std::fs::write(to, bytes).unwrap();
    }
    let found = search_devices([device.clone()]).pools.remove(0);
    let pool = Pool::open(&found, &OpenOptions::default()).unwrap();
    let report = scan::verify(&pool, &Options { threads: 2 }, &|_| true).unwrap();
    assert!(report.is_clean(), "{report:?}");
    pool
}

#[test]
fn the_kernels_log_is_claimed_handed_out_and_freed() {
    let Some(device) = image() else { return };
    // Two imports without a mount: the log still exists, and its blocks are in use.
    for _ in 0..2 {
        let writer = open(&device);
        writer.task(|_| Ok(())).unwrap();
        writer.export().unwrap();
        drop(writer);
        let pool = verify(&device);
        let heads = dataset::Datasets::open(pool).unwrap().list(&[], &ListOptions::heads()).unwrap();
        let logs = heads.entries.iter().filter_map(|e| e.dataset()).filter(|d| {
            let header = d.objset_without_keys().unwrap().phys().zil;
            header.claim_txg.0 != 0 && header.flags & ondisk::ZilHeader::FLAG_REPLAY_NEEDED != 0
        });
        assert_eq!(logs.count(), 1);
    }

    let writer = open(&device);
    let live = LiveDatasets::new(writer.clone(), Arc::new(KeyStore::default()));
    let set = live.open("tu/fs", Some(|_, _| Ok(None))).unwrap();
    assert!(set.log().needs_replay());
    let mut kinds = Vec::new();
    let mut apply = |record: &ondisk::zil::Record<'_>, body: &ondisk::zil::Body<'_>| {
        let tx = set.begin(0)?;
        set.log().record(&tx, 0, record.kind, body);
        kinds.push(record.kind.name());
        Ok(())
    };
    let replayed = set.log().replay(&mut apply, &|_, _| None);
    assert!(!replayed.unwrap().is_kept);
    // Two more are writes to files that records here create, and that were not created.
    assert_eq!(kinds.len(), 11, "{kinds:?}");
    assert!(kinds[0] == "TX_CREATE" && kinds.contains(&"TX_SETSAXATTR"));
    assert!(!set.log().needs_replay());
    live.close(&set).unwrap();
    drop((set, live));
    writer.export().unwrap();
    drop(writer);
    let pool = verify(&device);
    let heads = dataset::Datasets::open(pool).unwrap();
    assert!(heads.dataset("tu/fs").unwrap().objset_without_keys().unwrap().phys().zil.log.is_hole());
}
