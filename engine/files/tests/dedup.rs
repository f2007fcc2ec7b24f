//! Deduplicated files, checked by `verify` and by OpenZFS's `zdb` if it is installed.

use crate::common::{Rig, dump, root};
use files::vfs::{Allocate, NewNode, SetAttr, Vfs};
use files::zpl::FileSystem;
use rig::Chance;
use std::sync::Arc;

const RECORD: u64 = 8192;

/// One of a few possible record contents, some of them compressible.
fn contents(kind: u64) -> Vec<u8> {
    (0..RECORD)
        .map(|i| if kind.is_multiple_of(3) && i > 3000 { 7 } else { ((i * (kind + 3)) ^ (i >> 5)) as u8 })
        .collect()
}

fn change(random: &mut Chance, fs: &FileSystem) {
    let (who, top) = (root(), fs.root());
    let mut files = Vec::new();
    fs.read_dir(top, 2, &mut |e| {
        files.push((e.name, e.node));
        true
    })
    .unwrap();
    let pick = random.below(8) as usize;
    let Some((name, node)) = files.get(pick).cloned() else {
        let name = format!("f{}", random.below(1 << 30));
        fs.create(&who, top, name.as_bytes(), &NewNode::Regular, 0o644, 0).unwrap();
        return;
    };
    let at = random.below(30) * RECORD;
    match random.below(12) {
        0 => fs.unlink(&who, top, &name).unwrap(),
        1 => {
            let size = Some(random.below(40 * RECORD));
            fs.set_attr(&who, node, &SetAttr { size, ..SetAttr::default() }).unwrap();
        }
        2 => fs.allocate(&who, node, Allocate::Punch, at, 3 * RECORD).unwrap(),
        3 => fs.write(&who, node, at, &vec![0; 2 * RECORD as usize]).unwrap(),
        4 if files.len() > 1 => {
            let from = files[random.below(files.len() as u64) as usize].1;
            if from != node {
                fs.copy_range(&who, from, 0, node, at, 6 * RECORD).unwrap();
            }
        }
        5 => fs.write(&who, node, at + 17, &random.below(1 << 40).to_le_bytes()).unwrap(),
        _ => {
            let many: Vec<u8> = (0..1 + random.below(5)).flat_map(|_| contents(random.below(9))).collect();
            fs.write(&who, node, at, &many).unwrap();
        }
    }
}

/// A few distinct contents are written, truncated, cloned and removed in random order in datasets
/// that share a table. The pool stays consistent after every round, and once all files are gone,
/// the tables are gone too.
fn many_uses(features_away: &[&str], kinds: &[(&str, &[(&str, &str)])], seed: u64) {
    let mut rig = Rig::with_features(|name| !features_away.contains(&name));
    let mut random = Chance::new(seed);
    let mut mounted: Vec<(String, Arc<FileSystem>)> = Vec::new();
    for (name, properties) in kinds {
        mounted.push(((*name).to_owned(), rig.make(name, properties)));
    }
    let mut best = 0;
    for round in 0..3 {
        for _ in 0..40 {
            for _ in 0..5 {
                let (_, fs) = &mounted[random.below(mounted.len() as u64) as usize];
                change(&mut random, fs);
            }
            rig.live().writer().sync().unwrap();
        }
        best = best.max(rig.live().writer().pool().unwrap().stats().unwrap().dedup_ratio);
        let names: Vec<_> = mounted.iter().map(|(name, _)| format!("{name}@{round}")).collect();
        dataset::write::snapshot(rig.live(), &names, &[]).unwrap();
        let dumps: Vec<_> = mounted.drain(..).map(|(name, fs)| (name, dump(&*fs))).collect();
        rig.export();
        rig.judge();
        for (name, expected) in &dumps {
            assert!(dump(&*rig.read(name)) == *expected, "{name}");
        }
        rig.open();
        mounted = dumps.into_iter().map(|(name, _)| (name.clone(), rig.mount(&name))).collect();
    }
    assert!(best > 150, "nothing was deduplicated: {best} %");
    mounted.clear();
    rig.live().close_all().unwrap();
    for (name, _) in kinds {
        let snapshots: Vec<_> = [1, 0, 2].iter().map(|round| format!("{name}@{round}")).collect();
        dataset::write::destroy_snapshots(rig.live(), &snapshots, false).unwrap();
        dataset::write::destroy(rig.live(), name).unwrap();
    }
    for _ in 0..6 {
        rig.live().writer().sync().unwrap();
    }
    rig.export();
    rig.judge();
    let names = rig.found().directory().entries().unwrap();
    let left: Vec<_> = names.iter().filter(|e| e.name.starts_with(b"DDT-")).map(|e| e.name.clone()).collect();
    assert_eq!(left, [b"DDT-statistics".to_vec()]);
    assert_eq!(rig.found().features().count("com.klarasystems:fast_dedup").unwrap_or(0), 0);
}

#[test]
fn equal_contents_are_stored_once_until_their_last_use_is_freed() {
    let kinds: [(&str, &[(&str, &str)]); 3] = [
        ("tank/a", &[("recordsize", "8K"), ("dedup", "on")]),
        ("tank/b", &[("recordsize", "8K"), ("dedup", "verify"), ("copies", "2")]),
        ("tank/c", &[("recordsize", "8K"), ("dedup", "blake3"), ("compression", "off")]),
    ];
    many_uses(&[], &kinds, 0x5eed);
}

#[test]
fn tables_of_before_fast_dedup_are_written_too() {
    let kinds: [(&str, &[(&str, &str)]); 3] = [
        ("tank/a", &[("recordsize", "8K"), ("dedup", "on")]),
        ("tank/b", &[("recordsize", "8K"), ("dedup", "sha256"), ("copies", "2")]),
        ("tank/c", &[("recordsize", "8K"), ("dedup", "edonr,verify"), ("compression", "zstd")]),
    ];
    many_uses(&["fast_dedup"], &kinds, 0xfeed);
}

#[test]
fn tables_that_take_more_than_their_quota_get_no_new_entries() {
    let mut rig = Rig::new();
    let fs = rig.make("tank/a", &[("recordsize", "8K"), ("dedup", "on"), ("compression", "off")]);
    let who = root();
    let write = |name: &str, kind| {
        let node = fs.create(&who, fs.root(), name.as_bytes(), &NewNode::Regular, 0o644, 0).unwrap().node;
        fs.write(&who, node, 0, &contents(kind)).unwrap();
        rig.live().writer().sync().unwrap();
        let object = rig.live().open("tank/a", Some(files::zpl::owners_of)).unwrap().objset().object(node.0).unwrap();
        object.block_pointer(0, 0).unwrap()
    };
    let first = write("first", 1);
    rig.live()
        .writer()
        .task(|cx| cx.set_pool_property("dedup_table_quota", &pool::property::SetValue::Number(512)))
        .unwrap();
    let (known, new, new_again) = (write("known", 1), write("new", 2), write("new again", 2));
    assert!(first.is_dedup() && known.is_dedup() && known.dva(0) == first.dva(0));
    assert!(!new.is_dedup() && !new_again.is_dedup() && new.dva(0) != new_again.dva(0));
    drop(fs);
    rig.export();
    rig.judge();
}
