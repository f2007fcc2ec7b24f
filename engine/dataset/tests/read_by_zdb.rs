//! What OpenZFS's `zdb` reads in the ZAPs and attributes that Weir writes. If it is not installed,
//! the test prints that and passes.

use crate::common::Rig;
use object::zap::ZapSpec;
use object::{NewObject, Object, SaTable, Zap};
use ondisk::ObjectType;
use ondisk::sa::Attr;
use ondisk::zap::Value as ZapValue;
use ondisk::zap::{Flags as ZapFlags, NormFlags};
use std::collections::BTreeSet;

/// `DMU_OTN_ZAP_METADATA`: zdb lists its entries, whatever they are.
const ANY_ZAP: ObjectType = ObjectType(0x80 | 0x40 | 4);

fn id(zap: &Zap) -> String {
    zap.object().map_or(0, Object::id).to_string()
}

/// zdb's output for each object of `tank/a`.
fn objects(rig: &Rig, ids: &[String]) -> Option<Vec<String>> {
    let args: Vec<&str> = ["-dddd", "tank/a"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    let text = rig.zdb(&args)?;
    let texts: Vec<_> = text.split("Object  lvl").skip(1).map(str::to_owned).collect();
    assert_eq!(texts.len(), ids.len(), "{text}");
    Some(texts)
}

/// Names in zdb's output that begin with one of `starts`.
fn names(text: &str, starts: &[&str]) -> BTreeSet<String> {
    let words = text.split_whitespace().filter(|word| starts.iter().any(|start| word.starts_with(start)));
    words.map(str::to_owned).collect()
}

#[test]
fn zdb_walks_the_zaps_that_we_write() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    let a = rig.open("tank/a");
    let set = a.objset().clone();
    let tx = a.begin(1 << 20).unwrap();
    let make = |spec: &ZapSpec| Zap::create(&set, &tx, spec).unwrap();
    let any = || ZapSpec::new(ANY_ZAP);

    let full = make(&any());
    for i in 0..2047 {
        full.insert_u64(&tx, format!("entry-{i}"), i).unwrap();
    }
    let fat = make(&any());
    for i in 0..60_000 {
        fat.insert_u64(&tx, format!("entry-{i}"), i).unwrap();
    }
    for i in (0..60_000).step_by(3) {
        fat.remove(&tx, format!("entry-{i}")).unwrap();
    }
    for i in (1..60_000).step_by(300) {
        fat.update(&tx, format!("entry-{i}"), &ZapValue::string(&"v".repeat(300))).unwrap();
    }
    let emptied = make(&any());
    for i in 0..20_000 {
        emptied.insert_u64(&tx, format!("entry-{i}"), i).unwrap();
    }
    for i in 1..20_000 {
        emptied.remove(&tx, format!("entry-{i}")).unwrap();
    }
    let folded = make(&ZapSpec { norm_flags: NormFlags::TO_UPPER | NormFlags::NFD, ..any() });
    for i in 0..400 {
        for name in ["Entry", "ENTRY", "entry"] {
            folded.insert_u64(&tx, format!("{name}-{i}"), i).unwrap();
        }
    }
    folded.insert_u64(&tx, "w".repeat(200), 7).unwrap();
    let flags = ZapFlags::HASH64 | ZapFlags::UINT64_KEY;
    let words = make(&ZapSpec { flags, block_shift: 12, indirect_shift: 12, ..any() });
    for i in 0..5000 {
        words.insert_key(&tx, &[i, 1, 2], &ZapValue::bytes(&[i as u8; 40])).unwrap();
    }
    drop(tx);

    let zaps = [&full, &fat, &emptied, &folded, &words].map(id);
    let Some(texts) = objects(&rig, &zaps) else { return };
    assert!(texts[0].contains("microzap: 131072 bytes, 2047 entries"), "{}", texts[0]);
    assert_eq!(names(&texts[0], &["entry-"]).len(), 2047);
    for (text, count) in texts[1..].iter().zip([40_000, 1, 1201, 5000]) {
        assert!(text.contains(&format!("ZAP entries: {count}\n")), "{text}");
    }
    let expected = (0..60_000).filter(|i| i % 3 != 0).map(|i| format!("entry-{i}"));
    assert_eq!(names(&texts[1], &["entry-"]), expected.collect());
    assert_eq!(names(&texts[3], &["Entry-", "ENTRY-", "entry-", "www"]).len(), 1201);
    rig.judge();
}

#[test]
fn zdb_reads_the_attributes_that_we_write() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    let a = rig.open("tank/a");
    let set = a.objset().clone();
    let tx = a.begin(1 << 20).unwrap();
    let (table, sa_attrs) = SaTable::create(&set, &tx).unwrap();
    Zap::open(set.object(1).unwrap()).unwrap().insert_u64(&tx, "SA_ATTRS", sa_attrs).unwrap();
    let file = |slots| {
        let new = NewObject { slots, ..NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, 512) };
        let file = set.create_object(&tx, &new.with_bonus(ObjectType::SA, Vec::new())).unwrap();
        let word = |n: u64| n.to_le_bytes().to_vec();
        let time = |n: u64| [n.to_le_bytes(), 0u64.to_le_bytes()].concat();
        let attrs = [
            (Attr::Mode, word(0o100_640)),
            (Attr::Size, word(12_345)),
            (Attr::Gen, word(77)),
            (Attr::Uid, word(1234)),
            (Attr::Gid, word(4321)),
            (Attr::Parent, word(file.id())),
            (Attr::Flags, word(0)),
            (Attr::Atime, time(1_000_000)),
            (Attr::Mtime, time(2_000_000)),
            (Attr::Ctime, time(3_000_000)),
            (Attr::Crtime, time(4_000_000)),
            (Attr::Links, word(3)),
            (Attr::DaclCount, word(3)),
            (Attr::DaclAces, vec![0; 24]),
        ];
        table.build(&tx, &file, &attrs).unwrap();
        file
    };
    let (small, large, spilled) = (file(1), file(2), file(1));
    let mut xattrs = ondisk::nvlist::Nvlist::new();
    xattrs.put("user.color", ondisk::nvlist::Value::ByteArray(vec![b'g'; 900]));
    let packed = xattrs.to_xdr(ondisk::Endian::Little);
    for file in [&large, &spilled] {
        table.update(&tx, file, &[(Attr::Dxattr, Some(&packed))]).unwrap();
    }
    drop(tx);
    let Some(texts) = objects(&rig, &[&small, &large, &spilled].map(|file| file.id().to_string())) else { return };
    for (text, spills) in texts.iter().zip([false, true, true]) {
        for line in ["uid     1234", "gid     4321", "gen\t77", "mode\t100640", "size\t12345", "links\t3"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(text.contains("user.color"), spills, "{text}");
        assert_eq!(text.contains("SPILL_BLKPTR"), spills, "{text}");
    }
    rig.judge();
}
