//! Log blocks of both layouts, and the body of every record.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{
    Endian,
    zil::{LogBlock, Record},
};

fuzz_target!(|data: &[u8]| {
    for block in [LogBlock::parse_slim(data, Endian::Little), LogBlock::parse_old(data, Endian::Big)] {
        for record in block.iter().flat_map(|b| b.records()).flatten() {
            let _ = record.parse_body();
        }
    }
    if let Ok(record) = Record::parse(data, Endian::Little) {
        let _ = record.parse_body();
    }
});
