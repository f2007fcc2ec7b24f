//! Pools of the last version before feature flags, and their upgrade, checked by `verify` and by
//! OpenZFS's `zdb` if it is installed.

use crate::common::{Rig, dump, root};
use files::vfs::{NewNode, SetXattr, Vfs};
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
    let mut rig = Rig::numbered();
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
    writer.task(|cx| cx.upgrade_version(5000)).unwrap();
    assert!(writer.task(|cx| cx.upgrade_version(28)).is_err());
    writer.task(|cx| default_features().try_for_each(|name| cx.enable_feature_property(name))).unwrap();
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
    let mut rig = Rig::numbered();
    assert!(rig.live().writer().task(|cx| cx.enable_feature_property("no such feature")).is_err());
    assert_eq!(rig.live().writer().task(|cx| Ok(cx.version())).unwrap(), 28);
    rig.live().writer().task(|cx| cx.enable_feature_property("lz4_compress")).unwrap();
    rig.export();
    rig.judge();
    assert_eq!(rig.found().version(), 5000);
}
