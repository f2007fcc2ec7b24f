use super::*;
use bytes::Bytes;
use ondisk::Endian;
use ondisk::zap::{BlockKind, hash};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A ZAP in memory that counts the blocks read.
#[derive(Default)]
struct InMemory {
    blocks: BTreeMap<u64, Vec<u8>>,
    big: bool,
    reads: AtomicUsize,
}

impl BlockSource for InMemory {
    fn block(&self, blkid: u64) -> Result<Option<Block>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let endian = if self.big { Endian::Big } else { Endian::Little };
        Ok(self.blocks.get(&blkid).map(|b| Block { data: Bytes::from(b.clone()), endian }))
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}

const SALT: u64 = 0x1234_5678_9abc_def1;

fn micro(names: &[&str], norm: NormFlags, endian: Endian) -> InMemory {
    let mut b = vec![0u8; (names.len() + 1).next_multiple_of(8) * 64];
    for (i, w) in [BlockKind::MICRO, SALT, norm.bits()].into_iter().enumerate() {
        endian.put_u64(&mut b[i * 8..], w);
    }
    let mut seen = BTreeMap::<u64, u32>::new();
    for (i, name) in names.iter().enumerate() {
        let at = (i + 1) * 64;
        endian.put_u64(&mut b[at..], i as u64);
        let cd = seen.entry(hash::of_name(SALT, ZapFlags::empty(), &normalise(name.as_bytes(), norm))).or_default();
        endian.put_u32(&mut b[at + 8..], *cd);
        *cd += 1;
        b[at + 14..at + 14 + name.len()].copy_from_slice(name.as_bytes());
    }
    InMemory { blocks: [(0, b)].into(), big: endian == Endian::Big, ..Default::default() }
}

enum Key<'a> {
    Name(&'a str),
    Words([u64; 2]),
}

/// Builds a fat ZAP of `entries` with 16 KiB blocks and 2^`table_shift` leaves.
fn fat(entries: &[(Key<'_>, Vec<u8>)], table_shift: u32, external: bool, flags: ZapFlags, endian: Endian) -> InMemory {
    const SIZE: usize = 16384;
    let leaves = 1u64 << table_shift;
    let first_leaf = if external { 1 + leaves.div_ceil(2048) } else { 1 };
    let mut blocks = BTreeMap::new();
    let mut header = vec![0u8; SIZE];
    let (table_start, table_blocks) = if external { (1, first_leaf - 1) } else { (0, 0) };
    let words = [BlockKind::HEADER, Header::MAGIC, table_start, table_blocks, u64::from(table_shift), 0, 0, 0, leaves];
    for (i, w) in words.into_iter().chain([entries.len() as u64, SALT, 0, flags.bits()]).enumerate() {
        endian.put_u64(&mut header[i * 8..], w);
    }
    if external {
        for block in 1..first_leaf {
            let mut b = vec![0u8; SIZE];
            for word in 0..2048 {
                endian.put_u64(&mut b[word as usize * 8..], first_leaf + (block - 1) * 2048 + word);
            }
            blocks.insert(block, b);
        }
    } else {
        for leaf in 0..leaves {
            endian.put_u64(&mut header[8192 + leaf as usize * 8..], first_leaf + leaf);
        }
    }
    blocks.insert(0, header);
    let mut free = vec![0usize; leaves as usize];
    for prefix in 0..leaves {
        let mut b = vec![0u8; SIZE];
        endian.put_u64(&mut b, BlockKind::LEAF);
        endian.put_u64(&mut b[16..], prefix);
        endian.put_u32(&mut b[24..], Leaf::MAGIC);
        endian.put_u16(&mut b[32..], table_shift as u16);
        b[48..48 + 1024].fill(0xff);
        blocks.insert(first_leaf + prefix, b);
    }
    for (key, value) in entries {
        let (hash, name, ints) = match key {
            Key::Name(n) => (hash::of_name(SALT, flags, n.as_bytes()), [n.as_bytes(), &[0]].concat(), n.len() + 1),
            Key::Words(w) => (hash::of_key(SALT, flags, w), w.iter().flat_map(|w| w.to_be_bytes()).collect(), 2),
        };
        let prefix = if table_shift == 0 { 0 } else { hash >> (64 - table_shift) };
        let b = blocks.get_mut(&(first_leaf + prefix)).unwrap();
        let next_free = &mut free[prefix as usize];
        let entry = *next_free;
        *next_free += 1;
        let mut arrays = [0u16; 2];
        for (which, bytes) in [&name, value].into_iter().enumerate() {
            arrays[which] = *next_free as u16;
            let mut pieces = bytes.chunks(21).peekable();
            while let Some(piece) = pieces.next() {
                let at = 1072 + *next_free * 24;
                *next_free += 1;
                b[at] = 251;
                b[at + 1..at + 1 + piece.len()].copy_from_slice(piece);
                let next = if pieces.peek().is_some() { *next_free as u16 } else { 0xffff };
                endian.put_u16(&mut b[at + 22..], next);
            }
        }
        assert!(1072 + *next_free * 24 <= SIZE, "leaf overflows");
        let bucket = 48 + 2 * (hash << table_shift >> 55) as usize;
        let head = endian.u16(&b[bucket..]);
        endian.put_u16(&mut b[bucket..], entry as u16);
        let at = 1072 + entry * 24;
        (b[at], b[at + 1]) = (252, 1);
        for (o, n) in [(2, head), (4, arrays[0]), (6, ints as u16), (8, arrays[1]), (10, value.len() as u16)] {
            endian.put_u16(&mut b[at + o..], n);
        }
        endian.put_u64(&mut b[at + 16..], hash);
    }
    InMemory { blocks, big: endian == Endian::Big, ..Default::default() }
}

#[test]
fn micro_entries_are_found_in_both_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let zap =
            Zap::from_source(Arc::new(micro(&["VERSION", "ROOT", "SA_ATTRS"], NormFlags::empty(), endian))).unwrap();
        assert_eq!(zap.count().unwrap(), 3);
        for round in 0..2 {
            assert_eq!(zap.lookup_u64("ROOT").unwrap(), Some(1), "round {round}");
            assert_eq!(zap.lookup_u64("root").unwrap(), None);
            assert_eq!(zap.entries().unwrap().len(), 3);
        }
    }
}

#[test]
fn case_insensitive_lookup_finds_the_first_that_was_made() {
    let norm = NormFlags::TO_UPPER | NormFlags::NFD;
    let zap = Zap::from_source(Arc::new(micro(&["Straße", "readme", "README", "ÄGE"], norm, Endian::Little))).unwrap();
    let found = |name: &str, case| {
        zap.lookup_normalised(name.as_bytes(), case).unwrap().map(|f| String::from_utf8(f.1).unwrap())
    };
    assert_eq!(found("ReadMe", false).as_deref(), Some("readme"));
    assert_eq!(found("README", true).as_deref(), Some("README"));
    assert_eq!(found("ReadMe", true), None);
    assert_eq!(found("a\u{308}ge", false).as_deref(), Some("ÄGE"));
    assert_eq!(found("STRASSE", false), None);
    assert_eq!(found("STRAßE", false).as_deref(), Some("Straße"));
    assert_eq!(zap.lookup_u64("README").unwrap(), Some(2));
}

#[test]
fn a_walk_continues_from_any_cookie_and_reads_each_leaf_once() {
    for (shift, external) in [(0u32, false), (3, false), (6, true)] {
        let names: Vec<String> = (0..100usize << shift).map(|i| format!("file-{i}")).collect();
        let entries: Vec<_> = names.iter().map(|n| (Key::Name(n.as_str()), n.clone().into_bytes())).collect();
        let source = Arc::new(fat(&entries, shift, external, ZapFlags::empty(), Endian::Big));
        let zap = Zap::from_source(source.clone()).unwrap();
        source.reads.store(0, Ordering::Relaxed);
        let steps: Vec<_> = zap.cursor(0).map(Result::unwrap).collect();
        let reads = source.reads.swap(0, Ordering::Relaxed);
        assert!(reads <= (1 << shift) * (1 + usize::from(external)), "{reads} blocks read");
        assert_eq!(steps.iter().map(|s| s.0.name.clone()).collect::<BTreeSet<_>>().len(), names.len());
        for at in [0, 1, names.len() / 2, names.len() - 1] {
            let rest: Vec<_> = zap.cursor(steps[at].1).map(|s| s.unwrap().0).collect();
            assert_eq!(rest, steps[at + 1..].iter().map(|s| s.0.clone()).collect::<Vec<_>>());
        }
        source.reads.store(0, Ordering::Relaxed);
        for name in &names {
            assert_eq!(zap.lookup(name).unwrap().unwrap().as_string().as_deref(), Some(name.as_str()));
        }
        assert!(source.reads.load(Ordering::Relaxed) <= names.len() * (1 + usize::from(external)));
        assert!(zap.lookup("no such file").unwrap().is_none());
    }
}

#[test]
fn integer_keys_are_found_by_their_words() {
    for flags in [ZapFlags::HASH64 | ZapFlags::UINT64_KEY, ZapFlags::all()] {
        let key = |i: u64| [i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i];
        let entries: Vec<_> = (0..150).map(|i| (Key::Words(key(i)), vec![i as u8; 50])).collect();
        let zap = Zap::from_source(Arc::new(fat(&entries, 1, false, flags, Endian::Little))).unwrap();
        for i in 0..150 {
            assert_eq!(zap.lookup_key(&key(i)).unwrap().unwrap().as_bytes(), Some(vec![i as u8; 50]));
        }
        assert!(zap.lookup_key(&[1, 2]).unwrap().is_none());
        assert!(zap.lookup("name").is_err());
        let keys: BTreeSet<_> = zap.entries().unwrap().into_iter().map(|e| e.key[1]).collect();
        assert_eq!(keys, (0..150).collect());
    }
}

#[test]
fn a_table_that_points_at_the_wrong_leaf_is_an_error_and_not_a_loop() {
    let names: Vec<String> = (0..100).map(|i| format!("n{i}")).collect();
    let entries: Vec<_> = names.iter().map(|n| (Key::Name(n.as_str()), vec![1])).collect();
    let mut source = fat(&entries, 4, false, ZapFlags::empty(), Endian::Little);
    let header = source.blocks.get_mut(&0).unwrap();
    Endian::Little.put_u64(&mut header[8192 + 5 * 8..], 1);
    let zap = Zap::from_source(Arc::new(source)).unwrap();
    let error = zap.entries().unwrap_err().to_string();
    assert!(error.contains("table entry 5"), "{error}");
    let mut source = fat(&entries, 4, false, ZapFlags::empty(), Endian::Little);
    source.blocks.remove(&7);
    assert!(Zap::from_source(Arc::new(source)).unwrap().entries().is_err());
}

#[test]
fn flipped_bits_never_panic_and_never_hang() {
    let names: Vec<String> = (0..200).map(|i| format!("entry {i}")).collect();
    let entries: Vec<_> = names.iter().map(|n| (Key::Name(n.as_str()), n.clone().into_bytes())).collect();
    let mut chance = rig::Chance::new(1);
    for _ in 0..3000 {
        let mut source = fat(&entries[..50], 2, false, ZapFlags::empty(), Endian::Little);
        for _ in 0..4 {
            let random = chance.next();
            let block = source.blocks.get_mut(&(random >> 33 & 3)).unwrap();
            let reach = if random & 1 == 0 { 200 } else { block.len() };
            block[(random >> 40) as usize % reach] = (random >> 24) as u8;
        }
        let Ok(zap) = Zap::from_source(Arc::new(source)) else { continue };
        let _ = (zap.entries(), zap.lookup("entry 7"), zap.count());
    }
}
