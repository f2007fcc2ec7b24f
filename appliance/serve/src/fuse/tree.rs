//! A dataset and its descendants, mounted.
//!
//! As root, each dataset is a separate mount at its place inside its parent's, like with the kernel
//! module: `find -xdev` and `df` see separate file systems. Other users cannot mount over a FUSE
//! file system (fusermount3 refuses), so they get one mount that shows all datasets. A child whose
//! place is not a directory in its parent is also shown that way.
//!
//! Unmounting runs in the reverse order. Use `umount -R`, or unmount one by one: Linux does not
//! unmount a file system that has mounts in it.

use super::mount::{MountHandle, Unmounter, mount};
use super::options::MountOptions;
use files::namespace::{Child, Namespace, Provider};
use files::vfs::{FileKind, Vfs};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Number of threads that serve a child's mount. Few: there may be hundreds of children, and the
/// root's mount has its own.
const CHILD_THREADS: usize = 2;

/// On machines with more cores than this, children do not use io_uring even if it is requested,
/// because it needs threads for each core.
const CHILD_CORES_MAX: usize = 4;

/// Mounts that belong together, parents first.
#[derive(Debug)]
pub struct MountedTree {
    mounts: Vec<MountHandle>,
}

/// Unmounts a [`MountedTree`] from any thread.
#[derive(Debug, Clone)]
pub struct TreeUnmounter(Vec<Unmounter>);

/// Mounts the dataset of `provider` at `dir`, and its descendants if `children` is set: each as a
/// separate mount if `separate` (which requires root), otherwise all in one.
///
/// A child that cannot be opened or mounted, for example because its key is not loaded, is skipped
/// with a warning, as the kernel module does. Fails with `InvalidInput` if `provider` is a volume.
pub fn mount_tree(
    provider: Arc<dyn Provider>,
    dir: &Path,
    options: &MountOptions,
    children: bool,
    separate: bool,
) -> io::Result<MountedTree> {
    let mut tree = MountedTree { mounts: Vec::new() };
    match tree.mount(provider, dir, options, children, separate) {
        Ok(()) => Ok(tree),
        Err(e) => {
            if let Err(error) = tree.unmounter().unmount_now() {
                tracing::warn!(%error, "cannot undo the mounts");
            }
            Err(e)
        }
    }
}

impl MountedTree {
    fn mount(
        &mut self,
        provider: Arc<dyn Provider>,
        dir: &Path,
        options: &MountOptions,
        children: bool,
        separate: bool,
    ) -> io::Result<()> {
        let other = |e: errors::Error| io::Error::other(e.to_string());
        let root = provider.root().map_err(other)?;
        if root.attr(root.root()).map_err(other)?.kind != FileKind::Directory {
            let what =
                format!("{} is a volume, not a file system: mount its parent and see .zfs/volume", provider.name());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let all = if children { provider.children().map_err(other)? } else { Vec::new() };
        let (apart, within): (Vec<Child>, Vec<Child>) =
            all.into_iter().partition(|c| separate && has_directory(&*root, &c.place));
        let within: HashSet<String> = within.into_iter().map(|c| c.key).collect();
        let namespace = Namespace::with_children(provider.clone(), move |c| within.contains(&c.key)).map_err(other)?;
        let mut here = options.clone();
        here.name = provider.name();
        self.mounts.push(mount(Arc::new(namespace), dir, &here)?);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // `dir` now shows the new mount, so the child's place is inside it.
        for child in apart {
            let place = dir.join(OsStr::from_bytes(&child.place));
            let mut options = options.clone();
            options.threads.get_or_insert(CHILD_THREADS);
            options.uring &= cores <= CHILD_CORES_MAX;
            let mounted = provider
                .open_child(&child.key)
                .map_err(other)
                .and_then(|p| self.mount(p, &place, &options, children, separate));
            if let Err(error) = mounted {
                tracing::warn!(dataset = %child.key, place = %place.display(), %error, "not mounted");
            }
        }
        Ok(())
    }

    /// Mount points, parents first.
    pub fn places(&self) -> impl Iterator<Item = &Path> {
        self.mounts.iter().map(MountHandle::dir)
    }

    /// For unmounting from another thread.
    pub fn unmounter(&self) -> TreeUnmounter {
        TreeUnmounter(self.mounts.iter().map(MountHandle::unmounter).collect())
    }

    /// Waits until all of them are unmounted.
    pub fn wait(self) -> io::Result<()> {
        let mut result = Ok(());
        for handle in self.mounts {
            result = result.and(handle.wait());
        }
        result
    }
}

impl TreeUnmounter {
    /// As [`Unmounter::drop_pages`], for all mounts.
    pub fn drop_pages(&self) {
        self.0.iter().for_each(Unmounter::drop_pages);
    }

    /// Unmounts all, children first. Stops at the first that is in use.
    pub fn unmount(&self) -> io::Result<()> {
        self.0.iter().rev().try_for_each(Unmounter::unmount)
    }

    /// Unmounts all, children first, even if they are in use.
    pub fn unmount_now(&self) -> io::Result<()> {
        let mut result = Ok(());
        for mount in self.0.iter().rev() {
            result = result.and(mount.unmount_now());
        }
        result
    }
}

/// Whether `place` is a directory of `vfs` with no symbolic link on the way: a link could redirect
/// the mount elsewhere.
fn has_directory(vfs: &dyn Vfs, place: &[u8]) -> bool {
    let mut at = vfs.root();
    for name in place.split(|&b| b == b'/').filter(|c| !c.is_empty()) {
        match vfs.lookup(at, name) {
            Ok(attr) if attr.kind == FileKind::Directory && name != b"." && name != b".." => at = attr.node,
            _ => return false,
        }
    }
    at != vfs.root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;
    use files::namespace::{Control, NumberedName};
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    /// `tank` with `tank/home`, and `tank/odd` whose place does not exist.
    struct Dataset(&'static str);

    impl Provider for Dataset {
        fn name(&self) -> String {
            self.0.to_owned()
        }
        fn root(&self) -> errors::Result<Arc<dyn Vfs>> {
            let mut t = MemoryVfs::new();
            let root = t.root();
            t.add_dir(root, "home");
            t.add_file(root, "which", self.0);
            Ok(Arc::new(t))
        }
        fn control(&self) -> Control {
            Control::Hidden
        }
        fn children(&self) -> errors::Result<Vec<Child>> {
            if self.0 != "tank" {
                return Ok(Vec::new());
            }
            let child = |n: &str| Child { place: n.as_bytes().to_vec(), key: n.to_owned() };
            Ok(vec![child("home"), child("odd"), child("locked")])
        }
        fn snapshots(&self) -> errors::Result<Vec<NumberedName>> {
            Ok(vec![NumberedName { name: "s1".to_owned(), number: 1 }])
        }
        fn volumes(&self) -> errors::Result<Vec<NumberedName>> {
            Ok(Vec::new())
        }
        fn open_child(&self, key: &str) -> errors::Result<Arc<dyn Provider>> {
            match key {
                "home" => Ok(Arc::new(Dataset("tank/home"))),
                "odd" => Ok(Arc::new(Dataset("tank/odd"))),
                _ => Err(errors::Error::KeyUnavailable { place: key.to_owned() }),
            }
        }
        fn open_snapshot(&self, _name: &str) -> errors::Result<Arc<dyn Vfs>> {
            Dataset("tank@s1").root()
        }
        fn open_volume(&self, name: &str) -> errors::Result<Arc<dyn Vfs>> {
            Err(errors::Error::not_found("tank", name))
        }
    }

    fn check(separate: bool) {
        let dir = std::env::temp_dir().join(format!("weir-tree-{separate}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder to mount at");
        let tree = match mount_tree(Arc::new(Dataset("tank")), &dir, &MountOptions::default(), true, separate) {
            Ok(tree) => tree,
            Err(e) => {
                println!("skipped: no FUSE here ({e})");
                return fs::remove_dir(&dir).expect("still empty");
            }
        };
        let read = |path: &str| fs::read_to_string(dir.join(path)).map_err(|e| e.raw_os_error());
        let found = [
            read("which"),
            read("home/which"),
            read("odd/which"),
            read(".zfs/snapshot/s1/which"),
            read("locked/which"),
        ];
        let device = |path: &str| fs::metadata(dir.join(path)).map(|m| m.dev()).expect("stat");
        let apart = device("") != device("home");
        let inode = fs::metadata(dir.join("home")).expect("stat").ino();
        let snapshots: Vec<_> =
            fs::read_dir(dir.join(".zfs/snapshot")).expect("list").map(|e| e.expect("entry").file_name()).collect();
        tree.unmounter().unmount_now().expect("unmount");
        tree.wait().expect("ends well");
        fs::remove_dir(&dir).expect("nothing is left mounted");
        let expected = ["tank", "tank/home", "tank/odd", "tank@s1"].map(|s| Ok(s.to_owned()));
        assert_eq!(found[..4], expected);
        assert_eq!(found[4], Err(Some(libc::EACCES)), "the key is not loaded");
        assert_eq!(apart, separate);
        assert_eq!(inode & 0xffff, 34);
        assert_eq!(snapshots, ["s1"]);
    }

    #[test]
    fn children_are_shown_in_one_mount() {
        check(false);
    }

    #[test]
    fn children_are_mounted_apart_by_root() {
        if rustix::process::geteuid().is_root() {
            check(true);
        } else {
            println!("skipped: only root mounts inside a FUSE mount");
        }
    }
}
