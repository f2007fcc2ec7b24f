//! Files on an NFS server, accessed like a version 3 client does: written data is committed before
//! close.

use super::{Mode, Node, Tree};
use crate::nfs::{self, Connection, args, procedure as p};
use crate::session::{Content, Settings, remote as calls};
use crate::target::Nfs;
use anyhow::Result;
use serve::nfs::xdr::{Malformed, Reader, Writer};
use std::collections::HashMap;
use std::io;

/// Maximum size of a READDIR reply in bytes.
const LIST_BYTES: u32 = 64 << 10;
const EXISTS: u32 = 17;

pub(super) struct Remote {
    connection: Connection,
    root: Vec<u8>,
    /// Cached handles of directories. Files are looked up each time, as by a client whose attribute
    /// cache has expired.
    directories: HashMap<String, Vec<u8>>,
    content: Content,
    size: usize,
    stable: u32,
}

fn bad(_: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a truncated reply")
}

/// Converts an NFS status to an error.
fn status_error(what: &str, status: u32) -> io::Error {
    let kind = match status {
        2 => io::ErrorKind::NotFound,
        1 | 13 => io::ErrorKind::PermissionDenied,
        EXISTS => io::ErrorKind::AlreadyExists,
        28 => io::ErrorKind::StorageFull,
        66 => io::ErrorKind::DirectoryNotEmpty,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("{what} returned {status}"))
}

/// A call whose reply starts with a status; only if it is 0, `take` decodes the rest.
fn call<T>(
    connection: &mut Connection,
    (what, procedure): (&str, u32),
    write: impl FnOnce(&mut Writer),
    take: impl FnOnce(&mut Reader<'_>) -> std::result::Result<T, Malformed>,
) -> io::Result<T> {
    let xid = nfs::next_xid();
    connection.send(xid, procedure, &args(write))?;
    connection.receive_with(|got, answer| {
        if got != xid {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a reply to {got}, not to {xid}")));
        }
        let mut r = Reader::new(answer);
        match r.u32().map_err(bad)? {
            0 => take(&mut r).map_err(bad),
            status => Err(status_error(what, status)),
        }
    })?
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Remote {
    pub fn open(nfs: &Nfs, settings: Settings) -> Result<Self> {
        let (connection, root) = calls::directory(nfs)?;
        let stable = if settings.sync { calls::FILE_SYNC } else { calls::UNSTABLE };
        let content = Content::new(settings);
        Ok(Self { connection, root, directories: HashMap::new(), content, size: settings.size, stable })
    }

    /// Calls [`call`] on this connection.
    fn call<T>(
        &mut self,
        what: (&str, u32),
        write: impl FnOnce(&mut Writer),
        take: impl FnOnce(&mut Reader<'_>) -> std::result::Result<T, Malformed>,
    ) -> io::Result<T> {
        call(&mut self.connection, what, write, take)
    }

    fn lookup(&mut self, directory: &[u8], name: &str) -> io::Result<Vec<u8>> {
        self.call(("LOOKUP", p::LOOKUP), |w| calls::name_in(w, directory, name), |r| Ok(r.opaque(64)?.to_vec()))
    }

    fn directory(&mut self, path: &str) -> io::Result<Vec<u8>> {
        if path.is_empty() {
            return Ok(self.root.clone());
        }
        if let Some(handle) = self.directories.get(path) {
            return Ok(handle.clone());
        }
        let (above, name) = split(path);
        let above = self.directory(above)?;
        let handle = self.lookup(&above, name)?;
        self.directories.insert(path.to_owned(), handle.clone());
        Ok(handle)
    }

    fn find(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let (directory, name) = split(path);
        let directory = self.directory(directory)?;
        self.lookup(&directory, name)
    }

    fn commit(&mut self, handle: &[u8]) -> io::Result<()> {
        self.call(("COMMIT", p::COMMIT), |w| calls::put_commit(w, handle), |_| Ok(()))
    }
}

fn handle(node: &Node) -> io::Result<&[u8]> {
    match node {
        Node::Remote { handle, .. } => Ok(handle),
        Node::Local(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl Tree for Remote {
    fn open(&mut self, path: &str, mode: Mode) -> io::Result<Node> {
        if mode != Mode::Create {
            return Ok(Node::Remote { handle: self.find(path)?, written: false });
        }
        let (directory, name) = split(path);
        let directory = self.directory(directory)?;
        let given = self.call(
            ("CREATE", p::CREATE),
            |w| calls::put_create(w, &directory, name, true),
            |r| if r.bool()? { Ok(Some(r.opaque(64)?.to_vec())) } else { Ok(None) },
        )?;
        let handle = match given {
            Some(handle) => handle,
            None => self.lookup(&directory, name)?,
        };
        Ok(Node::Remote { handle, written: false })
    }

    fn read(&mut self, node: &Node, at: u64, len: usize) -> io::Result<u64> {
        let (handle, len) = (handle(node)?, len.min(self.size));
        let mut read = 0;
        while read < len {
            let ask = |w: &mut Writer| {
                w.opaque(handle);
                w.u64(at + read as u64);
                w.u32((len - read) as u32);
            };
            let (count, is_end) = self.call(("READ", p::READ), ask, |r| {
                nfs::optional_attributes(r)?;
                Ok((r.u32()?, r.bool()?))
            })?;
            read += count as usize;
            if is_end || count == 0 {
                break;
            }
        }
        Ok(read as u64)
    }

    fn write(&mut self, node: &mut Node, at: u64, len: usize) -> io::Result<u64> {
        let Node::Remote { handle, written } = node else { return Err(io::ErrorKind::InvalidInput.into()) };
        let Self { connection, content, stable, .. } = self;
        *written |= *stable != calls::FILE_SYNC;
        let bytes = super::content(content, at, len);
        let mut done = 0;
        while done < bytes.len() {
            let (at, rest, stable) = (at + done as u64, &bytes[done..], *stable);
            let count = call(
                connection,
                ("WRITE", p::WRITE),
                |w| calls::put_write(w, handle, at, rest, stable),
                |r| {
                    nfs::skip_wcc(r)?;
                    r.u32()
                },
            )?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            done += count as usize;
        }
        Ok(done as u64)
    }

    fn sync(&mut self, node: &mut Node) -> io::Result<()> {
        let Node::Remote { handle, written } = node else { return Err(io::ErrorKind::InvalidInput.into()) };
        *written = false;
        self.commit(handle)
    }

    fn close(&mut self, mut node: Node) -> io::Result<()> {
        if let Node::Remote { written: true, .. } = node { self.sync(&mut node) } else { Ok(()) }
    }

    fn look(&mut self, path: &str) -> io::Result<u64> {
        let handle = self.find(path)?;
        self.call(("GETATTR", p::GETATTR), |w| w.opaque(&handle), |r| Ok(nfs::attributes(r)?.size))
    }

    fn change(&mut self, path: &str) -> io::Result<()> {
        let handle = self.find(path)?;
        let ask = |w: &mut Writer| {
            w.opaque(&handle);
            for _ in 0..4 {
                w.u32(0); // Mode, owner, group, size: unchanged.
            }
            w.u32(1); // Both times: server time.
            w.u32(1);
            w.u32(0); // No guard.
        };
        self.call(("SETATTR", p::SETATTR), ask, |_| Ok(()))
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        let (directory, name) = split(path);
        let directory = self.directory(directory)?;
        self.call(("REMOVE", p::REMOVE), |w| calls::name_in(w, &directory, name), |_| Ok(()))
    }

    fn make_directory(&mut self, path: &str) -> io::Result<()> {
        let (above, name) = split(path);
        let above = self.directory(above)?;
        match self.call(("MKDIR", p::MKDIR), |w| calls::put_mkdir(w, &above, name), |_| Ok(())) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn remove_directory(&mut self, path: &str) -> io::Result<()> {
        let (above, name) = split(path);
        let above = self.directory(above)?;
        self.directories.remove(path);
        self.call(("RMDIR", p::RMDIR), |w| calls::name_in(w, &above, name), |_| Ok(()))
    }

    fn list(&mut self, path: &str) -> io::Result<u64> {
        let directory = self.directory(path)?;
        let (mut cookie, mut verifier, mut names) = (0u64, [0u8; 8], 0);
        loop {
            let ask = |w: &mut Writer| {
                w.opaque(&directory);
                w.u64(cookie);
                w.fixed(&verifier);
                w.u32(LIST_BYTES / 4);
                w.u32(LIST_BYTES);
            };
            let (next, of, more, is_end) = self.call(("READDIRPLUS", p::READDIRPLUS), ask, |r| {
                nfs::optional_attributes(r)?;
                let of = r.fixed::<8>()?;
                let (mut next, mut more) = (None, 0);
                while r.bool()? {
                    r.u64()?;
                    let name = r.opaque(1024)?;
                    more += u64::from(name != b"." && name != b"..");
                    next = Some(r.u64()?);
                    nfs::optional_attributes(r)?;
                    if r.bool()? {
                        r.opaque(64)?;
                    }
                }
                Ok((next, of, more, r.bool()?))
            })?;
            names += more;
            match next {
                Some(next) if !is_end => (cookie, verifier) = (next, of),
                _ => return Ok(names),
            }
        }
    }
}
