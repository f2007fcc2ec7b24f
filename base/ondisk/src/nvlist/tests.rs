use proptest::prelude::*;

use super::*;
use crate::testing::{golden, never_panics};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn labels_pack_to_the_same_bytes_again() {
    for bytes in [
        golden!("label_raidz1_xdr.bin"),
        golden!("label_draid2_xdr.bin"),
        golden!("label_hybrid_xdr.bin"),
        golden!("label_sparc_xdr.bin"),
        golden!("send_begin_package_xdr.bin"),
    ] {
        let packed = Packed::parse(bytes).unwrap();
        assert_eq!(packed.encoding, Encoding::Xdr);
        assert_eq!(packed.size_bytes, bytes.len());
        assert_eq!(packed.list.to_xdr(packed.endian), bytes);
    }
}

#[test]
fn kernel_stream_header_packs_to_the_same_native_bytes_again() {
    let bytes = golden!("send_begin_raw_native.bin");
    let packed = Packed::parse(bytes).unwrap();
    assert_eq!((packed.encoding, packed.endian), (Encoding::Native, Endian::Little));
    assert_eq!(packed.list.to_native(Endian::Little), bytes);
    let keys = packed.list.need_nvlist("crypt_keydata").unwrap();
    assert_eq!(keys.get_u64("DSL_CRYPTO_GUID"), Some(0x7f10_b232_925b_7829));
    assert_eq!(keys.get_bytes("DSL_CRYPTO_IV").unwrap().len(), 12);
}

#[test]
fn labels_print_as_zdb_prints_them() {
    for (bytes, zdb) in [
        (golden!("label_raidz1_xdr.bin"), golden!("label_raidz1.zdb.txt")),
        (golden!("label_draid2_xdr.bin"), golden!("label_draid2.zdb.txt")),
        (golden!("label_sparc_xdr.bin"), golden!("label_sparc.zdb.txt")),
    ] {
        assert_eq!(Nvlist::parse(bytes).unwrap().to_string(), text(zdb));
    }
}

#[test]
fn getters_find_the_values_of_a_label() {
    let label = Nvlist::parse(golden!("label_raidz1_xdr.bin")).unwrap();
    assert_eq!(label.get_str("name"), Some("tz1"));
    assert_eq!(label.get_u64("version"), Some(5000));
    let tree = label.need_nvlist("vdev_tree").unwrap();
    let paths: Vec<_> = tree.get_nvlist_array("children").iter().map(|c| c.get_str("path").unwrap()).collect();
    assert_eq!(paths, ["/tmp/v/z0", "/tmp/v/z1", "/tmp/v/z2"]);
    assert_eq!(label.get_nvlist("features_for_read").unwrap().get_bool("com.delphix:hole_birth"), Some(true));
    let error = label.need_u64("no_such").unwrap_err();
    assert_eq!(error.to_string(), "nvlist: no_such is missing, expected a number");
    let error = label.need_u64("name").unwrap_err();
    assert_eq!(error.to_string(), "nvlist: name is of type 9, expected a number");
}

#[test]
fn put_replaces_and_push_order_is_kept() {
    let mut list = Nvlist::new();
    list.put("a", 1u64);
    list.put("b", "two");
    list.put("a", 3u64);
    assert_eq!(list.to_string(), "b: 'two'\na: 3\n");
}

#[test]
fn duplicates_are_kept_and_the_last_is_found() {
    let mut list = Nvlist { flags: 0, pairs: Vec::new() };
    list.put("a", 1u64);
    list.put("a", 2u64);
    assert_eq!(list.get_u64("a"), Some(2));
    assert_eq!(Nvlist::parse(&list.to_xdr(Endian::Little)).unwrap(), list);
}

#[test]
fn an_empty_array_leaves_its_count_out() {
    let mut list = Nvlist::new();
    list.put("none", Value::Uint64Array(Vec::new()));
    let bytes = list.to_xdr(Endian::Little);
    // 4 header, 8 version and flags, 24 pair, 8 end; the pair records 28.
    assert_eq!(bytes.len(), 44);
    assert_eq!(Endian::Big.u32(&bytes[12..]), 28);
    assert_eq!(Nvlist::parse(&bytes).unwrap(), list);
}

#[test]
fn nesting_is_bounded() {
    let deep = |levels: usize| {
        let mut list = Nvlist::new();
        for _ in 0..levels {
            let mut outer = Nvlist::new();
            outer.put("n", list);
            list = outer;
        }
        list
    };
    for encoding in [Encoding::Xdr, Encoding::Native] {
        let fits = deep(MAX_DEPTH).pack(encoding, Endian::Big);
        assert_eq!(Nvlist::parse(&fits).unwrap(), deep(MAX_DEPTH));
        let error = Nvlist::parse(&deep(MAX_DEPTH + 1).pack(encoding, Endian::Big)).unwrap_err();
        assert_eq!(error.to_string(), "nvlist: depth is 101, expected at most 100");
    }
}

#[test]
fn huge_counts_are_refused_before_memory_is_taken() {
    let mut list = Nvlist::new();
    list.put("n", Value::StringArray(vec![b"x".to_vec()]));
    for (encoding, count_at) in [(Encoding::Xdr, 32), (Encoding::Native, 20)] {
        let mut bytes = list.pack(encoding, Endian::Big);
        assert_eq!(Endian::Big.u32(&bytes[count_at..]), 1);
        Endian::Big.put_u32(&mut bytes[count_at..], u32::MAX);
        assert!(Nvlist::parse(&bytes).is_err());
    }
}

#[test]
fn no_bytes_panic() {
    for real in [golden!("label_draid2_xdr.bin"), golden!("send_begin_raw_native.bin")] {
        never_panics(real, |bytes| {
            if let Ok(packed) = Packed::parse(bytes) {
                // An accepted list can be written and read again.
                let again = Packed::parse(&packed.list.pack(packed.encoding, packed.endian)).unwrap();
                assert_eq!(again.list.pairs.len(), packed.list.pairs.len());
                let _ = packed.list.to_string();
            }
        });
    }
}

fn value() -> impl Strategy<Value = Value> {
    let string = proptest::collection::vec(1..=255u8, 0..20);
    macro_rules! many {
        ($kind:ident, $item:ty) => {
            proptest::collection::vec(any::<$item>(), 0..9).prop_map(Value::$kind)
        };
    }
    let leaf = prop_oneof![
        Just(Value::Boolean),
        prop_oneof![
            any::<u8>().prop_map(Value::Byte),
            any::<i8>().prop_map(Value::Int8),
            any::<u8>().prop_map(Value::Uint8),
            any::<i16>().prop_map(Value::Int16),
            any::<u16>().prop_map(Value::Uint16),
            any::<i32>().prop_map(Value::Int32),
            any::<u32>().prop_map(Value::Uint32),
        ],
        any::<i64>().prop_map(Value::Int64),
        any::<u64>().prop_map(Value::Uint64),
        any::<i64>().prop_map(Value::HrTime),
        any::<bool>().prop_map(Value::BooleanValue),
        proptest::num::f64::NORMAL.prop_map(Value::Double),
        string.clone().prop_map(Value::String),
        proptest::collection::vec(string, 0..5).prop_map(Value::StringArray),
        prop_oneof![
            many!(ByteArray, u8),
            many!(Int8Array, i8),
            many!(Uint8Array, u8),
            many!(Int16Array, i16),
            many!(Uint16Array, u16)
        ],
        prop_oneof![
            many!(Int32Array, i32),
            many!(Uint32Array, u32),
            many!(Int64Array, i64),
            many!(Uint64Array, u64),
            many!(BooleanArray, bool)
        ],
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let list = proptest::collection::vec((proptest::collection::vec(1..=255u8, 0..12), inner), 0..5)
            .prop_map(|pairs| Nvlist {
                flags: 1,
                pairs: pairs.into_iter().map(|(name, value)| Pair { name, value }).collect(),
            })
            .boxed();
        prop_oneof![
            list.clone().prop_map(Value::Nvlist),
            proptest::collection::vec(list, 0..4).prop_map(Value::NvlistArray)
        ]
    })
}

proptest! {
    #[test]
    fn every_type_survives_both_encodings_and_orders(value in value()) {
        let mut list = Nvlist::new();
        list.put("before", 7u64);
        list.put("it", value);
        list.put("after", "x");
        for encoding in [Encoding::Xdr, Encoding::Native] {
            for endian in [Endian::Little, Endian::Big] {
                let mut bytes = list.pack(encoding, endian);
                let size = bytes.len();
                bytes.extend_from_slice(&[0xee; 5]); // trailing data is ignored
                let packed = Packed::parse(&bytes).unwrap();
                prop_assert_eq!(packed.size_bytes, size);
                prop_assert_eq!((packed.encoding, packed.endian), (encoding, endian));
                prop_assert_eq!(&packed.list, &list);
            }
        }
    }
}
