//! Resolves paths in a [`Vfs`], for commands that read files of a pool.
//!
//! Below: `files::vfs`. Above: `commands::{ls, stat, cat, cp}`.
//!
//! Invariant: a path never leaves the tree in which it starts: `..` at the root is the root, and an
//! absolute symbolic link starts at the root of the given dataset.

use anyhow::{Context, Result, bail};
use files::vfs::{Attr, DirEntry, FileKind, NodeId, Vfs};

/// Limit for the symbolic links in one path, as in Linux.
const LINKS_MAX: u32 = 40;
/// Limit for a path with its links expanded: `PATH_MAX` of Linux.
const PATH_BYTES_MAX: usize = 4096;

/// Finds the object at `path`. `follow`: follow the last component if it is a symbolic link; the
/// others are always followed.
pub fn resolve(vfs: &dyn Vfs, path: &[u8], follow: bool) -> Result<Attr> {
    let shown = || String::from_utf8_lossy(path).into_owned();
    let root = vfs.root();
    let mut at = vfs.attr(root).with_context(shown)?;
    // The remaining components, last one first.
    let mut rest: Vec<Vec<u8>> = Vec::new();
    push_components(&mut rest, path);
    // Directories above `at`: `..` of a file system's root is the root itself, so it cannot be
    // looked up.
    let mut above: Vec<Attr> = Vec::new();
    let mut links = 0;
    let must_be_directory = path.ends_with(b"/");
    while let Some(name) = rest.pop() {
        if at.kind != FileKind::Directory {
            bail!("{}: not a directory", shown());
        }
        if name == b".." {
            at = above.pop().unwrap_or(at);
            continue;
        }
        let found = vfs.lookup(at.node, &name).with_context(shown)?;
        if found.kind == FileKind::Symlink && (follow || !rest.is_empty() || must_be_directory) {
            links += 1;
            let target = vfs.read_link(found.node).with_context(shown)?;
            let rest_bytes: usize = rest.iter().map(|c| c.len() + 1).sum();
            if links > LINKS_MAX || target.len() + rest_bytes > PATH_BYTES_MAX {
                bail!("{}: too many levels of symbolic links", shown());
            }
            if target.starts_with(b"/") {
                at = vfs.attr(root).with_context(shown)?;
                above.clear();
            }
            push_components(&mut rest, &target);
        } else {
            above.push(std::mem::replace(&mut at, found));
        }
    }
    if must_be_directory && at.kind != FileKind::Directory && at.node != root {
        bail!("{}: not a directory", shown());
    }
    Ok(at)
}

fn push_components(rest: &mut Vec<Vec<u8>>, path: &[u8]) {
    let components = path.split(|&b| b == b'/').filter(|c| !c.is_empty() && *c != b".");
    rest.extend(components.rev().map(<[u8]>::to_vec));
}

/// The entries of a directory without `.` and `..`, by name.
///
/// An invalid name (empty, with a slash or a zero byte) is damage, or an attack on a program that
/// copies it: it is passed to `bad` instead.
pub fn entries(vfs: &dyn Vfs, dir: NodeId, bad: &mut dyn FnMut(&[u8])) -> errors::Result<Vec<DirEntry>> {
    let mut list = Vec::new();
    vfs.read_dir(dir, 0, &mut |entry| {
        if entry.name.is_empty() || entry.name.iter().any(|b| matches!(b, b'/' | 0)) {
            bad(&entry.name);
        } else if entry.name != b"." && entry.name != b".." {
            list.push(entry);
        }
        true
    })?;
    list.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(list)
}

/// A name for a terminal: control characters and invalid UTF-8 in octal, as in `ls -b`. For a file
/// or a pipe it is unchanged.
pub fn shown(name: &[u8], terminal: bool) -> Vec<u8> {
    if !terminal {
        return name.to_vec();
    }
    let mut out = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                c.to_string().bytes().for_each(|b| out.extend(format!("\\{b:03o}").bytes()));
            } else {
                out.extend(c.to_string().bytes());
            }
        }
        chunk.invalid().iter().for_each(|b| out.extend(format!("\\{b:03o}").bytes()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;

    fn tree() -> MemoryVfs {
        let mut t = MemoryVfs::new();
        let root = t.root();
        let a = t.add_dir(root, "a");
        let b = t.add_dir(a, "b");
        t.add_file(b, "file", "x");
        t.add_symlink(root, "to-b", "a/./b//");
        t.add_symlink(b, "up", "../../a");
        t.add_symlink(b, "absolute", "/a/b/file");
        t.add_symlink(root, "loop", "loop");
        t.add_symlink(root, "to-file", "a/b/file");
        t
    }

    fn kind(path: &str, follow: bool) -> Result<FileKind> {
        resolve(&tree(), path.as_bytes(), follow).map(|a| a.kind)
    }

    #[test]
    fn links_are_followed_inside_the_tree() {
        for path in ["/a/b/file", "a/b/file", "to-b/file", "/to-b/up/b/absolute", "../../a/../a/b/file", "to-file"] {
            assert_eq!(kind(path, true).expect(path), FileKind::Regular, "{path}");
        }
        for path in ["", "/", "..", "/a/b/..", "to-b/"] {
            assert_eq!(kind(path, false).expect(path), FileKind::Directory, "{path}");
        }
        assert_eq!(kind("to-b", false).expect("link"), FileKind::Symlink);
    }

    #[test]
    fn an_unreachable_path_is_an_error() {
        for (path, says) in [
            ("loop", "too many levels"),
            ("a/none", "does not exist"),
            ("a/b/file/x", "not a directory"),
            ("a/b/file/", "not a directory"),
        ] {
            let error = kind(path, true).expect_err(path);
            assert!(format!("{error:#}").contains(says), "{path}: {error:#}");
        }
    }

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(shown(b"a\x1b[2J\xff\xc3\xa4", true), "a\\033[2J\\377ä".as_bytes());
        assert_eq!(shown(b"a\x1b", false), b"a\x1b");
    }
}
