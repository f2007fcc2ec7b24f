//! Many threads on one file system while txgs are synced: no thread waits forever, and the result
//! is consistent.

use crate::support::Fixture;
use files::vfs::{Allocate, Caller, FileKind, NewNode, NodeId, RenameFlags, SetAttr, SetXattr, Vfs};
use files::zpl::CreateOptions;
use files::zpl::backing::Settings;
use rig::Chance;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const THREADS: u64 = 4;
const STEPS: u64 = 8000;

/// A random node, found by walking down from the root along names that may exist.
fn find(vfs: &dyn Vfs, r: &mut Chance) -> NodeId {
    let mut at = vfs.root();
    for _ in 0..r.below(5) {
        match vfs.lookup(at, format!("n{}", r.below(6)).as_bytes()) {
            Ok(found) => at = found.node,
            Err(_) => break,
        }
    }
    at
}

fn work(vfs: &dyn Vfs, seed: u64) {
    let mut r = Chance::new(seed);
    let who = Caller { privileged: true, ..Caller::default() };
    for _ in 0..STEPS {
        let r = &mut r;
        let (node, other) = (find(vfs, r), find(vfs, r));
        let (name, to) = (format!("n{}", r.below(6)), format!("n{}", r.below(6)));
        let (name, to) = (name.as_bytes(), to.as_bytes());
        // Most of these are refused for one reason or another; that does not matter here.
        match r.below(16) {
            0..=1 => drop(vfs.create(&who, node, name, &NewNode::Directory, 0o755, 0)),
            2..=3 => drop(vfs.create(&who, node, name, &NewNode::Regular, 0o644, 0)),
            4 => drop(vfs.link(&who, other, node, name)),
            5 => drop(vfs.unlink(&who, node, name)),
            6 => drop(vfs.rmdir(&who, node, name)),
            7..=9 => {
                let exchange = r.below(3) == 0;
                drop(vfs.rename(&who, node, name, other, to, RenameFlags { exchange, ..RenameFlags::default() }));
            }
            10 => drop(vfs.write(&who, node, r.below(300_000), &[r.below(256) as u8; 5000])),
            11 => drop(vfs.append(&who, node, &[1; 100])),
            12 => drop(vfs.set_attr(&who, node, &SetAttr { size: Some(r.below(200_000)), ..SetAttr::default() })),
            13 => {
                let value = vec![7; if r.below(4) == 0 { 40_000 } else { 30 }];
                drop(vfs.set_xattr(&who, node, format!("user.{}", r.below(3)).as_bytes(), &value, SetXattr::Either));
            }
            14 => {
                if vfs.open_node(node).is_ok() {
                    let _ = vfs.read(node, 0, 100_000);
                    let _ = vfs.allocate(&who, node, Allocate::Punch, 1000, 100_000);
                    vfs.accessed(node);
                    vfs.close_node(node);
                }
            }
            _ => {
                let _ = vfs.read_dir(node, 0, &mut |e| vfs.attr(e.node).is_ok() || e.next_cookie > 0);
                let _ = vfs.remove_xattr(&who, node, b"user.0");
                let _ = vfs.get_xattr(other, b"user.1");
            }
        }
    }
}

/// Checks every stored counter against a recount.
fn check(vfs: &dyn Vfs) {
    let mut names: BTreeMap<NodeId, (u32, u32)> = BTreeMap::new();
    let mut todo = vec![(vfs.root(), vfs.root())];
    while let Some((dir, parent)) = todo.pop() {
        let attr = vfs.attr(dir).unwrap();
        let (mut entries, mut dirs) = (0, 0);
        let mut seen = Vec::new();
        vfs.read_dir(dir, 2, &mut |e| {
            seen.push(e);
            true
        })
        .unwrap();
        for e in seen {
            entries += 1;
            let attr = vfs.lookup(dir, &e.name).unwrap();
            assert_eq!((attr.node, attr.kind), (e.node, e.kind));
            if attr.kind == FileKind::Directory {
                dirs += 1;
                todo.push((e.node, dir));
            } else {
                let links = names.entry(e.node).or_insert((attr.links, 0));
                links.1 += 1;
                assert_eq!(vfs.read(e.node, 0, attr.size as usize).unwrap().len() as u64, attr.size);
            }
        }
        assert_eq!((attr.size, attr.links), (entries + 2, dirs + 2));
        assert_eq!(vfs.lookup(dir, b"..").unwrap().node, parent);
    }
    for (node, (links, counted)) in names {
        assert_eq!(links, counted, "links of {node:?}");
    }
}

#[test]
fn many_threads_leave_a_consistent_tree_and_none_is_stuck() {
    let f = Fixture::new(Settings::default(), &CreateOptions::default());
    let done = AtomicBool::new(false);
    let (finished, watchdog) = mpsc::channel();
    // A deadlock must fail the test, not hang it.
    std::thread::spawn(move || {
        if watchdog.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("threads wait for each other");
            std::process::abort();
        }
    });
    f.backing.keeps_records.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|i| {
                scope.spawn({
                    let fs = &*f.fs;
                    move || work(fs, i + 1 + std::process::id() as u64 * 1000)
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                f.sync();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    finished.send(()).unwrap();
    check(&*f.fs);
    assert!(f.fs.unlinked().unwrap().is_empty());
    f.sync();
    check(&*f.reopened().fs);
}
