//! Devices are attached, detached, taken offline and brought back: after each change OpenZFS's
//! `zdb` finds every block, no leaks, and the configuration that OpenZFS would have written;
//! invalid changes are rejected in OpenZFS's words.

use crate::common::devices::{
    BLOCK, Files, check, config, disk, guid, has, new_leaf, refusal, reopen, resilvered, stale,
};
use crate::common::{Rig, layout, new_file};
use host::device::{Device, MemoryDevice};
use pool::writer::{Joins, Lasts, NewLeaf, NewVdev};
use std::sync::Arc;

#[test]
fn an_offline_device_stays_offline_and_is_resilvered_by_its_dtl() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let writer = rig.live.writer().clone();
    let one = guid(&rig, "disk-1");
    writer.offline(one, Lasts::Always).unwrap();
    let first = writer.open_txg();
    files.put(&rig);
    files.put(&rig);
    let last = writer.synced_txg();
    check(&rig, &files);
    assert!(has(&config(&rig), "offline: 1"));
    // Parity covers the loss of one device; a second is required.
    assert_eq!(refusal(writer.offline(guid(&rig, "disk-2"), Lasts::Always)), "no valid replicas");
    assert_eq!(refusal(writer.detach(guid(&rig, "disk-2"))), "only applicable to mirror and replacing vdevs");
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    let tree = writer.store().tree();
    assert_eq!(tree.find(one).unwrap().leaf().unwrap().aux(), Some(block::vdev::Aux::Offline));
    let device = rig.devices.iter().find(|d| d.name() == "disk-1").unwrap().clone();
    let open = |_: &str| Ok(device.clone());
    assert!(writer.online(one, &open).unwrap());
    assert!(!has(&config(&rig), "offline") || config(&rig).is_empty());
    let missed = stale(&rig, "disk-1");
    let covers = |txg: u64| missed.iter().any(|(f, l)| (*f..=*l).contains(&txg));
    assert!((first..=last).all(covers), "{missed:?} covers {first} to {last}");
    // It accepts writes again, and what it missed stays missing until a resilver.
    files.put(&rig);
    assert_eq!(stale(&rig, "disk-1"), missed);
    check(&rig, &files);
    let other = disk("disk-1");
    writer.offline(one, Lasts::UntilImport).unwrap();
    assert!(!writer.online(one, &|_: &str| Ok(other.clone())).unwrap(), "another disk has its path");
}

#[test]
fn a_fault_lasts_until_it_is_cleared_and_required_devices_only_degrade() {
    let mirror = |names: [&str; 2]| NewVdev {
        kind: "mirror",
        parity: 0,
        draid: None,
        class: block::Class::Normal,
        leaf: None,
        ashift: 12,
        children: names.map(|n| NewVdev { leaf: Some((n.into(), disk(n))), ..layout(false) }).into(),
    };
    let rig = Rig::with(mirror(["a", "b"]), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let (a, b) = (guid(&rig, "a"), guid(&rig, "b"));
    let writer = rig.live.writer().clone();
    writer.fault(a, Lasts::Always).unwrap();
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "faulted: 1") && has(&text, "aux_state: 'external'"), "{text:?}");
    // The other side is now required.
    writer.fault(b, Lasts::Always).unwrap();
    let text = config(&rig);
    assert!(has(&text, "degraded: 1"), "{text:?}");
    check(&rig, &files);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    let aux = |guid| writer.store().tree().find(guid).unwrap().leaf().unwrap().aux();
    assert_eq!((aux(a), aux(b)), (Some(block::vdev::Aux::Faulted), None));
    let device = rig.devices[0].clone();
    assert!(!writer.online(a, &|_: &str| Ok(device.clone())).unwrap(), "a fault has to be cleared");
    writer.clear(None, &|_: &str| Ok(device.clone())).unwrap();
    assert_eq!(aux(a), None);
    files.put(&rig);
    let text = config(&rig);
    assert!(text.is_empty() || !text.iter().any(|l| l.starts_with("faulted") || l.starts_with("degraded")), "{text:?}");
    check(&rig, &files);
}

#[test]
fn a_disk_becomes_a_mirror_and_a_disk_again() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    files.put(&rig);
    let (a, before) = (guid(&rig, "disk"), config(&rig));
    let top_zap = before.iter().find(|l| l.starts_with("com.delphix:vdev_zap_top")).cloned();
    let second = disk("second");
    let rig = Rig { devices: [rig.devices.clone(), vec![second.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let small: Arc<dyn Device> = Arc::new(MemoryDevice::new("small", vec![0; 80 << 20]));
    assert_eq!(refusal(writer.attach(a, new_leaf(&small), Joins::Attach)), "device is too small");
    let coarse = NewLeaf { ashift: 13, ..new_leaf(&second) };
    assert!(refusal(writer.attach(a, coarse, Joins::Attach)).contains("higher alignment"));
    writer.attach(a, new_leaf(&second), Joins::Attach).unwrap();
    assert_eq!(stale(&rig, "second")[0].0, 4);
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "type: 'mirror'") && top_zap.is_none_or(|zap| has(&text, &zap)), "{text:?}");
    check(&rig, &files);
    // The first side has the only complete copy, so it must stay.
    assert_eq!(refusal(writer.detach(a)), "no valid replicas");
    assert_eq!(refusal(writer.offline(a, Lasts::Always)), "no valid replicas");
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    assert_eq!(stale(&rig, "second")[0].0, 4);
    files.put(&rig);
    check(&rig, &files);
    let top = writer.store().tree().tops[0].guid;
    writer.detach(guid(&rig, "second")).unwrap();
    assert_eq!(guid(&rig, "disk"), top, "the last side keeps the mirror's identity");
    let labels = block::label::read(second.as_ref(), true);
    assert!(labels.configs().all(|c| c.get_u64("txg") == Some(0)) && labels.uberblocks.is_empty());
    files.put(&rig);
    let text = config(&rig);
    assert!(text.is_empty() || !text.iter().any(|l| l.contains("mirror")), "{text:?}");
    check(&rig, &files);
    drop(writer);
    let (rig, files) = reopen(rig, files);
    check(&rig, &files);
}

#[test]
fn a_disk_that_is_replaced_stays_until_the_new_one_is_whole() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let writer = rig.live.writer().clone();
    let old = guid(&rig, "disk-2");
    // Same path, different disk: it was swapped while the machine was off.
    writer.offline(old, Lasts::Always).unwrap();
    files.put(&rig);
    let new = disk("disk-2");
    let rig = Rig { devices: [rig.devices[..2].to_vec(), vec![new.clone()]].concat(), live: rig.live };
    writer.attach(old, new_leaf(&new), Joins::Replace).unwrap();
    let again = refusal(writer.attach(writer.store().tree().tops[0].guid, new_leaf(&disk("x")), Joins::Replace));
    assert!(again.starts_with("already in replacing/spare config"), "{again}");
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "type: 'replacing'") && has(&text, "path: 'disk-2/old'"), "{text:?}");
    check(&rig, &files);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    files.put(&rig);
    check(&rig, &files);
    // After the replacement is cancelled, the old device has its path again.
    let writer = rig.live.writer().clone();
    writer.detach(guid(&rig, "disk-2")).unwrap();
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "path: 'disk-2'") && !text.iter().any(|l| l.contains("replacing")), "{text:?}");
    check(&rig, &files);
}

#[test]
fn a_log_leaves_when_nothing_is_on_it_and_a_hole_stays() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    let (log, spare) = (disk("log"), disk("spare"));
    let rig = Rig { devices: [rig.devices.clone(), vec![log.clone(), spare.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let aux = |device: &Arc<dyn Device>| pool::writer::NewAuxiliary {
        kind: "file",
        path: device.name().to_owned(),
        device: device.clone(),
        ashift: 9,
    };
    let top =
        NewVdev { class: block::Class::Log, leaf: Some(("log".into(), log.clone())), ashift: 12, ..layout(false) };
    let new = pool::writer::NewDevices { tops: vec![top], spares: vec![aux(&spare)], caches: Vec::new() };
    writer.add(new, false).unwrap();
    files.put(&rig);
    // The log contains data.
    let id = {
        let tx = files.live.begin(BLOCK).unwrap();
        let id = new_file(files.live.objset(), &tx, 1).unwrap();
        files.live.log().record_unloggable(&tx, Some(id));
        id
    };
    files.live.log().commit(Some(id)).unwrap();
    let before = config(&rig);
    let top = guid(&rig, "log");
    writer.remove(top, &|| rig.live.empty_logs()).unwrap();
    let text = config(&rig);
    assert!(has(&text, "type: 'hole'") && has(&text, "hole_array[0]: 1"), "{text:?} before: {before:?}");
    files.put(&rig);
    check(&rig, &files);
    let spare_guid = writer.store().tree().spares[0].guid;
    writer.remove(spare_guid, &|| Ok(())).unwrap();
    assert!(rig.found().spares().is_empty());
    let data = guid(&rig, "disk");
    assert_eq!(refusal(writer.remove(data, &|| Ok(()))), "out of space", "there is no other device");
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    files.put(&rig);
    check(&rig, &files);
    // A different device gets its own id.
    let again = disk("again");
    let rig = Rig { devices: [rig.devices.clone(), vec![again.clone()]].concat(), live: rig.live };
    let top = NewVdev { leaf: Some(("again".into(), again)), ..layout(false) };
    let new = pool::writer::NewDevices { tops: vec![top], ..Default::default() };
    rig.live.writer().add(new, false).unwrap();
    files.put(&rig);
    check(&rig, &files);
}

/// OpenZFS reports UNAVAIL once a scrub begins. Here such a log stayed ONLINE until the next
/// import, which then failed to find it.
#[test]
fn a_log_device_that_was_overwritten_is_not_used_from_the_next_scrub_on() {
    let rig = Rig::new();
    let log = disk("log");
    let top =
        NewVdev { class: block::Class::Log, leaf: Some(("log".into(), log.clone())), ashift: 12, ..layout(false) };
    let writer = rig.live.writer().clone();
    writer.add(pool::writer::NewDevices { tops: vec![top], ..Default::default() }, false).unwrap();
    let leaf = |name: &str| writer.store().tree().leaves().into_iter().find(|leaf| leaf.path == name).unwrap().clone();
    assert_eq!(writer.validate_labels().unwrap(), 0);
    log.write_at(0, &vec![0; log.size_bytes() as usize]).unwrap();
    writer.start_scrub().unwrap().unwrap();
    assert!(!leaf("log").is_open() && leaf("disk").is_open());
    assert_eq!(leaf("log").aux(), Some(block::vdev::Aux::CorruptLabel));
    // The data device is required, whatever its labels say.
    writer.sync().unwrap();
    let data = rig.devices[0].clone();
    let labels = data.size_bytes() - (512 << 10);
    for at in [0, labels] {
        data.write_at(at, &vec![0; 512 << 10]).unwrap();
    }
    assert_eq!(writer.validate_labels().unwrap(), 0);
    assert!(leaf("disk").is_open());
    writer.set_guid(7).unwrap();
    assert_eq!(writer.validate_labels().unwrap(), 0);
}

#[test]
fn a_spare_is_active_until_the_device_is_repaired_or_becomes_permanent() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let spare = disk("spare");
    let rig = Rig { devices: [rig.devices.clone(), vec![spare.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let aux = pool::writer::NewAuxiliary { kind: "file", path: "spare".into(), device: spare.clone(), ashift: 9 };
    writer.add(pool::writer::NewDevices { spares: vec![aux], ..Default::default() }, false).unwrap();
    let listed = writer.store().tree().spares[0].guid;
    let one = guid(&rig, "disk-1");
    writer.fault(one, Lasts::Always).unwrap();
    let stranger = NewLeaf { spare: Some(listed), ..new_leaf(&disk("stranger")) };
    assert!(refusal(writer.attach(one, stranger, Joins::Replace)).ends_with("is busy"));
    let steps_in = NewLeaf { spare: Some(listed), ..new_leaf(&spare) };
    writer.attach(one, steps_in.clone(), Joins::Replace).unwrap();
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "type: 'spare'") && has(&text, "is_spare: 1"), "{text:?}");
    let status = rig.found().status().unwrap();
    assert_eq!(status.spares[0].aux, pool::status::VdevAux::Spared);
    // Another change in the same group: the DTL of the spare is kept.
    let lacks = stale(&rig, "spare");
    let other = disk("other");
    writer.attach(guid(&rig, "disk-0"), new_leaf(&other), Joins::Replace).unwrap();
    writer.detach(guid(&rig, "other")).unwrap();
    assert!(!lacks.is_empty() && stale(&rig, "spare") == lacks);
    check(&rig, &files);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    files.put(&rig);
    // After a manual detach it is a spare again, and its labels say so.
    writer.detach(listed).unwrap();
    let labels = block::label::read(spare.as_ref(), true);
    assert!(labels.configs().all(|c| c.get_u64("state") == Some(3) && c.get_u64("guid") == Some(listed)));
    assert_eq!(rig.found().status().unwrap().spares[0].state, pool::status::VdevState::Healthy);
    files.put(&rig);
    check(&rig, &files);
    // The original is detached: the spare becomes a regular member and is no longer a spare.
    writer.attach(one, steps_in, Joins::Replace).unwrap();
    assert_eq!(refusal(writer.detach(guid(&rig, "disk-0"))), "only applicable to mirror and replacing vdevs");
    let device = rig.devices[1].clone();
    writer.clear(Some(one), &|_: &str| Ok(device.clone())).unwrap();
    let text = config(&rig);
    assert!(has(&text, "unspare: 1"), "{text:?}");
    files.put(&rig);
    check(&rig, &files);
}

#[test]
fn a_resilver_fills_new_devices_and_detaches_replaced_ones() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    files.put(&rig);
    let writer = rig.live.writer().clone();
    writer.run_scans().unwrap();
    let (new, old) = (disk("new"), rig.devices[1].clone());
    let rig = Rig { devices: [rig.devices.clone(), vec![new.clone()]].concat(), live: rig.live };
    writer.attach(guid(&rig, "disk-1"), new_leaf(&new), Joins::Replace).unwrap();
    files.put(&rig);
    resilvered(&rig);
    let text = config(&rig);
    assert!(
        !text.iter().any(|l| l.contains("replacing") || l.contains("resilver_txg") || l.contains("'disk-1'")),
        "{text:?}"
    );
    let labels = block::label::read(old.as_ref(), true);
    assert!(labels.configs().all(|c| c.get_u64("txg") == Some(0)), "it no longer belongs to a pool");
    check(&rig, &files);
    assert!(rig.is_clean());
    // The returning device is resilvered, and no other missing device is required for that.
    let zero = guid(&rig, "disk-0");
    writer.offline(zero, Lasts::Always).unwrap();
    files.put(&rig);
    let device = rig.devices[0].clone();
    writer.online(zero, &|_: &str| Ok(device.clone())).unwrap();
    resilvered(&rig);
    writer.offline(guid(&rig, "disk-2"), Lasts::UntilImport).unwrap();
    check(&rig, &files);
}

#[test]
fn a_device_that_becomes_larger_is_used_to_its_new_end() {
    const MIB: usize = 1 << 20;
    let memory: Vec<Arc<MemoryDevice>> =
        (0..3).map(|i| Arc::new(MemoryDevice::new(format!("disk-{i}"), vec![0; 72 * MIB]))).collect();
    let child = |d: &Arc<MemoryDevice>| NewVdev {
        leaf: Some((d.name().to_owned(), d.clone() as Arc<dyn Device>)),
        ..layout(false)
    };
    let rig = Rig::with(NewVdev { children: memory.iter().map(child).collect(), ..layout(true) }, &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let writer = rig.live.writer().clone();
    let (before, size) = (writer.allocator().totals(), || writer.allocator().totals().allocated_and_size().1);
    assert_eq!(size(), before.allocated_and_size().1);
    memory[..2].iter().for_each(|d| d.grow(320 * MIB));
    assert!(!writer.expand(guid(&rig, "disk-0")).unwrap(), "one still has its old size");
    memory[2].grow(160 * MIB);
    let expand = |rig: &Rig| rig.found().status().unwrap().root.children[0].expand_bytes;
    assert!(expand(&rig) > 220 << 20, "{}", expand(&rig));
    assert!(!writer.autoexpand().unwrap(), "off by default");
    assert!(writer.expand(guid(&rig, "disk-0")).unwrap());
    memory[2].grow(280 * MIB);
    let set = pool::property::SetValue::Number(1);
    writer.task(move |cx| cx.set_pool_property("autoexpand", &set)).unwrap();
    assert_eq!(expand(&rig), 0);
    memory[2].grow(320 * MIB);
    assert!(writer.autoexpand().unwrap() && !writer.autoexpand().unwrap());
    assert!(size() > before.allocated_and_size().1 + (700 << 20));
    // More data than the old size allowed.
    for _ in 0..190 {
        files.put(&rig);
    }
    check(&rig, &files);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    files.put(&rig);
    check(&rig, &files);
}
