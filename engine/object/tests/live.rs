//! Compares live object sets with a plain model: random changes over many txgs, read back while
//! dirty, after each sync, and through a second, read-only handle on the same root.

use block::{Bookmark, Store};
use object::{NewObject, ObjectSet, Tx};
use ondisk::{BlkPtr, Checksum, ObjectType, ObjsetKind};
use rig::Chance;
use rig::sync::{Syncing, store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Clone, Default)]
struct Model {
    block_bytes: u32,
    contents: Vec<u8>,
    bonus: Vec<u8>,
    spill: Option<Vec<u8>>,
}

fn compare(set: &Arc<ObjectSet>, model: &BTreeMap<u64, Model>, when: &str) {
    let mut ids = Vec::new();
    let mut id = 0;
    while let Some(next) = set.next_object(id).unwrap() {
        ids.push(next);
        id = next;
    }
    assert_eq!(ids, model.keys().copied().collect::<Vec<_>>(), "objects {when}");
    for (id, m) in model {
        let object = set.object(*id).unwrap();
        assert_eq!(object.bonus(), m.bonus, "bonus of {id} {when}");
        assert_eq!(object.block_bytes(), u64::from(m.block_bytes), "{when}");
        let mut got = vec![1; m.contents.len() + 3000];
        object.read_at(0, &mut got).unwrap();
        assert!(got[..m.contents.len()] == m.contents[..], "contents of {id} {when}");
        assert!(got[m.contents.len()..].iter().all(|b| *b == 0), "beyond the end of {id} {when}");
        let spill = object.spill().unwrap().map(|b| b.data.to_vec());
        assert_eq!(spill, m.spill, "spill of {id} {when}");
        // No byte in a hole is nonzero.
        let (mut at, size) = (0, m.contents.len() as u64);
        while at < size {
            let data = object.next_data(at).unwrap().unwrap_or(size).min(size);
            assert!(m.contents[at as usize..data as usize].iter().all(|b| *b == 0), "a hole of {id} {when}");
            at = object.next_hole(data).unwrap();
        }
    }
}

fn run(seed: u8) {
    let mut chance = Chance::new(u64::from(seed) << 32 | 0x9e37);
    let mut below = |n: u64| chance.below(n);
    let (store, allocator) = store();
    let set = ObjectSet::open_live(&store, None, 5, None, ObjsetKind::Other).unwrap();
    let mut model: BTreeMap<u64, Model> = BTreeMap::new();
    let mut used = 0;
    for txg in 10..60 {
        let tx = Tx::open(txg, Box::new(()));
        for _ in 0..below(12) {
            let pick = model.keys().copied().nth(below(model.len().max(1) as u64) as usize);
            match (below(12), pick) {
                (0..=1, _) | (_, None) => {
                    let block_bytes = [512, 1024, 4096, 131_072][below(4) as usize];
                    let mut new = NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, block_bytes);
                    new.indirect_shift = [10, 12, 17][below(3) as usize];
                    new.slots = [1, 1, 2, 8][below(4) as usize];
                    new = new.with_bonus(ObjectType::SA, vec![below(256) as u8; below(150) as usize]);
                    let object = set.create_object(&tx, &new).unwrap();
                    let m = Model { block_bytes, bonus: new.bonus.clone(), ..Model::default() };
                    assert!(model.insert(object.id(), m).is_none());
                }
                (2, Some(id)) => {
                    set.free_object(&tx, id).unwrap();
                    model.remove(&id);
                }
                (3, Some(id)) => {
                    let m = model.get_mut(&id).unwrap();
                    m.bonus = vec![below(256) as u8; below(120) as usize];
                    set.object(id).unwrap().set_bonus(&tx, m.bonus.clone()).unwrap();
                }
                (4, Some(id)) => {
                    let m = model.get_mut(&id).unwrap();
                    m.spill = (below(3) > 0).then(|| vec![below(256) as u8; 512 * (1 + below(9) as usize)]);
                    if m.bonus.len() <= 100 {
                        set.object(id).unwrap().set_spill(&tx, m.spill.clone()).unwrap();
                    } else {
                        m.bonus.truncate(100);
                        set.object(id).unwrap().set_bonus(&tx, m.bonus.clone()).unwrap();
                        set.object(id).unwrap().set_spill(&tx, m.spill.clone()).unwrap();
                    }
                }
                (5..=6, Some(id)) => {
                    let m = model.get_mut(&id).unwrap();
                    let at = below(m.contents.len() as u64 + 5000);
                    let len = if below(3) == 0 { u64::MAX } else { below(400_000) };
                    set.object(id).unwrap().punch(&tx, at, len).unwrap();
                    let end = at.saturating_add(len).min(m.contents.len() as u64) as usize;
                    if (at as usize) < end {
                        m.contents[at as usize..end].fill(0);
                    }
                }
                (7, Some(id)) => {
                    let m = model.get_mut(&id).unwrap();
                    let object = set.object(id).unwrap();
                    let bytes = [512u32, 1536, 8192][below(3) as usize];
                    if object.max_block_id() == 0 && m.contents.len() <= bytes as usize {
                        object.set_block_bytes(&tx, bytes).unwrap();
                        m.block_bytes = bytes;
                    }
                }
                (_, Some(id)) => {
                    let m = model.get_mut(&id).unwrap();
                    let at = match below(3) {
                        0 => m.contents.len() as u64,
                        1 => below(m.contents.len() as u64 + 1),
                        _ => below(300_000 * u64::from(m.block_bytes) / 512).min(2_000_000),
                    };
                    let byte = below(256) as u8;
                    let data: Vec<u8> = (0..below(20_000)).map(|i| byte.wrapping_add((i / 64) as u8)).collect();
                    set.object(id).unwrap().write_at(&tx, at, &data).unwrap();
                    let end = at as usize + data.len();
                    if !data.is_empty() && m.contents.len() < end {
                        m.contents.resize(end, 0);
                    }
                    m.contents[at as usize..][..data.len()].copy_from_slice(&data);
                }
            }
        }
        compare(&set, &model, "while dirty");
        drop(tx);
        set.quiesce(txg);
        // The next txg makes changes while this one is written.
        let next = Tx::open(txg + 1, Box::new(()));
        let early = model.keys().copied().next();
        let before = early.map(|id| model[&id].clone());
        if let Some(id) = early {
            set.object(id).unwrap().write_at(&next, 0, b"early").unwrap();
            let m = model.get_mut(&id).unwrap();
            m.contents.resize(m.contents.len().max(5), 0);
            m.contents[..5].copy_from_slice(b"early");
        }
        drop(next);
        let cx = Syncing::new(txg, &store);
        let root = set.sync(&cx).unwrap();
        used += cx.used_bytes.into_inner();
        compare(&set, &model, "after the sync");
        let mut as_synced = model.clone();
        if let (Some(id), Some(before)) = (early, before) {
            as_synced.insert(id, before);
        }
        let reader = ObjectSet::open(store.reader().clone(), &root, 5, None).unwrap();
        compare(&reader, &as_synced, "as a reader sees it");
        assert_eq!(used as u64, allocator.used_bytes(), "the counted space is the allocated space, txg {txg}");
        check_fill(&store, &reader, &root, model.len() as u64);
    }
    let cx = Syncing::new(99, &store);
    set.quiesce(60);
    let tx = Tx::syncing(99);
    drop(tx);
    let set = {
        let root = set.root();
        ObjectSet::open_live(&store, Some(&root), 5, None, ObjsetKind::Other).unwrap()
    };
    set.destroy(&cx).unwrap();
    assert_eq!(allocator.used_bytes(), 0, "nothing is left");
    assert_eq!(used + cx.used_bytes.into_inner(), 0);
}

fn check_fill(store: &Store, set: &Arc<ObjectSet>, root: &BlkPtr, objects: u64) {
    assert_eq!(root.fill(), objects, "fill of the root");
    let mut id = 0;
    while let Some(next) = set.next_object(id).unwrap() {
        let dnode = set.dnode(next).unwrap();
        for (i, bp) in dnode.blkptrs.iter().enumerate() {
            fill(store, bp, &Bookmark { objset: 5, object: next, level: i64::from(bp.level()), blkid: i as u64 });
        }
        id = next;
    }
}

fn fill(store: &Store, bp: &BlkPtr, at: &Bookmark) -> u64 {
    if bp.is_hole() {
        return 0;
    }
    if bp.level() == 0 {
        return 1;
    }
    let block = store.read(bp, at, None).unwrap();
    let below: u64 = (block.data.chunks_exact(128).enumerate())
        .map(|(i, b)| {
            let child = BlkPtr::parse(b, block.endian).unwrap();
            fill(store, &child, &Bookmark { level: at.level - 1, blkid: i as u64, ..*at })
        })
        .sum();
    assert_eq!(bp.fill(), below, "fill at {at}");
    below
}

#[test]
fn random_changes_over_many_txgs_match_a_simple_model() {
    for seed in 0..6 {
        run(seed);
    }
}

#[test]
fn a_txg_synced_during_a_read_does_not_restore_replaced_data() {
    const BLOCK: usize = 4096;
    let (store, _allocator) = store();
    let set = ObjectSet::open_live(&store, None, 5, None, ObjsetKind::Other).unwrap();
    let sync = |txg| {
        let cx = Syncing::new(txg, &store);
        set.sync(&cx).unwrap();
    };
    let tx = Tx::open(10, Box::new(()));
    let new = NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, BLOCK as u32);
    let id = set.create_object(&tx, &new).unwrap().id();
    set.object(id).unwrap().write_at(&tx, 0, &[1; 8 * BLOCK]).unwrap();
    drop(tx);
    sync(10);
    let tx = Tx::open(11, Box::new(()));
    let object = set.object(id).unwrap();
    object.write_at(&tx, 5 * BLOCK as u64, &[2; BLOCK]).unwrap();
    drop(tx);
    let (mut read, mut is_synced) = (Vec::new(), false);
    let take = &mut |piece: object::Piece<'_>| {
        match piece {
            object::Piece::Hole(len) => read.resize(read.len() + len, 0),
            object::Piece::Data(data) => read.extend_from_slice(data),
        }
        if !std::mem::replace(&mut is_synced, true) {
            sync(11);
        }
    };
    object.read_pieces(0, 8 * BLOCK, take).unwrap();
    let blocks: Vec<u8> = read.chunks(BLOCK).map(|block| block[0]).collect();
    assert_eq!(blocks, [1, 1, 1, 1, 1, 2, 1, 1]);
}

/// ZFS name: nopwrite.
#[test]
fn blocks_that_are_overwritten_with_their_contents_stay() {
    const BLOCK: usize = 4096;
    let (store, _allocator) = store();
    let set = ObjectSet::open_live(&store, None, 5, None, ObjsetKind::Other).unwrap();
    // Blocks of data that are born and killed.
    let sync = |txg, checksum| {
        let count = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let watch = |bp: &BlkPtr, is_born: bool| {
            if bp.object_type() == ObjectType::PLAIN_FILE_CONTENTS && bp.level() == 0 && !bp.is_hole() {
                count[usize::from(!is_born)].fetch_add(1, Ordering::Relaxed);
            }
        };
        set.sync(&Syncing { checksum, watch: &watch, ..Syncing::new(txg, &store) }).unwrap();
        count.map(AtomicUsize::into_inner)
    };
    let mut data = rig::noise(1, 8 * BLOCK);
    let tx = Tx::open(10, Box::new(()));
    let id = set.create_object(&tx, &NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, BLOCK as u32)).unwrap().id();
    let write = |tx: Tx, data: &[u8]| set.object(id).unwrap().write_at(&tx, 0, data).unwrap();
    write(tx, &data);
    assert_eq!(sync(10, Checksum::Sha256), [8, 0]);
    data[5 * BLOCK] ^= 1;
    write(Tx::open(11, Box::new(())), &data);
    assert_eq!(sync(11, Checksum::Sha256), [1, 1]);
    // Equal sums of this kind do not mean equal contents.
    write(Tx::open(12, Box::new(())), &data);
    assert_eq!(sync(12, Checksum::Fletcher4), [8, 8]);
    write(Tx::open(13, Box::new(())), &data);
    assert_eq!(sync(13, Checksum::Fletcher4), [8, 8]);
    let read = set.object(id).unwrap().read_vec(0, 8 * BLOCK).unwrap();
    assert!(read[..] == data[..]);
}

#[test]
fn a_search_for_a_hole_ends_though_txgs_are_synced_faster() {
    // It began again with each txg that was synced meanwhile.
    const BLOCKS: u64 = 100_000;
    const BLOCK: u64 = 512;
    const TXGS_MAX: u64 = 2000;
    let (store, _allocator) = store();
    let set = ObjectSet::open_live(&store, None, 5, None, ObjsetKind::Other).unwrap();
    let sync = |txg| {
        set.quiesce(txg);
        let cx = Syncing::new(txg, &store);
        set.sync(&cx).unwrap();
    };
    let tx = Tx::open(10, Box::new(()));
    let mut new = NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, BLOCK as u32);
    new.indirect_shift = 10;
    let id = set.create_object(&tx, &new).unwrap().id();
    set.object(id).unwrap().write_at(&tx, 0, &vec![7; (BLOCKS * BLOCK) as usize]).unwrap();
    drop(tx);
    sync(10);
    let object = set.object(id).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let search = scope.spawn(|| {
            let hole = object.next_hole(0);
            is_done.store(true, Ordering::SeqCst);
            hole
        });
        let mut txg = 11;
        while !is_done.load(Ordering::SeqCst) {
            assert!(txg < TXGS_MAX, "the search does not end");
            let tx = Tx::open(txg, Box::new(()));
            set.object(id).unwrap().write_at(&tx, txg % BLOCKS * BLOCK, &[txg as u8 | 1; BLOCK as usize]).unwrap();
            drop(tx);
            sync(txg);
            txg += 1;
        }
        assert_eq!(search.join().unwrap().unwrap(), BLOCKS * BLOCK, "{txg}");
    });
}
