//! Records of send streams: an accepted record is written and parses again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{
    Endian,
    send_record::{Record, stream_endian},
};

fuzz_target!(|data: &[u8]| {
    let endian = stream_endian(data).unwrap_or(Endian::Little);
    let Ok(record) = Record::parse(data, endian) else { return };
    assert_eq!(Record::parse(&record.to_bytes(endian), endian).expect("we wrote it"), record);
    let _ = record.payload_bytes();
});
