//! An NFS version 3 client over TCP, with one call or several in flight.

use anyhow::{Result, bail, ensure};
use serve::nfs::xdr::{Malformed, Reader, Writer};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Program number of NFS.
pub const NFS: u32 = 100_003;
/// Program number of MOUNT.
pub const MOUNT: u32 = 100_005;
/// A call without a reply for this long, while the server is up, has failed: far longer than any
/// call takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Procedures of version 3.
#[allow(missing_docs)] // Named as in RFC 1813.
pub mod procedure {
    pub const GETATTR: u32 = 1;
    pub const SETATTR: u32 = 2;
    pub const LOOKUP: u32 = 3;
    pub const READ: u32 = 6;
    pub const WRITE: u32 = 7;
    pub const CREATE: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const SYMLINK: u32 = 10;
    pub const REMOVE: u32 = 12;
    pub const RMDIR: u32 = 13;
    pub const RENAME: u32 = 14;
    pub const LINK: u32 = 15;
    pub const READDIRPLUS: u32 = 17;
    pub const COMMIT: u32 = 21;
}

static XID: AtomicU32 = AtomicU32::new(1);

/// A unique transaction ID.
pub fn next_xid() -> u32 {
    XID.fetch_add(1, Ordering::Relaxed)
}

/// Credentials: AUTH_SYS, with one group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Who {
    pub uid: u32,
    pub gid: u32,
}

/// Encodes the header of a call by root.
pub fn put_head(w: &mut Writer, xid: u32, call: (u32, u32, u32)) {
    put_head_as(w, Who::default(), xid, call);
}

fn put_head_as(w: &mut Writer, who: Who, xid: u32, (program, version, procedure): (u32, u32, u32)) {
    for n in [xid, 0, 2, program, version, procedure, 1] {
        w.u32(n);
    }
    let mut credential = Writer::new();
    credential.u32(0);
    credential.opaque(b"weir");
    for n in [who.uid, who.gid, 0] {
        credential.u32(n);
    }
    w.opaque(&credential.to_vec());
    w.u32(0);
    w.u32(0);
}

/// A TCP connection to an NFS server.
pub struct Connection {
    stream: TcpStream,
    who: Who,
    out: Vec<u8>,
    input: Vec<u8>,
    /// Start of the unprocessed part of `input`, and its end.
    from: usize,
    end: usize,
}

/// Whether a socket is readable; waits for up to `patience`.
pub(crate) fn is_readable(socket: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    let patience = rustix::event::Timespec::try_from(patience).map_err(io::Error::other)?;
    let mut sockets = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::IN)];
    match rustix::event::poll(&mut sockets, Some(&patience)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Size of a read: many replies of small reads.
const INPUT: usize = 256 << 10;
/// Marks the last fragment of a record.
const LAST: u32 = 1 << 31;

impl Connection {
    /// Connects to a server as root.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        Self::open_as(address, Who::default())
    }

    /// Connects to a server.
    pub fn open_as(address: SocketAddr, who: Who) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, who, out: Vec::new(), input: Vec::new(), from: 0, end: 0 })
    }

    /// The underlying socket, for raw input and output.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Queues a version 3 call, which [`Self::flush`] sends.
    pub fn put(&mut self, xid: u32, procedure: u32, args: &[u8]) {
        let mut w = Writer::new();
        put_head_as(&mut w, self.who, xid, (NFS, 3, procedure));
        let head = w.to_vec();
        let padding = args.len().next_multiple_of(4) - args.len();
        let len = head.len() + args.len() + padding;
        self.out.extend_from_slice(&(len as u32 | LAST).to_be_bytes());
        self.out.extend_from_slice(&head);
        self.out.extend_from_slice(args);
        self.out.extend_from_slice(&[0; 3][..padding]);
    }

    /// Sends the queued calls.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.stream.write_all(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Sends a version 3 call.
    pub fn send(&mut self, xid: u32, procedure: u32, args: &[u8]) -> io::Result<()> {
        self.put(xid, procedure, args);
        self.flush()
    }

    /// Whether a part of a reply was already read.
    pub fn has_input(&self) -> bool {
        self.end > self.from
    }

    /// Whether a part of a reply is available; waits for up to `patience`.
    pub fn is_answered(&self, patience: Duration) -> io::Result<bool> {
        if self.has_input() { Ok(true) } else { is_readable(self.stream.as_fd(), patience) }
    }

    /// Receives the next reply: its transaction ID, and the body. Fails with
    /// [`io::ErrorKind::InvalidData`] if it is not the reply of a successful call.
    pub fn receive(&mut self) -> io::Result<(u32, Vec<u8>)> {
        self.receive_with(|xid, answer| (xid, answer.to_vec()))
    }

    /// Like [`Self::receive`], without copying the body.
    pub fn receive_with<T>(&mut self, take: impl FnOnce(u32, &[u8]) -> T) -> io::Result<T> {
        let mark = self.number()?;
        if mark & LAST == 0 {
            let record = self.longer(mark)?;
            return answered(&record, take);
        }
        let len = (mark & !LAST) as usize;
        self.need(len)?;
        let record = &self.input[self.from..self.from + len];
        let taken = answered(record, take);
        self.from += len;
        taken
    }

    /// Receives the next record, with any contents.
    pub fn record(&mut self) -> io::Result<Vec<u8>> {
        let mark = self.number()?;
        self.longer(mark)
    }

    /// Receives the rest of a record whose first fragment has this mark.
    fn longer(&mut self, mut mark: u32) -> io::Result<Vec<u8>> {
        let mut record = Vec::new();
        loop {
            let len = (mark & !LAST) as usize;
            self.need(len)?;
            record.extend_from_slice(&self.input[self.from..self.from + len]);
            self.from += len;
            if mark & LAST != 0 {
                return Ok(record);
            }
            mark = self.number()?;
        }
    }

    fn number(&mut self) -> io::Result<u32> {
        self.need(4)?;
        let bytes = &self.input[self.from..self.from + 4];
        self.from += 4;
        Ok(bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
    }

    /// Reads until `len` bytes are available, contiguously.
    fn need(&mut self, len: usize) -> io::Result<()> {
        if self.end - self.from >= len {
            return Ok(());
        }
        if self.from > 0 && (self.from == self.end || self.from + len > self.input.len()) {
            self.input.copy_within(self.from..self.end, 0);
            (self.from, self.end) = (0, self.end - self.from);
        }
        while self.end - self.from < len {
            // Memory grows with the data received, not with the announced length.
            if self.end == self.input.len() {
                self.input.resize((self.end * 2).max(INPUT), 0);
            }
            match self.stream.read(&mut self.input[self.end..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.end += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends a call and waits for its reply.
    pub fn call(&mut self, procedure: u32, args: &[u8]) -> io::Result<Vec<u8>> {
        let xid = next_xid();
        self.send(xid, procedure, args)?;
        let (got, answer) = self.receive()?;
        if got != xid {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a reply to {got}, not to {xid}")));
        }
        Ok(answer)
    }
}

/// The body of an RPC reply, after its header.
fn answered<T>(record: &[u8], take: impl FnOnce(u32, &[u8]) -> T) -> io::Result<T> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {record:02x?}"));
    let mut r = Reader::new(record);
    let head = (|| -> std::result::Result<_, Malformed> {
        let (xid, kind, stat) = (r.u32()?, r.u32()?, r.u32()?);
        let (_flavour, _body) = (r.u32()?, r.opaque(400)?);
        Ok((xid, kind, stat, r.u32()?))
    })();
    match head {
        Ok((xid, 1, 0, 0)) => Ok(take(xid, r.rest())),
        Ok(_) => Err(bad("a call was refused")),
        Err(Malformed) => Err(bad("not an RPC reply")),
    }
}

pub fn args(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    write(&mut w);
    w.to_vec()
}

/// The file handle of a path, from MOUNT.
pub fn mount(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let answer = serve::nfs::portmap::ask(&mut stream, next_xid(), MOUNT, 3, 1, |w| w.opaque(path.as_bytes()))?;
    let mut r = Reader::new(&answer);
    let malformed = |_| anyhow::anyhow!("MOUNT returned {answer:02x?}");
    let status = r.u32().map_err(malformed)?;
    ensure!(status == 0, "MOUNT of {path} returned {status}");
    Ok(r.opaque(64).map_err(malformed)?.to_vec())
}

/// The file attributes used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// 1: a file, 2: a directory, 5: a symbolic link.
    pub kind: u32,
    /// Permission bits, without the file type.
    pub mode: u32,
    pub links: u32,
    /// Size in bytes.
    pub size: u64,
    /// Bytes used on disk.
    pub used: u64,
    /// `fileid`: the inode number.
    pub id: u64,
}

/// Decodes `fattr3`.
pub fn attributes(r: &mut Reader<'_>) -> std::result::Result<Attributes, Malformed> {
    let (kind, mode, links, _uid, _gid, size) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?, r.u32()?, r.u64()?);
    let (used, _device, _fs, id) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
    r.fixed::<24>()?;
    Ok(Attributes { kind, mode, links, size, used, id })
}

/// Decodes `post_op_attr`.
pub fn optional_attributes(r: &mut Reader<'_>) -> std::result::Result<Option<Attributes>, Malformed> {
    if r.bool()? { attributes(r).map(Some) } else { Ok(None) }
}

/// Skips `wcc_data`.
pub fn skip_wcc(r: &mut Reader<'_>) -> std::result::Result<(), Malformed> {
    if r.bool()? {
        r.fixed::<24>()?;
    }
    optional_attributes(r).map(|_| ())
}

/// The status of a reply, and the rest.
pub fn status(answer: &[u8]) -> Result<(u32, Reader<'_>)> {
    let mut r = Reader::new(answer);
    match r.u32() {
        Ok(status) => Ok((status, r)),
        Err(Malformed) => bail!("a reply without a status"),
    }
}
