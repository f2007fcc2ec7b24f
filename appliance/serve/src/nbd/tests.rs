//! A server over a device in memory, and a client that controls each byte it sends.

use super::proto::{Command, GREETING, option};
use super::*;
use errors::{Error, Result};
use object::{Extent, Part};
use parking_lot::{Condvar, Mutex};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SIZE: u64 = 1 << 20;
/// Reads at this offset wait until the test releases them.
const SLOW: u64 = 512 << 10;

#[derive(Default)]
struct Disk {
    bytes: Mutex<Vec<u8>>,
    may_go: Mutex<bool>,
    gone: Condvar,
    flushes: AtomicUsize,
}

impl Export for Disk {
    fn size(&self) -> u64 {
        SIZE
    }
    fn block_bytes(&self) -> u64 {
        16384
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read(&self, offset: u64, len: usize) -> Result<Vec<Part>> {
        let mut may_go = self.may_go.lock();
        while offset == SLOW && !*may_go {
            self.gone.wait(&mut may_go);
        }
        drop(may_go);
        if offset == SIZE - 512 {
            return Err(Error::corrupt("disk", "a bad block"));
        }
        let bytes = self.bytes.lock()[offset as usize..offset as usize + len].to_vec();
        // Blocks of 16 KiB; those of zeros are holes.
        let mut parts = Vec::new();
        for block in bytes.chunks(16384) {
            match (block.iter().all(|b| *b == 0), parts.last_mut()) {
                (true, Some(Part::Hole(before))) => *before += block.len(),
                (true, _) => parts.push(Part::Hole(block.len())),
                (false, _) => parts.push(Part::Data(block.to_vec().into())),
            }
        }
        Ok(parts)
    }
    fn read_at_once(&self, offset: u64, len: usize) -> Result<Option<Vec<Part>>> {
        if offset == SLOW { Ok(None) } else { self.read(offset, len).map(Some) }
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.bytes.lock()[offset as usize..offset as usize + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn write_zeros(&self, offset: u64, len: u64, _punch: bool) -> Result<()> {
        self.bytes.lock()[offset as usize..(offset + len) as usize].fill(0);
        Ok(())
    }
    fn trim(&self, offset: u64, len: u64) -> Result<()> {
        self.write_zeros(offset, len, true)
    }
    fn flush(&self) -> Result<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn extents(&self, _offset: u64, len: u64, max: usize) -> Result<Vec<Extent>> {
        let half = len / 2;
        let all = [Extent { bytes: half, is_hole: false }, Extent { bytes: len - half, is_hole: true }];
        Ok(all[..max.min(2)].to_vec())
    }
    fn prefetch(&self, _offset: u64, _len: u64) {}
}

struct One(Arc<Disk>);

impl Exports for One {
    fn list(&self) -> Vec<Listed> {
        vec![Listed { name: "tank/v".to_owned(), description: "x".to_owned() }]
    }
    fn open(&self, name: &str) -> Found {
        let opened = |read_only| {
            Found::Export(Opened { name: name.to_owned(), export: self.0.clone(), read_only, hold: Arc::new(()) })
        };
        match name {
            "tank/v" => opened(false),
            "tank/v@s" => opened(true),
            "locked" => Found::Refused("no key".to_owned()),
            _ => Found::Unknown,
        }
    }
}

struct Rig {
    disk: Arc<Disk>,
    path: std::path::PathBuf,
    _server: Server,
}

impl Rig {
    fn new(name: &str) -> Self {
        let disk = Arc::new(Disk { bytes: Mutex::new(vec![0; SIZE as usize]), ..Disk::default() });
        let path = std::env::temp_dir().join(format!("weir-nbd-{}-{name}.sock", std::process::id()));
        let config = Config { socket: Some(path.clone()), patience: Duration::from_secs(5), ..Config::default() };
        let server = Server::start(config, Arc::new(One(disk.clone()))).expect("it starts");
        Self { disk, path, _server: server }
    }

    fn connect(&self) -> Client {
        let socket = UnixStream::connect(&self.path).expect("it listens");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let mut client = Client { socket };
        client.greet();
        client
    }

    /// A client that has chosen an export.
    fn chosen(&self, name: &str, structured: bool) -> Client {
        let mut client = self.connect();
        if structured {
            assert_eq!(client.ask(option::STRUCTURED_REPLY, &[]).0, 1);
            let query = [&text(name)[..], &1_u32.to_be_bytes(), &text("base:allocation")].concat();
            let (kind, data) = client.ask(option::SET_META_CONTEXT, &query);
            assert_eq!((kind, &data[4..]), (4, &b"base:allocation"[..]));
            assert_eq!(client.answer().0, 1);
        }
        let (mut kind, _) = client.ask(option::GO, &[&text(name)[..], &[0, 0]].concat());
        while kind == 3 {
            (kind, _) = client.answer();
        }
        assert_eq!(kind, 1);
        client
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

struct Client<S = UnixStream> {
    socket: S,
}

/// A server with few places, reachable over TCP.
struct Crowded {
    disk: Arc<Disk>,
    server: Server,
}

impl Crowded {
    fn new(connections: usize, connections_of_one: usize) -> Self {
        Self::with(Config { connections, connections_of_one, ..Config::default() })
    }

    fn with(config: Config) -> Self {
        let disk = Arc::new(Disk { bytes: Mutex::new(vec![0; SIZE as usize]), ..Disk::default() });
        let listen = vec!["127.0.0.1:0".parse().expect("an address")];
        let config = Config { listen, ..config };
        Self { server: Server::start(config, Arc::new(One(disk.clone()))).expect("it starts"), disk }
    }

    /// Connects without a handshake.
    fn connect(&self) -> Client<TcpStream> {
        let socket = TcpStream::connect(self.server.addresses()[0]).expect("it listens");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        Client { socket }
    }

    /// Connects from another address of this host, which is another client.
    fn connect_from(&self, from: [u8; 4]) -> Client<TcpStream> {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&fd, &std::net::SocketAddr::from((from, 0))).expect("an address of loopback");
        connect(&fd, &self.server.addresses()[0]).expect("it listens");
        let socket = TcpStream::from(fd);
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        Client { socket }
    }

    /// Connects and chooses an export.
    fn chosen(&self) -> Client<TcpStream> {
        self.connect().choose()
    }
}

impl Client<TcpStream> {
    fn choose(self) -> Self {
        let mut client = self;
        client.greet();
        let (mut kind, _) = client.ask(option::GO, &[&text("tank/v")[..], &[0, 0]].concat());
        while kind == 3 {
            (kind, _) = client.answer();
        }
        assert_eq!(kind, 1);
        client
    }
}

impl Client<TcpStream> {
    /// Whether a read is answered.
    fn is_served(&mut self) -> bool {
        self.request(0, Command::Read.code().into(), 7, 0, 512);
        let served = self.simple() == (7, 0);
        self.take(512);
        served
    }
}

impl<S: Read + Write> Client<S> {
    fn greet(&mut self) {
        assert_eq!(self.take(18), [&GREETING[..], &[0, 3]].concat());
        self.put(&3_u32.to_be_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("it reads");
    }

    fn take(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        self.socket.read_exact(&mut bytes).expect("it answers");
        bytes
    }

    fn number(&mut self, n: usize) -> u64 {
        self.take(n).iter().fold(0, |sum, b| sum << 8 | u64::from(*b))
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.socket.read(&mut [0]), Ok(0) | Err(_))
    }

    fn ask(&mut self, option: u32, data: &[u8]) -> (u32, Vec<u8>) {
        let head = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes()].concat();
        self.put(&[&head[..], data].concat());
        self.answer()
    }

    fn answer(&mut self) -> (u32, Vec<u8>) {
        self.take(12);
        let (kind, length) = (self.number(4) as u32, self.number(4) as usize);
        (kind, self.take(length))
    }

    fn request(&mut self, flags: u16, command: u16, cookie: u64, offset: u64, length: u32) {
        let mut all = 0x2560_9513_u32.to_be_bytes().to_vec();
        all.extend(flags.to_be_bytes());
        all.extend(command.to_be_bytes());
        all.extend(cookie.to_be_bytes());
        all.extend(offset.to_be_bytes());
        all.extend(length.to_be_bytes());
        self.put(&all);
    }

    /// Cookie and error of a simple reply.
    fn simple(&mut self) -> (u64, u32) {
        assert_eq!(self.number(4), 0x6744_6698);
        let error = self.number(4) as u32;
        (self.number(8), error)
    }

    /// Flags, type, cookie and payload of a chunk.
    fn chunk(&mut self) -> (u64, u64, u64, Vec<u8>) {
        assert_eq!(self.number(4), 0x668e_33ef);
        let (flags, kind, cookie, length) = (self.number(2), self.number(2), self.number(8), self.number(4));
        (flags, kind, cookie, self.take(length as usize))
    }
}

#[test]
fn a_handshake_answers_every_option() {
    let rig = Rig::new("options");
    let mut client = rig.connect();
    let (kind, data) = client.ask(option::LIST, &[]);
    assert_eq!((kind, data), (2, [&text("tank/v")[..], b"x"].concat()));
    assert_eq!(client.answer().0, 1);
    assert_eq!(client.ask(99, b"what").0, 1 << 31 | 1);
    assert_eq!(client.ask(option::STARTTLS, &[]).0, 1 << 31 | 2);
    assert_eq!(client.ask(option::LIST, b"no").0, 1 << 31 | 3);
    assert_eq!(client.ask(option::INFO, &[&text("nosuch")[..], &[0, 0]].concat()).0, 1 << 31 | 6);
    assert_eq!(client.ask(option::INFO, &[&text("locked")[..], &[0, 0]].concat()).0, 1 << 31 | 2);
    assert_eq!(client.ask(option::GO, &[0, 0, 0, 9, 1]).0, 1 << 31 | 3);
    // Contexts require structured replies.
    let query = [&text("tank/v")[..], &0_u32.to_be_bytes()].concat();
    assert_eq!(client.ask(option::LIST_META_CONTEXT, &query).0, 1 << 31 | 3);
    assert_eq!(client.ask(option::STRUCTURED_REPLY, &[]).0, 1);
    assert_eq!(client.ask(option::LIST_META_CONTEXT, &query).0, 4);
    assert_eq!(client.answer().0, 1);
    let (kind, data) = client.ask(option::INFO, &[&text("tank/v@s")[..], &[0, 1, 0, 3]].concat());
    assert_eq!((kind, &data[..10]), (3, &[&[0, 0][..], &SIZE.to_be_bytes()].concat()[..]));
    assert_eq!(data[11] & 2, 2, "read-only");
    assert_eq!(client.answer(), (3, [&[0, 3][..], &[1, 16384, 32 << 20].map(u32::to_be_bytes).concat()].concat()));
    assert_eq!(client.answer().0, 1);
    assert_eq!(client.ask(option::ABORT, &[]).0, 1);
    assert!(client.is_closed());
}

/// Regression: a client that read no answers held all memory, and others waited until it was
/// disconnected.
#[test]
fn a_client_that_reads_no_answers_leaves_memory_for_another_client() {
    for is_cached in [false, true] {
        let server = Crowded::with(Config { memory_bytes: 8 << 20, ..Config::default() });
        *server.disk.may_go.lock() = true;
        let (offset, length) = (if is_cached { 0 } else { SLOW }, 512 << 10);
        let mut greedy: Vec<_> = (0..4).map(|_| server.chosen()).collect();
        let requests = 60;
        for client in &mut greedy {
            (0..requests).for_each(|cookie| client.request(0, Command::Read.code().into(), cookie, offset, length));
        }
        let used = || server.server.figures().memory.load(Ordering::SeqCst);
        wait_until("little is answered", || used() > 2 << 20);
        for _ in 0..5 {
            let mut other = server.connect_from([127, 0, 0, 2]).choose();
            other.request(0, Command::Read.code().into(), 9, SLOW, length);
            assert_eq!(other.simple(), (9, 0));
            other.take(length as usize);
        }
        // It was not disconnected, and gets all answers once it reads them.
        std::thread::scope(|scope| {
            for client in &mut greedy {
                scope.spawn(move || {
                    for _ in 0..requests {
                        assert_eq!(client.simple().1, 0);
                        client.take(length as usize);
                    }
                });
            }
        });
        wait_until("memory is not released", || used() == 0);
    }
}

const NBD_CMD_DISC: u16 = 2;
const NBD_CMD_FLUSH: u16 = 3;

/// Regression: requests without data were executed and their answers queued without any limit, for
/// a client that read none.
#[test]
fn a_client_that_reads_no_answers_is_not_served_any_more() {
    let rig = Rig::new("unread");
    let mut client = rig.chosen("tank/v", false);
    // Their answers take more than twice the memory of a connection for answers.
    let requests = 2 * super::stream::QUEUED_MAX as u64 / 16 + 50_000;
    let mut sender = Client { socket: client.socket.try_clone().expect("a socket") };
    let sends = std::thread::spawn(move || {
        (0..requests).for_each(|cookie| sender.request(0, NBD_CMD_FLUSH, cookie, 0, 0));
    });
    let done = || rig.disk.flushes.load(Ordering::SeqCst);
    wait_until("little is answered", || done() > 100);
    let mut before = 0;
    while before != done() {
        before = done();
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!((before as u64) < requests, "all requests are executed although the client reads no answers");
    for _ in 0..requests {
        assert_eq!(client.simple().1, 0);
    }
    sends.join().expect("all is sent");
}

/// The certificate and key were made with openssl for `localhost`.
fn tls() -> (rustls::ServerConfig, rustls::ClientConfig) {
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
    let certificate = CertificateDer::from(&include_bytes!("tests/certificate.der")[..]);
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(&include_bytes!("tests/key.der")[..]));
    let server = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let server = server.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let server = server.with_single_cert(vec![certificate.clone()], key).expect("a key");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let client = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let client = client.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    (server, client.with_no_client_auth())
}

/// Many answers are in flight while the client reads late, so that encrypted ones wait for it.
#[test]
fn answers_are_encrypted_in_order_however_late_the_client_reads_them() {
    let (server_tls, client_tls) = tls();
    let server_tls = Arc::new(server_tls);
    let config = Config { tls: Some(Arc::new(move || server_tls.clone())), tls_required: true, ..Config::default() };
    let server = Crowded::with(config);
    *server.disk.may_go.lock() = true;
    let pattern: Vec<u8> = (0..SIZE as u32 / 4).flat_map(u32::to_be_bytes).collect();
    server.disk.bytes.lock().copy_from_slice(&pattern);
    let mut client = server.connect();
    client.greet();
    assert_eq!(client.ask(option::STARTTLS, &[]).0, 1);
    let name = "localhost".try_into().expect("a name");
    let tls = rustls::ClientConnection::new(Arc::new(client_tls), name).expect("a client");
    let mut client = Client { socket: rustls::StreamOwned::new(tls, client.socket) };
    let (mut kind, _) = client.ask(option::GO, &[&text("tank/v")[..], &[0, 0]].concat());
    while kind == 3 {
        (kind, _) = client.answer();
    }
    assert_eq!(kind, 1);
    let (requests, length) = (100, 300_000);
    for cookie in 0..requests {
        // Every other one is answered by another thread.
        let offset = if cookie % 2 == 0 { cookie } else { SLOW };
        client.request(0, Command::Read.code().into(), cookie, offset, length);
    }
    std::thread::sleep(Duration::from_millis(300));
    let mut answered = Vec::new();
    for _ in 0..requests {
        let (cookie, error) = client.simple();
        let from = if cookie % 2 == 0 { cookie } else { SLOW } as usize;
        assert_eq!(error, 0);
        assert!(client.take(length as usize) == pattern[from..from + length as usize], "answer {cookie}");
        answered.push(cookie);
    }
    answered.sort_unstable();
    assert_eq!(answered, Vec::from_iter(0..requests));
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn written_data_is_read_back_with_and_without_structured_replies() {
    let rig = Rig::new("written");
    let mut client = rig.chosen("tank/v", false);
    client.request(1, 1, 7, 1000, 6);
    client.put(b"abcdef");
    assert_eq!(client.simple(), (7, 0));
    assert_eq!(rig.disk.flushes.load(Ordering::SeqCst), 1, "FUA");
    client.request(0, 0, 8, 998, 10);
    assert_eq!(client.simple(), (8, 0));
    assert_eq!(client.take(10), b"\0\0abcdef\0\0");
    client.request(0, 3, 9, 0, 0);
    assert_eq!(client.simple(), (9, 0));
    client.request(0, 6, 10, 1002, 2);
    assert_eq!(client.simple(), (10, 0));
    // Zeros that must be allocated are not fast.
    client.request(2 | 16, 6, 11, 0, 512);
    assert_eq!(client.simple(), (11, 95));
    for (command, offset, length, error) in
        [(0, SIZE - 1, 2, 22), (6, SIZE, 1, 28), (4, u64::MAX, 2, 22), (9, 0, 0, 22)]
    {
        client.request(0, command, 12, offset, length);
        assert_eq!(client.simple(), (12, error), "command {command}");
    }
    // The data of a refused write is skipped.
    client.request(0, 1, 13, SIZE - 1, 5);
    client.put(b"12345");
    assert_eq!(client.simple(), (13, 28));
    client.request(0, 0, 14, SIZE - 512, 512);
    assert_eq!(client.simple(), (14, 5), "a bad block");

    let mut other = rig.chosen("tank/v", true);
    other.request(0, 0, 20, 0, 48 << 10);
    let (flags, kind, cookie, data) = other.chunk();
    assert_eq!((flags, kind, cookie, &data[8 + 1000..8 + 1006]), (0, 1, 20, &b"ab\0\0ef"[..]));
    let (flags, kind, _, data) = other.chunk();
    assert_eq!((flags, kind, data), (1, 2, [&16384_u64.to_be_bytes()[..], &32768_u32.to_be_bytes()].concat()));
    other.request(4, 0, 21, 0, 48 << 10);
    let (flags, kind, _, data) = other.chunk();
    assert_eq!((flags, kind, data.len()), (1, 1, 8 + (48 << 10)), "in one piece");
    other.request(0, 7, 22, 0, 8192);
    let (_, kind, _, data) = other.chunk();
    let expected = [1, 4096, 0, 4096, 3].map(u32::to_be_bytes).concat();
    assert_eq!((kind, data), (5, expected));
    other.request(8, 7, 23, 0, 8192);
    assert_eq!(other.chunk().3.len(), 12, "one extent");
    other.request(0, 0, 24, SIZE, 1);
    let (flags, kind, _, data) = other.chunk();
    assert_eq!((flags, kind, &data[..4]), (1, 1 << 15 | 1, &[0, 0, 0, 22][..]));
    let mut reader = rig.chosen("tank/v@s", false);
    reader.request(0, 4, 30, 0, 4096);
    assert_eq!(reader.simple(), (30, 1), "read-only");
    client.request(0, NBD_CMD_DISC, 0, 0, 0);
    drop(client);
}

#[test]
fn a_read_that_waits_keeps_no_other_waiting() {
    let rig = Rig::new("slow");
    let mut client = rig.chosen("tank/v", false);
    for n in 0..20 {
        client.request(0, 0, 100 + n, SLOW, 512);
    }
    client.request(0, 0, 1, 0, 512);
    assert_eq!(client.simple(), (1, 0));
    client.take(512);
    client.request(0, 1, 2, 0, 3);
    client.put(b"abc");
    assert_eq!(client.simple(), (2, 0));
    *rig.disk.may_go.lock() = true;
    rig.disk.gone.notify_all();
    let mut cookies: Vec<u64> = (0..20)
        .map(|_| {
            let (cookie, error) = client.simple();
            assert_eq!((error, client.take(512).len()), (0, 512));
            cookie
        })
        .collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (100..120).collect::<Vec<_>>());
}

#[test]
fn an_invalid_request_ends_only_its_connection() {
    let rig = Rig::new("nonsense");
    let mut good = rig.chosen("tank/v", true);
    let mut chance = rig::Chance::new(7);
    for round in 0..40 {
        let mut bad = if round % 2 == 0 { rig.connect() } else { rig.chosen("tank/v", round % 4 == 1) };
        // The connection may be closed before everything was written.
        let _ = bad.socket.write_all(&chance.bytes(200));
        assert!(bad.is_closed(), "round {round}");
    }
    let mut bad = rig.connect();
    bad.put(&[&b"IHAVEOPT"[..], &option::GO.to_be_bytes(), &u32::MAX.to_be_bytes()].concat());
    assert!(bad.is_closed(), "an option of 4 GiB");
    let mut bad = rig.chosen("tank/v", false);
    bad.request(0, 1, 1, 0, u32::MAX);
    assert!(bad.is_closed(), "a write of 4 GiB");
    let mut bad = rig.chosen("tank/v", false);
    bad.request(0, 1, 1, 0, 4096);
    bad.put(b"half of it");
    drop(bad);
    good.request(0, 0, 5, 0, 512);
    assert_eq!(good.chunk().2, 5);
}

#[test]
fn unread_answers_block_no_other_client() {
    let rig = Rig::new("lazy");
    rig.disk.bytes.lock().fill(9);
    let mut lazy = rig.chosen("tank/v", false);
    *rig.disk.may_go.lock() = true;
    for n in 0..60 {
        lazy.request(0, 0, n, SLOW, 256 << 10);
    }
    let mut good = rig.chosen("tank/v", false);
    for n in 0..50 {
        good.request(0, 0, n, SLOW, 512);
        assert_eq!(good.simple(), (n, 0));
        good.take(512);
    }
    for _ in 0..60 {
        assert_eq!(lazy.simple().1, 0);
        assert!(lazy.take(256 << 10).iter().all(|b| *b == 9));
    }
}

#[test]
fn clients_that_shake_no_hands_keep_no_place_from_others_and_disks_that_are_not_used_keep_theirs() {
    let crowded = Crowded::new(8, 8);
    let mut disks: Vec<_> = (0..3).map(|_| crowded.chosen()).collect();
    assert!(disks.iter_mut().all(Client::is_served));
    let idle: Vec<_> = (0..30).map(|_| crowded.connect()).collect();
    let mut further = crowded.chosen();
    assert!(further.is_served(), "it has the slot of an idle connection");
    assert!(disks.iter_mut().all(Client::is_served), "no disk lost its slot");
    drop(idle);
    drop(crowded.disk);
}

#[test]
fn a_client_that_leaves_a_request_unfinished_makes_room_and_one_network_does_not_take_all_places() {
    let crowded = Crowded::new(4, 3);
    let mut disk = crowded.chosen();
    assert!(disk.is_served());
    let mut half: Vec<_> = (0..2).map(|_| crowded.chosen()).collect();
    // A write whose data does not arrive, and an incomplete request.
    half[0].request(0, Command::Write.code().into(), 1, 0, 4096);
    half[1].put(&0x2560_9513_u32.to_be_bytes());
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    for _ in 0..2 {
        let mut further = loop {
            // For a moment, its data may still be in flight.
            let mut client = crowded.connect();
            let mut greeting = [0; 18];
            if client.socket.read_exact(&mut greeting).is_ok() {
                break client;
            }
            assert!(std::time::Instant::now() < deadline, "no place");
            std::thread::sleep(Duration::from_millis(50));
        };
        further.put(&3_u32.to_be_bytes());
        let (mut kind, _) = further.ask(option::GO, &[&text("tank/v")[..], &[0, 0]].concat());
        while kind == 3 {
            (kind, _) = further.answer();
        }
        assert!(further.is_served());
        // Stays open, so that the next client needs another place.
        half.push(further);
    }
    assert!(half.iter_mut().take(2).all(Client::is_closed) && disk.is_served());
    // All three are in use now: a fourth connection of this network is refused.
    assert!(crowded.connect().is_closed());
}
