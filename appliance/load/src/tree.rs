//! Many files below one directory, of this machine or of a server: what flows do to them, one operation at a time.

mod local;
mod remote;

use crate::session::{Content, Settings};
use crate::target::Target;
use anyhow::{Result, bail};
use std::io;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
    /// Made where there is none, and emptied where there is one.
    Create,
}

/// A file that is open.
pub(crate) enum Node {
    Local(std::fs::File),
    Remote { handle: Vec<u8>, written: bool },
}

/// See the module. Paths have no slash in front, and are below the directory that was opened.
pub(crate) trait Tree {
    fn open(&mut self, path: &str, mode: Mode) -> io::Result<Node>;
    /// Reads up to `len` bytes; how many there were.
    fn read(&mut self, node: &Node, at: u64, len: usize) -> io::Result<u64>;
    fn write(&mut self, node: &mut Node, at: u64, len: usize) -> io::Result<u64>;
    fn sync(&mut self, node: &mut Node) -> io::Result<()>;
    fn close(&mut self, node: Node) -> io::Result<()>;
    /// Its length.
    fn look(&mut self, path: &str) -> io::Result<u64>;
    /// Sets its times to now.
    fn change(&mut self, path: &str) -> io::Result<()>;
    fn remove(&mut self, path: &str) -> io::Result<()>;
    /// One that is there already is as good.
    fn make_directory(&mut self, path: &str) -> io::Result<()>;
    fn remove_directory(&mut self, path: &str) -> io::Result<()>;
    /// How many names are in it.
    fn list(&mut self, path: &str) -> io::Result<u64>;
}

/// Makes a file of `size` bytes, or fills the one that is there anew, `step` bytes at a time.
pub(crate) fn fill(tree: &mut dyn Tree, path: &str, size: u64, step: usize) -> io::Result<()> {
    let mut node = tree.open(path, Mode::Create)?;
    let mut at = 0;
    while at < size {
        at += tree.write(&mut node, at, (size - at).min(step as u64) as usize)?;
    }
    tree.close(node)
}

/// How files are read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    /// Writes are on stable storage when they are answered.
    pub sync: bool,
    /// Past the memory of this machine.
    pub direct: bool,
    /// Of a hundred bytes written so many are zeros.
    pub zeros: u8,
}

/// The longest single read or write.
pub(crate) const TRANSFER_MAX: usize = 16 << 20;

pub(crate) fn open(target: &Target, access: Access, transfer: usize, seed: u64) -> Result<Box<dyn Tree>> {
    let size = transfer.clamp(4096, TRANSFER_MAX);
    let Access { sync, direct, zeros } = access;
    let settings = Settings { size, sync, zeros, seed, direct };
    Ok(match target {
        Target::Path(path) => Box::new(local::Local::open(path, settings)?),
        Target::Nfs(nfs) => Box::new(remote::Remote::open(nfs, settings)?),
        Target::Nbd(_) => bail!("{target} has no files"),
    })
}

/// The first `len` bytes of what is written at `at`.
fn content(content: &mut Content, at: u64, len: usize) -> &[u8] {
    let bytes = content.at(at);
    &bytes[..len.min(bytes.len())]
}
