//! Local files.

use super::{Mode, Node, Tree};
use crate::session::{Aligned, Content, Settings};
use anyhow::{Context, Result, ensure};
use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_NOW};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub(super) struct Local {
    root: PathBuf,
    settings: Settings,
    buffer: Aligned,
    content: Content,
}

impl Local {
    pub fn open(root: &Path, settings: Settings) -> Result<Self> {
        std::fs::create_dir_all(root).with_context(|| root.display().to_string())?;
        ensure!(root.is_dir(), "{} is not a directory", root.display());
        let buffer = Aligned::new(settings.size);
        Ok(Self { root: root.to_owned(), settings, buffer, content: Content::new(settings) })
    }
}

fn file(node: &Node) -> io::Result<&File> {
    match node {
        Node::Local(file) => Ok(file),
        Node::Remote { .. } => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl Tree for Local {
    fn open(&mut self, path: &str, mode: Mode) -> io::Result<Node> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode != Mode::Read).create(mode == Mode::Create).truncate(mode == Mode::Create);
        let mut flags = OFlags::empty();
        flags.set(OFlags::DSYNC, self.settings.sync);
        flags.set(OFlags::DIRECT, self.settings.direct);
        options.custom_flags(flags.bits() as i32);
        options.open(self.root.join(path)).map(Node::Local)
    }

    fn read(&mut self, node: &Node, at: u64, len: usize) -> io::Result<u64> {
        let len = len.min(self.settings.size);
        let mut read = 0;
        while read < len {
            match file(node)?.read_at(&mut self.buffer[read..len], at + read as u64) {
                Ok(0) => break,
                Ok(got) => read += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // With direct I/O, a read from an unaligned offset fails: here is the end of file.
                Err(_) if read > 0 && self.settings.direct => break,
                Err(error) => return Err(error),
            }
        }
        Ok(read as u64)
    }

    fn write(&mut self, node: &mut Node, at: u64, len: usize) -> io::Result<u64> {
        let bytes = super::content(&mut self.content, at, len);
        file(node)?.write_all_at(bytes, at)?;
        Ok(bytes.len() as u64)
    }

    fn sync(&mut self, node: &mut Node) -> io::Result<()> {
        file(node)?.sync_data()
    }

    fn close(&mut self, node: Node) -> io::Result<()> {
        drop(node);
        Ok(())
    }

    fn look(&mut self, path: &str) -> io::Result<u64> {
        std::fs::metadata(self.root.join(path)).map(|m| m.len())
    }

    fn change(&mut self, path: &str) -> io::Result<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        let flags = rustix::fs::AtFlags::empty();
        Ok(rustix::fs::utimensat(rustix::fs::CWD, self.root.join(path), &times, flags)?)
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.root.join(path))
    }

    fn make_directory(&mut self, path: &str) -> io::Result<()> {
        match std::fs::create_dir(self.root.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn remove_directory(&mut self, path: &str) -> io::Result<()> {
        std::fs::remove_dir(self.root.join(path))
    }

    fn list(&mut self, path: &str) -> io::Result<u64> {
        Ok(std::fs::read_dir(self.root.join(path))?.count() as u64)
    }
}
