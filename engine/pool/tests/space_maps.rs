//! Space maps that are stored among the blocks they account for.
//!
//! The test runs txgs of a bare object set, on devices in memory, with the allocator writing its
//! maps to that very set. After each txg the maps are read through a second, read-only object set
//! and compared with all blocks that were born and not killed.

use block::vdev::{Kind, Leaf, Tree, Vdev, raidz};
use block::{Store, WriteStore};
use errors::Result;
use host::device::MemoryDevice;
use object::zap::{Zap, ZapSpec};
use object::{NewObject, ObjectSet, Tx};
use ondisk::pool_dir::{DIRECTORY_OBJECT, directory, vdev_top};
use ondisk::{BlkPtr, ObjectType, ObjsetKind};
use parking_lot::Mutex;
use pool::space::alloc::{LiveMaps, NewDevice, Options, Shape, metaslab_shift};
use pool::space::{Allocator, for_each_entry};
use rig::Chance;
use rig::sync::Syncing;
use std::collections::BTreeMap;
use std::sync::Arc;

const DISK_BYTES: usize = 132 << 20;

fn leaf(guid: u64, id: u64) -> Vdev {
    let device = Arc::new(MemoryDevice::new(format!("disk{guid}"), vec![0; DISK_BYTES]));
    let kind = Kind::Leaf(Leaf::present(guid, device));
    Vdev { guid, id, kind, ashift: 12, children: Vec::new(), name: format!("disk{guid}") }
}

fn devices(logs: bool) -> (Arc<WriteStore>, Arc<Allocator>, Vec<NewDevice>) {
    let geometry = raidz::Geometry::new(12, 3, 1).unwrap();
    let kind = Kind::Raidz(geometry.clone());
    let children = vec![leaf(3, 0), leaf(4, 1), leaf(5, 2)];
    let raidz = Vdev { guid: 2, id: 1, kind, ashift: 12, children, name: "raidz1-1".into() };
    let tree = Tree::of(vec![leaf(1, 0), raidz]);
    let store = Store::new("test".into(), tree, 16 << 20);
    let allocator = Allocator::new("test", Options { two_words: true, histograms: true, logs });
    let usable = DISK_BYTES as u64 - (5 << 20);
    let new: Vec<_> = [(0, Shape::Plain, usable), (1, Shape::Raidz(geometry), 3 * usable)]
        .map(|(vdev, shape, asize_bytes)| NewDevice {
            vdev,
            name: format!("top-{vdev}"),
            class: Default::default(),
            shape,
            ashift: 12,
            asize_bytes,
            metaslab_shift: metaslab_shift(asize_bytes),
            top_zap: u64::from(vdev) + 2,
        })
        .into();
    new.iter().for_each(|d| allocator.add_device(d).unwrap());
    (WriteStore::new(store, allocator.clone()), allocator, new)
}

/// Ranges of whole sectors: device, offset, bytes.
type Found = Vec<(u32, u64, u64)>;

/// The allocated ranges in the maps listed in `arrays`, and the length of each map.
fn on_disk(set: &ObjectSet, devices: &[NewDevice], arrays: &[u64]) -> (Found, BTreeMap<u64, u64>) {
    let (mut found, mut lengths, mut all) = (Found::new(), BTreeMap::new(), Vec::new());
    for (device, array) in devices.iter().zip(arrays) {
        let count = device.asize_bytes >> device.metaslab_shift;
        let mut sectors = std::collections::BTreeSet::new();
        for (ms, id) in set.object(*array).unwrap().read_words(count).unwrap().into_iter().enumerate() {
            if id == 0 {
                continue;
            }
            let base = (ms as u64) << device.metaslab_shift >> device.ashift;
            let mut bytes = 0;
            let header = for_each_entry(&set.object(id).unwrap(), |e| {
                for s in e.offset..e.offset + e.run {
                    let right = if e.is_alloc { sectors.insert(base + s) } else { sectors.remove(&(base + s)) };
                    assert!(right, "{e:?} of map {id} changes nothing");
                    bytes += if e.is_alloc { 4096 } else { -4096 };
                }
            });
            let header = header.unwrap();
            assert_eq!(header.allocated_bytes, bytes);
            lengths.insert(id, header.length_bytes);
        }
        all.push(sectors);
    }
    // Add the changes that are only in logs.
    let unflushed: Vec<Vec<u64>> = devices.iter().map(|d| unflushed(set, d)).collect();
    for (txg, id) in logs(set) {
        let mut bytes = 0;
        let header = for_each_entry(&set.object(id).unwrap(), |e| {
            bytes += if e.is_alloc { e.run as i64 } else { -(e.run as i64) } * 512;
            let vdev = e.vdev.unwrap() as usize;
            if txg < unflushed[vdev][((e.offset * 512) >> devices[vdev].metaslab_shift) as usize] {
                return;
            }
            for s in e.offset / 8..(e.offset + e.run) / 8 {
                let right = if e.is_alloc { all[vdev].insert(s) } else { all[vdev].remove(&s) };
                assert!(right, "{e:?} of the log of txg {txg} changes nothing");
            }
        });
        assert_eq!(header.unwrap().allocated_bytes, bytes);
    }
    for (device, sectors) in devices.iter().zip(all) {
        for s in sectors {
            match found.last_mut() {
                Some((v, at, len)) if *v == device.vdev && *at + *len == s << 12 => *len += 4096,
                _ => found.push((device.vdev, s << 12, 4096)),
            }
        }
    }
    (found, lengths)
}

/// The txg from which on logs apply, for each metaslab of a device.
fn unflushed(set: &ObjectSet, device: &NewDevice) -> Vec<u64> {
    let count = device.asize_bytes >> device.metaslab_shift;
    let Ok(zap) = set.object(device.top_zap) else { return vec![0; count as usize] };
    match Zap::open(zap).unwrap().lookup_u64(vdev_top::MS_UNFLUSHED_PHYS_TXGS).unwrap() {
        Some(list) => set.object(list).unwrap().read_words(count).unwrap(),
        None => vec![0; count as usize],
    }
}

/// Txg -> object number.
fn logs(set: &ObjectSet) -> BTreeMap<u64, u64> {
    let Ok(root) = set.object(DIRECTORY_OBJECT) else { return BTreeMap::new() };
    let Some(id) = Zap::open(root).unwrap().lookup_u64(directory::LOG_SPACEMAP_ZAP).unwrap() else {
        return BTreeMap::new();
    };
    let entries = Zap::open(set.object(id).unwrap()).unwrap().entries().unwrap();
    let txg = |name: &[u8]| u64::from_str_radix(std::str::from_utf8(name).unwrap(), 16).unwrap();
    entries.iter().map(|e| (txg(&e.name), e.value.as_u64().unwrap())).collect()
}

#[test]
fn maps_agree_with_the_blocks_they_are_made_of_after_every_txg() {
    every_txg_agrees(false);
}

#[test]
fn maps_and_logs_agree_with_the_blocks_they_are_made_of_after_every_txg() {
    every_txg_agrees(true);
}

fn every_txg_agrees(with_logs: bool) {
    let (store, allocator, devices) = devices(with_logs);
    let set = ObjectSet::open_live(&store, None, 0, None, ObjsetKind::Meta).unwrap();
    // Every address in use: device and offset in bytes -> size in bytes.
    let live = Mutex::new(BTreeMap::<(u32, u64), u64>::new());
    let watch = |bp: &BlkPtr, is_born: bool| {
        for dva in bp.dvas() {
            let (place, size) = ((dva.vdev, dva.offset_bytes), dva.asize_bytes);
            if is_born {
                live.lock().insert(place, size);
            } else {
                assert_eq!(live.lock().remove(&place), Some(size), "{dva:?}");
            }
        }
    };
    let features = Mutex::new(BTreeMap::<String, i64>::new());
    let count_feature = |name: &str, delta: i64| -> Result<()> {
        *features.lock().entry(name.to_owned()).or_default() += delta;
        Ok(())
    };
    let (mut arrays, mut most_logs) = (Vec::new(), 0);
    let (mut files, mut last) = (Vec::new(), None);
    let (mut chance, mut most_passes, mut scattered_id) = (Chance::new(1), 0, None);
    let (mut lengths, mut shorter) = (BTreeMap::new(), 0);
    let mut random = |n: u64| chance.below(n);
    for txg in 4..50 {
        let tx = Tx::syncing(txg);
        let maps = LiveMaps { mos: &set, tx: &tx, count_feature: &count_feature };
        if arrays.is_empty() {
            for id in [DIRECTORY_OBJECT].into_iter().chain(devices.iter().map(|d| d.top_zap)) {
                Zap::create(&set, &tx, &ZapSpec { id: Some(id), ..ZapSpec::new(ObjectType::OTN_ZAP_METADATA) })
                    .unwrap();
            }
            arrays = devices.iter().map(|d| allocator.metaslab_array(d.vdev, &maps).unwrap()).collect();
        }
        for _ in 0..random(12) {
            if files.len() < 20 {
                let new = NewObject::new(ObjectType::OTN_UINT64_METADATA, 16 << 10);
                files.push(set.create_object(&tx, &new).unwrap().id());
            }
            let file = set.object(files[random(files.len() as u64) as usize]).unwrap();
            let data: Vec<u8> =
                (0..random(300_000) + 1).map(|_| random(if txg % 2 == 0 { 256 } else { 3 }) as u8).collect();
            file.write_at(&tx, random(1 << 20), &data).unwrap();
        }
        // Many small scattered blocks make the maps long.
        let scattered = match scattered_id {
            Some(id) => set.object(id).unwrap(),
            None => set.create_object(&tx, &NewObject::new(ObjectType::OTN_UINT64_METADATA, 4 << 10)).unwrap(),
        };
        for _ in 0..700 {
            let data: Vec<u8> = (0..512).flat_map(|_| random(u64::MAX).to_le_bytes()).collect();
            scattered.write_at(&tx, random(2048) << 12, &data).unwrap();
        }
        scattered_id = Some(scattered.id());
        if random(4) == 0 && !files.is_empty() {
            let gone = files.swap_remove(random(files.len() as u64) as usize);
            set.free_object(&tx, gone).unwrap();
        }
        let (mut root, mut passes) = (BlkPtr::HOLE, 0);
        loop {
            if set.is_dirty(txg) {
                let repeats = passes > 0;
                let once = Syncing::new(txg, &store);
                root = set.sync(&Syncing { repeats, copies: 2, root_copies: 3, watch: &watch, ..once }).unwrap();
            }
            passes += 1;
            if !allocator.sync_maps(txg, &maps).unwrap() && !set.is_dirty(txg) {
                break;
            }
            assert!(passes < 20, "txg {txg} does not end");
        }
        most_passes = most_passes.max(passes);
        if root.is_hole() {
            continue;
        }
        let read_only = ObjectSet::open(store.reader().clone(), &root, 0, None).unwrap();
        let mut expected: Vec<(u32, u64, u64)> = Vec::new();
        for ((vdev, at), len) in live.lock().iter() {
            match expected.last_mut() {
                Some((v, a, l)) if v == vdev && *a + *l == *at => *l += len,
                _ => expected.push((*vdev, *at, *len)),
            }
        }
        let (found, now) = on_disk(&read_only, &devices, &arrays);
        assert_eq!(found, expected, "txg {txg}");
        shorter += now.iter().filter(|(map, length)| lengths.get(*map).is_some_and(|before| before > *length)).count();
        lengths = now;
        let (logged, histograms) = (logs(&read_only).len(), features.lock()["spacemap_histogram"]);
        assert_eq!(histograms as usize, lengths.len() + logged, "one for each map");
        assert_eq!(features.lock().get("log_spacemap"), with_logs.then_some(&1));
        most_logs = most_logs.max(logged);
        let total: u64 = expected.iter().map(|(_, _, len)| len).sum();
        assert_eq!(allocator.totals().classes[0].allocated_bytes, total);
        assert_eq!(allocator.take_anomalies(), [""; 0]);
        // In some txgs, maps are read through the set that is being written, in the middle of its
        // sync.
        allocator.synced(txg, if txg % 3 == 0 { set.clone() } else { read_only.clone() });
        last = Some(read_only);
        if txg % 2 == 0 {
            allocator.unload_idle();
        }
    }
    drop(last);
    // Old logs are destroyed: on a pool of 500 MB the logs may have half a MiB.
    assert!(if with_logs { (5..40).contains(&most_logs) } else { most_logs == 0 }, "{most_logs} logs");
    assert!(most_passes < 10, "{most_passes} passes");
    // Maps that are written rarely do not become long in so few txgs.
    assert!(with_logs || shorter > 0, "no map was rewritten");
    println!("{most_passes} passes at most, {shorter} times a map was rewritten");
}
