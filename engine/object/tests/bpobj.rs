//! Compares lists of block pointers with plain vectors: appended, joined, drained in pieces, freed,
//! over several txgs.

use object::bpobj_write::{NewEntry, new_header};
use object::{Bpobj, ObjectSet, Tx};
use ondisk::bpobj::Header;
use ondisk::{BlkPtr, ObjectType, ObjsetKind};
use rig::sync::{Syncing, store};
use std::sync::Arc;

/// A unique pointer: 1 KiB stored of 4 KiB or, every seventh, embedded.
fn bp(n: u64) -> BlkPtr {
    let mut words = [0; 16];
    words[0] = 2;
    words[1] = n;
    // Size, compression, type of a plain file, byte order.
    words[6] = 7 | 1 << 16 | 15 << 32 | 7 << 40 | u64::from(ObjectType::PLAIN_FILE_CONTENTS.0) << 48 | 1 << 63;
    if n.is_multiple_of(7) {
        words[6] |= 1 << 39;
    }
    words[10] = n;
    words[11] = 1;
    words[12] = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    BlkPtr::from_words(words)
}

fn space(bp: &BlkPtr) -> u64 {
    if bp.is_embedded() { 0 } else { bp.asize_bytes() }
}

fn entry(n: u64) -> NewEntry {
    NewEntry { bp: bp(n), freed: false, space_bytes: space(&bp(n)) }
}

fn births(mos: &Arc<ObjectSet>, id: u64) -> Vec<u64> {
    let mut births = Vec::new();
    let list = Bpobj::open(mos, id).unwrap();
    list.for_each(mos, &mut |e| {
        births.push(e.bp.logical_birth().0);
        assert_eq!(e.bp.words()[11..], [0; 5], "neither fill count nor checksum are stored");
        Ok(true)
    })
    .unwrap();
    births.sort_unstable();
    let expected: u64 = births.iter().map(|n| space(&bp(*n))).sum();
    assert_eq!(list.header().used_bytes, expected);
    let logical = list.header().logical.unwrap();
    let held = |n: &&u64| !n.is_multiple_of(7);
    assert_eq!(logical.compressed_bytes, births.iter().filter(held).count() as u64 * 1024);
    assert_eq!(logical.uncompressed_bytes, births.iter().map(|n| bp(*n).lsize_bytes()).sum::<u64>());
    births
}

fn objects(mos: &Arc<ObjectSet>) -> usize {
    let (mut count, mut id) = (0, 0);
    while let Some(next) = mos.next_object(id).unwrap() {
        (count, id) = (count + 1, next);
    }
    count
}

#[test]
fn lists_are_joined_drained_and_freed() {
    let (store, _) = store();
    let mos = ObjectSet::open_live(&store, None, 0, None, ObjsetKind::Meta).unwrap();
    let tx = Tx::syncing(10);
    let list = |range: std::ops::Range<u64>, block_bytes| {
        let id = Bpobj::create(&mos, &tx, block_bytes).unwrap();
        let list = Bpobj::open(&mos, id).unwrap();
        assert!(list.is_empty().unwrap());
        list.append_all(&tx, range.map(entry)).unwrap();
        id
    };
    let main = list(1..100, 128 << 10);
    let opened = Bpobj::open(&mos, main).unwrap();
    opened.append(&tx, &bp(100), false, space(&bp(100))).unwrap();
    assert_eq!(births(&mos, main), (1..=100).collect::<Vec<_>>());
    // A small list is copied and freed, an empty one is freed, a large one becomes a sub-list.
    opened.append_sub(&mos, &tx, list(101..300, 128 << 10)).unwrap();
    opened.append_sub(&mos, &tx, list(300..300, 128 << 10)).unwrap();
    assert_eq!((objects(&mos), births(&mos, main).len()), (1, 299));
    let large = list(300..600, 4096);
    opened.append_sub(&mos, &tx, large).unwrap();
    assert_eq!(objects(&mos), 3, "main, its list of sub-lists, the sub-list");
    let other = list(600..3000, 128 << 10);
    Bpobj::open(&mos, other).unwrap().append_sub(&mos, &tx, main).unwrap();
    assert!(opened.newest().is_err(), "copied and freed");
    assert_eq!(births(&mos, other), (1..3000).collect::<Vec<_>>());
    mos.quiesce(10);
    let cx = Syncing::new(10, &store);
    let root = mos.sync(&cx).unwrap();
    let reader = ObjectSet::open(store.reader().clone(), &root, 0, None).unwrap();
    assert_eq!(births(&reader, other), (1..3000).collect::<Vec<_>>());

    let tx = Tx::syncing(11);
    let opened = Bpobj::open(&mos, other).unwrap();
    let (mut taken, mut rounds) = (Vec::new(), 0);
    loop {
        let mut left = 700;
        let done = opened
            .drain(&mos, &tx, &space, &mut |e| {
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                taken.push(e.bp.logical_birth().0);
                Ok(true)
            })
            .unwrap();
        rounds += 1;
        let mut all = births(&mos, other);
        all.extend(&taken);
        all.sort_unstable();
        assert_eq!(all, (1..3000).collect::<Vec<_>>());
        if done {
            break;
        }
    }
    assert_eq!((rounds, objects(&mos)), (5, 1));
    assert_eq!(opened.newest().unwrap(), new_header(5000, false));
    opened.append_sub(&mos, &tx, large_tree(&mos, &tx)).unwrap();
    Bpobj::free(&mos, &tx, other).unwrap();
    assert_eq!(objects(&mos), 0);
}

fn large_tree(mos: &Arc<ObjectSet>, tx: &Tx) -> u64 {
    let mut ids = (0..5).map(|i| {
        let id = Bpobj::create(mos, tx, 4096).unwrap();
        Bpobj::open(mos, id).unwrap().append_all(tx, (i * 100 + 1..i * 100 + 100).map(entry)).unwrap();
        id
    });
    let top = ids.next().unwrap();
    for id in ids {
        Bpobj::open(mos, top).unwrap().append_sub(mos, tx, id).unwrap();
    }
    top
}

#[test]
fn frees_in_a_livelist_cancel_allocations() {
    let (store, _) = store();
    let mos = ObjectSet::open_live(&store, None, 0, None, ObjsetKind::Meta).unwrap();
    let tx = Tx::syncing(10);
    let id = Bpobj::create_with(&mos, &tx, 4096, &new_header(5000, true)).unwrap();
    let list = Bpobj::open(&mos, id).unwrap();
    for (n, freed) in [(1, false), (2, false), (1, true)] {
        list.append(&tx, &bp(n), freed, space(&bp(n))).unwrap();
    }
    let header = list.newest().unwrap();
    assert_eq!((header.entries, header.freed, header.used_bytes), (3, Some(1), space(&bp(2))));
    assert!(list.append(&tx, &bp(9), true, 1 << 40).is_err(), "more is freed than was born");
    assert_eq!(list.newest().unwrap(), header);
    let mut seen = Vec::new();
    assert!(
        list.drain(&mos, &tx, &space, &mut |e| {
            seen.push((e.bp.logical_birth().0, e.freed));
            Ok(true)
        })
        .unwrap()
    );
    assert_eq!(seen, [(1, true), (2, false), (1, false)]);
    assert_eq!(list.newest().unwrap(), Header { freed: Some(0), ..new_header(5000, true) });
    let plain = Bpobj::open(&mos, Bpobj::create(&mos, &tx, 4096).unwrap()).unwrap();
    assert!(plain.append(&tx, &bp(1), true, 0).is_err(), "a list without frees");
    assert!(plain.append_sub(&mos, &tx, plain.object().id()).is_err());
}

#[test]
fn old_pools_have_shorter_heads() {
    let (store, _) = store();
    let mos = ObjectSet::open_live(&store, None, 0, None, ObjsetKind::Meta).unwrap();
    let tx = Tx::syncing(10);
    for (version, len) in [(1, 16), (3, 32), (26, 48)] {
        let id = Bpobj::create_with(&mos, &tx, 4096, &new_header(version, false)).unwrap();
        let list = Bpobj::open(&mos, id).unwrap();
        list.append(&tx, &bp(1), false, 1024).unwrap();
        assert_eq!(mos.object(id).unwrap().bonus().len(), len);
        let other = Bpobj::create(&mos, &tx, 4096).unwrap();
        Bpobj::open(&mos, other).unwrap().append(&tx, &bp(2), false, 1024).unwrap();
        assert_eq!(list.append_sub(&mos, &tx, other).is_ok(), version >= 26);
    }
}
