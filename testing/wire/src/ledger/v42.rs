//! An NFSv4.2 connection with a session: one compound at a time, on one slot.

use anyhow::{Context, Result, ensure};
use load::nfs::{NFS, PATIENCE, next_xid, put_head};
use serve::nfs::xdr::{Malformed, Reader, Writer};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Operation numbers (RFC 8881, RFC 7862, RFC 8276).
pub mod op {
    pub const COMMIT: u32 = 5;
    pub const GETFH: u32 = 10;
    pub const LOOKUP: u32 = 15;
    pub const OPEN: u32 = 18;
    pub const PUTFH: u32 = 22;
    pub const PUTROOTFH: u32 = 24;
    pub const READ: u32 = 25;
    pub const SAVEFH: u32 = 32;
    pub const SETATTR: u32 = 34;
    pub const WRITE: u32 = 38;
    pub const EXCHANGE_ID: u32 = 42;
    pub const CREATE_SESSION: u32 = 43;
    pub const SEQUENCE: u32 = 53;
    pub const RECLAIM_COMPLETE: u32 = 58;
    pub const ALLOCATE: u32 = 59;
    pub const COPY: u32 = 60;
    pub const DEALLOCATE: u32 = 62;
    pub const CLONE: u32 = 71;
    pub const GETXATTR: u32 = 72;
    pub const SETXATTR: u32 = 73;
    pub const REMOVEXATTR: u32 = 75;
}

/// Maximum size of an answer.
const RECORD_BYTES_MAX: usize = 4 << 20;

/// Operations of one compound.
#[derive(Default)]
pub struct Ops {
    pub w: Writer,
    count: u32,
}

impl Ops {
    pub fn op(mut self, number: u32) -> Self {
        self.w.u32(number);
        self.count += 1;
        self
    }
    pub fn u32(mut self, n: u32) -> Self {
        self.w.u32(n);
        self
    }
    pub fn u64(mut self, n: u64) -> Self {
        self.w.u64(n);
        self
    }
    pub fn opaque(mut self, bytes: &[u8]) -> Self {
        self.w.opaque(bytes);
        self
    }
    pub fn fixed(mut self, bytes: &[u8]) -> Self {
        self.w.fixed(bytes);
        self
    }
    /// Appends the anonymous stateid: all zeros.
    pub fn anonymous(self) -> Self {
        self.fixed(&[0; 16])
    }
    pub fn put(self, handle: &[u8]) -> Self {
        self.op(op::PUTFH).opaque(handle)
    }
}

/// A reply: the status of the compound, and its results after that of SEQUENCE.
pub struct Reply {
    pub status: u32,
    bytes: Vec<u8>,
    at: usize,
}

impl Reply {
    pub fn take<T>(&mut self, take: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>) -> Result<T> {
        let mut r = Reader::new(self.bytes.get(self.at..).unwrap_or_default());
        let value = take(&mut r).map_err(|_| anyhow::anyhow!("a reply is truncated"))?;
        self.at = self.bytes.len() - r.rest().len();
        Ok(value)
    }

    /// Reads the header of the next result, which must be of operation `number` and successful.
    pub fn next(&mut self, number: u32) -> Result<()> {
        let (got, status) = self.take(|r| Ok((r.u32()?, r.u32()?)))?;
        ensure!((got, status) == (number, 0), "result of operation {got}, status {status}; expected {number}, 0");
        Ok(())
    }
}

pub struct Connection {
    stream: TcpStream,
    session: Option<([u8; 16], u32)>,
    pub client: u64,
}

impl Connection {
    /// Connects with a client ID of this name, and a session.
    pub fn open(address: SocketAddr, name: &str, verifier: u64) -> io::Result<Result<Self>> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut this = Self { stream, session: None, client: 0 };
        let exchange = Ops::default().op(op::EXCHANGE_ID).u64(verifier).opaque(name.as_bytes()).u32(0).u32(0).u32(0);
        let mut reply = match this.run(exchange)? {
            Ok(reply) => reply,
            Err(e) => return Ok(Err(e)),
        };
        let begun = (|| -> Result<(u64, u32)> {
            reply.next(op::EXCHANGE_ID)?;
            reply.take(|r| Ok((r.u64()?, r.u32()?)))
        })();
        let (client, sequence) = match begun {
            Ok(begun) => begun,
            Err(e) => return Ok(Err(e.context("EXCHANGE_ID"))),
        };
        this.client = client;
        let channel = |ops: Ops| ops.u32(0).u32(1 << 20).u32(1 << 20).u32(4096).u32(16).u32(1).u32(0);
        let ops = Ops::default().op(op::CREATE_SESSION).u64(client).u32(sequence).u32(0);
        let session = match this.run(channel(channel(ops)).u32(0).u32(0))? {
            Ok(mut reply) => reply.next(op::CREATE_SESSION).and_then(|()| reply.take(|r| r.fixed::<16>())),
            Err(e) => Err(e),
        };
        match session {
            Ok(id) => this.session = Some((id, 0)),
            Err(e) => return Ok(Err(e.context("CREATE_SESSION"))),
        }
        let complete = this.run(Ops::default().op(op::RECLAIM_COMPLETE).u32(0))?;
        Ok(complete.and_then(|reply| {
            ensure!(reply.status == 0, "RECLAIM_COMPLETE returned {}", reply.status);
            Ok(this)
        }))
    }

    /// Runs a compound. The outer error means that the connection is gone; the inner one that the
    /// answer is wrong.
    pub fn run(&mut self, ops: Ops) -> io::Result<Result<Reply>> {
        let (mut w, xid) = (Writer::new(), next_xid());
        put_head(&mut w, xid, (NFS, 4, 1));
        w.opaque(b"");
        w.u32(2);
        match &mut self.session {
            None => w.u32(ops.count),
            Some((id, sequence)) => {
                *sequence += 1;
                w.u32(ops.count + 1);
                w.u32(op::SEQUENCE);
                w.fixed(id);
                w.u32(*sequence);
                w.u32(0);
                w.u32(0);
                w.bool(false);
            }
        }
        w.fixed(&ops.w.to_vec());
        let call = w.to_vec();
        self.stream.write_all(&(call.len() as u32 | 1 << 31).to_be_bytes())?;
        self.stream.write_all(&call)?;
        let mut record = Vec::new();
        loop {
            let mut mark = [0; 4];
            self.stream.read_exact(&mut mark)?;
            let (mark, from) = (u32::from_be_bytes(mark), record.len());
            let len = (mark & !(1 << 31)) as usize;
            if len + from > RECORD_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer is too long"));
            }
            record.resize(from + len, 0);
            self.stream.read_exact(&mut record[from..])?;
            if mark >> 31 == 1 {
                break;
            }
        }
        let has_session = self.session.is_some();
        Ok((|| -> Result<Reply> {
            let mut reply = Reply { status: 0, bytes: record, at: 0 };
            let head = reply.take(|r| Ok([r.u32()?, r.u32()?, r.u32()?, r.u32()?, r.u32()?, r.u32()?]))?;
            ensure!(head == [xid, 1, 0, 0, 0, 0], "the call was refused: {head:?}");
            reply.status = reply.take(|r| r.u32())?;
            reply.take(|r| r.opaque(0).map(drop)).context("a tag")?;
            reply.take(|r| r.u32())?;
            if has_session {
                reply.next(op::SEQUENCE).context("SEQUENCE")?;
                reply.take(|r| r.fixed::<36>())?;
            }
            Ok(reply)
        })())
    }
}
