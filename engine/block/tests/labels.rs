//! Written labels can be read back by the code that reads those of OpenZFS, and at every moment of
//! a label sync some label matches some uberblock.

use crate::support::*;
use block::label::{self, Which};
use host::device::{Device, MemoryDevice};
use ondisk::nvlist::Nvlist;
use ondisk::uberblock::Uberblock;
use ondisk::{BlkPtr, Endian, Txg};
use std::sync::atomic::Ordering;

fn config(txg: u64) -> Nvlist {
    let mut tree = Nvlist::new();
    tree.put("ashift", 12u64);
    let mut list = Nvlist::new();
    list.put("version", 5000u64);
    list.put("name", "tank");
    list.put("guid", 1u64);
    list.put("state", 0u64);
    list.put("txg", txg);
    list.put("vdev_tree", tree);
    list
}

fn uberblock(txg: u64) -> Uberblock {
    Uberblock {
        version: 5000,
        txg: Txg(txg),
        guid_sum: 3,
        timestamp: 1_700_000_000,
        root: BlkPtr::HOLE,
        software_version: 5000,
        multihost: None,
        checkpoint_txg: Txg(0),
        raidz_reflow: 0,
        endian: Endian::Little,
    }
}

#[test]
fn a_fresh_label_is_found_four_times_without_any_uberblock() {
    // Leftovers of a file system or another pool.
    let device = MemoryDevice::new("disk", vec![0xee; 24 << 20]);
    label::initialize(&device, &config(0)).unwrap();
    let found = label::read(&device, true);
    assert_eq!(found.configs().filter(|c| c.get_str("name") == Some("tank")).count(), 4);
    assert!(found.uberblocks.is_empty());
    let bytes = device.contents();
    for offset in found.labels.iter().map(|l| l.offset as usize) {
        assert!(bytes[offset..offset + 8192].iter().all(|b| *b == 0xee), "the first pad is not ours");
        let env = &bytes[offset + 8192..offset + 16384];
        assert!(env[..8152].iter().all(|b| *b == 0));
        assert_eq!(env[8152..8160], 0x0210_da7a_b10c_7a11u64.to_le_bytes());
    }
    assert_eq!(label::wipe(&device).unwrap(), 4);
    assert_eq!(label::read(&device, true).configs().count(), 0);
    assert_eq!(label::wipe(&device).unwrap(), 0);
}

#[test]
fn an_uberblock_goes_to_the_slot_of_its_txg_in_all_rings() {
    for (ashift, slots) in [(9, 128), (12, 32), (14, 16)] {
        let device = MemoryDevice::new("disk", vec![0; 24 << 20]);
        label::initialize(&device, &config(1)).unwrap();
        for txg in [5, slots + 6] {
            label::write_uberblock(&device, ashift, &uberblock(txg), false).unwrap();
        }
        let mut list = config(1);
        let mut tree = Nvlist::new();
        tree.put("ashift", u64::from(ashift));
        list.put("vdev_tree", tree);
        label::write_config(&device, Which::All, &list).unwrap();
        let found = label::read(&device, true).uberblocks;
        let slot: Vec<_> = found.iter().map(|u| (u.slot, u.uberblock.txg.0)).collect();
        assert_eq!(slot, [(5, 5), (6, slots + 6)].repeat(4));
        label::write_uberblock(&device, ashift, &uberblock(slots - 1), true).unwrap();
        let found = label::read(&device, true).uberblocks;
        assert!(found.iter().any(|u| (u.slot, u.uberblock.txg.0) == (0, slots - 1)), "the last slot is for heartbeats");
    }
}

#[test]
fn even_and_odd_labels_are_written_apart_and_a_config_too_long_is_refused() {
    let device = MemoryDevice::new("disk", vec![0; 24 << 20]);
    label::initialize(&device, &config(1)).unwrap();
    label::write_config(&device, Which::Even, &config(2)).unwrap();
    let txgs = |device: &dyn Device| -> Vec<_> {
        label::read(device, false).configs().map(|c| c.get_u64("txg").unwrap()).collect()
    };
    assert_eq!(txgs(&device), [2, 1, 2, 1]);
    label::write_config(&device, Which::Odd, &config(2)).unwrap();
    assert_eq!(txgs(&device), [2; 4]);
    let mut long = config(3);
    long.put("comment", "x".repeat(120_000));
    assert!(label::write_config(&device, Which::All, &long).is_err());
    assert_eq!(txgs(&device), [2; 4]);
    assert!(label::initialize(&MemoryDevice::new("small", vec![0; 1 << 19]), &config(1)).is_err());
}

#[test]
fn one_leaf_of_each_top_level_device_must_take_the_label_and_one_of_all_the_uberblock() {
    let pair = bench(Layout::Mirror(2), 12);
    let tree = pair.store.tree();
    let sync = |which| label::sync_configs(&tree, which, |_, _| Some(config(9)), |_| false);
    sync(Which::Even).unwrap();
    label::sync_uberblock(&tree, &[0], &uberblock(9), false).unwrap();
    sync(Which::Odd).unwrap();
    for disk in &pair.disks {
        let found = label::read(disk.as_ref(), true);
        assert_eq!((found.configs().count(), found.uberblocks.len()), (4, 4));
        assert_eq!(disk.flushes.load(Ordering::Relaxed), 3);
    }
    pair.disks[0].fails_writes.store(true, Ordering::Relaxed);
    sync(Which::Even).unwrap();
    assert_eq!(tree.leaves()[0].errors().write, 1);
    pair.disks[1].fails_flushes.store(true, Ordering::Relaxed);
    let e = label::sync_uberblock(&tree, &[0], &uberblock(10), false).unwrap_err();
    assert!(e.to_string().contains("disk-0") && e.to_string().contains("disk-1"), "{e}");
    label::sync_configs(&tree, Which::Even, |_, _| Some(config(9)), |_| true).unwrap();

    let stripe = bench(Layout::Stripe(3), 12);
    stripe.disks[2].fails_writes.store(true, Ordering::Relaxed);
    assert!(label::sync_configs(&stripe.store.tree(), Which::Even, |_, _| Some(config(9)), |_| false).is_err());
    let only_first = |_: &block::vdev::Vdev, leaf: &block::vdev::Leaf| (leaf.guid == 1).then(|| config(9));
    label::sync_configs(&stripe.store.tree(), Which::Even, only_first, |_| false).unwrap();
    label::sync_uberblock(&stripe.store.tree(), &[0, 1, 2], &uberblock(9), false).unwrap();
}

/// The configuration of a raidz1 pool as packed by OpenZFS, and the trailer after it; see
/// `ondisk`'s testdata/README.md.
#[test]
fn a_label_of_openzfs_is_written_again_byte_for_byte() {
    let packed = include_bytes!("../../../base/ondisk/testdata/label_raidz1_xdr.bin");
    let trailer = include_bytes!("../../../base/ondisk/testdata/label_trailer.bin");
    let device = MemoryDevice::new("disk", vec![0xee; 24 << 20]);
    label::write_config(&device, Which::All, &Nvlist::parse(packed).unwrap()).unwrap();
    let written = device.contents();
    let same = label::read(&device, false).labels.iter().any(|l| {
        let part = &written[l.offset as usize + 16384..][..114_688];
        part[..packed.len()] == packed[..] && part[114_648..] == trailer[..]
    });
    assert!(same, "the trailer depends on the place, and one of the four is where it came from");
}
