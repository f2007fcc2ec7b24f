//! Work on devices in the background: trim, initialize, and the expansion of a raidz. At each step
//! OpenZFS's `zdb` finds every block and no leaks.

use crate::common::devices::{
    BLOCK, DISK_BYTES, Files, check, config, disk, guid, has, new_leaf, refusal, reopen, resilvered,
};
use crate::common::{Rig, layout};
use host::device::{Device, MemoryDevice};
use pool::writer::{Joins, Lasts, NewVdev, Order, Work, WorkRefused, WorkState};
use std::sync::Arc;

/// Waits until no activity of that kind is in progress.
fn worked(rig: &Rig, work: Work) {
    let writer = rig.live.writer();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while writer.is_working(work, &[]) {
        assert!(std::time::Instant::now() < end, "{work:?} does not end");
        writer.wait_for_work(std::time::Duration::from_millis(20));
    }
}

fn work_state(rig: &Rig, work: Work) -> Vec<(u64, u64, u64)> {
    let status = rig.found().status().unwrap();
    let leaves = status.root.walk().into_iter().filter(|v| v.is_leaf());
    let of = |v: &pool::status::VdevStatus| if work == Work::Trim { v.trim } else { v.initialize };
    leaves.map(of).map(|w| (w.state, w.done_bytes, w.total_bytes)).collect()
}

#[test]
fn only_free_space_is_trimmed_or_overwritten() {
    const PATTERN: [u8; 8] = 0xdead_beef_dead_beee_u64.to_le_bytes();
    let start = Order::Start { rate: 0 };
    let mirror = |names: [&str; 2]| NewVdev {
        kind: "mirror",
        leaf: None,
        children: names.map(|n| NewVdev { leaf: Some((n.into(), disk(n))), ..layout(false) }).into(),
        ..layout(false)
    };
    let draid = NewVdev {
        kind: "draid",
        parity: 1,
        draid: Some(pool::writer::NewDraid { data: 2, spares: 1 }),
        leaf: None,
        children: (0..5)
            .map(|n| format!("d{n}"))
            .map(|n| NewVdev { leaf: Some((n.clone(), disk(&n))), ..layout(false) })
            .collect(),
        ..layout(false)
    };
    for top in [draid, layout(true), mirror(["a", "b"])] {
        let kind = top.kind;
        let rig = Rig::with(top, &[], None);
        let mut files = Files::new(&rig);
        (0..6).for_each(|_| files.put(&rig));
        let writer = rig.live.writer().clone();
        let leaves: Vec<u64> = writer.store().tree().leaves().iter().map(|leaf| leaf.guid).collect();
        let order = |work, what| leaves.iter().map(|g| writer.order_work(work, *g, what).unwrap()).collect::<Vec<_>>();
        assert!(order(Work::Initialize, Order::Suspend).iter().all(|r| *r == Err(WorkRefused::NotActive)));
        assert_eq!(writer.order_work(Work::Trim, 7, start).unwrap(), Err(WorkRefused::NoDevice));
        assert!(order(Work::Initialize, start).iter().all(|r| *r == Ok(())));
        files.put(&rig);
        worked(&rig, Work::Initialize);
        assert!(rig.is_clean());
        let complete = |work| work_state(&rig, work).iter().all(|(s, ..)| *s == WorkState::Complete as u64);
        assert!(complete(Work::Initialize), "{:?}", work_state(&rig, Work::Initialize));
        let patterns = |device: &Arc<dyn Device>| {
            let mut bytes = vec![0; DISK_BYTES];
            device.read_at(0, &mut bytes).unwrap();
            bytes.chunks_exact(4096).filter(|sector| sector.chunks_exact(8).all(|w| w == PATTERN)).count()
        };
        let before: Vec<usize> = rig.devices.iter().map(patterns).collect();
        // Everything except the files.
        let tree = writer.store().tree();
        let all = writer.allocator().totals().allocated_and_size().1;
        let sectors = |child| tree.tops[0].places(child, 0, all).iter().map(|(_, len)| len >> 12).sum::<u64>() as usize;
        let shares: Vec<usize> = tree.tops[0].leaves_by_child().into_iter().map(|(child, _)| sectors(child)).collect();
        let is_full = |(n, share): (&usize, &usize)| *n + 1700 > *share;
        assert!(before.iter().zip(&shares).all(is_full), "{kind}: {before:?} of {shares:?}");
        assert!(order(Work::Initialize, Order::Forget).iter().all(|r| *r == Ok(())));
        assert!(work_state(&rig, Work::Initialize).iter().all(|(s, ..)| *s == 0));
        files.put(&rig);
        // The space of a deleted file is not reported yet.
        assert!(order(Work::Trim, Order::Start { rate: 1 << 20 }).iter().all(|r| *r == Ok(())));
        assert!(order(Work::Trim, start).contains(&Err(WorkRefused::Busy)), "{kind}");
        assert!(order(Work::Trim, Order::Suspend).iter().all(|r| *r == Ok(())));
        worked(&rig, Work::Trim);
        let (_, done, total) = work_state(&rig, Work::Trim)[0];
        assert!(done < total, "{kind}: {done} of {total}");
        assert!(order(Work::Trim, Order::Cancel).iter().all(|r| *r == Ok(())));
        drop(writer);
        let (rig, mut files) = reopen(rig, files);
        let writer = rig.live.writer().clone();
        assert!(work_state(&rig, Work::Trim).iter().all(|(s, ..)| *s == WorkState::Cancelled as u64));
        for guid in &leaves {
            assert_eq!(writer.order_work(Work::Trim, *guid, start).unwrap(), Ok(()));
        }
        files.put(&rig);
        worked(&rig, Work::Trim);
        check(&rig, &files);
        let after: Vec<usize> = rig.devices.iter().map(patterns).collect();
        assert!(after.iter().zip(&before).all(|(a, b)| a * 20 < *b), "{kind}: {before:?} became {after:?}");
        assert!(rig.is_clean());
    }
}

/// The state and the bytes that are done of the first leaf.
fn first(rig: &Rig, work: Work) -> (u64, u64) {
    let (state, done, _) = work_state(rig, work)[0];
    (state, done)
}

#[test]
fn work_on_a_device_that_leaves_resumes_when_it_is_back_and_is_forgotten_when_it_is_faulted() {
    let mirror = NewVdev {
        kind: "mirror",
        leaf: None,
        children: ["a", "b"].map(|n| NewVdev { leaf: Some((n.into(), disk(n))), ..layout(false) }).into(),
        ..layout(false)
    };
    let rig = Rig::with(mirror, &[], None);
    let writer = rig.live.writer().clone();
    writer.run_sweeps().unwrap();
    let leaf = writer.store().tree().leaves()[0].guid;
    let device = rig.devices[0].clone();
    let back = || {
        writer.online(leaf, &|_| Ok(device.clone())).unwrap();
    };
    let (active, complete) = (WorkState::Active as u64, WorkState::Complete as u64);
    // Slow enough that it is not complete when the device leaves.
    for work in [Work::Trim, Work::Initialize] {
        let slow = host::device::faults::Outcome::Slow { latency: std::time::Duration::from_millis(100), lanes: 1 };
        let rule = host::device::faults::Rule {
            device: leaf,
            operations: Vec::new(),
            areas: Vec::new(),
            with_placeless: false,
            per_million: 1_000_000,
            outcome: slow,
        };
        let id = writer.store().injection().add(block::inject::What::Device(rule));
        assert_eq!(writer.order_work(work, leaf, Order::Start { rate: 1 << 20 }).unwrap(), Ok(()));
        writer.offline(leaf, Lasts::Always).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(first(&rig, work).0, active, "{work:?}: what was not done is not complete");
        writer.store().injection().remove(id);
        assert_eq!(writer.order_work(work, leaf, Order::Suspend).unwrap(), Err(WorkRefused::BadDevice));
        back();
        // On a disk in memory, the rest of the work may be done by now.
        match writer.order_work(work, leaf, Order::Suspend).unwrap() {
            Ok(()) => assert_eq!(writer.order_work(work, leaf, Order::Start { rate: 1 << 40 }).unwrap(), Ok(())),
            refused => assert_eq!(refused, Err(WorkRefused::NotActive)),
        }
        worked(&rig, work);
        assert_eq!(first(&rig, work).0, complete, "{work:?}");
    }
    assert_eq!(writer.order_work(Work::Trim, leaf, Order::Start { rate: 1 << 20 }).unwrap(), Ok(()));
    writer.fault(leaf, Lasts::Always).unwrap();
    assert_eq!(first(&rig, Work::Trim).0, WorkState::None as u64);
    writer.clear(Some(leaf), &|_| Ok(device.clone())).unwrap();
    assert_eq!(first(&rig, Work::Trim).0, WorkState::None as u64);
}

#[test]
fn freed_space_is_trimmed_automatically() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    let writer = rig.live.writer().clone();
    let set = pool::property::SetValue::Number(1);
    writer.task(move |cx| cx.set_pool_property("autotrim", &set)).unwrap();
    (0..4).for_each(|_| files.put(&rig));
    let zeros = || {
        let mut bytes = vec![0; DISK_BYTES];
        rig.devices[0].read_at(0, &mut bytes).unwrap();
        bytes.chunks_exact(4096).filter(|sector| sector.iter().all(|b| *b == 0)).count()
    };
    let gone = files.files.pop().unwrap();
    let before = zeros();
    {
        let tx = files.live.begin(BLOCK).unwrap();
        files.live.objset().free_object(&tx, gone).unwrap();
    }
    writer.sync().unwrap();
    writer.trim_freed().unwrap();
    assert!(zeros() < before + 64, "it may still be rewound to");
    (0..4).for_each(|_| writer.task(|_| Ok(())).unwrap());
    let before = zeros();
    writer.trim_freed().unwrap();
    assert!(zeros() > before + 64, "{} and {before}", zeros());
    files.put(&rig);
    files.files.pop();
    check(&rig, &files);
}

/// Waits until the expansion has ended.
fn widened(rig: &Rig) {
    let writer = rig.live.writer();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while writer.expansion_state().0 {
        assert!(std::time::Instant::now() < end, "{:?}", rig.found().status().unwrap().expand);
        writer.wait_for_expansion(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_raidz_is_expanded_in_use_and_openzfs_can_read_every_step() {
    for parity in [1, 2] {
        let children = (0..2 + parity).map(|n| format!("disk-{n}"));
        let child = |n: String| NewVdev { leaf: Some((n.clone(), disk(&n))), ..layout(false) };
        let top = NewVdev { parity, children: children.map(child).collect(), ..layout(true) };
        let rig = Rig::with(top, &[], None);
        let mut files = Files::new(&rig);
        (0..24).for_each(|_| files.put(&rig));
        let added = disk("added");
        let rig = Rig { devices: [rig.devices.clone(), vec![added.clone()]].concat(), live: rig.live };
        let writer = rig.live.writer().clone();
        let top = writer.store().tree().tops[0].guid;
        let small: Arc<dyn Device> = Arc::new(MemoryDevice::new("small", vec![0; 80 << 20]));
        assert_eq!(refusal(writer.attach(top, new_leaf(&small), Joins::Attach)), "device is too small");
        writer.attach(top, new_leaf(&added), Joins::Attach).unwrap();
        // The same txg moved the first rows into the scratch area.
        let in_scratch = rig.found().uberblock().raidz_reflow >> 55;
        assert!(in_scratch == 1 && rig.is_clean());
        rig.judge();
        let again = refusal(writer.attach(top, new_leaf(&disk("other")), Joins::Attach));
        assert_eq!(again, "raidz expansion in progress");
        let size = || writer.allocator().totals().allocated_and_size().1;
        let before = size();
        // Out of the scratch area and onward: each txg is a step, and each step is consistent.
        let (mut states, mut word) = (Vec::new(), 0);
        for step in 0..6 {
            match step % 3 {
                1 => check(&rig, &files),
                _ => writer.sync().unwrap(),
            }
            assert!(rig.is_clean(), "step {step}");
            let now = rig.found().uberblock().raidz_reflow;
            assert!(now & ((1 << 55) - 1) >= word & ((1 << 55) - 1));
            (word, states) = (now, [states, vec![now >> 55]].concat());
            if step % 2 == 0 {
                files.put(&rig);
            }
        }
        assert!(states.iter().all(|state| *state == 4), "{states:?}");
        let text = config(&rig);
        assert!(has(&text, "raidz_expanding"), "{text:?}");
        drop(writer);
        let (rig, mut files) = reopen(rig, files);
        let writer = rig.live.writer().clone();
        assert!(writer.expansion_state().0);
        // It pauses while a device is offline.
        let zero = guid(&rig, "disk-0");
        writer.offline(zero, Lasts::Always).unwrap();
        files.put(&rig);
        let at = rig.found().uberblock().raidz_reflow;
        files.put(&rig);
        assert_eq!(rig.found().uberblock().raidz_reflow, at);
        check(&rig, &files);
        let device = rig.devices[0].clone();
        writer.online(zero, &|_: &str| Ok(device.clone())).unwrap();
        writer.run_scans().unwrap();
        resilvered(&rig);
        writer.run_expansion().unwrap();
        (0..10).for_each(|_| files.put(&rig));
        widened(&rig);
        let text = config(&rig);
        assert!(!text.iter().any(|l| l.contains("raidz_expanding")), "{text:?}");
        assert!(has(&text, "raidz_expand_txgs[0]"), "{text:?}");
        assert!(writer.allocator().totals().allocated_and_size().1 > before * 5 / 4);
        (0..4).for_each(|_| files.put(&rig));
        check(&rig, &files);
        drop(writer);
        let (rig, mut files) = reopen(rig, files);
        files.put(&rig);
        check(&rig, &files);
        assert!(rig.is_clean());
        // The new child carries its share: as many devices as the parity allows may be lost.
        let writer = rig.live.writer();
        writer.offline(guid(&rig, "disk-1"), Lasts::UntilImport).unwrap();
        check(&rig, &files);
    }
}
