//! DSL directories, datasets, deadlists, bookmarks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{DeadlistHeader, DslDataset, DslDir, Endian, RedactBlock, RedactionList};

fuzz_target!(|data: &[u8]| {
    for endian in [Endian::Little, Endian::Big] {
        let _ = (DslDir::parse(data, endian), DslDataset::parse(data, endian));
        let _ = DeadlistHeader::parse(data, endian);
        let _ = (RedactionList::parse(data, endian), RedactBlock::parse(data, endian));
    }
});
