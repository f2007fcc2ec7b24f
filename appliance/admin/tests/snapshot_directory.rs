//! Snapshots through `.zfs/snapshot` of a real pool: they equal those of `zfs snapshot`.

use admin::create::{CreateRequest, create};
use admin::layout::Layout;
use admin::write::maker;
use dataset::write::{self, NewDataset};
use errors::{Refusal, Result};
use files::namespace::Namespace;
use files::vfs::{Caller, NewNode, NodeId, RenameFlags, Vfs};

fn walk(ns: &Namespace, path: &str) -> NodeId {
    let step = |at: NodeId, name: &str| ns.lookup(at, name.as_bytes()).unwrap_or_else(|e| panic!("{path}: {e}")).node;
    path.split('/').fold(ns.root(), step)
}

fn why<T>(result: Result<T>) -> Option<Refusal> {
    result.err().expect("refused").refusal()
}

#[test]
fn a_directory_made_in_zfs_snapshot_is_a_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    std::fs::File::create(&disk).and_then(|f| f.set_len(256 << 20)).expect("an image file");
    let layout = Layout::parse(&[disk.display().to_string()]).expect("a layout");
    let features = pool::writer::default_features().map(str::to_owned).collect();
    let pool = create(&CreateRequest { name: "tank".to_owned(), layout, features, ..CreateRequest::default() })
        .expect("a pool");
    let new = NewDataset { name: "tank/home".to_owned(), ..NewDataset::default() };
    write::create(&pool.live, &new, maker()).expect("made");
    let home = pool.live.synced().expect("datasets").dataset("tank/home").expect("there");
    let ns = Namespace::new(pool.provider(home, &[])).expect("opens");
    let root = Caller { privileged: true, ..Caller::default() };
    let file = ns.create(&root, ns.root(), b"file", &NewNode::Regular, 0o644, 0).expect("made").node;
    ns.write(&root, file, 0, b"before").expect("written");

    let dir = walk(&ns, ".zfs/snapshot");
    let changed = || ns.attr(dir).expect("there").mtime.seconds;
    assert_eq!(changed(), 0, "before the first snapshot");
    let mkdir = |name: &[u8]| ns.create(&root, dir, name, &NewNode::Directory, 0o755, 0);
    mkdir(b"s1").expect("taken");
    let home = pool.live.synced().expect("datasets").dataset("tank/home").expect("there");
    let recorded = home.snapshots_changed().expect("read").expect("recorded").0;
    assert!(recorded != 0 && changed().cast_unsigned() == recorded);
    ns.write(&root, file, 0, b"after!").expect("written");
    let old = walk(&ns, ".zfs/snapshot/s1/file");
    assert_eq!(&ns.read(old, 0, 10).expect("read")[..], b"before");
    assert_eq!(&ns.read(file, 0, 10).expect("read")[..], b"after!");
    assert_eq!(why(mkdir(b"s1")), Some(Refusal::Exists));
    assert!(mkdir(b"no\nname").is_err() && mkdir(&[b'x'; 300]).is_err());
    assert_eq!(why(ns.create(&root, walk(&ns, ".zfs"), b"s2", &NewNode::Directory, 0o755, 0)), Some(Refusal::ReadOnly));
    let names = || -> Vec<String> {
        let home = pool.live.synced().expect("datasets").dataset("tank/home").expect("there");
        home.snapshots().expect("listed").iter().map(|s| s.name().to_owned()).collect()
    };
    assert_eq!(names(), ["tank/home@s1"]);

    mkdir(b"s2").expect("taken");
    let rename = |from: &[u8], to: &[u8]| ns.rename(&root, dir, from, dir, to, RenameFlags::default());
    assert_eq!(why(rename(b"s1", b"s2")), Some(Refusal::Exists));
    rename(b"s1", b"first").expect("renamed");
    assert_eq!(names(), ["tank/home@first", "tank/home@s2"]);
    assert_ne!(walk(&ns, ".zfs/snapshot/first/file"), old, "it is found by its new name");
    assert_eq!(&ns.read(old, 0, 10).expect("open files stay open")[..], b"before");

    // What a user of this machine was delegated counts, and not what an NFS client claims.
    let ann = Caller { uid: 54_321, gid: 54_321, is_local: true, ..Caller::default() };
    let claimed = Caller { is_local: false, ..ann.clone() };
    let take = |who: &Caller| ns.create(who, dir, b"hers", &NewNode::Directory, 0o755, 0);
    assert_eq!(why(take(&ann)), Some(Refusal::NotPermitted));
    for key in ["ul$54321", "ud$54321"] {
        let permissions = ["snapshot", "rename", "create", "mount"].map(str::to_owned).to_vec();
        let change = write::Delegation::Allow { key: key.to_owned(), permissions };
        write::delegate(&pool.live, "tank/home", &[change]).expect("delegated");
    }
    assert_eq!(why(take(&claimed)), Some(Refusal::PermissionDenied));
    take(&ann).expect("taken");
    let moved = |who: &Caller| ns.rename(who, dir, b"hers", dir, b"moved", RenameFlags::default());
    assert_eq!(why(moved(&claimed)), Some(Refusal::PermissionDenied));
    moved(&ann).expect("renamed");
    assert_eq!(why(ns.rmdir(&ann, dir, b"moved")), Some(Refusal::NotPermitted));
    assert!(matches!(ns.rmdir(&ann, dir, b"missing"), Err(errors::Error::NotFound { .. })));
    ns.rmdir(&root, dir, b"moved").expect("destroyed");

    let first = ["tank/home@first".to_owned()];
    write::hold(&pool.live, &first, "keep").expect("held");
    assert_eq!(why(ns.rmdir(&root, dir, b"first")), Some(Refusal::Busy));
    write::release(&pool.live, &first, "keep").expect("released");
    write::clone(&pool.live, &first[0], "tank/clone", &[]).expect("cloned");
    assert_eq!(why(ns.rmdir(&root, dir, b"first")), Some(Refusal::Busy));
    write::destroy(&pool.live, "tank/clone").expect("destroyed");
    let open = walk(&ns, ".zfs/snapshot/first/file");
    ns.rmdir(&root, dir, b"first").expect("destroyed");
    assert_eq!(names(), ["tank/home@s2"]);
    assert_eq!(why(ns.attr(open)), Some(Refusal::Stale));
    // The name is gone, and a new snapshot of that name is a different one.
    assert!(ns.lookup(dir, b"first").is_err());
    mkdir(b"first").expect("taken");
    assert_eq!(&ns.read(walk(&ns, ".zfs/snapshot/first/file"), 0, 10).expect("read")[..], b"after!");
    drop(ns);
    pool.close().expect("closed");
}
