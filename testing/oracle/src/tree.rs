//! A tree of files in the format of the recipe that recorded the pools: `find -printf`, `stat`,
//! `sha256sum`, `getfattr`, `getfacl`.

use anyhow::{Context, Result};
use files::vfs::{Attr, FileKind, NodeId, Time, Vfs};
use ondisk::acl::PosixEntry;
use rig::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// Read size for checksums.
const READ_BYTES: usize = 1 << 20;

/// File systems mounted below, by path (`./child`).
pub type Mounts = BTreeMap<Vec<u8>, Arc<dyn Vfs>>;

/// One line per entry, then devices, then checksums, each part sorted.
///
/// Of file systems mounted below, only the root is shown (`-xdev`). Lines:
/// `type|mode|uid|gid|size|mtime|nlink|link target|path`, `device major,minor path`, `sha256
/// path`.
pub fn tree(vfs: &dyn Vfs, mounts: &Mounts) -> Result<Vec<Vec<u8>>> {
    let (mut entries, mut devices, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    walk(vfs, mounts, false, &mut |vfs, path, attr| {
        let target = if attr.kind == FileKind::Symlink { vfs.read_link(attr.node)? } else { Vec::new() };
        let mut line = format!(
            "{}|{:o}|{}|{}|{}|{}|{}|",
            letter(attr.kind),
            attr.mode,
            attr.uid,
            attr.gid,
            attr.size,
            find_time(attr.mtime),
            attr.links
        )
        .into_bytes();
        line.extend_from_slice(&target);
        line.push(b'|');
        line.extend_from_slice(path);
        entries.push((path.to_vec(), line));
        match attr.kind {
            FileKind::CharDevice | FileKind::BlockDevice => {
                let line = format!("device {:x},{:x} ", attr.rdev_major, attr.rdev_minor);
                devices.push([line.as_bytes(), path].concat());
            }
            FileKind::Regular => sums.push([sha256(vfs, attr)?.as_bytes(), b"  ", path].concat()),
            _ => {}
        }
        Ok(())
    })?;
    entries.sort();
    devices.sort();
    sums.sort();
    Ok(entries.into_iter().map(|(_, line)| line).chain(devices).chain(sums).collect())
}

/// `stat -c '%i|%b|%W|%X|%Z|%n'` of every entry: inode, blocks, seconds of birth, access and change
/// time, path; sorted. The block size is not compared, because the kernel reports another value for
/// new files than after they were read from disk.
pub fn stats(vfs: &dyn Vfs) -> Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    walk(vfs, &Mounts::new(), false, &mut |_, path, a| {
        let times = [a.btime, a.atime, a.ctime].map(|t| t.seconds.to_string()).join("|");
        lines.push([format!("{}|{}|{times}|", a.ino, a.blocks_512).as_bytes(), path].concat());
        Ok(())
    })?;
    lines.sort();
    Ok(lines)
}

/// The result of `stat -c %i` in the root for each of `names`: `name|inode`, with nothing after the
/// bar if the name does not exist.
pub fn lookups(vfs: &dyn Vfs, names: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
    let line = |name: &&[u8]| -> Result<Vec<u8>> {
        let found = match vfs.lookup(vfs.root(), name) {
            Ok(attr) => attr.ino.to_string(),
            Err(errors::Error::NotFound { .. }) => String::new(),
            Err(e) => return Err(e.into()),
        };
        Ok([name, &b"|"[..], found.as_bytes()].concat())
    };
    names.iter().map(line).collect()
}

/// Names in the directory `path` of the root, in the order of `ls -U`.
pub fn order(vfs: &dyn Vfs, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let dir = vfs.lookup(vfs.root(), path)?;
    Ok(children(vfs, dir.node)?.into_iter().map(|(name, _)| name).collect())
}

/// The output of `getfattr -d -m - -e hex` and `getfacl -n -s`, one block for each entry that has
/// any, sorted.
pub fn xattrs(vfs: &dyn Vfs, mounts: &Mounts) -> Result<Vec<Vec<u8>>> {
    let mut blocks = Vec::new();
    walk(vfs, mounts, true, &mut |vfs, path, attr| {
        let relative = if path == b"." { path } else { path.strip_prefix(b"./").unwrap_or(path) };
        let mut names = vfs.list_xattr(attr.node)?;
        names.sort();
        let mut block = Vec::new();
        for name in names {
            let value = vfs.get_xattr(attr.node, &name)?.context("a listed attribute has no value")?;
            if block.is_empty() {
                block = [b"# file: ", relative, b"\n"].concat();
            }
            block.extend_from_slice(&name);
            block.extend_from_slice(b"=0x");
            block.extend_from_slice(hex(&value).as_bytes());
            block.push(b'\n');
        }
        if !block.is_empty() {
            blocks.push(block);
        }
        if attr.kind != FileKind::Symlink {
            let list = |name: &[u8]| -> Result<Vec<PosixEntry>> {
                Ok(match vfs.get_xattr(attr.node, name)? {
                    Some(value) => ondisk::acl::parse_posix(&value)?,
                    None => Vec::new(),
                })
            };
            let (access, default) = (list(b"system.posix_acl_access")?, list(b"system.posix_acl_default")?);
            if !access.is_empty() || !default.is_empty() {
                blocks.push(getfacl(path, attr, &access, &default));
            }
        }
        Ok(())
    })?;
    blocks.sort();
    Ok(blocks)
}

fn getfacl(path: &[u8], attr: &Attr, access: &[PosixEntry], default: &[PosixEntry]) -> Vec<u8> {
    let mut text = format!("# owner: {}\n# group: {}\n", attr.uid, attr.gid);
    // The flags are set-user-ID, set-group-ID and sticky, in this order. The line is omitted if
    // none is set.
    if attr.mode & 0o7000 != 0 {
        let flag = |bit, c| if attr.mode & bit != 0 { c } else { '-' };
        let _ = writeln!(text, "# flags: {}{}{}", flag(0o4000, 's'), flag(0o2000, 's'), flag(0o1000, 't'));
    }
    let rwx = |p: u16| {
        [(4, 'r'), (2, 'w'), (1, 'x')].iter().map(|(b, c)| if p & b != 0 { *c } else { '-' }).collect::<String>()
    };
    let from_mode: Vec<_> = [(1, 6), (4, 3), (0x20, 0)]
        .map(|(tag, at)| PosixEntry { tag, permissions: (attr.mode >> at & 7) as u16, id: 0 })
        .into();
    let access = if access.is_empty() { &from_mode } else { access };
    for (prefix, list) in [("", access), ("default:", default)] {
        for e in list {
            let who = match e.tag {
                1 => "user:".to_owned(),
                2 => format!("user:{}", e.id),
                4 => "group:".to_owned(),
                8 => format!("group:{}", e.id),
                0x10 => "mask:".to_owned(),
                _ => "other:".to_owned(),
            };
            let _ = writeln!(text, "{prefix}{who}:{}", rwx(e.permissions));
        }
    }
    [b"# file: ", path, b"\n", text.as_bytes()].concat()
}

type Sink<'a> = &'a mut dyn FnMut(&dyn Vfs, &[u8], &Attr) -> Result<()>;

/// Calls `sink` with every entry and its file system. With `across`, descends into mounted file
/// systems.
fn walk(vfs: &dyn Vfs, mounts: &Mounts, across: bool, sink: Sink<'_>) -> Result<()> {
    let mut waiting = vec![(b".".to_vec(), vfs, vfs.attr(vfs.root())?)];
    while let Some((path, mut vfs, mut attr)) = waiting.pop() {
        let at = || String::from_utf8_lossy(&path).into_owned();
        let mounted = mounts.get(&path);
        if let Some(mounted) = mounted {
            vfs = &**mounted;
            attr = vfs.attr(vfs.root()).with_context(at)?;
        }
        sink(vfs, &path, &attr).with_context(at)?;
        if attr.kind == FileKind::Directory && (across || mounted.is_none()) {
            for (name, node) in children(vfs, attr.node).with_context(at)? {
                let child = [&path[..], b"/", &name].concat();
                let attr = vfs.attr(node).with_context(|| String::from_utf8_lossy(&child).into_owned())?;
                waiting.push((child, vfs, attr));
            }
        }
    }
    Ok(())
}

/// The entries of a directory, read in small steps so that cookies are tested too. Looking up each
/// name must lead to the same node.
fn children(vfs: &dyn Vfs, dir: NodeId) -> Result<Vec<(Vec<u8>, NodeId)>> {
    let (mut found, mut cookie) = (Vec::new(), 0);
    loop {
        let (before, mut room) = (found.len(), 1000);
        vfs.read_dir(dir, cookie, &mut |entry| {
            cookie = entry.next_cookie;
            room -= 1;
            found.push((entry.name, entry.node, entry.kind));
            room > 0
        })?;
        if found.len() == before {
            break;
        }
    }
    found.retain(|(name, ..)| name != b"." && name != b"..");
    for (name, node, kind) in &found {
        let attr = vfs.lookup(dir, name)?;
        anyhow::ensure!(
            attr.node == *node && attr.kind == *kind,
            "{:?} is listed as {node:?} {kind:?}, looked up as {:?} {:?}",
            String::from_utf8_lossy(name),
            attr.node,
            attr.kind
        );
    }
    Ok(found.into_iter().map(|(name, node, _)| (name, node)).collect())
}

/// Checksum of a regular file, read in pieces.
pub fn sha256(vfs: &dyn Vfs, attr: &Attr) -> Result<String> {
    let (mut sum, mut at) = (Sha256::new(), 0);
    while at < attr.size {
        let bytes = vfs.read(attr.node, at, READ_BYTES)?;
        anyhow::ensure!(!bytes.is_empty(), "read nothing at {at} of {}", attr.size);
        sum.update(&bytes);
        at += bytes.len() as u64;
    }
    Ok(hex(&sum.finalize()))
}

fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::Regular => 'f',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
    }
}

/// `%T@` of find(1): ten digits after the decimal point.
fn find_time(time: Time) -> String {
    format!("{}.{:09}0", time.seconds, time.nanoseconds)
}
