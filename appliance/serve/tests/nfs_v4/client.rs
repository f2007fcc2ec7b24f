//! A small NFSv4 client that calls the server's registry without a socket.

use serve::nfs::core::Core;
use serve::nfs::exports::{FixedExports, Share, ShareOptions, Watched};
use serve::nfs::handle::HandleKey;
use serve::nfs::locks::LockTable;
use serve::nfs::rpc::{Peer, Registry};
use serve::nfs::v4::{ClientRecords, Config, Server};
use serve::nfs::xdr::{Reader, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub const OK: u32 = 0;

/// A server with shares.
pub struct House {
    pub registry: Arc<Registry>,
    pub core: Arc<Core>,
}

pub fn share(path: &str, fs_guid: u64, vfs: Arc<dyn files::vfs::Vfs>, options: &str) -> Share {
    let options = ShareOptions::parse(options).expect("options").expect("shared");
    Share { path: path.into(), dataset: path[1..].into(), pool_guid: 1, fs_guid, vfs, options }
}

pub fn house(shares: Vec<Share>, records: Arc<dyn ClientRecords>) -> House {
    let core = Arc::new(Core {
        exports: Watched::new(Arc::new(FixedExports::new(shares)), false),
        handles: HandleKey::new([5; 32]),
        locks: Arc::new(LockTable::new(1000)),
        grace: Arc::default(),
        verifier: [9; 8],
        changes: Default::default(),
        figures: Arc::default(),
    });
    let config = Config { lease_seconds: 90, server_id: b"test".to_vec(), minor_versions: [true; 3] };
    let mut registry = Registry::default();
    registry.add(Arc::new(Server::new(core.clone(), config, records)));
    House { registry: Arc::new(registry), core }
}

static XID: AtomicU32 = AtomicU32::new(1);

/// A client host with a user.
#[derive(Clone)]
pub struct Client {
    pub registry: Arc<Registry>,
    pub minor: u32,
    pub uid: u32,
    pub address: [u8; 4],
    pub session: Option<([u8; 16], u32)>,
    pub id: u64,
}

/// Operations of one compound.
#[derive(Default)]
pub struct Ops {
    pub w: Writer,
    pub count: u32,
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
    pub fn opaque(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.w.opaque(bytes.as_ref());
        self
    }
    pub fn fixed(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.w.fixed(bytes.as_ref());
        self
    }
    pub fn root(self) -> Self {
        self.op(24)
    }
    pub fn lookup(self, name: &str) -> Self {
        self.op(15).opaque(name)
    }
    /// PUTROOTFH and LOOKUP of each name.
    pub fn path(self, path: &str) -> Self {
        path.split('/').filter(|n| !n.is_empty()).fold(self.root(), |ops, name| ops.lookup(name))
    }
    pub fn put(self, handle: &[u8]) -> Self {
        self.op(22).opaque(handle)
    }
    pub fn getfh(self) -> Self {
        self.op(10)
    }
    pub fn bits(mut self, numbers: &[u32]) -> Self {
        let mut words = [0_u32; 3];
        numbers.iter().for_each(|n| words[(n / 32) as usize] |= 1 << (n % 32));
        self.w.u32(3);
        words.iter().for_each(|word| self.w.u32(*word));
        self
    }
    pub fn getattr(self, numbers: &[u32]) -> Self {
        self.op(9).bits(numbers)
    }
    pub fn state(self, id: &[u8; 16]) -> Self {
        self.fixed(id)
    }
    /// OPEN by name. `create`: UNCHECKED, with a mode.
    pub fn open(
        self,
        client: &Client,
        owner: &str,
        seqid: u32,
        (access, deny): (u32, u32),
        name: &str,
        create: bool,
    ) -> Self {
        let ops = self.op(18).u32(seqid).u32(access).u32(deny).u64(client.id).opaque(owner);
        let ops = match create {
            false => ops.u32(0),
            true => ops.u32(1).u32(0).bits(&[33]).u32(4).u32(0o644),
        };
        ops.u32(0).opaque(name)
    }
    pub fn write(self, id: &[u8; 16], offset: u64, stable: u32, data: &[u8]) -> Self {
        self.op(38).state(id).u64(offset).u32(stable).opaque(data)
    }
    pub fn read(self, id: &[u8; 16], offset: u64, count: u32) -> Self {
        self.op(25).state(id).u64(offset).u32(count)
    }
    pub fn lock(
        self,
        client: &Client,
        open: &[u8; 16],
        owner: &str,
        (offset, length): (u64, u64),
        write: bool,
    ) -> Self {
        let ops = self.op(12).u32(if write { 2 } else { 1 }).u32(0).u64(offset).u64(length);
        ops.u32(1).u32(0).state(open).u32(0).u64(client.id).opaque(owner)
    }
}

pub struct Reply {
    pub status: u32,
    pub bytes: Vec<u8>,
    at: usize,
}

impl Reply {
    pub fn reader<T>(&mut self, take: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let mut r = Reader::new(&self.bytes[self.at..]);
        let value = take(&mut r);
        self.at = self.bytes.len() - r.rest().len();
        value
    }
    pub fn u32(&mut self) -> u32 {
        self.reader(|r| r.u32().expect("a number"))
    }
    pub fn u64(&mut self) -> u64 {
        self.reader(|r| r.u64().expect("a number"))
    }
    pub fn opaque(&mut self) -> Vec<u8> {
        self.reader(|r| r.opaque(1 << 21).expect("bytes").to_vec())
    }
    pub fn state(&mut self) -> [u8; 16] {
        self.reader(|r| r.fixed().expect("a state ID"))
    }
    /// Reads the header of the next result, which must be of operation `number`. Returns its
    /// status.
    pub fn next(&mut self, number: u32) -> u32 {
        assert_eq!(self.u32(), number, "operation");
        self.u32()
    }
    /// Skips results without a body.
    pub fn skip(&mut self, numbers: &[u32]) -> &mut Self {
        numbers.iter().for_each(|n| assert_eq!(self.next(*n), OK, "operation {n}"));
        self
    }
    pub fn bits(&mut self) -> Vec<u32> {
        let words = self.u32();
        (0..words)
            .flat_map(|i| {
                let word = self.u32();
                (0..32).filter(move |b| word & 1 << b != 0).map(move |b| i * 32 + b)
            })
            .collect()
    }
    pub fn change_info(&mut self) -> (u64, u64) {
        self.u32();
        (self.u64(), self.u64())
    }
    /// Reads the result of OPEN after its status.
    pub fn opened(&mut self) -> [u8; 16] {
        let id = self.state();
        self.change_info();
        self.u32();
        self.bits();
        assert_eq!(self.u32(), 0, "no delegation");
        id
    }
}

impl Client {
    pub fn plain(house: &House, minor: u32, address: [u8; 4]) -> Self {
        Self { registry: house.registry.clone(), minor, uid: 0, address, session: None, id: 0 }
    }

    /// Creates a client with a client ID, and a session if the version has them.
    pub fn new(house: &House, minor: u32, name: &str) -> Self {
        let mut this = Self::plain(house, minor, [10, 0, 0, 1]);
        if minor == 0 {
            this.set_client_id(name, 1);
        } else {
            this.exchange_id(name, 1);
            let mut reply = this.run(Ops::default().op(58).u32(0));
            assert_eq!((reply.status, reply.next(58)), (OK, OK));
        }
        this
    }

    pub fn set_client_id(&mut self, name: &str, verifier: u8) {
        let ops = Ops::default().op(35).fixed([verifier; 8]).opaque(name).u32(0x4000_0000).opaque("tcp");
        let mut reply = self.run(ops.opaque("127.0.0.1.3.232").u32(1));
        reply.skip(&[35]);
        self.id = reply.u64();
        let confirm: [u8; 8] = reply.reader(|r| r.fixed().expect("a verifier"));
        let reply = self.run(Ops::default().op(36).u64(self.id).fixed(confirm));
        assert_eq!(reply.status, OK);
    }

    pub fn exchange_id(&mut self, name: &str, verifier: u8) {
        self.session = None;
        let mut reply = self.run(Ops::default().op(42).fixed([verifier; 8]).opaque(name).u32(0).u32(0).u32(0));
        reply.skip(&[42]);
        self.id = reply.u64();
        let sequence = reply.u32();
        let channel = |ops: Ops| ops.u32(0).u32(1 << 20).u32(1 << 20).u32(8192).u32(16).u32(8).u32(0);
        let ops = channel(channel(Ops::default().op(43).u64(self.id).u32(sequence).u32(0))).u32(0).u32(0);
        let mut reply = self.run(ops);
        reply.skip(&[43]);
        self.session = Some((reply.state(), 0));
    }

    /// Encodes the record of a request.
    pub fn record(&mut self, ops: &Ops, xid: u32) -> Vec<u8> {
        let mut w = Writer::new();
        for n in [xid, 0, 2, 100_003, 4, 1, 1] {
            w.u32(n);
        }
        let mut cred = Writer::new();
        cred.u32(0);
        cred.opaque(b"host");
        cred.u32(self.uid);
        cred.u32(self.uid);
        cred.u32(0);
        w.opaque(&cred.to_vec());
        w.u32(0);
        w.u32(0);
        w.opaque(b"tag");
        w.u32(self.minor);
        match &mut self.session {
            None => w.u32(ops.count),
            Some((id, sequence)) => {
                *sequence += 1;
                w.u32(ops.count + 1);
                w.u32(53);
                w.fixed(id);
                w.u32(*sequence);
                w.u32(0);
                w.u32(0);
                w.bool(true);
            }
        }
        w.fixed(&ops.w.to_vec());
        w.to_vec()
    }

    pub fn send(&self, record: &[u8]) -> Vec<u8> {
        let [a, b, c, d] = self.address;
        let peer = Peer::datagram(([a, b, c, d], 800).into(), ([127, 0, 0, 1], 2049).into());
        let mut out = Writer::new();
        self.registry.answer(&peer, record, &mut out).expect("an RPC message");
        out.to_vec()
    }

    pub fn parse(&self, bytes: Vec<u8>) -> Reply {
        let mut reply = Reply { status: 0, bytes, at: 24 };
        reply.status = reply.u32();
        assert_eq!(reply.opaque(), b"tag");
        let _count = reply.u32();
        if self.session.is_some() && reply.next(53) == OK {
            reply.at += 36;
        }
        reply
    }

    pub fn run(&mut self, ops: Ops) -> Reply {
        let record = self.record(&ops, XID.fetch_add(1, Ordering::Relaxed));
        let bytes = self.send(&record);
        self.parse(bytes)
    }

    /// The file handle of a path.
    pub fn handle(&mut self, path: &str) -> Vec<u8> {
        let names = path.split('/').filter(|n| !n.is_empty()).count();
        let mut reply = self.run(Ops::default().path(path).getfh());
        assert_eq!(reply.status, OK, "{path}");
        reply.skip(&[24]).skip(&vec![15; names]).skip(&[10]);
        reply.opaque()
    }

    /// Opens a file in a directory, confirming if necessary. Returns its stateid and file handle.
    pub fn open(
        &mut self,
        dir: &[u8],
        owner: &str,
        share: (u32, u32),
        name: &str,
        create: bool,
    ) -> Result<([u8; 16], Vec<u8>), u32> {
        let mut reply = self.run(Ops::default().put(dir).open(self, owner, 1, share, name, create).getfh());
        if reply.status != OK {
            return Err(reply.status);
        }
        reply.skip(&[22, 18]);
        let mut id = reply.opened();
        reply.skip(&[10]);
        let handle = reply.opaque();
        if self.minor == 0 {
            let mut reply = self.run(Ops::default().put(&handle).op(20).state(&id).u32(2));
            if reply.status == OK {
                reply.skip(&[22, 20]);
                id = reply.state();
            }
        }
        Ok((id, handle))
    }
}
