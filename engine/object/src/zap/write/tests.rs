use super::store::Memory;
use super::*;
use crate::zap::{BlockSource, Shared, ZapEntry};
use block::Block;
use ondisk::Endian;
use ondisk::zap::leaf::edit;
use ondisk::zap::{Leaf, LeafMut};
use rig::Chance;
use std::collections::{BTreeMap, HashMap, HashSet};

const SALT: u64 = 0x1234_5678_9abc_def1;

/// A ZAP in memory that can be written like one in an object.
struct Live<S = Memory> {
    store: Arc<S>,
    zap: Zap,
}

fn open<S: BlockStore + 'static>(store: Arc<S>) -> Result<Live<S>> {
    let zap = Zap::from_parts(store.clone(), None, Arc::<Shared>::default(), false)?;
    Ok(Live { store, zap })
}

fn micro_zap(norm: NormFlags) -> Live {
    let store = Arc::new(Memory::new(STEP_BYTES, "memory".to_owned()));
    store.put(0, &new_micro(SALT, norm, 512)).unwrap();
    open(store).unwrap()
}

fn fat_zap(shift: u32, flags: ZapFlags) -> Live {
    let store = Arc::new(Memory::new(1 << shift, "memory".to_owned()));
    fat::create(&*store, &Header::new(shift, SALT, NormFlags::empty(), flags)).unwrap();
    open(store).unwrap()
}

impl<S: BlockStore + 'static> Live<S> {
    fn insert(&self, name: &str, value: &ZapValue) -> Result<()> {
        self.zap.put(&*self.store, Key::Name(name.as_bytes()), value, Mode::Insert)
    }

    fn update(&self, name: &str, value: &ZapValue) -> Result<()> {
        self.zap.put(&*self.store, Key::Name(name.as_bytes()), value, Mode::Update)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.zap.take_out(&*self.store, Key::Name(name.as_bytes()))
    }

    /// Checks everything that OpenZFS relies on, from the bytes alone. Returns the entries as a new
    /// reader sees them.
    fn check(&self) -> Vec<ZapEntry> {
        let again = open(self.store.clone()).unwrap().zap;
        let entries = again.entries().unwrap();
        assert_eq!(entries.len() as u64, again.count().unwrap());
        assert_eq!(self.zap.entries().unwrap(), entries, "the index in memory and the blocks differ");
        if let Some(header) = again.header().unwrap() {
            self.check_fat(&header, entries.len());
        }
        entries
    }

    fn check_fat(&self, header: &Header, count: usize) {
        assert_eq!((header.next_table_start, header.next_table_copied), (0, 0));
        let word = |slot: ondisk::zap::fat::TableSlot| {
            let block = self.zap.source.block(slot.block).unwrap().unwrap();
            block.endian.u64(&block.data[slot.word * 8..])
        };
        let table: Vec<u64> = (0..1 << header.table_shift).map(|i| word(header.table_slot(i))).collect();
        if header.table_blocks > 0 {
            assert_eq!(1 << header.table_shift, header.table_blocks << (header.block_shift - 3));
        }
        let mut leaves = HashMap::new();
        for (index, number) in table.iter().enumerate() {
            assert!(*number > 0 && *number < header.free_block);
            leaves.entry(*number).or_insert_with(Vec::new).push(index as u64);
        }
        assert_eq!(leaves.len() as u64, header.leaves);
        let mut found = 0;
        for (number, indexes) in leaves {
            assert!(number < header.table_start || number >= header.table_start + header.table_blocks);
            let block = self.zap.source.block(number).unwrap().unwrap();
            let leaf = Leaf::parse(&block.data, block.endian).unwrap();
            let span = 1 << (header.table_shift - leaf.prefix_bits);
            assert_eq!(indexes, (leaf.prefix * span..(leaf.prefix + 1) * span).collect::<Vec<_>>());
            let entries = leaf.entries().unwrap();
            assert_eq!(entries.len(), usize::from(leaf.entries));
            assert!(entries.iter().all(|e| leaf.covers(e.hash)));
            found += entries.len();
            // All chunks can be freed: none is lost or in two chains.
            let mut bytes = block.data.to_vec();
            let mut leaf = LeafMut::open(&mut bytes).unwrap();
            for entry in entries {
                let view = leaf.view().unwrap();
                let (name, key) = view.name_or_key(&entry, header.flags).unwrap();
                let key = if key.is_empty() { Key::Name(&name) } else { Key::Words(&key) };
                let place = leaf.find(entry.hash, key).unwrap().unwrap();
                leaf.remove(&place, matches!(key, Key::Words(_))).unwrap();
            }
            assert_eq!(usize::from(u16::from_le_bytes([bytes[0x1c], bytes[0x1d]])), edit::chunks_in(bytes.len()));
        }
        assert_eq!(found, count);
    }
}

fn same(entries: Vec<ZapEntry>, model: &BTreeMap<String, ZapValue>) {
    let found: BTreeMap<_, _> = entries.into_iter().map(|e| (String::from_utf8(e.name).unwrap(), e.value)).collect();
    assert_eq!(found.len(), model.len());
    assert!(found == *model);
}

/// Random steps on `zap` and on a map. `names`: number of names; `wide`: includes values that a
/// micro ZAP cannot hold.
fn play(zap: &Live, seed: u64, steps: u32, names: u64, wide: bool) {
    let (mut random, mut model) = (Chance::new(seed), BTreeMap::new());
    for step in 0..steps {
        let n = random.below(names);
        let name = if wide && n % 7 == 0 { format!("{n:060}") } else { format!("n{n}") };
        let value = match random.below(8) {
            0 if wide => ZapValue::bytes(&vec![n as u8; random.below(90) as usize]),
            1 if wide => ZapValue { int_bytes: 2, ints: (0..random.below(30)).collect() },
            _ => ZapValue::one(u64::from(step)),
        };
        match random.below(10) {
            0..=4 => {
                let result = zap.insert(&name, &value);
                match model.get(&name) {
                    Some(_) => assert_eq!(result.unwrap_err().refusal(), Some(Refusal::Exists)),
                    None => {
                        result.unwrap();
                        model.insert(name.clone(), value);
                    }
                }
            }
            5 => {
                zap.update(&name, &value).unwrap();
                model.insert(name.clone(), value);
            }
            6 if !wide => {
                let delta = if random.below(3) == 0 { -1 } else { 5 };
                let old = model.get(&name).and_then(ZapValue::as_u64).unwrap_or(0);
                let new = zap.zap.add_up(&*zap.store, name.as_bytes(), delta).unwrap();
                assert_eq!(new, old.wrapping_add_signed(delta));
                if new == 0 {
                    model.remove(&name);
                } else {
                    model.insert(name.clone(), ZapValue::one(new));
                }
            }
            _ => {
                let result = zap.remove(&name);
                assert_eq!(result.is_ok(), model.remove(&name).is_some());
            }
        }
        assert_eq!(zap.zap.lookup(&name).unwrap().as_ref(), model.get(&name));
        if step % 997 == 0 {
            same(zap.check(), &model);
        }
    }
    same(zap.check(), &model);
    for name in model.keys() {
        zap.remove(name).unwrap();
    }
    assert!(zap.check().is_empty());
    if let Some(header) = zap.zap.header().unwrap() {
        assert_eq!((header.entries, header.leaves), (0, 1), "empty leaves are joined");
    }
}

#[test]
fn a_micro_zap_behaves_as_a_map() {
    for seed in 0..4 {
        let zap = micro_zap(NormFlags::empty());
        play(&zap, seed, 4000, 300, false);
        assert!(zap.zap.header().unwrap().is_none());
    }
}

#[test]
fn a_zap_that_becomes_fat_behaves_as_a_map() {
    for seed in 0..4 {
        let zap = micro_zap(NormFlags::empty());
        play(&zap, seed, 6000, 2000, true);
        assert!(zap.zap.header().unwrap().is_some());
    }
}

#[test]
fn small_blocks_grow_their_table_many_times() {
    for shift in [9, 10, 12] {
        let zap = fat_zap(shift, ZapFlags::empty());
        play(&zap, 7, 12000, 3000, false);
    }
}

#[test]
fn a_micro_zap_grows_by_512_bytes_and_is_fat_beyond_128_kib() {
    let zap = micro_zap(NormFlags::empty());
    for i in 0..2047u64 {
        zap.insert(&format!("file {i}"), &ZapValue::one(i)).unwrap();
        let expected = (i as usize + 2).div_ceil(8) * 512;
        assert_eq!(zap.store.block_bytes(), expected);
    }
    assert_eq!(zap.store.block_bytes(), 128 << 10);
    zap.check();
    zap.insert("one more", &ZapValue::one(1)).unwrap();
    assert_eq!((zap.store.block_bytes(), zap.check().len()), (1 << 14, 2048));
}

#[test]
fn long_names_and_other_values_make_a_zap_fat() {
    let long = "x".repeat(50);
    let values = [(&long[..49], ZapValue::one(1), false), (&long, ZapValue::one(1), true)];
    let others = [("a", ZapValue::words(&[1, 2]), true), ("a", ZapValue { int_bytes: 4, ints: vec![1] }, true)];
    for (name, value, fat) in values.into_iter().chain(others) {
        let zap = micro_zap(NormFlags::empty());
        zap.insert("first", &ZapValue::one(7)).unwrap();
        zap.insert(name, &value).unwrap();
        assert_eq!(zap.zap.header().unwrap().is_some(), fat);
        assert_eq!(zap.zap.lookup(name).unwrap(), Some(value));
        assert_eq!(zap.zap.lookup_u64("first").unwrap(), Some(7));
        zap.check();
    }
}

#[test]
fn invalid_entries_are_refused_and_change_nothing() {
    let zap = micro_zap(NormFlags::empty());
    zap.insert("a", &ZapValue::one(1)).unwrap();
    let refused = |name: &str, value: &ZapValue| zap.insert(name, value).unwrap_err().refusal();
    let one = ZapValue::one(1);
    assert!(zap.insert("", &one).is_err() && zap.insert("a\0b", &one).is_err());
    assert_eq!(refused(&"n".repeat(256), &one), Some(Refusal::NameTooLong));
    assert_eq!(refused("b", &ZapValue::bytes(&[0; 8193])), Some(Refusal::TooLarge));
    assert_eq!(refused("a", &ZapValue::words(&[1, 2])), Some(Refusal::Exists));
    assert!(zap.insert("b", &ZapValue { int_bytes: 3, ints: vec![1] }).is_err());
    assert!(zap.zap.put(&*zap.store, Key::Words(&[1]), &one, Mode::Insert).is_err());
    assert!(zap.zap.header().unwrap().is_none(), "still micro");
    zap.insert(&"n".repeat(255), &ZapValue::bytes(&[7; 8192])).unwrap();
    assert_eq!(zap.check().len(), 2);
}

#[test]
fn names_equal_when_normalised_get_numbers_and_keep_them_when_fat() {
    let norm = NormFlags::TO_UPPER | NormFlags::NFD;
    let zap = micro_zap(norm);
    for (i, name) in ["Straße", "readme", "README", "ReadMe", "ÄGE"].into_iter().enumerate() {
        zap.insert(name, &ZapValue::one(i as u64)).unwrap();
    }
    zap.remove("README").unwrap();
    zap.insert("READme", &ZapValue::one(9)).unwrap();
    for round in 0..2 {
        let found = |name: &str, case| {
            let (value, stored) = zap.zap.lookup_normalised(name.as_bytes(), case).unwrap()?;
            Some((value.as_u64().unwrap(), String::from_utf8(stored).unwrap()))
        };
        assert_eq!(found("rEADME", false), Some((1, "readme".to_owned())), "round {round}: the first one created");
        assert_eq!(found("READme", true), Some((9, "READme".to_owned())));
        assert_eq!(found("a\u{308}ge", false), Some((4, "ÄGE".to_owned())));
        assert_eq!(zap.check().len(), 5);
        zap.update(&"long".repeat(20), &ZapValue::one(1)).unwrap();
        zap.remove(&"long".repeat(20)).unwrap();
    }
    assert!(zap.zap.header().unwrap().is_some());
    let leaf = zap.store.block(1).unwrap().unwrap();
    assert_eq!(leaf.data[0x24], 1, "chains in the order of cd");
}

#[test]
fn integer_keys_are_added_and_removed() {
    for flags in [ZapFlags::HASH64 | ZapFlags::UINT64_KEY, ZapFlags::all()] {
        let zap = fat_zap(12, flags);
        let key = |i: u64| [i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i];
        for i in 0..3000 {
            zap.zap.put(&*zap.store, Key::Words(&key(i)), &ZapValue::bytes(&[i as u8; 40]), Mode::Insert).unwrap();
        }
        for i in (0..3000).step_by(3) {
            zap.zap.take_out(&*zap.store, Key::Words(&key(i))).unwrap();
        }
        let left: HashSet<u64> = zap.check().iter().map(|e| e.key[1]).collect();
        assert_eq!(left, (0..3000).filter(|i| i % 3 != 0).collect());
        assert_eq!(zap.zap.lookup_key(&key(1)).unwrap().unwrap(), ZapValue::bytes(&[1; 40]));
        assert!(zap.zap.lookup_key(&key(0)).unwrap().is_none());
        assert!(zap.insert("name", &ZapValue::one(1)).is_err());
    }
}

#[test]
fn keys_of_one_hash_beyond_a_leaf_are_refused() {
    let zap = fat_zap(9, ZapFlags::all());
    let put = |n| zap.zap.put(&*zap.store, Key::Words(&[5, n]), &ZapValue::one(1), Mode::Insert);
    // 18 chunks hold six entries of three.
    (0..6).for_each(|n| put(n).unwrap());
    assert_eq!(put(6).unwrap_err().refusal(), Some(Refusal::NoSpace));
    assert_eq!(zap.check().len(), 6);
}

#[test]
fn a_table_that_openzfs_began_to_copy_is_copied_to_the_end() {
    let zap = fat_zap(9, ZapFlags::empty());
    let mut names = 0u64;
    while zap.zap.header().unwrap().unwrap().table_blocks < 4 {
        zap.insert(&format!("n{names}"), &ZapValue::one(names)).unwrap();
        names += 1;
    }
    // The state that `zap_table_grow` leaves after the first of four blocks: two of eight new ones
    // are written.
    let mut header = zap.zap.header().unwrap().unwrap();
    header.next_table_start = header.free_block;
    header.next_table_copied = 1;
    header.free_block += 8;
    let first = zap.store.block(header.table_start).unwrap().unwrap().data;
    for half in 0..2u64 {
        let words = &first[half as usize * 256..][..256];
        let doubled: Vec<u8> = words.chunks(8).flat_map(|w| [w, w].concat()).collect();
        zap.store.put(header.next_table_start + half, &doubled).unwrap();
    }
    zap.store.put_at(0, 0, &header.to_bytes()).unwrap();
    let zap = open(zap.store).unwrap();
    while zap.zap.header().unwrap().unwrap().next_table_start != 0 {
        zap.insert(&format!("n{names}"), &ZapValue::one(names)).unwrap();
        names += 1;
    }
    assert_eq!(zap.zap.header().unwrap().unwrap().table_blocks, 8);
    assert_eq!(zap.check().len() as u64, names);
}

/// A store in which a big-endian host wrote some blocks; writes are little-endian.
struct Mixed {
    store: Memory,
    big: parking_lot::Mutex<HashSet<u64>>,
}

impl BlockSource for Mixed {
    fn block(&self, blkid: u64) -> Result<Option<Block>> {
        let endian = if self.big.lock().contains(&blkid) { Endian::Big } else { Endian::Little };
        Ok(self.store.block(blkid)?.map(|b| Block { endian, ..b }))
    }

    fn place(&self) -> String {
        self.store.place()
    }
}

impl BlockStore for Mixed {
    fn block_bytes(&self) -> usize {
        self.store.block_bytes()
    }
    fn object_type(&self) -> ObjectType {
        self.store.object_type()
    }
    fn set_block_bytes(&self, bytes: usize) -> Result<()> {
        assert!(self.big.lock().is_empty());
        self.store.set_block_bytes(bytes)
    }
    fn put(&self, blkid: u64, bytes: &[u8]) -> Result<()> {
        self.big.lock().remove(&blkid);
        self.store.put(blkid, bytes)
    }
    fn put_at(&self, blkid: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(!self.big.lock().contains(&blkid), "block {blkid} would have two orders");
        self.store.put_at(blkid, offset, bytes)
    }
    fn change(&self, blkid: u64, change: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        assert!(!self.big.lock().contains(&blkid), "block {blkid} would have two orders");
        self.store.change(blkid, change)
    }
    fn free(&self, blkid: u64, count: u64) -> Result<()> {
        self.big.lock().retain(|b| !(blkid..blkid + count).contains(b));
        self.store.free(blkid, count)
    }
}

#[test]
fn a_zap_of_a_big_endian_host_is_changed_block_by_block() {
    for names in [100u64, 4000] {
        let built = if names < 1000 { micro_zap(NormFlags::empty()) } else { fat_zap(10, ZapFlags::empty()) };
        for i in 0..names {
            built.insert(&format!("n{i}"), &ZapValue::one(i)).unwrap();
        }
        let blocks = built.zap.header().unwrap().map_or(1, |h| h.free_block);
        let mixed = Mixed { store: Memory::new(built.store.block_bytes(), "memory".into()), big: Default::default() };
        for blkid in 0..blocks {
            let Some(block) = built.store.block(blkid).unwrap() else { continue };
            let mut bytes = block.data.to_vec();
            // Swapping looks for the type in big-endian order, and is its own inverse otherwise.
            bytes[..8].reverse();
            ondisk::zap::swap::to_little(&mut bytes).unwrap();
            bytes[..8].reverse();
            mixed.put(blkid, &bytes).unwrap();
            mixed.big.lock().insert(blkid);
        }
        let mixed = Arc::new(mixed);
        let open = || Zap::from_parts(mixed.clone(), None, Arc::<Shared>::default(), false).unwrap();
        let mut model: BTreeMap<_, _> = (0..names).map(|i| (format!("n{i}"), ZapValue::one(i))).collect();
        same(open().entries().unwrap(), &model);
        let zap = open();
        for i in 0..names * 2 {
            let name = format!("n{i}");
            if i % 3 == 0 && i < names {
                zap.take_out(&*mixed, Key::Name(name.as_bytes())).unwrap();
                model.remove(&name);
            } else if i % 5 == 0 || i >= names {
                zap.put(&*mixed, Key::Name(name.as_bytes()), &ZapValue::one(i * 2), Mode::Update).unwrap();
                model.insert(name, ZapValue::one(i * 2));
            }
        }
        same(open().entries().unwrap(), &model);
        same(zap.entries().unwrap(), &model);
    }
}

#[test]
fn external_changes_are_visible_after_invalidation() {
    let zap = micro_zap(NormFlags::empty());
    zap.insert("a", &ZapValue::one(1)).unwrap();
    zap.store.put(0, &new_micro(SALT, NormFlags::empty(), 512)).unwrap();
    zap.zap.shared.forget();
    assert_eq!(zap.zap.count().unwrap(), 0);
    zap.insert("a", &ZapValue::one(2)).unwrap();
    assert_eq!(zap.check().len(), 1);
}

#[test]
fn flipped_bits_are_refused_without_a_panic_or_a_hang() {
    let built = micro_zap(NormFlags::empty());
    for i in 0..1500u64 {
        built.insert(&format!("entry {i}"), &ZapValue::one(i)).unwrap();
    }
    let small = built.store.block(0).unwrap().unwrap().data;
    built.insert(&"long".repeat(20), &ZapValue::one(1)).unwrap();
    let blocks: Vec<_> = (0..built.zap.header().unwrap().unwrap().free_block)
        .map(|b| built.store.block(b).unwrap().unwrap().data)
        .collect();
    let mut random = Chance::new(3);
    for round in 0..600 {
        let (blocks, size) =
            if round % 3 == 0 { (std::slice::from_ref(&small), small.len()) } else { (&blocks[..], 1 << 14) };
        let store = Arc::new(Memory::new(size, "memory".to_owned()));
        for (number, bytes) in blocks.iter().enumerate() {
            store.put(number as u64, bytes).unwrap();
        }
        for _ in 0..6 {
            let block = random.below(blocks.len() as u64);
            let reach = if random.below(2) == 0 { 200 } else { size as u64 };
            store.put_at(block, random.below(reach) as usize, &[random.below(256) as u8]).unwrap();
        }
        let Ok(zap) = open(store) else { continue };
        for i in 0..40 {
            let name = format!("entry {}", random.below(1700));
            let _ = zap.insert(&name, &ZapValue::words(&[i; 9]));
            let _ = zap.remove(&name);
            let _ = zap.update(
                &format!("entry {}", random.below(1700)),
                &ZapValue::words(&vec![i; random.below(30) as usize]),
            );
        }
        let _ = zap.zap.entries();
    }
}

#[test]
fn a_hundred_thousand_names_in_a_directory() {
    let zap = micro_zap(NormFlags::empty());
    let begun = std::time::Instant::now();
    for i in 0..100_000u64 {
        zap.insert(&format!("file-{i:06}.dat"), &ZapValue::one(i)).unwrap();
    }
    println!("inserted in {:?}", begun.elapsed());
    assert_eq!(zap.check().len(), 100_000);
    for i in (0..100_000u64).step_by(7) {
        assert_eq!(zap.zap.lookup_u64(format!("file-{i:06}.dat")).unwrap(), Some(i));
        zap.remove(&format!("file-{i:06}.dat")).unwrap();
    }
    assert_eq!(zap.check().len(), 100_000 - 100_000usize.div_ceil(7));
}

/// Blocks on a device whose reads fail after some of them. A block that was read or written since
/// then is in memory.
struct Device {
    memory: Memory,
    in_memory: parking_lot::Mutex<HashSet<u64>>,
    /// Reads that still succeed.
    reads: std::sync::atomic::AtomicU64,
}

impl Device {
    fn limit(&self, reads: u64) {
        self.in_memory.lock().clear();
        self.reads.store(reads, std::sync::atomic::Ordering::SeqCst);
    }

    fn read(&self, blkid: u64) -> Result<()> {
        use std::sync::atomic::Ordering::SeqCst;
        let is_read = self.in_memory.lock().insert(blkid);
        if is_read && self.reads.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_err() {
            self.in_memory.lock().remove(&blkid);
            return Err(Error::io("memory", std::io::Error::other("broken")));
        }
        Ok(())
    }
}

impl BlockSource for Device {
    fn block(&self, blkid: u64) -> Result<Option<Block>> {
        self.read(blkid)?;
        self.memory.block(blkid)
    }

    fn place(&self) -> String {
        self.memory.place()
    }
}

impl BlockStore for Device {
    fn block_bytes(&self) -> usize {
        self.memory.block_bytes()
    }

    fn object_type(&self) -> ObjectType {
        self.memory.object_type()
    }

    fn set_block_bytes(&self, bytes: usize) -> Result<()> {
        self.read(0)?;
        self.memory.set_block_bytes(bytes)
    }

    fn put(&self, blkid: u64, bytes: &[u8]) -> Result<()> {
        self.in_memory.lock().insert(blkid);
        self.memory.put(blkid, bytes)
    }

    fn put_at(&self, blkid: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        self.read(blkid)?;
        self.memory.put_at(blkid, offset, bytes)
    }

    fn change(&self, blkid: u64, change: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        self.read(blkid)?;
        self.memory.change(blkid, change)
    }

    fn free(&self, blkid: u64, count: u64) -> Result<()> {
        self.memory.free(blkid, count)
    }
}

/// A block that was needed late could not be read when others had changed: a leaf was split and its
/// table was not, or a removal that was complete was reported as failed.
#[test]
fn a_change_that_a_failed_read_interrupts_is_not_made() {
    for (block_bytes, names) in [(512, 400), (4096, 300)] {
        let memory = Memory::new(block_bytes, "memory".to_owned());
        memory.put(0, &new_micro(SALT, NormFlags::empty(), block_bytes)).unwrap();
        if block_bytes == 512 {
            fat::create(&memory, &Header::new(9, SALT, NormFlags::empty(), ZapFlags::empty())).unwrap();
        }
        let zap = open(Arc::new(Device { memory, in_memory: Default::default(), reads: u64::MAX.into() })).unwrap();
        let (mut random, mut model, mut failures) = (Chance::new(7), BTreeMap::new(), 0);
        // It grows, and shrinks to nothing.
        let rounds = (0..names).map(|_| 8).chain((0..2 * names).map(|_| 2));
        for (step, inserts) in rounds.enumerate() {
            let is_insert = random.below(10) < inserts || model.is_empty();
            let some = random.below(1 + model.len() as u64).min(model.len().saturating_sub(1) as u64);
            let name = match is_insert {
                true => format!("n{step}"),
                false => model.keys().nth(some as usize).cloned().unwrap(),
            };
            let value = ZapValue::one(step as u64);
            for reads in 0.. {
                zap.store.limit(reads);
                let result = if is_insert { zap.insert(&name, &value) } else { zap.remove(&name) };
                zap.store.limit(u64::MAX);
                let is_done = !matches!(result, Err(Error::Io { .. }));
                if is_done {
                    result.unwrap();
                    match is_insert {
                        true => model.insert(name.clone(), value.clone()),
                        false => model.remove(&name),
                    };
                }
                same(zap.check(), &model);
                if is_done {
                    break;
                }
                failures += 1;
            }
        }
        assert!(failures > 0);
    }
}
