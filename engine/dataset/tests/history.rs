//! Requests in the history of a pool, as `zpool history -i` prints them.

use crate::common::{self, Rig};
use dataset::write;
use ondisk::history::keys;

#[test]
fn requests_are_in_the_history_beside_what_they_changed() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    write::snapshot(&rig.live, &["tank@s".into(), "tank/a@s".into()], &[]).unwrap();
    write::hold(&rig.live, &["tank@s".into()], "keep").unwrap();
    write::release(&rig.live, &["tank@s".into()], "keep").unwrap();
    write::bookmark(&rig.live, &[("tank@s".into(), "tank#b".into())]).unwrap();
    write::clone(&rig.live, "tank@s", "tank/c", &common::owned(&[("quota", "1G")])).unwrap();
    write::rollback(&rig.live, "tank/a@s").unwrap();
    write::destroy_snapshots(&rig.live, &["tank/a@s".into()], true).unwrap();
    let history = rig.found().history().unwrap();
    let requests: Vec<_> = history.iter().filter(|record| record.contains(keys::IOCTL)).collect();
    let names: Vec<_> =
        requests.iter().filter_map(|r| r.get_string(keys::IOCTL)).map(String::from_utf8_lossy).collect();
    assert_eq!(names, ["snapshot", "hold", "release", "bookmark", "clone", "rollback", "destroy_snaps"]);
    let input = |at: usize| requests[at].get_nvlist(keys::INPUT).unwrap();
    let snaps = input(0).get_nvlist("snaps").unwrap();
    assert!(snaps.contains("tank@s") && snaps.contains("tank/a@s"));
    assert_eq!(input(1).get_nvlist("holds").unwrap().get_string("tank@s"), Some(&b"keep"[..]));
    assert!(input(2).get_nvlist("tank@s").unwrap().contains("keep"));
    assert_eq!(input(4).get_nvlist("props").unwrap().get_u64("quota"), Some(1 << 30));
    assert!(input(6).contains("defer"));
}
