//! Data that a device missed is recorded on disk before any reader could trust the device: it
//! failed for a while, was unavailable, or failed to flush.

use crate::common::{create, options};
use host::device::Device;
use object::NewObject;
use ondisk::ObjectType;
use pool::writer::default_features;
use pool::{OpenOptions, Pool, Writer, search_devices};
use rig::Disk;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn disks(count: usize) -> Vec<Arc<Disk>> {
    (0..count).map(|n| Disk::new(format!("disk-{n}"), vec![0; 72 << 20])).collect()
}

/// Writes a new object in a txg of its own. Returns its number and the txg.
fn put(writer: &Writer) -> (u64, u64) {
    let id = writer.task(|cx| {
        let object = cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::UINT64_OTHER, 4096))?;
        object.write_at(cx.tx(), 0, &[7; 20_000])?;
        Ok((object.id(), cx.txg()))
    });
    id.unwrap()
}

fn open(disks: &[Arc<Disk>]) -> Arc<Pool> {
    let found = search_devices(disks.iter().map(|d| d.clone() as Arc<dyn Device>)).pools.remove(0);
    Pool::open(&found, &OpenOptions::default()).unwrap()
}

fn reopen(disks: &[Arc<Disk>]) -> Arc<Writer> {
    let found = search_devices(disks.iter().map(|d| d.clone() as Arc<dyn Device>)).pools.remove(0);
    Writer::open(&found, &OpenOptions::default(), &options()).unwrap()
}

fn stale(pool: &Pool) -> Vec<Vec<(u64, u64)>> {
    pool.store().tree().leaves().iter().map(|leaf| leaf.stale_ranges()).collect()
}

#[test]
fn a_device_that_failed_for_a_while_is_known_to_be_stale_after_import() {
    for old_pool in [false, true] {
        let features = default_features().map(str::to_owned).filter(|_| !old_pool).collect();
        let disks = disks(3);
        let writer = create("raidz", 1, &disks, features);
        put(&writer);
        let mut objects = Vec::new();
        let mut missed = Vec::new();
        for round in 0..3 {
            disks[1].fails_writes.store(round != 1, Ordering::Relaxed);
            let (object, txg) = put(&writer);
            objects.push(object);
            if round != 1 {
                missed.push(txg);
            }
        }
        disks[1].fails_writes.store(false, Ordering::Relaxed);
        put(&writer);
        writer.export().unwrap();
        drop(writer);
        let pool = open(&disks);
        let ranges = stale(&pool);
        assert!(ranges[0].is_empty() && ranges[2].is_empty(), "{ranges:?}");
        let covers = |txg: u64| ranges[1].iter().any(|(first, last)| (*first..=*last).contains(&txg));
        assert!(missed.iter().all(|txg| covers(*txg)), "{ranges:?} without one of {missed:?}");
        assert!(ranges[1].iter().map(|(f, l)| l - f + 1).sum::<u64>() <= 4, "{ranges:?}");
        for id in objects {
            assert_eq!(pool.mos().object(id).unwrap().read_vec(0, 20_000).unwrap(), [7; 20_000]);
        }
        assert!(pool.store().tree().leaves().iter().all(|leaf| leaf.errors().checksum == 0));
    }
}

#[test]
fn a_device_that_was_missing_is_stale_when_it_returns() {
    let disks = disks(2);
    create("mirror", 0, &disks, default_features().map(str::to_owned).collect()).export().unwrap();
    let writer = reopen(&disks[..1]);
    let (first, _) = (put(&writer).1, put(&writer));
    let (id, last) = put(&writer);
    writer.close().unwrap();
    drop(writer);
    let pool = open(&disks);
    let ranges = stale(&pool);
    assert!(ranges[0].is_empty());
    assert!(ranges[1].iter().any(|(f, l)| *f <= first && last <= *l), "{ranges:?} covers {first} to {last}");
    assert_eq!(pool.mos().object(id).unwrap().read_vec(0, 20_000).unwrap(), [7; 20_000]);
    // From now on it gets all writes again, and its missed txgs stay recorded.
    drop(pool);
    let writer = reopen(&disks);
    let (id, txg) = put(&writer);
    writer.close().unwrap();
    drop(writer);
    let pool = open(&disks);
    assert!(stale(&pool)[1].iter().all(|(_, l)| *l < txg));
    assert_eq!(pool.mos().object(id).unwrap().read_vec(0, 20_000).unwrap(), [7; 20_000]);
}

#[test]
fn a_side_whose_flush_fails_has_missed_the_txg_that_the_uberblock_makes_valid() {
    let disks = disks(2);
    let writer = create("mirror", 0, &disks, default_features().map(str::to_owned).collect());
    put(&writer);
    disks[0].fails_flushes.store(true, Ordering::Relaxed);
    let (_, txg) = put(&writer);
    let (id, later) = put(&writer);
    writer.close().unwrap();
    drop(writer);
    let pool = open(&disks);
    let ranges = stale(&pool);
    assert!(ranges[0].iter().any(|(f, l)| *f <= txg && later <= *l), "{ranges:?} covers {txg} to {later}");
    assert!(ranges[1].is_empty());
    assert_eq!(pool.mos().object(id).unwrap().read_vec(0, 20_000).unwrap(), [7; 20_000]);
}
