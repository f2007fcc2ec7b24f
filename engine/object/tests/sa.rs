//! Compares attributes of objects with a plain map: set, made longer and shorter, removed, over
//! several txgs, with dnodes of several sizes, read while dirty and by a reader of the synced
//! state.

use errors::Refusal;
use object::{NewObject, Object, ObjectSet, SaTable, Tx, Zap};
use ondisk::sa::{Attr, SaHeader};
use ondisk::{ObjectType, ObjsetKind};
use rig::Chance;
use rig::sync::{Syncing, store};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The order in which OpenZFS sets the attributes of a new file.
const NEW_FILE: [Attr; 14] = [
    Attr::Mode,
    Attr::Size,
    Attr::Gen,
    Attr::Uid,
    Attr::Gid,
    Attr::Parent,
    Attr::Flags,
    Attr::Atime,
    Attr::Mtime,
    Attr::Ctime,
    Attr::Crtime,
    Attr::Links,
    Attr::DaclCount,
    Attr::DaclAces,
];

type Values = BTreeMap<Attr, Vec<u8>>;

fn length(attr: Attr) -> usize {
    usize::from(Attr::TABLE[attr as usize].2)
}

fn new_file(set: &Arc<ObjectSet>, tx: &Tx, slots: u8) -> Object {
    let new = NewObject { slots, ..NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, 512) };
    set.create_object(tx, &new.with_bonus(ObjectType::SA, Vec::new())).unwrap()
}

fn check(table: &SaTable, set: &Arc<ObjectSet>, id: u64, model: &Values) {
    let object = set.object(id).unwrap();
    let attributes = table.attributes(&object).unwrap();
    for (attr, name, _) in Attr::TABLE {
        let found = attributes.get(attr).unwrap().map(|(bytes, _)| bytes);
        assert_eq!(found, model.get(&attr).map(Vec::as_slice), "{name} of {id}");
    }
}

fn layouts(set: &Arc<ObjectSet>, master: u64) -> BTreeMap<String, Vec<u64>> {
    let master = Zap::open(set.object(master).unwrap()).unwrap();
    let zap = Zap::open(set.object(master.lookup_u64("LAYOUTS").unwrap().unwrap()).unwrap()).unwrap();
    zap.entries().unwrap().into_iter().map(|e| (String::from_utf8(e.name).unwrap(), e.value.ints)).collect()
}

#[test]
fn a_new_file_system_has_the_numbers_that_openzfs_gives() {
    let (store, _) = store();
    let set = ObjectSet::open_live(&store, None, 5, None, ObjsetKind::FileSystem).unwrap();
    let tx = Tx::open(10, Box::new(()));
    let (table, master) = SaTable::create(&set, &tx).unwrap();
    let zap = Zap::open(set.object(master).unwrap()).unwrap();
    let registry = Zap::open(set.object(zap.lookup_u64("REGISTRY").unwrap().unwrap()).unwrap()).unwrap();
    assert_eq!(registry.count().unwrap(), 22);
    for (name, value) in [
        ("ZPL_ATIME", 16 << 24),
        ("ZPL_MODE", 5 | 8 << 24),
        ("ZPL_ZNODE_ACL", 15 | 3 << 16 | 88 << 24),
        ("ZPL_DACL_COUNT", 16 | 8 << 24),
        ("ZPL_SYMLINK", 17 | 3 << 16),
        ("ZPL_SCANSTAMP", 18 | 3 << 16 | 32 << 24),
        ("ZPL_DACL_ACES", 19 | 4 << 16),
        ("ZPL_DXATTR", 20 | 3 << 16),
        ("ZPL_PROJID", 21 | 8 << 24),
    ] {
        assert_eq!(registry.lookup_u64(name).unwrap(), Some(value), "{name}");
    }
    let file = new_file(&set, &tx, 1);
    let values: Vec<_> = NEW_FILE
        .iter()
        .map(|a| (*a, vec![*a as u8; length(*a).max(24)]))
        .map(|(a, mut v)| {
            v.truncate(if length(a) == 0 { 24 } else { length(a) });
            (a, v)
        })
        .collect();
    table.build(&tx, &file, &values).unwrap();
    assert_eq!(layouts(&set, master), [("2".to_owned(), vec![5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19])].into());
    let bonus = set.object(file.id()).unwrap().bonus().to_vec();
    let header = SaHeader::parse(&bonus).unwrap().unwrap();
    assert_eq!((header.layout, header.size_bytes, bonus.len()), (2, 8, 8 + 9 * 8 + 4 * 16 + 24));
    // The offsets where user accounting expects them.
    assert_eq!((bonus[8], bonus[8 + 24], bonus[8 + 48]), (Attr::Mode as u8, Attr::Uid as u8, Attr::Flags as u8));
    table.update(&tx, &file, &[(Attr::Seq, Some(&[1; 8]))]).unwrap();
    assert_eq!(registry.lookup_u64("ZPL_SEQ").unwrap(), Some(22 | 8 << 24));
    let wrong = table.update(&tx, &file, &[(Attr::Mode, Some(&[1; 4]))]);
    assert!(wrong.is_err(), "a length that is not the registered one");
    let large = table.update(&tx, &file, &[(Attr::Dxattr, Some(&[1; 70_000]))]);
    assert_eq!(large.unwrap_err().refusal(), Some(Refusal::AttributeTooLarge));
}

fn run(seed: u64) {
    let mut chance = Chance::new(seed);
    let mut below = |n: u64| chance.below(n);
    let (store, _) = store();
    let set = ObjectSet::open_live(&store, None, 5, None, ObjsetKind::FileSystem).unwrap();
    let tx = Tx::open(10, Box::new(()));
    let (table, master) = SaTable::create(&set, &tx).unwrap();
    drop(tx);
    let mut model: BTreeMap<u64, Values> = BTreeMap::new();
    for txg in 10..30 {
        let tx = Tx::open(txg, Box::new(()));
        for _ in 0..20 {
            if model.len() < 12 && below(3) == 0 {
                let file = new_file(&set, &tx, [1, 1, 2, 4][below(4) as usize]);
                let mut values: Vec<(Attr, Vec<u8>)> = NEW_FILE.iter().map(|a| (*a, vec![7; length(*a)])).collect();
                values[13].1 = vec![3; 24];
                table.build(&tx, &file, &values).unwrap();
                model.insert(file.id(), values.into_iter().collect());
                continue;
            }
            let Some(id) = model.keys().copied().nth(below(model.len().max(1) as u64) as usize) else { continue };
            let mut changes = Vec::new();
            for _ in 0..=below(3) {
                let attr = Attr::TABLE[below(22) as usize].0;
                let len = match (length(attr), below(4)) {
                    (0, 0) => below(9000) as usize,
                    (0, _) => below(200) as usize,
                    (n, _) => n,
                };
                let value = (below(6) > 0).then(|| vec![below(256) as u8; len]);
                changes.push((attr, value));
            }
            let given: Vec<_> = changes.iter().map(|(a, v)| (*a, v.as_deref())).collect();
            table.update(&tx, &set.object(id).unwrap(), &given).unwrap();
            for (attr, value) in changes {
                match value {
                    Some(value) => drop(model.get_mut(&id).unwrap().insert(attr, value)),
                    None => drop(model.get_mut(&id).unwrap().remove(&attr)),
                }
            }
            check(&table, &set, id, &model[&id]);
        }
        drop(tx);
        set.quiesce(txg);
        let cx = Syncing::new(txg, &store);
        let root = set.sync(&cx).unwrap();
        let reader = ObjectSet::open(store.reader().clone(), &root, 5, None).unwrap();
        let again = SaTable::load(&reader, Some(master)).unwrap();
        for (id, values) in &model {
            check(&again, &reader, *id, values);
        }
        let all = layouts(&reader, master);
        assert!(
            all.keys().map(|n| n.parse::<usize>().unwrap()).all(|n| (2..all.len() + 2).contains(&n)),
            "numbers in a row"
        );
        let distinct: std::collections::BTreeSet<_> = all.values().collect();
        assert_eq!(distinct.len(), all.len(), "no duplicate layouts");
    }
}

#[test]
fn attributes_behave_as_a_map() {
    (0..6).for_each(run);
}

#[test]
fn threads_that_need_the_same_new_layout_make_it_once() {
    let (store, _) = store();
    let set = ObjectSet::open_live(&store, None, 5, None, ObjsetKind::FileSystem).unwrap();
    let tx = Tx::open(10, Box::new(()));
    let (table, master) = SaTable::create(&set, &tx).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..50 {
                    let file = new_file(&set, &tx, 1);
                    let attrs: Vec<_> = NEW_FILE[..1 + n % 13].iter().map(|a| (*a, vec![1; length(*a)])).collect();
                    table.build(&tx, &file, &attrs).unwrap();
                }
            });
        }
    });
    assert_eq!(layouts(&set, master).len(), 13);
}
