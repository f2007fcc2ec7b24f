use super::*;
use crate::ZilHeader;
use crate::testing::{golden, never_panics};

/// The blocks of a real log, each truncated after its last used byte.
fn blocks() -> Vec<(LogBlock<'static>, &'static [u8])> {
    let mut rest: &'static [u8] = golden!("zil_blocks.bin");
    let mut out = Vec::new();
    while !rest.is_empty() {
        let used = Endian::Little.u64(&rest[0x88..]) as usize;
        out.push((LogBlock::parse_slim(&rest[..used], Endian::Little).unwrap(), &rest[..used]));
        rest = &rest[used..];
    }
    out
}

fn record(kind: RecordType, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [kind.0, 32 + body.len() as u64, 7, 8] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(body);
    out
}

fn body(kind: RecordType, words: &[u64], tail: &[u8]) -> Vec<u8> {
    let mut body: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
    body.extend_from_slice(tail);
    record(kind, &body)
}

fn parse(bytes: &[u8]) -> Result<Body<'_>> {
    Record::parse(bytes, Endian::Big).unwrap().parse_body()
}

#[test]
fn a_real_log_reads_as_zdb_lists_it() {
    let blocks = blocks();
    let listed: Vec<_> = blocks
        .iter()
        .flat_map(|(b, _)| b.records())
        .map(|r| r.unwrap())
        .map(|r| (r.kind.name(), r.size_bytes(), r.txg.0, r.sequence))
        .collect();
    // zdb -iiii, without the 4 KiB data block that is not in the golden file (number 70847).
    assert_eq!(
        listed,
        [
            ("TX_CREATE", 112, 119, 70845),
            ("TX_WRITE", 208, 119, 70846),
            ("TX_WRITE", 192, 121, 70848),
            ("TX_WRITE", 192, 121, 70849),
            ("TX_MKDIR", 112, 122, 70850),
            ("TX_RENAME", 64, 122, 70851),
            ("TX_REMOVE", 48, 122, 70852),
            ("TX_SYMLINK", 120, 122, 70853),
            ("TX_SETATTR", 112, 122, 70854),
            ("TX_SETSAXATTR", 64, 122, 70855),
            ("TX_CREATE", 120, 122, 70856),
            ("TX_WRITE", 200, 122, 70857),
        ]
    );
}

#[test]
fn bodies_of_a_real_log_match_zdb() {
    let blocks = blocks();
    let bodies: Vec<_> =
        blocks.iter().flat_map(|(b, _)| b.records()).map(|r| r.unwrap().parse_body().unwrap()).collect();
    match &bodies[0] {
        Body::Create(c) => {
            assert_eq!((c.directory, c.object, c.slots, c.mode), (34, 432, 1, 0o100644));
            assert_eq!((c.generation, c.name, c.target), (119, &b"logged"[..], None));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(bodies[1], Body::Write { object: 432, offset: 0, length: 0x10, data: [_, ..], .. }));
    match &bodies[2] {
        Body::Write { object: 133, offset: 0x1e4c0, length: 0x1b40, pointer, data: [] } => {
            assert_eq!((pointer.dva(0).offset_bytes, pointer.lsize_bytes()), (0x207_4400, 0x2_0000));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        &bodies[5],
        Body::Rename { from_directory: 34, to_directory: 433, from: b"text.txt", to: b"moved", whiteout: None }
    ));
    assert!(matches!(&bodies[6], Body::Remove { directory: 34, name: b"b511" }));
    assert!(matches!(&bodies[7], Body::Create(c) if c.name == b"loglink" && c.target == Some(b"x")));
    assert!(matches!(&bodies[8], Body::SetAttr { object: 7, mask: 0x2068, attributes: None, .. }));
    assert!(matches!(&bodies[9], Body::SetSaXattr { object: 131, name: b"user.log", value: Some(b"1") }));
}

#[test]
fn each_block_continues_the_chain_of_the_one_before() {
    let header = ZilHeader::parse(golden!("zil_header.bin"), Endian::Little).unwrap();
    let blocks = blocks();
    let (first, bytes) = &blocks[0];
    assert_eq!(LogBlock::parse(bytes, &header.log).unwrap().next, first.next);
    // A pointer for another position in the chain is rejected.
    let error = LogBlock::parse(bytes, &first.next).unwrap_err().to_string();
    assert!(error.starts_with("zil_chain: zc_next_blk is ["), "{error}");
}

#[test]
fn old_blocks_have_their_chain_header_last() {
    let (slim, bytes) = &blocks()[0];
    let mut old = slim.records.to_vec();
    old.resize(4096 - CHAIN_BYTES, 0);
    old.extend_from_slice(&bytes[..CHAIN_BYTES]);
    let at = old.len() - CHAIN_BYTES + 0x88;
    Endian::Little.put_u64(&mut old[at..], slim.records.len() as u64);
    let parsed = LogBlock::parse_old(&old, Endian::Little).unwrap();
    assert_eq!((parsed.records, parsed.next), (slim.records, slim.next));
    Endian::Little.put_u64(&mut old[at..], 4096);
    assert!(LogBlock::parse_old(&old, Endian::Little).is_err());
}

#[test]
fn kinds_that_the_real_log_lacks() {
    let pointer = [0u8; 128];
    let create = [3, (1 << 56) | 9, 0o40755, 0, 0, 5, 1, 2, 0];
    let link = body(RecordType::LINK, &[3, 9], b"again\0");
    assert_eq!(parse(&link).unwrap(), Body::Link { directory: 3, object: 9, name: b"again" });
    let truncate = body(RecordType::TRUNCATE, &[9, 10, 11], b"");
    assert_eq!(parse(&truncate).unwrap(), Body::Truncate { object: 9, offset: 10, length: 11 });
    let clone = body(RecordType::CLONE_RANGE, &[9, 0, 1 << 18, 1 << 17, 2], &[pointer, pointer].concat());
    assert!(
        matches!(parse(&clone).unwrap(), Body::CloneRange { block_bytes: 0x2_0000, pointers, .. } if pointers.len() == 2)
    );
    let removed = body(RecordType::SETSAXATTR, &[9, 0], b"user.x\0\0");
    assert_eq!(parse(&removed).unwrap(), Body::SetSaXattr { object: 9, name: b"user.x", value: None });
    let whiteout = body(RecordType::RENAME_WHITEOUT, &[3, 4, 9, 0, 0, 0, 5, 1, 2, 0], b"a\0b\0");
    assert!(
        matches!(parse(&whiteout).unwrap(), Body::Rename { from: b"a", to: b"b", whiteout: Some(w), .. } if w.object == 9)
    );
    let exchange = body(RecordType::RENAME_EXCHANGE, &[3, 4], b"a\0b\0");
    assert!(matches!(parse(&exchange).unwrap(), Body::Rename { whiteout: None, .. }));

    let mut attributes = Vec::new();
    for word in [3u32, 1, 2, 3] {
        attributes.extend_from_slice(&word.to_be_bytes());
    }
    attributes.extend_from_slice(&[9; 56]);
    let with_attributes = body(RecordType::MKDIR_ATTR, &create, &[&attributes[..], b"dir\0"].concat());
    match parse(&with_attributes).unwrap() {
        Body::Create(c) => {
            assert_eq!((c.object, c.slots, c.name), (9, 2, &b"dir"[..]));
            assert_eq!(c.attributes.unwrap().mask, [1, 2, 3]);
        }
        other => panic!("{other:?}"),
    }
    let acl_words: Vec<u64> = create.into_iter().chain([1, 1, 1, 12, 0]).collect();
    let tail = [&[7u8; 16][..], &5u64.to_be_bytes(), b"S-1-5\0dir\0"].concat();
    match parse(&body(RecordType::MKDIR_ACL, &acl_words, &tail)).unwrap() {
        Body::Create(c) => {
            let acl = c.acl.unwrap();
            assert_eq!((acl.entries.len(), &acl.fuids[..], &acl.domains[..]), (12, &[5][..], &[&b"S-1-5"[..]][..]));
            assert_eq!(c.name, b"dir");
        }
        other => panic!("{other:?}"),
    }
    let mut foreign = create;
    foreign[3] = 1 << 32;
    let foreign = body(RecordType::CREATE, &foreign, b"S-1-5\0file\0");
    assert!(matches!(parse(&foreign).unwrap(), Body::Create(c) if c.domains == [b"S-1-5"] && c.name == b"file"));

    let setattr = body(RecordType::SETATTR, &[9, 1 << 31, 0, 0, 0, 0, 0, 0, 0, 0], &attributes);
    assert!(matches!(parse(&setattr).unwrap(), Body::SetAttr { attributes: Some(a), .. } if a.scan_stamp == [9; 32]));
    let acl = body(RecordType::ACL, &[9, 1, 0, 0, 16, 2], &[7; 16]);
    assert!(matches!(parse(&acl).unwrap(), Body::Acl { object: 9, acl } if acl.flags == 2 && acl.entries.len() == 16));
    let acl = body(RecordType::ACL_V0, &[9, 2], &[7; 24]);
    assert!(matches!(parse(&acl).unwrap(), Body::Acl { acl, .. } if acl.count == 2 && acl.entries.len() == 24));
    assert_eq!(parse(&body(RecordType(99), &[], b"")).unwrap_err().to_string(), "lr: unsupported lrc_txtype 99");
}

#[test]
fn case_bit_is_not_part_of_the_kind() {
    let bytes = body(RecordType(RecordType::REMOVE.0 | 1 << 63), &[3], b"NAME\0");
    let record = Record::parse(&bytes, Endian::Big).unwrap();
    assert_eq!((record.kind, record.ignores_case), (RecordType::REMOVE, true));
}

#[test]
fn a_wrong_length_ends_the_records() {
    let mut bytes = golden!("zil_blocks.bin")[..296].to_vec();
    bytes[CHAIN_BYTES + 8] = 31;
    let block = LogBlock::parse_slim(&bytes, Endian::Little).unwrap();
    let all: Vec<_> = block.records().collect();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].as_ref().unwrap_err().to_string(), "lr: lrc_reclen is 31, expected 32 to 112");
}

#[test]
fn no_bytes_panic() {
    for (_, real) in blocks() {
        never_panics(real, |bytes| {
            for block in [LogBlock::parse_slim(bytes, Endian::Little), LogBlock::parse_old(bytes, Endian::Big)] {
                for record in block.iter().flat_map(|b| b.records()).flatten() {
                    let _ = record.parse_body();
                }
            }
            for kind in 0..26 {
                let whole = record(RecordType(kind), bytes);
                let _ = parse(&whole);
            }
        });
    }
}
