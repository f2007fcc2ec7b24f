//! ZAP blocks of every kind: any bytes, in both byte orders.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::Endian;
use ondisk::zap::{BlockKind, Header, Leaf, Micro};

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
                // What is read is found again, unless a NUL within cut it short.
                let is = leaf.name_is(&entry, name);
                assert!(usize::from(entry.name_ints) != name.len() + 1 || is.expect("it was just read"));
            }
            let _ = (leaf.key(&entry), leaf.value(&entry));
            let _ = leaf.chain(entry.hash).count();
        }
        if let Some(next) = leaf.next_hash() {
            assert!(!leaf.covers(next));
        }
    }
});
