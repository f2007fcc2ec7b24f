//! Pools of versions before feature flags, and their upgrade, checked by `verify` and by OpenZFS's
//! `zdb` if it is installed.

use crate::common::{Rig, dump, root};
use files::vfs::{NewNode, SetXattr, SyncKind, Vfs};
use files::zpl::FileSystem;
use pool::writer::default_features;
use std::sync::Arc;

fn fill(fs: &Arc<FileSystem>, name: &str) {
    let dir = fs.create(&root(), fs.root(), name.as_bytes(), &NewNode::Directory, 0o755, 0).unwrap().node;
    for i in 0..20u8 {
        let node = fs.create(&root(), dir, &[b'f', b'a' + i], &NewNode::Regular, 0o644, 0).unwrap().node;
        fs.write(&root(), node, 0, &vec![i + 1; 30_000 * usize::from(i)]).unwrap();
        fs.set_xattr(&root(), node, b"user.a", &[i; 9], SetXattr::Either).unwrap();
    }
}

#[test]
fn a_numbered_pool_is_written_and_upgraded_to_feature_flags() {
    let mut rig = Rig::numbered(28);
    let (new, old) = (rig.make("tank/new", &[]), rig.make("tank/old", &[("version", "2")]));
    fill(&new, "a");
    fill(&old, "a");
    rig.live().writer().sync().unwrap();
    dataset::write::snapshot(rig.live(), &["tank/new@one".to_owned()], &[]).unwrap();
    drop((new, old));
    rig.export();
    rig.judge();
    assert_eq!(rig.found().version(), 28);

    rig.open();
    let fs = rig.mount("tank/new");
    let before = dump(&*fs);
    let writer = rig.live().writer().clone();
    writer.task(|cx| dataset::write::upgrade_pool(cx, 5000)).unwrap();
    assert!(writer.task(|cx| dataset::write::upgrade_pool(cx, 28)).is_err());
    writer.task(|cx| default_features().try_for_each(|name| dataset::write::enable_feature(cx, name))).unwrap();
    assert_eq!(dump(&*fs), before);
    fill(&fs, "b");
    let after = dump(&*fs);
    drop((fs, writer));
    rig.export();
    rig.judge();
    assert_eq!(rig.found().version(), 5000);
    assert_eq!(dump(&*rig.read("tank/new")), after);
}

#[test]
fn enabling_a_feature_upgrades_a_numbered_pool() {
    let mut rig = Rig::numbered(28);
    assert!(rig.live().writer().task(|cx| dataset::write::enable_feature(cx, "no such feature")).is_err());
    assert_eq!(rig.live().writer().task(|cx| Ok(cx.version())).unwrap(), 28);
    rig.live().writer().task(|cx| dataset::write::enable_feature(cx, "lz4_compress")).unwrap();
    rig.export();
    rig.judge();
    assert_eq!(rig.found().version(), 5000);
}

/// Changes what snapshots and clones need: blocks die, snapshots go, clones take over. Leaves
/// `tank/clone`, and its snapshots `first` and `third`, of which it is a part.
fn snapshots_and_clones(rig: &Rig) {
    let (live, name) = (rig.live(), |s: &str| vec![s.to_owned()]);
    let write = |fs: &str, from: u8| {
        let mounted = rig.mount(fs);
        let dir = mounted.lookup(mounted.root(), b"a").unwrap().node;
        for i in (from..20).step_by(3) {
            let node = mounted.lookup(dir, &[b'f', b'a' + i]).unwrap().node;
            mounted.write(&root(), node, 0, &vec![i + from; 20_000 * usize::from(i)]).unwrap();
            mounted.sync_node(node, SyncKind::All).unwrap();
        }
        drop(mounted);
        live.close_all().unwrap();
    };
    drop(rig.make("tank/fs", &[]));
    fill(&rig.mount("tank/fs"), "a");
    live.close_all().unwrap();
    dataset::write::snapshot(live, &name("tank/fs@first"), &[]).unwrap();
    write("tank/fs", 0);
    dataset::write::snapshot(live, &name("tank/fs@second"), &[]).unwrap();
    write("tank/fs", 1);
    dataset::write::snapshot(live, &name("tank/fs@third"), &[]).unwrap();
    write("tank/fs", 2);
    // Blocks of `third` die once more, and come back.
    dataset::write::rollback(live, "tank/fs@third").unwrap();
    dataset::write::clone(live, "tank/fs@third", "tank/clone", &[]).unwrap();
    write("tank/clone", 0);
    write("tank/fs", 2);
    dataset::write::destroy_snapshots(live, &name("tank/fs@second"), false).unwrap();
    dataset::write::promote(live, "tank/clone").unwrap();
    dataset::write::destroy(live, "tank/fs").unwrap();
}

fn dumps(rig: &Rig, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| dump(&*rig.read(name))).collect()
}

/// A pool of `version`: written, upgraded, written again.
fn through_its_life(version: u64) {
    let mut rig = Rig::numbered(version);
    snapshots_and_clones(&rig);
    rig.export();
    rig.judge();
    assert_eq!(rig.found().version(), version);
    let names = ["tank/clone@first", "tank/clone@third", "tank/clone"];
    let before = dumps(&rig, &names);

    rig.open();
    let live = rig.live().clone();
    live.writer().task(|cx| dataset::write::upgrade_pool(cx, 28)).unwrap();
    live.writer().task(|cx| default_features().try_for_each(|name| dataset::write::enable_feature(cx, name))).unwrap();
    let own = |s: &str| vec![s.to_owned()];
    dataset::write::clone(&live, "tank/clone@first", "tank/late", &[]).unwrap();
    fill(&rig.mount("tank/clone"), "b");
    live.close_all().unwrap();
    dataset::write::snapshot(&live, &own("tank/clone@fourth"), &[]).unwrap();
    let mounted = rig.mount("tank/clone");
    mounted.unlink(&root(), mounted.lookup(mounted.root(), b"b").unwrap().node, b"ff").unwrap();
    drop(mounted);
    drop(live);
    rig.export();
    rig.judge();
    assert_eq!(dumps(&rig, &names[..2]), before[..2], "version {version}");

    rig.open();
    dataset::write::destroy_snapshots(rig.live(), &own("tank/clone@third"), false).unwrap();
    dataset::write::promote(rig.live(), "tank/late").unwrap();
    dataset::write::destroy_snapshots(rig.live(), &own("tank/clone@fourth"), false).unwrap();
    rig.export();
    rig.judge();
    assert_eq!(dumps(&rig, &["tank/late@first"]), before[..1], "version {version}");
}

#[test]
fn pools_without_ditto_blocks_have_a_whole_life() {
    through_its_life(1);
    through_its_life(2);
}

#[test]
fn pools_without_an_origin_have_a_whole_life() {
    through_its_life(3);
    through_its_life(8);
    through_its_life(10);
}

#[test]
fn pools_without_accounting_by_user_have_a_whole_life() {
    through_its_life(11);
    through_its_life(14);
}

#[test]
fn pools_with_deadlists_without_keys_have_a_whole_life() {
    through_its_life(15);
    through_its_life(22);
    through_its_life(25);
}

#[test]
fn pools_with_snapshots_that_must_not_have_a_log_have_a_whole_life() {
    through_its_life(26);
    through_its_life(27);
}

#[test]
fn an_old_pool_refuses_what_a_newer_version_is_needed_for() {
    let rig = Rig::numbered(1);
    let set = |name: &str, value: &str| {
        dataset::write::set(rig.live(), "tank", &[(name.to_owned(), value.to_owned())]).map_err(|e| e.to_string())
    };
    let newer =
        [("copies", "2"), ("compression", "gzip"), ("compression", "zle"), ("refquota", "10M"), ("dedup", "on")];
    for (name, value) in newer {
        assert!(set(name, value).unwrap_err().contains("pool must be upgraded"), "{name}={value}");
    }
    set("compression", "lzjb").unwrap();
    let snapshot = ["tank@s".to_owned()];
    assert!(dataset::write::snapshot(rig.live(), &snapshot, &[("user:a".to_owned(), "b".to_owned())]).is_err());
    dataset::write::snapshot(rig.live(), &snapshot, &[]).unwrap();
    assert!(dataset::write::hold(rig.live(), &snapshot, "tag").is_err());
    rig.live().writer().task(|cx| dataset::write::upgrade_pool(cx, 22)).unwrap();
    set("copies", "2").unwrap();
    set("refquota", "10M").unwrap();
    dataset::write::hold(rig.live(), &snapshot, "tag").unwrap();
}
