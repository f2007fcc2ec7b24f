//! ZAP blocks of every kind: any bytes, in both byte orders.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::Endian;
use ondisk::zap::leaf::edit::split;
use ondisk::zap::{BlockKind, Header, Key, Leaf, LeafMut, Micro, Value, swap};

/// Changes a leaf that may be damaged: each change is made or refused.
fn change(block: &[u8], leaf: &Leaf<'_>) {
    let mut bytes = block.to_vec();
    let entries = leaf.entries().unwrap_or_default();
    let mut edited = LeafMut::open(&mut bytes).expect("it parsed");
    for (i, entry) in entries.iter().take(8).enumerate() {
        let Ok(name) = leaf.name(entry) else { continue };
        if let Ok(Some(found)) = edited.find(entry.hash, Key::Name(&name)) {
            let _ = edited.set_value(&found, &Value::words(&[7; 6]));
        }
        let _ = edited.add(entry.hash, None, Key::Name(b"another"), &Value::one(i as u64));
        if let Ok(Some(found)) = edited.find(entry.hash, Key::Name(&name)) {
            let _ = edited.remove(&found, i % 2 == 1);
        }
    }
    let _ = (split(block, false, true), split(block, true, false));
    let _ = swap::to_little(&mut bytes);
}

fuzz_target!(|data: &[u8]| {
    let Some((&[big], data)) = data.split_first_chunk() else { return };
    let endian = if big & 1 == 1 { Endian::Big } else { Endian::Little };
    let size = if data.is_empty() { 0 } else { 1 << data.len().ilog2() };
    let block = &data[..size];
    let _ = BlockKind::of(block, endian);
    if let Ok(micro) = Micro::parse(block, endian) {
        assert!(micro.entries().count() <= block.len() / 64);
    }
    if let Ok(header) = Header::parse(block, endian) {
        let slot = header.table_slot(header.table_index(u64::MAX));
        assert!(slot.word < block.len() / 8);
    }
    if let Ok(leaf) = Leaf::parse(block, endian) {
        for entry in leaf.entries().unwrap_or_default() {
            let name = leaf.name(&entry);
            if let Ok(name) = &name {
                // A name that was read is found again, unless a NUL inside truncated it.
                let is = leaf.name_is(&entry, name);
                assert!(usize::from(entry.name_ints) != name.len() + 1 || is.expect("it was just read"));
            }
            let _ = (leaf.key(&entry), leaf.value(&entry));
            let _ = leaf.chain(entry.hash).count();
        }
        if endian == Endian::Little {
            change(block, &leaf);
        }
        if let Some(next) = leaf.next_hash() {
            assert!(!leaf.covers(next));
        }
    }
});
