use super::*;
use crate::testing::{golden, never_panics};
use crate::zap::{Flags, hash, swap};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SALT: u64 = 0x1234_5678_9abc_def1;

fn hash_of(name: &str) -> u64 {
    hash::of_name(SALT, Flags::empty(), name.as_bytes())
}

/// Checks that every chunk is in exactly one array, entry or the free list, and that the counts are
/// right.
fn check(bytes: &[u8]) -> BTreeMap<String, Value> {
    let leaf = Leaf::parse(bytes, LE).unwrap();
    let (_, chunks) = LeafMut::shape(bytes.len());
    let mut uses = vec![0u8; chunks];
    let mut mutable = bytes.to_vec();
    let view = LeafMut::open(&mut mutable).unwrap();
    let mut found = BTreeMap::new();
    let entries = leaf.entries().unwrap();
    assert_eq!(entries.len(), usize::from(leaf.entries));
    for entry in entries {
        let name = String::from_utf8(leaf.name(&entry).unwrap()).unwrap();
        assert_eq!(entry.hash, hash_of(&name));
        let place = view.find(entry.hash, Key::Name(name.as_bytes())).unwrap().unwrap();
        uses[usize::from(place.chunk)] += 1;
        let arrays = [(entry.name_chunk, name.len() + 1), (entry.value_chunk, view.value_bytes(&entry).unwrap())];
        for chunk in arrays.iter().flat_map(|(c, len)| view.array_chunks(*c, *len).unwrap()) {
            uses[usize::from(chunk)] += 1;
        }
        assert!(found.insert(name, leaf.value(&entry).unwrap()).is_none());
    }
    let free = usize::from(LE.u16(&bytes[FREE_COUNT..]));
    for chunk in view.take_free(free).unwrap().unwrap() {
        uses[usize::from(chunk)] += 1;
    }
    assert!(uses.iter().all(|n| *n == 1), "{uses:?}");
    found
}

#[derive(Debug, Clone)]
enum Step {
    Put(u16, u8, u8),
    Remove(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u16..60, prop_oneof![Just(1u8), Just(2), Just(4), Just(8)], 0u8..40).prop_map(|(k, i, n)| Step::Put(k, i, n)),
        1 => (0u16..60).prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    #[test]
    fn a_leaf_keeps_its_entries(steps in steps(), shift in 9usize..13, sorted: bool) {
        let mut bytes = vec![0u8; 1 << shift];
        let mut model = BTreeMap::new();
        LeafMut::init(&mut bytes, 0, 0, sorted).unwrap();
        for step in steps {
            let mut leaf = LeafMut::open(&mut bytes).unwrap();
            match step {
                Step::Put(key, int_bytes, count) => {
                    let name = format!("{key:.<width$}", width = usize::from(key));
                    let bits = u64::MAX >> (64 - u32::from(int_bytes) * 8);
                    let value = Value { int_bytes, ints: (0..count).map(|n| 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(u64::from(n)) & bits).collect() };
                    let done = match leaf.find(hash_of(&name), Key::Name(name.as_bytes())).unwrap() {
                        Some(found) => leaf.set_value(&found, &value).unwrap(),
                        None => leaf.add(hash_of(&name), None, Key::Name(name.as_bytes()), &value).unwrap(),
                    };
                    if done {
                        model.insert(name, value);
                    }
                }
                Step::Remove(key) => {
                    let name = format!("{key:.<width$}", width = usize::from(key));
                    let found = leaf.find(hash_of(&name), Key::Name(name.as_bytes())).unwrap();
                    prop_assert_eq!(found.is_some(), model.remove(&name).is_some());
                    if let Some(found) = found {
                        leaf.remove(&found, false).unwrap();
                    }
                }
            }
        }
        prop_assert_eq!(&check(&bytes), &model);
        let [low, high] = split(&bytes, false, sorted).unwrap();
        let (mut all, high) = (check(&low), check(&high));
        all.extend(high);
        prop_assert_eq!(&all, &model);
    }
}

#[test]
fn entries_of_one_hash_get_the_lowest_free_cd_and_stay_in_order() {
    let mut bytes = vec![0u8; 1024];
    let mut leaf = LeafMut::init(&mut bytes, 0, 0, true).unwrap();
    let cds = |leaf: &LeafMut<'_>| leaf.view().unwrap().chain(7 << 60).map(|e| e.unwrap().cd).collect::<Vec<_>>();
    for name in ["a", "b", "c", "d"] {
        assert!(leaf.add(7 << 60, None, Key::Name(name.as_bytes()), &Value::one(1)).unwrap());
    }
    let b = leaf.find(7 << 60, Key::Name(b"b")).unwrap().unwrap();
    leaf.remove(&b, false).unwrap();
    assert_eq!(cds(&leaf), [0, 2, 3]);
    assert!(leaf.add(7 << 60, None, Key::Name(b"e"), &Value::one(1)).unwrap());
    assert_eq!(cds(&leaf), [0, 1, 2, 3]);
    assert_eq!(leaf.find(7 << 60, Key::Name(b"e")).unwrap().unwrap().entry.cd, 1);
}

#[test]
fn a_key_without_numbers_is_rejected() {
    let mut bytes = vec![0u8; 1024];
    let mut leaf = LeafMut::init(&mut bytes, 0, 0, true).unwrap();
    let before = leaf.bytes.to_vec();
    assert!(leaf.add(1, None, Key::Words(&[]), &Value::one(1)).is_err());
    assert_eq!(leaf.bytes, before);
    assert!(leaf.add(1, None, Key::Words(&[5]), &Value::one(1)).unwrap());
    // A damaged leaf: its entry, in chunk 0, has no key.
    let entry = leaf.at(0);
    LE.put_u16(&mut bytes[entry + 6..], 0);
    let error = split(&bytes, true, true).unwrap_err().to_string();
    assert!(error.contains("le_name_numints"), "{error}");
}

#[test]
fn a_leaf_of_openzfs_takes_entries_and_gives_all_its_chunks_back() {
    let mut bytes = golden!("zap_layouts_leaf.bin").to_vec();
    let before = LE.u16(&bytes[FREE_COUNT..]);
    let mut leaf = LeafMut::open(&mut bytes).unwrap();
    let names: Vec<_> =
        leaf.view().unwrap().entries().unwrap().iter().map(|e| leaf.view().unwrap().name(e).unwrap()).collect();
    let new = Key::Name(b"a name that needs three chunks of twenty-one bytes");
    assert!(leaf.add(5 << 40, None, new, &Value::words(&[1, 2, 3])).unwrap());
    assert_eq!(LE.u16(&leaf.bytes[FREE_COUNT..]), before - 6);
    let found = leaf.find(5 << 40, new).unwrap().unwrap();
    assert_eq!(leaf.view().unwrap().value(&found.entry).unwrap(), Value::words(&[1, 2, 3]));
    leaf.remove(&found, false).unwrap();
    let entries = leaf.view().unwrap().entries().unwrap();
    for (entry, name) in entries.iter().zip(names) {
        let found = leaf.find(entry.hash, Key::Name(&name)).unwrap().unwrap();
        leaf.remove(&found, false).unwrap();
    }
    assert_eq!(usize::from(LE.u16(&bytes[FREE_COUNT..])), chunks_in(bytes.len()));
}

#[test]
fn a_block_made_little_endian_reads_as_before() {
    let mut bytes = vec![0u8; 1024];
    let mut leaf = LeafMut::init(&mut bytes, 0, 0, true).unwrap();
    for i in 0..5 {
        assert!(leaf.add(i << 60, None, Key::Name(format!("n{i}").as_bytes()), &Value::words(&[i, 77])).unwrap());
    }
    // Swapping is its own inverse, except that it looks for the block type in big-endian order.
    let little = bytes.clone();
    bytes[..8].reverse();
    swap::to_little(&mut bytes).unwrap();
    assert_ne!(bytes, little);
    let mut big = bytes;
    big[..8].reverse();
    let entries = Leaf::parse(&big, Endian::Big).unwrap().entries().unwrap();
    assert_eq!(entries.len(), 5);
    swap::to_little(&mut big).unwrap();
    assert_eq!(big, little);
}

#[test]
fn no_bytes_panic() {
    let mut real = vec![0u8; 2048];
    let mut leaf = LeafMut::init(&mut real, 0, 0, true).unwrap();
    for i in 0..12 {
        leaf.add(i << 58, None, Key::Name(format!("name {i}").as_bytes()), &Value::words(&[i; 4])).unwrap();
    }
    never_panics(&real, |bytes| {
        let mut bytes = bytes.to_vec();
        let _ = (split(&bytes, false, true), split(&bytes, true, false));
        let _ = swap::to_little(&mut bytes);
    });
    never_panics(&real, |bytes| {
        let mut bytes = bytes.to_vec();
        if let Ok(mut leaf) = LeafMut::open(&mut bytes) {
            for i in 0..12 {
                let name = format!("name {i}");
                if let Ok(Some(found)) = leaf.find(i << 58, Key::Name(name.as_bytes())) {
                    let _ = leaf.set_value(&found, &Value::words(&[i; 20]));
                    let _ = leaf.remove(&found, i % 2 == 0);
                }
                let _ = leaf.add(i << 58, None, Key::Name(b"another"), &Value::one(i));
            }
        }
    });
}
