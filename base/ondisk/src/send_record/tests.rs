use super::*;
use crate::testing::{golden, never_panics};

fn all() -> Vec<Record> {
    let bytes = golden!("send_records.bin");
    let endian = stream_endian(bytes).unwrap();
    bytes.chunks_exact(RECORD_BYTES).map(|b| Record::parse(b, endian).unwrap()).collect()
}

#[test]
fn every_kind_of_a_real_stream_writes_back() {
    let bytes: Vec<u8> = all().iter().flat_map(|r| r.to_bytes(Endian::Little)).collect();
    assert_eq!(bytes, golden!("send_records.bin"));
    for record in all() {
        assert_eq!(Record::parse(&record.to_bytes(Endian::Big), Endian::Big).unwrap(), record);
    }
}

#[test]
fn begin_matches_zstream() {
    let all = all();
    let Body::Begin(begin) = &all[0].body else { panic!("{:?}", all[0]) };
    assert_eq!((begin.header_type, begin.from_guid, all[0].payload_bytes()), (1, 0, 0));
    let expected = Features::SA_SPILL | Features::EMBED_DATA | Features::LZ4 | Features::COMPRESSED;
    assert_eq!(begin.features, expected);
    assert!(begin.to_name.starts_with(b"th/"));
}

#[test]
fn payloads_have_the_length_in_the_record() {
    let mut lengths = Vec::new();
    for record in all() {
        lengths.push((std::mem::discriminant(&record.body), record.payload_bytes()));
        match &record.body {
            Body::Object(o) if o.raw_bonus_bytes != 0 => {
                assert_eq!(record.payload_bytes(), o.raw_bonus_bytes.into())
            }
            Body::WriteEmbedded(_) | Body::Object(_) => assert_eq!(record.payload_bytes() % 8, 0),
            Body::End { .. } | Body::Free { .. } | Body::FreeObjects { .. } => {
                assert_eq!(record.payload_bytes(), 0)
            }
            _ => {}
        }
    }
    assert_eq!(lengths.len(), 12);
}

#[test]
fn kinds_that_the_streams_lack_write_back() {
    let key = Key { checksum: [1, 2, 3, 4], prop: 5 };
    let by_ref = WriteByRef {
        object: 1,
        offset: 2,
        length: 3,
        to_guid: 4,
        ref_guid: 5,
        ref_object: 6,
        ref_offset: 7,
        checksum_type: 8,
        flags: 9,
        key,
    };
    for body in [Body::WriteByRef(by_ref), Body::Redact { object: 1, offset: 2, length: 3, to_guid: 4 }] {
        let record = Record { payload_len: 0, body, checksum: [1, 2, 3, 4] };
        assert_eq!(Record::parse(&record.to_bytes(Endian::Big), Endian::Big).unwrap(), record);
    }
}

#[test]
fn other_kinds_and_magics_are_refused() {
    let mut bytes = golden!("send_records.bin")[..RECORD_BYTES].to_vec();
    bytes[8] ^= 1;
    assert!(stream_endian(&bytes).is_err());
    assert!(Record::parse(&bytes, Endian::Little).unwrap_err().to_string().contains("drr_magic is 0x2f5bacbad"));
    bytes[0] = 11;
    let error = Record::parse(&bytes, Endian::Little).unwrap_err();
    assert_eq!(error.to_string(), "dmu_replay_record: drr_type is 11, expected 0 to 10");
}

#[test]
fn a_name_that_fills_its_field_is_refused() {
    // Found by fuzzing: a name cut to 255 bytes did not write back the same.
    let mut bytes = golden!("send_records.bin")[..RECORD_BYTES].to_vec();
    bytes[56..].fill(b'x');
    let error = Record::parse(&bytes, Endian::Little).unwrap_err();
    assert_eq!(error.to_string(), "dmu_replay_record: drr_toname is without end, expected a NUL");
}

#[test]
fn no_bytes_panic() {
    for real in golden!("send_records.bin").chunks_exact(RECORD_BYTES) {
        never_panics(real, |bytes| {
            if let Ok(record) = Record::parse(bytes, Endian::Little) {
                let _ = (record.payload_bytes(), record.to_bytes(Endian::Big));
            }
        });
    }
}
