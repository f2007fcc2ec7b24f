//! Files whose indirect blocks are damaged: whatever is requested of them, only they are affected,
//! and the next txg can be written.

use crate::support::Fixture;
use files::vfs::{Allocate, Caller, NewNode, NodeId, SetAttr, Vfs};
use files::zpl::CreateOptions;
use files::zpl::backing::Settings;
use host::device::Device;
use rig::noise;

const RECORD: usize = 128 << 10;
/// Start of a device's blocks.
const DATA_START: u64 = 4 << 20;

fn root() -> Caller {
    Caller { privileged: true, ..Caller::default() }
}

fn write(f: &Fixture, node: NodeId, offset: usize, data: &[u8]) -> errors::Result<()> {
    f.fs.write(&root(), node, offset as u64, data)
}

/// A file system with these files of four records each.
fn fixture(names: &[&str]) -> (Fixture, Vec<NodeId>) {
    let f = Fixture::new(Settings::default(), &CreateOptions::default());
    let top = f.fs.root();
    let files = names.iter().map(|name| {
        let node = f.fs.create(&root(), top, name.as_bytes(), &NewNode::Regular, 0o644, 0).unwrap().node;
        (0..4).for_each(|n| write(&f, node, n * RECORD, &noise(n as u64 + 1, RECORD)).unwrap());
        node
    });
    let files = files.collect();
    f.sync();
    (f, files)
}

/// Overwrites all copies of the file's indirect block, and opens the file system again.
fn damage(f: &Fixture, node: NodeId) -> Fixture {
    let bp = f.objset.object(node.0).unwrap().block_pointer(1, 0).unwrap();
    assert!(!bp.is_hole() && bp.level() == 1);
    for dva in bp.dvas() {
        let bytes = noise(77, bp.psize_bytes() as usize);
        f.backing.disk.write_at(DATA_START + dva.offset_bytes, &bytes).unwrap();
    }
    f.reopened_cold()
}

#[test]
fn a_damaged_file_can_be_removed_and_its_space_stays_in_use() {
    let (f, files) = fixture(&["damaged", "whole"]);
    let (f, top) = (damage(&f, files[0]), f.fs.root());
    assert!(f.fs.read(files[0], 0, 10).is_err());
    for name in ["damaged", "whole"] {
        f.fs.unlink(&root(), top, name.as_bytes()).unwrap();
    }
    f.sync();
    assert!(f.fs.lookup(top, b"damaged").is_err());
    // It waits for a time when its blocks can be found; the other one is gone.
    let f = f.reopened_cold();
    f.fs.drain_unlinked().unwrap();
    f.sync();
    assert_eq!(f.fs.unlinked().unwrap(), [files[0].0]);
    assert!(f.objset.object(files[1].0).is_err());
}

#[test]
fn changes_of_a_damaged_file_fail_and_leave_the_file_as_it_was() {
    let (f, files) = fixture(&["damaged"]);
    let (f, node) = (damage(&f, files[0]), files[0]);
    let before = f.fs.attr(node).unwrap();
    // A whole record, which needs none of the old contents, and a part of one.
    assert!(write(&f, node, RECORD, &noise(9, RECORD)).is_err());
    assert!(write(&f, node, 5, b"five").is_err());
    assert!(f.fs.set_attr(&root(), node, &SetAttr { size: Some(0), ..SetAttr::default() }).is_err());
    assert!(f.fs.allocate(&root(), node, Allocate::Punch, 0, 2 * RECORD as u64).is_err());
    f.sync();
    assert_eq!(f.fs.attr(node).unwrap().size, before.size);
    let top = f.fs.root();
    let other = f.fs.create(&root(), top, b"other", &NewNode::Regular, 0o644, 0).unwrap().node;
    write(&f, other, 0, b"works").unwrap();
    f.sync();
    assert_eq!(&f.reopened_cold().fs.read(other, 0, 9).unwrap()[..], b"works");
}
