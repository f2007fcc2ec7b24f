//! Sequential resilvers, and the distributed spares of a draid: afterwards as many devices may be
//! lost as before, and OpenZFS's `zdb` finds every block and no leaks.

use crate::common::devices::{
    BLOCK, DISK_BYTES, Files, check, check_ours, config, disk, guid, has, new_leaf, refusal, reopen, resilvered,
    settle, stale,
};
use crate::common::{Rig, layout, new_file};
use host::device::Device;
use pool::writer::{Joins, Lasts, NewLeaf, NewVdev};
use rig::noise;
use std::sync::Arc;

#[test]
fn a_side_that_joins_in_the_order_of_addresses_has_all_and_a_scrub_follows() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    (0..5).for_each(|_| files.put(&rig));
    let (a, second, third) = (guid(&rig, "disk"), disk("second"), disk("third"));
    let more = vec![second.clone(), third.clone()];
    let rig = Rig { devices: [rig.devices.clone(), more].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let sequentially = |device| NewLeaf { sequentially: true, ..new_leaf(device) };
    writer.attach(a, sequentially(&second), Joins::Attach).unwrap();
    // It is not running yet.
    assert!(writer.scan_activity().resilvering && writer.feature_active("device_rebuild"));
    let healing = refusal(writer.attach(a, new_leaf(&third), Joins::Attach));
    assert_eq!(healing, "currently sequentially resilvering");
    assert!(writer.start_scrub().unwrap().is_err());
    assert!(has(&config(&rig), "rebuild_txg:"));
    files.put(&rig);
    check(&rig, &files);
    drop(writer);
    // It resumes when the pool is opened.
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    assert_eq!(stale(&rig, "second")[0].0, 4);
    writer.run_scans().unwrap();
    files.put(&rig);
    settle(&rig);
    assert_eq!(stale(&rig, "second"), []);
    assert!(!writer.feature_active("device_rebuild"));
    let status = writer.pool().unwrap().status().unwrap();
    let scan = status.scan.expect("a scrub follows");
    assert_eq!((scan.kind, scan.errors, scan.processed_bytes), (pool::status::ScanKind::Scrub, 0, 0));
    let rebuild = status.root.children[0].rebuild.expect("status reports the rebuild").now;
    assert_eq!((rebuild.state, rebuild.errors), (3, 0));
    assert!(rebuild.rebuilt_bytes >= 5 * 6 * BLOCK && rebuild.total_bytes >= rebuild.scanned_bytes, "{rebuild:?}");
    check(&rig, &files);
    // The first side may be detached: the second is complete.
    writer.attach(guid(&rig, "disk"), sequentially(&third), Joins::Replace).unwrap();
    settle(&rig);
    assert!(writer.store().tree().leaves().iter().all(|leaf| leaf.path != "disk"), "it was replaced");
    writer.detach(guid(&rig, "second")).unwrap();
    files.put(&rig);
    check(&rig, &files);
}

#[test]
fn a_child_of_a_draid_is_rebuilt_of_the_others() {
    let draid = pool::writer::NewDraid { data: 2, spares: 0 };
    let leaf = |n| NewVdev { leaf: Some((format!("disk-{n}"), disk(&format!("disk-{n}")))), ..layout(false) };
    let rig = Rig::with(
        NewVdev { kind: "draid", draid: Some(draid), children: (0..5).map(leaf).collect(), ..layout(true) },
        &[],
        None,
    );
    let mut files = Files::new(&rig);
    (0..8).for_each(|_| files.put(&rig));
    let (writer, new) = (rig.live.writer().clone(), disk("new"));
    let gone = guid(&rig, "disk-3");
    writer.offline(gone, Lasts::Always).unwrap();
    let rig = Rig { devices: [rig.devices.clone(), vec![new.clone()]].concat(), live: rig.live };
    writer.attach(gone, NewLeaf { sequentially: true, ..new_leaf(&new) }, Joins::Replace).unwrap();
    files.put(&rig);
    writer.run_scans().unwrap();
    settle(&rig);
    let status = writer.pool().unwrap().status().unwrap();
    let scan = status.scan.expect("a scrub follows");
    assert_eq!((scan.kind, scan.errors, scan.processed_bytes), (pool::status::ScanKind::Scrub, 0, 0));
    assert!(writer.store().tree().leaves().iter().all(|leaf| leaf.path != "disk-3"), "it was replaced");
    assert_eq!(stale(&rig, "new"), []);
    check(&rig, &files);
}

#[test]
fn a_full_pool_is_rebuilt_though_nothing_that_is_freed_can_be_kept() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    files.put(&rig);
    // Full up to the reserve.
    let id = {
        let tx = files.live.begin(BLOCK).unwrap();
        new_file(files.live.objset(), &tx, 1).unwrap()
    };
    let (mut at, block) = (0, noise(99, 8 * BLOCK as usize));
    while let Ok(tx) = files.live.begin(8 * BLOCK) {
        files.live.objset().object(id).unwrap().write_at(&tx, at, &block).unwrap();
        at += 8 * BLOCK;
        drop(tx);
        if at.is_multiple_of(64 * BLOCK) {
            rig.live.writer().sync().unwrap();
        }
        assert!(at < DISK_BYTES as u64);
    }
    let second = disk("second");
    let rig = Rig { devices: [rig.devices.clone(), vec![second.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let new = NewLeaf { sequentially: true, ..new_leaf(&second) };
    writer.attach(guid(&rig, "disk"), new, Joins::Attach).unwrap();
    writer.run_scans().unwrap();
    settle(&rig);
    assert_eq!(stale(&rig, "second"), []);
    let scan = writer.pool().unwrap().status().unwrap().scan.expect("a scrub follows");
    assert_eq!((scan.kind, scan.errors, scan.processed_bytes), (pool::status::ScanKind::Scrub, 0, 0));
    check(&rig, &files);
}

#[test]
fn a_rebuild_ends_when_its_device_is_detached_and_raidz_has_none() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    files.put(&rig);
    let (a, second) = (guid(&rig, "disk"), disk("second"));
    let rig = Rig { devices: [rig.devices.clone(), vec![second.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    writer.attach(a, NewLeaf { sequentially: true, ..new_leaf(&second) }, Joins::Attach).unwrap();
    writer.detach(guid(&rig, "second")).unwrap();
    writer.run_scans().unwrap();
    settle(&rig);
    assert!(!writer.feature_active("device_rebuild"));
    let rebuild =
        writer.pool().unwrap().status().unwrap().root.children[0].rebuild.expect("status reports the rebuild").now;
    assert_eq!(rebuild.state, 2);
    files.put(&rig);
    check(&rig, &files);
    let rig = Rig::with(layout(true), &[], None);
    let writer = rig.live.writer().clone();
    let (top, new) = (writer.store().tree().tops[0].guid, NewLeaf { sequentially: true, ..new_leaf(&disk("x")) });
    let only = "only mirror and dRAID vdevs support sequential reconstruction";
    assert_eq!(refusal(writer.attach(guid(&rig, "disk-1"), new.clone(), Joins::Replace)), only);
    assert!(refusal(writer.attach(top, new, Joins::Attach)).starts_with("raidz_expansion"));
}

/// A draid with one distributed spare; returns its busiest leaf and the identity of the spare.
fn draid_with_spare(parity: u64, children: usize) -> (Rig, Files, u64, u64) {
    let draid = pool::writer::NewDraid { data: 2, spares: 1 };
    let leaf = |n| NewVdev { leaf: Some((format!("disk-{n}"), disk(&format!("disk-{n}")))), ..layout(false) };
    let children = (0..children).map(leaf).collect();
    let rig = Rig::with(NewVdev { kind: "draid", parity, draid: Some(draid), children, ..layout(true) }, &[], None);
    let mut files = Files::new(&rig);
    (0..6).for_each(|_| files.put(&rig));
    let tree = rig.live.writer().store().tree();
    let busiest = tree.leaves().into_iter().max_by_key(|leaf| leaf.write_traffic().1).unwrap().guid;
    let spare = tree.spares[0].guid;
    (rig, files, busiest, spare)
}

fn distributed(spare: u64, sequentially: bool) -> NewLeaf {
    let path = "draid-spare".to_owned();
    NewLeaf { kind: "dspare", path, device: None, ashift: 0, spare: Some(spare), sequentially }
}

fn lacks(rig: &Rig, guid: u64) -> Vec<(u64, u64)> {
    let tree = rig.live.writer().store().tree();
    tree.logs().into_iter().find(|log| log.guid == guid).expect("it is active").stale_ranges()
}

/// Checks that this many of the other devices may now be lost, in any combination. OpenZFS checks
/// the first combination.
fn check_without_each(rig: &Rig, files: &Files, parity: usize) {
    let writer = rig.live.writer();
    let leaves: Vec<u64> =
        writer.store().tree().leaves().into_iter().filter(|leaf| leaf.is_open()).map(|leaf| leaf.guid).collect();
    for (number, lost) in leaves.windows(parity).enumerate() {
        let devices: Vec<(u64, Arc<dyn Device>)> = lost
            .iter()
            .map(|guid| (*guid, writer.store().tree().find(*guid).unwrap().leaf().unwrap().device().unwrap()))
            .collect();
        lost.iter().for_each(|guid| writer.offline(*guid, Lasts::Always).unwrap());
        match number {
            0 => check(rig, files),
            _ => check_ours(rig, files),
        }
        for (guid, device) in &devices {
            writer.online(*guid, &|_: &str| Ok(device.clone())).unwrap();
        }
        resilvered(rig);
    }
}

#[test]
fn an_active_distributed_spare_allows_another_device_to_be_lost() {
    for sequentially in [false, true] {
        let (rig, mut files, lost, spare) = draid_with_spare(1, 5);
        let writer = rig.live.writer().clone();
        writer.fault(lost, Lasts::Always).unwrap();
        files.put(&rig);
        writer.attach(lost, distributed(spare, sequentially), Joins::Replace).unwrap();
        let text = config(&rig);
        for line in ["type: 'spare'", "type: 'dspare'", "is_spare: 1", "spareid: 0", "top_guid: "] {
            assert!(has(&text, line), "{line}: {text:?}");
        }
        assert_eq!(rig.found().status().unwrap().spares[0].aux, pool::status::VdevAux::Spared);
        assert!(refusal(writer.attach(lost, distributed(spare, false), Joins::Replace)).len() > 1);
        files.put(&rig);
        check(&rig, &files);
        let before = lacks(&rig, spare);
        assert_eq!(before.first().map(|(first, _)| *first), Some(4));
        drop(writer);
        // Opening the pool loads the DTLs and resumes the resilver.
        let (rig, mut files) = reopen(rig, files);
        assert_eq!(lacks(&rig, spare), before);
        let writer = rig.live.writer().clone();
        writer.run_scans().unwrap();
        files.put(&rig);
        settle(&rig);
        assert_eq!(lacks(&rig, spare), []);
        check_without_each(&rig, &files, 1);
        // After a manual detach it is available for another device.
        writer.detach(spare).unwrap();
        assert_eq!(rig.found().status().unwrap().spares[0].state, pool::status::VdevState::Healthy);
        files.put(&rig);
        writer.attach(lost, distributed(spare, sequentially), Joins::Replace).unwrap();
        settle(&rig);
        check_without_each(&rig, &files, 1);
    }
}

#[test]
fn a_device_takes_over_from_a_distributed_spare_which_is_free_again() {
    let (rig, mut files, lost, spare) = draid_with_spare(1, 5);
    let writer = rig.live.writer().clone();
    writer.run_scans().unwrap();
    writer.fault(lost, Lasts::Always).unwrap();
    writer.attach(lost, distributed(spare, false), Joins::Replace).unwrap();
    files.put(&rig);
    settle(&rig);
    let (new, newer) = (disk("new"), disk("newer"));
    let rig = Rig { devices: [rig.devices.clone(), vec![new.clone(), newer.clone()]].concat(), live: rig.live };
    writer.attach(lost, new_leaf(&new), Joins::Replace).unwrap();
    files.put(&rig);
    settle(&rig);
    assert_eq!(rig.found().status().unwrap().spares[0].state, pool::status::VdevState::Healthy);
    assert!(!config(&rig).iter().any(|line| line.contains("type: 'dspare'") && line.contains("type: 'spare'")));
    check_without_each(&rig, &files, 1);
    // The device is detached, and the spare stays in its place until it is itself replaced.
    let lost = guid(&rig, "new");
    writer.fault(lost, Lasts::Always).unwrap();
    writer.attach(lost, distributed(spare, true), Joins::Replace).unwrap();
    settle(&rig);
    writer.detach(lost).unwrap();
    files.put(&rig);
    check_without_each(&rig, &files, 1);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    writer.run_scans().unwrap();
    files.put(&rig);
    assert_eq!(rig.found().status().unwrap().spares[0].aux, pool::status::VdevAux::Spared);
    writer.attach(spare, new_leaf(&newer), Joins::Replace).unwrap();
    files.put(&rig);
    settle(&rig);
    assert!(writer.store().tree().logs().iter().all(|log| !log.is_distributed()), "it was replaced");
    assert_eq!(rig.found().status().unwrap().spares[0].state, pool::status::VdevState::Healthy);
    check_without_each(&rig, &files, 1);
}

#[test]
fn a_missing_device_later_gets_its_data_of_a_distributed_spare() {
    for sequentially in [false, true] {
        let (rig, mut files, lost, spare) = draid_with_spare(2, 6);
        let writer = rig.live.writer().clone();
        let tree = writer.store().tree();
        let block::vdev::Kind::Draid(geometry) = &tree.tops[0].kind else { panic!("a draid") };
        let below = tree.tops[0].children[geometry.spare_child(0, 0).unwrap()].guid;
        let lost = if lost == below { guid(&rig, "disk-0") } else { lost };
        writer.fault(lost, Lasts::Always).unwrap();
        writer.offline(below, Lasts::Always).unwrap();
        writer.attach(lost, distributed(spare, sequentially), Joins::Replace).unwrap();
        files.put(&rig);
        check_ours(&rig, &files);
        writer.run_scans().unwrap();
        settle(&rig);
        check_ours(&rig, &files);
        let device = rig.devices.iter().find(|device| tree.find(below).unwrap().name == device.name()).unwrap().clone();
        writer.online(below, &|_: &str| Ok(device.clone())).unwrap();
        settle(&rig);
        assert_eq!(lacks(&rig, spare), []);
        assert_eq!(lacks(&rig, below), []);
        check_without_each(&rig, &files, 2);
        let errors: u64 = writer.store().tree().leaves().iter().map(|leaf| leaf.errors().checksum).sum();
        assert_eq!(errors, 0, "nothing was wrong");
    }
}

#[test]
fn a_distributed_spare_is_for_children_of_its_own_draid() {
    let (rig, _, _, spare) = draid_with_spare(1, 5);
    let writer = rig.live.writer().clone();
    let other = disk("other");
    let rig = Rig { devices: [rig.devices.clone(), vec![other.clone()]].concat(), live: rig.live };
    let top = NewVdev { leaf: Some(("other".into(), other)), ..layout(false) };
    writer.add(pool::writer::NewDevices { tops: vec![top], ..Default::default() }, false).unwrap();
    let only = "dRAID spares can only replace child devices in their parent's dRAID vdev";
    assert_eq!(refusal(writer.attach(guid(&rig, "other"), distributed(spare, false), Joins::Replace)), only);
    assert!(refusal(writer.attach(guid(&rig, "disk-1"), distributed(7, false), Joins::Replace)).ends_with("is busy"));
    assert!(writer.offline(spare, Lasts::Always).is_err());
    rig.judge();
}
