//! A connection to an NFS version 3 server.

use super::{Content, Done, Session, Settings, name_of};
use crate::nfs::{self, Connection, Who, args, procedure as p, status};
use crate::pattern::Op;
use crate::target::Nfs;
use anyhow::{Context, Result, anyhow, bail, ensure};
use serve::nfs::xdr::{Malformed, Reader, Writer};
use std::collections::HashMap;
use std::time::Duration;

/// `NFS3ERR_NOENT`.
const NO_ENTRY: u32 = 2;
/// Whether a write is stable when acknowledged, or only after COMMIT.
pub(crate) const FILE_SYNC: u32 = 2;
pub(crate) const UNSTABLE: u32 = 0;
/// Size of the writes that fill a file: accepted by every server.
const FILL: usize = 64 << 10;

pub(super) struct Remote {
    connection: Connection,
    /// Handle of the file, or with `meta` of the directory.
    handle: Vec<u8>,
    size: usize,
    stable: u32,
    content: Content,
    under_way: HashMap<u32, (u64, Op)>,
}

fn malformed(_: Malformed) -> anyhow::Error {
    anyhow!("a truncated reply")
}

/// Resolves a directory: mounts it, or the nearest parent that can be mounted, and looks up the
/// rest of the path. Returns the connection as well.
fn root(nfs: &Nfs, path: &str, make: bool) -> Result<(Connection, Vec<u8>)> {
    let mut above = path.trim_end_matches('/').to_owned();
    let mut between: Vec<String> = Vec::new();
    let mut handle = loop {
        let wanted = if above.is_empty() { "/" } else { &above };
        match nfs::mount(nfs.mount, wanted) {
            Ok(handle) => break handle,
            Err(error) if above.is_empty() => return Err(error),
            Err(_) => {
                let (rest, name) = above.rsplit_once('/').unwrap_or(("", &above));
                between.insert(0, name.to_owned());
                above = rest.to_owned();
            }
        }
    };
    let who = Who { uid: nfs.uid, gid: nfs.gid };
    let mut connection = Connection::open_as(nfs.server, who).with_context(|| nfs.server.to_string())?;
    for name in between {
        let mut found = lookup(&mut connection, &handle, &name)?;
        if found.is_none() && make {
            let answer = connection.call(p::MKDIR, &args(|w| put_mkdir(w, &handle, &name)))?;
            // Another thread may have created it first.
            let created = succeeded(&format!("MKDIR of {name}"), &answer).map(|_| ());
            found = lookup(&mut connection, &handle, &name)?;
            if found.is_none() {
                created?;
            }
        }
        handle = found.with_context(|| format!("{path}: no such file '{name}'"))?;
    }
    Ok((connection, handle))
}

pub(crate) fn name_in(w: &mut Writer, directory: &[u8], name: &str) {
    w.opaque(directory);
    w.opaque(name.as_bytes());
}

fn lookup(connection: &mut Connection, directory: &[u8], name: &str) -> Result<Option<Vec<u8>>> {
    let answer = connection.call(p::LOOKUP, &args(|w| name_in(w, directory, name)))?;
    let (code, mut r) = status(&answer)?;
    match code {
        0 => Ok(Some(r.opaque(64).map_err(malformed)?.to_vec())),
        NO_ENTRY => Ok(None),
        other => bail!("LOOKUP of {name} returned {other}"),
    }
}

/// Creates a file if it does not exist; `empty`: truncates an existing one.
pub(crate) fn put_create(w: &mut Writer, directory: &[u8], name: &str, empty: bool) {
    name_in(w, directory, name);
    w.u32(0); // UNCHECKED
    w.bool(true);
    w.u32(0o644);
    w.u32(0); // Owner and group: the server's defaults.
    w.u32(0);
    w.bool(empty);
    if empty {
        w.u64(0);
    }
    w.u32(0); // Times.
    w.u32(0);
}

pub(crate) fn put_mkdir(w: &mut Writer, above: &[u8], name: &str) {
    name_in(w, above, name);
    w.bool(true);
    w.u32(0o755);
    for _ in 0..5 {
        w.u32(0); // Owner, group, size and times: the server's defaults.
    }
}

pub(crate) fn put_write(w: &mut Writer, handle: &[u8], at: u64, bytes: &[u8], stable: u32) {
    w.opaque(handle);
    w.u64(at);
    w.u32(bytes.len() as u32);
    w.u32(stable);
    w.opaque(bytes);
}

/// Commits the whole file.
pub(crate) fn put_commit(w: &mut Writer, handle: &[u8]) {
    w.opaque(handle);
    w.u64(0);
    w.u32(0);
}

fn succeeded<'a>(what: &str, answer: &'a [u8]) -> Result<Reader<'a>> {
    let (code, r) = status(answer)?;
    ensure!(code == 0, "{what} returned {code}");
    Ok(r)
}

/// A directory and a connection to its server; missing parts of its path are created.
pub(crate) fn directory(nfs: &Nfs) -> Result<(Connection, Vec<u8>)> {
    root(nfs, &nfs.path, true)
}

/// The file (created if missing), or with `meta` the directory.
fn find(nfs: &Nfs, meta: bool) -> Result<(Connection, Vec<u8>)> {
    if meta {
        return root(nfs, &nfs.path, false);
    }
    let (directory, name) = nfs.path.rsplit_once('/').unwrap_or(("", &nfs.path));
    ensure!(!name.is_empty(), "{}: expected the path of a file", nfs.path);
    let (mut connection, directory) = root(nfs, directory, false)?;
    let handle = match lookup(&mut connection, &directory, name)? {
        Some(handle) => handle,
        None => {
            let answer = connection.call(p::CREATE, &args(|w| put_create(w, &directory, name, false)))?;
            succeeded(&format!("CREATE of {}", nfs.path), &answer)?;
            lookup(&mut connection, &directory, name)?.with_context(|| format!("{} has disappeared", nfs.path))?
        }
    };
    Ok((connection, handle))
}

/// Size of a file, and the bytes it uses.
pub(crate) fn lengths(nfs: &Nfs) -> Result<(u64, u64)> {
    let (mut connection, handle) = find(nfs, false)?;
    let answer = connection.call(p::GETATTR, &args(|w| w.opaque(&handle)))?;
    let found = nfs::attributes(&mut succeeded("GETATTR", &answer)?).map_err(malformed)?;
    Ok((found.size, found.used))
}

pub(super) fn prepare(nfs: &Nfs, file_size: u64, meta: bool, settings: Settings) -> Result<u64> {
    let (mut connection, handle) = find(nfs, meta)?;
    let answer = connection.call(p::GETATTR, &args(|w| w.opaque(&handle)))?;
    let attributes = nfs::attributes(&mut succeeded("GETATTR", &answer)?).map_err(malformed)?;
    ensure!(
        attributes.kind == if meta { 2 } else { 1 },
        "{} is not a {}",
        nfs.path,
        if meta { "directory" } else { "file" }
    );
    if meta {
        return Ok(0);
    }
    let mut content = Content::new(Settings { size: FILL, ..settings });
    let mut at = attributes.size;
    while at < file_size {
        let len = FILL.min((file_size - at) as usize);
        let answer =
            connection.call(p::WRITE, &args(|w| put_write(w, &handle, at, &content.at(at)[..len], UNSTABLE)))?;
        let mut r = succeeded(&format!("WRITE of {}", nfs.path), &answer)?;
        nfs::skip_wcc(&mut r).map_err(malformed)?;
        let written = r.u32().map_err(malformed)?;
        ensure!(written > 0, "WRITE of {} wrote nothing", nfs.path);
        at += u64::from(written);
    }
    succeeded("COMMIT", &connection.call(p::COMMIT, &args(|w| put_commit(w, &handle)))?)?;
    Ok(at.max(file_size))
}

impl Remote {
    pub fn open(nfs: &Nfs, meta: bool, settings: Settings) -> Result<Self> {
        let (connection, handle) = find(nfs, meta)?;
        Ok(Self {
            connection,
            handle,
            size: settings.size,
            stable: if settings.sync { FILE_SYNC } else { UNSTABLE },
            content: Content::new(settings),
            under_way: HashMap::new(),
        })
    }

    /// The number of bytes moved, according to the reply.
    fn moved(size: usize, op: Op, answer: &[u8]) -> Result<u64> {
        let mut r = succeeded("the server", answer)?;
        match op {
            Op::Read(_) => {
                nfs::optional_attributes(&mut r).map_err(malformed)?;
                let count = r.u32().map_err(malformed)?;
                ensure!(count as usize == size, "{count} bytes were read, not {size}");
                Ok(u64::from(count))
            }
            Op::Write(_) => {
                nfs::skip_wcc(&mut r).map_err(malformed)?;
                let count = r.u32().map_err(malformed)?;
                ensure!(count as usize == size, "{count} bytes were written, not {size}");
                Ok(u64::from(count))
            }
            Op::Create(_) | Op::Look(_) | Op::Remove(_) | Op::Sync => Ok(0),
        }
    }
}

impl Session for Remote {
    fn begin(&mut self, tag: u64, op: Op) -> Result<()> {
        let (procedure, args) = match op {
            Op::Read(at) => (
                p::READ,
                args(|w| {
                    w.opaque(&self.handle);
                    w.u64(at);
                    w.u32(self.size as u32);
                }),
            ),
            Op::Write(at) => (p::WRITE, args(|w| put_write(w, &self.handle, at, self.content.at(at), self.stable))),
            Op::Create(n) => (p::CREATE, args(|w| put_create(w, &self.handle, &name_of(n), false))),
            Op::Look(n) => (p::LOOKUP, args(|w| name_in(w, &self.handle, &name_of(n)))),
            Op::Sync => (p::COMMIT, args(|w| put_commit(w, &self.handle))),
            Op::Remove(n) => (p::REMOVE, args(|w| name_in(w, &self.handle, &name_of(n)))),
        };
        let xid = nfs::next_xid();
        self.connection.put(xid, procedure, &args);
        self.under_way.insert(xid, (tag, op));
        Ok(())
    }

    fn done(&mut self, patience: Duration) -> Result<Option<Done>> {
        if self.under_way.is_empty() {
            std::thread::sleep(patience);
            return Ok(None);
        }
        // While replies are available, calls are collected and sent together.
        if !self.connection.has_input() {
            self.connection.flush()?;
        }
        if !self.connection.is_answered(patience)? {
            return Ok(None);
        }
        let (size, under_way) = (self.size, &mut self.under_way);
        let done = self.connection.receive_with(|xid, answer| {
            let (tag, op) = under_way.remove(&xid)?;
            Some((tag, Self::moved(size, op, answer).map_err(|error| format!("{op:?}: {error:#}"))))
        })?;
        done.context("a reply without a matching call").map(Some)
    }
}
