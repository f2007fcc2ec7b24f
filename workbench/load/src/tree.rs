//! A directory tree, local or on a server: the operations of flows, one at a time.

mod local;
mod open;
mod remote;

pub(crate) use open::open;

use crate::session::Content;
use std::io;

/// Mode for opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
    /// Creates the file, or truncates an existing one.
    Create,
}

/// An open file. `written`: there is written data to commit.
pub(crate) enum Node {
    Local(std::fs::File),
    Remote { handle: Vec<u8>, written: bool },
}

/// A directory tree; see the module. Paths are relative to its root and have no leading slash.
pub(crate) trait Tree {
    fn open(&mut self, path: &str, mode: Mode) -> io::Result<Node>;
    /// Reads up to `len` bytes. Returns the number of bytes read.
    fn read(&mut self, node: &Node, at: u64, len: usize) -> io::Result<u64>;
    fn write(&mut self, node: &mut Node, at: u64, len: usize) -> io::Result<u64>;
    fn sync(&mut self, node: &mut Node) -> io::Result<()>;
    fn close(&mut self, node: Node) -> io::Result<()>;
    /// Returns the length of a file.
    fn look(&mut self, path: &str) -> io::Result<u64>;
    /// Sets the times of a file to now.
    fn change(&mut self, path: &str) -> io::Result<()>;
    fn remove(&mut self, path: &str) -> io::Result<()>;
    /// Creates a directory. An existing one is not an error.
    fn make_directory(&mut self, path: &str) -> io::Result<()>;
    fn remove_directory(&mut self, path: &str) -> io::Result<()>;
    /// Returns the number of entries in a directory.
    fn list(&mut self, path: &str) -> io::Result<u64>;
}

/// Creates a file of `size` bytes, or rewrites an existing one, `step` bytes at a time.
pub(crate) fn fill(tree: &mut dyn Tree, path: &str, size: u64, step: usize) -> io::Result<()> {
    let mut node = tree.open(path, Mode::Create)?;
    let mut at = 0;
    while at < size {
        at += tree.write(&mut node, at, (size - at).min(step as u64) as usize)?;
    }
    tree.close(node)
}

/// Options for reading and writing files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether writes are stable when acknowledged.
    pub sync: bool,
    /// Whether direct I/O is used.
    pub direct: bool,
    /// Percentage of zero bytes in written data.
    pub zeros: u8,
}

/// Maximum size of a single read or write in bytes.
pub(crate) const TRANSFER_MAX: usize = 16 << 20;

/// The first `len` bytes of the data for offset `at`.
fn content(content: &mut Content, at: u64, len: usize) -> &[u8] {
    let bytes = content.at(at);
    &bytes[..len.min(bytes.len())]
}
