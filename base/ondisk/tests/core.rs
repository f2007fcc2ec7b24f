//! The basic structures, parsed from bytes that OpenZFS wrote; expected values are from `zdb`.

use ondisk::{BlkPtr, Checksum, Compression, Dnode, Endian, ObjectType, Objset, ObjsetKind, Txg};

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/", $name)).as_slice()
    };
}

#[test]
fn block_pointer_with_three_copies() {
    let bytes = golden!("blkptr.bin");
    let bp = BlkPtr::parse(bytes, Endian::Little).unwrap();
    bp.check().unwrap();
    let offsets: Vec<_> = bp.dvas().map(|d| (d.vdev, d.offset_bytes, d.asize_bytes)).collect();
    assert_eq!(offsets, [(0, 0x60b_de00, 0x200), (0, 0x265_1a00, 0x200), (0, 0x802_9600, 0x200)]);
    assert_eq!((bp.object_type(), bp.level(), bp.endian()), (ObjectType::OBJSET, 0, Endian::Little));
    assert_eq!((bp.checksum_kind(), bp.compression()), (Ok(Checksum::Fletcher4), Ok(Compression::Lz4)));
    assert_eq!((bp.lsize_bytes(), bp.psize_bytes(), bp.fill()), (0x1000, 0x200, 233));
    assert_eq!((bp.logical_birth(), bp.physical_birth()), (Txg(201), Txg(201)));
    assert_eq!(bp.checksum(), [0x981608d20, 0x3e378d3564a, 0xcf9739b518e2, 0x1d6bbce6925781]);
    assert_eq!(bp.to_bytes(Endian::Little), bytes);
    assert_eq!(BlkPtr::parse(&bp.to_bytes(Endian::Big), Endian::Big), Ok(bp));
}

#[test]
fn block_pointer_that_holds_its_data() {
    let bytes = golden!("blkptr_embedded.bin");
    let bp = BlkPtr::parse(bytes, Endian::Little).unwrap();
    bp.check().unwrap();
    assert!(bp.is_embedded() && !bp.is_hole() && !bp.is_redacted());
    assert_eq!((bp.lsize_bytes(), bp.psize_bytes(), bp.dvas().count()), (512, 28, 0));
    let payload = bp.embedded_payload().unwrap();
    // LZ4: a big-endian length, then the stream.
    assert_eq!(payload, [&bytes[..28]].concat());
    assert_eq!(bp.to_bytes(Endian::Little), bytes);
}

#[test]
fn block_pointer_of_an_encrypted_block() {
    let bp = BlkPtr::parse(golden!("blkptr_encrypted.bin"), Endian::Little).unwrap();
    bp.check().unwrap();
    assert!(bp.is_encrypted() && !bp.is_authenticated());
    assert_eq!((bp.object_type(), bp.dvas().count()), (ObjectType::DNODE, 2));
    assert_ne!(bp.crypt_salt(), [0; 8]);
    assert_ne!(bp.crypt_mac(), [0; 16]);
    assert!(bp.fill() <= 32, "upper half of the fill count is part of the IV: {}", bp.fill());
}

#[test]
fn dnode_of_a_root_directory() {
    let dnode = Dnode::parse(golden!("dnode.bin"), Endian::Little).unwrap();
    assert_eq!((dnode.object_type, dnode.bonus_type), (ObjectType::DIRECTORY_CONTENTS, ObjectType::SA));
    assert_eq!((dnode.levels, dnode.blkptrs.len(), dnode.slots, dnode.indirect_shift), (1, 1, 1, 17));
    assert_eq!((dnode.data_block_bytes, dnode.max_block_id, dnode.used_bytes), (2048, 0, 1024));
    assert_eq!((dnode.bonus.len(), dnode.spill), (168, None));
    assert_eq!(dnode.flags & (Dnode::FLAG_USED_BYTES | Dnode::FLAG_SPILL_BLKPTR), Dnode::FLAG_USED_BYTES);
    assert_eq!(dnode.to_bytes().unwrap(), golden!("dnode.bin"));
}

/// The kernel module's dnode of a redaction list with 40 snapshots: three pointers, no bonus, and a
/// spill block.
#[test]
fn a_spill_pointer_in_the_place_of_the_third_pointer_is_not_read_twice() {
    let mut bytes = vec![0; 512];
    bytes[..10].copy_from_slice(&[0xc3, 17, 1, 3, 0xc3, 0, 0, 5, 0, 1]);
    bytes[384..].copy_from_slice(&golden!("dnode.bin")[64..192]);
    let dnode = Dnode::parse(&bytes, Endian::Little).unwrap();
    assert_eq!(dnode.blkptrs, [BlkPtr::HOLE, BlkPtr::HOLE]);
    assert!(dnode.spill.is_some_and(|spill| !spill.is_hole()));
    let written = dnode.to_bytes().unwrap();
    assert_eq!((written[3], &written[384..]), (2, &bytes[384..]));
    // With a bonus, there is no place for a third pointer.
    bytes[10] = 8;
    assert!(Dnode::parse(&bytes, Endian::Little).is_err());
}

#[test]
fn object_set_of_a_file_system() {
    let objset = Objset::parse(golden!("objset.bin"), Endian::Little).unwrap();
    assert_eq!((objset.kind, objset.flags), (ObjsetKind::FileSystem, 7));
    assert_eq!(objset.meta_dnode.object_type, ObjectType::DNODE);
    assert!(objset.zil.log.is_hole());
    assert!(objset.user_used.is_some() && objset.group_used.is_some() && objset.project_used.is_some());
    assert_eq!(objset.to_bytes(4096).unwrap(), golden!("objset.bin"));
    assert!(objset.to_bytes(1024).is_err(), "the accounting dnodes do not fit");
}
