//! ZAPs in live objects: over several txgs, freed and created again, read while another thread
//! writes, and by a reader of the synced state.

use errors::Refusal;
use object::zap::ZapSpec;
use object::{ObjectSet, Tx, Zap};
use ondisk::zap::Value as ZapValue;
use ondisk::zap::{Flags as ZapFlags, NormFlags};
use ondisk::{ObjectType, ObjsetKind};
use rig::Chance;
use rig::sync::{Syncing, store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

fn live() -> (Arc<block::WriteStore>, Arc<ObjectSet>) {
    let (store, _) = store();
    let set = ObjectSet::open_live(&store, None, 5, None, ObjsetKind::FileSystem).unwrap();
    (store, set)
}

fn sync(store: &block::WriteStore, set: &Arc<ObjectSet>, txg: u64) -> Arc<ObjectSet> {
    set.quiesce(txg);
    let cx = Syncing::new(txg, store);
    let root = set.sync(&cx).unwrap();
    ObjectSet::open(store.reader().clone(), &root, 5, None).unwrap()
}

fn directory() -> ZapSpec {
    ZapSpec::new(ObjectType::DIRECTORY_CONTENTS)
}

fn entries(zap: &Zap) -> BTreeMap<String, u64> {
    let all = zap.entries().unwrap().into_iter();
    all.map(|e| (String::from_utf8(e.name).unwrap(), e.value.as_u64().unwrap())).collect()
}

#[test]
fn directories_change_over_many_txgs() {
    for seed in 0..3 {
        let (store, set) = live();
        let mut chance = Chance::new(seed);
        let mut below = |n: u64| chance.below(n);
        let tx = Tx::open(10, Box::new(()));
        let zap = Zap::create(&set, &tx, &directory()).unwrap();
        let id = zap.object().unwrap().id();
        drop(tx);
        let mut model = BTreeMap::new();
        for txg in 10..22 {
            let tx = Tx::open(txg, Box::new(()));
            for _ in 0..1200 {
                let name = format!("{}{}", "long".repeat(below(2) as usize * 11), below(4000));
                match below(3) {
                    0 if model.remove(&name).is_some() => zap.remove(&tx, &name).unwrap(),
                    1 => {
                        zap.update_u64(&tx, &name, txg).unwrap();
                        model.insert(name, txg);
                    }
                    _ => match zap.insert_u64(&tx, &name, txg) {
                        Ok(()) => assert_eq!(model.insert(name, txg), None),
                        Err(e) => assert!(e.refusal() == Some(Refusal::Exists) && model.contains_key(&name)),
                    },
                }
            }
            assert_eq!(entries(&zap), model);
            drop(tx);
            let reader = sync(&store, &set, txg);
            assert_eq!(entries(&Zap::open(reader.object(id).unwrap()).unwrap()), model);
            // Another handle, and one on the object as loaded from disk.
            assert_eq!(entries(&Zap::open(set.object(id).unwrap()).unwrap()), model);
            let again = ObjectSet::open_live(&store, Some(&set.root()), 5, None, ObjsetKind::FileSystem).unwrap();
            assert_eq!(entries(&Zap::open(again.object(id).unwrap()).unwrap()), model);
        }
    }
}

#[test]
fn a_reused_number_shows_nothing_of_its_previous_object() {
    let (_store, set) = live();
    let tx = Tx::open(10, Box::new(()));
    let first = Zap::create(&set, &tx, &directory()).unwrap();
    let id = first.object().unwrap().id();
    first.insert_u64(&tx, "old", 1).unwrap();
    first.insert(&tx, "fat", &ZapValue::words(&[1, 2])).unwrap();
    set.free_object(&tx, id).unwrap();
    assert!(first.insert_u64(&tx, "too late", 1).is_err());
    let second = Zap::create(&set, &tx, &ZapSpec { id: Some(id), ..directory() }).unwrap();
    assert_eq!(second.count().unwrap(), 0);
    second.insert_u64(&tx, "new", 2).unwrap();
    assert_eq!(entries(&second), [("new".to_owned(), 2)].into());
}

#[test]
fn specs_are_kept() {
    let (store, set) = live();
    let tx = Tx::open(10, Box::new(()));
    let norm = NormFlags::TO_UPPER | NormFlags::NFD;
    let folded = Zap::create(&set, &tx, &ZapSpec { norm_flags: norm, ..directory() }).unwrap();
    folded.insert_u64(&tx, "Straße", 1).unwrap();
    let flags = ZapFlags::HASH64 | ZapFlags::UINT64_KEY;
    let spec = ZapSpec {
        flags,
        block_shift: 12,
        indirect_shift: 12,
        id: Some(77),
        slots: 2,
        ..ZapSpec::new(ObjectType::DDT_ZAP)
    };
    let words = Zap::create(&set, &tx, &spec).unwrap();
    words.insert_key(&tx, &[1, 2, 3], &ZapValue::bytes(b"abc")).unwrap();
    words.update_key(&tx, &[1, 2, 3], &ZapValue::bytes(b"abcd")).unwrap();
    words.insert_key(&tx, &[4, 2, 3], &ZapValue::one(5)).unwrap();
    words.remove_key(&tx, &[4, 2, 3]).unwrap();
    let parent = Zap::create(&set, &tx, &directory()).unwrap();
    let child = Zap::create_linked(&set, &tx, &directory(), &parent, "child").unwrap();
    assert_eq!(parent.lookup_u64("child").unwrap(), Some(child.object().unwrap().id()));
    assert_eq!(parent.increment(&tx, "count", 3).unwrap(), 3);
    assert_eq!(parent.increment(&tx, "count", -3).unwrap(), 0);
    assert_eq!(parent.lookup("count").unwrap(), None);
    drop(tx);
    let reader = sync(&store, &set, 10);
    let folded = Zap::open(reader.object(folded.object().unwrap().id()).unwrap()).unwrap();
    assert_eq!(folded.norm_flags(), norm);
    assert!(folded.lookup_normalised("STRAßE".as_bytes(), false).unwrap().is_some());
    let words = Zap::open(reader.object(77).unwrap()).unwrap();
    assert_eq!((words.flags(), words.count().unwrap()), (flags, 1));
    assert_eq!(words.lookup_key(&[1, 2, 3]).unwrap().unwrap(), ZapValue::bytes(b"abcd"));
    let dnode = reader.dnode(77).unwrap();
    assert_eq!((dnode.data_block_bytes, dnode.indirect_shift, dnode.slots), (4096, 12, 2));
    let refused = words.insert_key(&Tx::syncing(11), &[9], &ZapValue::one(1));
    assert_eq!(refused.unwrap_err().refusal(), Some(Refusal::ReadOnly));
}

#[test]
fn readers_find_permanent_entries_while_others_change() {
    let (_store, set) = live();
    let tx = Tx::open(10, Box::new(()));
    let zap = Zap::create(&set, &tx, &directory()).unwrap();
    for i in 0..500 {
        zap.insert_u64(&tx, format!("stays {i}"), i).unwrap();
    }
    let (stop, reads) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let zap = Zap::open(set.object(zap.object().unwrap().id()).unwrap()).unwrap();
                for i in (0..500).cycle() {
                    assert_eq!(zap.lookup_u64(format!("stays {i}")).unwrap(), Some(i));
                    if i == 0 {
                        let stay = zap.cursor(0).map(Result::unwrap).filter(|(e, _)| e.name.starts_with(b"stays"));
                        assert_eq!(stay.count(), 500);
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..6 {
            for i in 0..2000 {
                zap.insert_u64(&tx, format!("comes {i}"), round).unwrap();
            }
            for i in 0..2000 {
                zap.remove(&tx, format!("comes {i}")).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(zap.count().unwrap(), 500);
}

#[test]
fn a_hundred_thousand_names() {
    let (store, set) = live();
    let tx = Tx::open(10, Box::new(()));
    let zap = Zap::create(&set, &tx, &directory()).unwrap();
    let begun = std::time::Instant::now();
    for i in 0..100_000u64 {
        zap.insert_u64(&tx, format!("file-{i:06}.dat"), i).unwrap();
    }
    let inserted = begun.elapsed();
    for i in 0..100_000u64 {
        assert_eq!(zap.lookup_u64(format!("file-{i:06}.dat")).unwrap(), Some(i));
    }
    println!("inserted in {inserted:?}, looked up in {:?}", begun.elapsed() - inserted);
    let id = zap.object().unwrap().id();
    drop(tx);
    let reader = sync(&store, &set, 10);
    assert_eq!(Zap::open(reader.object(id).unwrap()).unwrap().entries().unwrap().len(), 100_000);
}

#[test]
fn a_full_micro_zap_takes_changes_without_being_read_whole() {
    let (_store, set) = live();
    let tx = Tx::open(10, Box::new(()));
    let zap = Zap::create(&set, &tx, &directory()).unwrap();
    for i in 0..2000u64 {
        zap.insert_u64(&tx, format!("name {i}"), i).unwrap();
    }
    let begun = std::time::Instant::now();
    for i in 0..100_000u64 {
        let name = format!("name {}", i % 2000);
        zap.remove(&tx, &name).unwrap();
        zap.insert_u64(&tx, &name, i).unwrap();
    }
    println!("200,000 changes in {:?}", begun.elapsed());
    assert!(zap.header().unwrap().is_none());
}
