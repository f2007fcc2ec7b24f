//! Commands on a file system that an NFS client uses: the client continues or gets the right error,
//! and nothing keeps an exported pool open.

use load::nfs::{self as client, Connection, args, procedure as p};
use std::time::{Duration, Instant};
use wire::{Filer, Server};

const OK: u32 = 0;
const ACCES: u32 = 13;
const STALE: u32 = 70;

struct Client {
    filer: Filer,
    connection: Connection,
    _folder: tempfile::TempDir,
}

impl Client {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("a path");
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_wire"));
        let layout = crash::Layout::find("single").expect("a layout");
        let mut filer = Filer::create(program, Server::Weir(None), layout, &path, 1, "32M").expect("a pool");
        filer.start().expect("serves");
        let connection = Connection::open(filer.address).expect("connects");
        Self { filer, connection, _folder: folder }
    }

    fn weir(&self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        self.filer.weir(&words).unwrap_or_else(|e| panic!("{e:#}"));
    }

    fn mount(&self, path: &str) -> Vec<u8> {
        client::mount(self.filer.address, path).unwrap_or_else(|e| panic!("{e:#}"))
    }

    fn call(&mut self, procedure: u32, bytes: &[u8]) -> Vec<u8> {
        self.connection.call(procedure, bytes).expect("an answer")
    }

    /// Creates a file with contents on stable storage.
    fn file(&mut self, dir: &[u8], contents: &[u8]) -> Vec<u8> {
        let answer = self.call(
            p::CREATE,
            &args(|w| {
                w.opaque(dir);
                w.opaque(b"file");
                (0..7).for_each(|_| w.u32(0));
            }),
        );
        let (status, mut r) = client::status(&answer).expect("a status");
        assert_eq!((status, r.bool()), (OK, Ok(true)));
        let handle = r.opaque(64).expect("a handle").to_vec();
        let answer = self.call(
            p::WRITE,
            &args(|w| {
                w.opaque(&handle);
                w.u64(0);
                w.u32(contents.len() as u32);
                w.u32(2);
                w.opaque(contents);
            }),
        );
        assert_eq!(client::status(&answer).expect("a status").0, OK);
        handle
    }

    fn read(&mut self, handle: &[u8]) -> Result<Vec<u8>, u32> {
        let answer = self.call(
            p::READ,
            &args(|w| {
                w.opaque(handle);
                w.u64(0);
                w.u32(100);
            }),
        );
        let (status, mut r) = client::status(&answer).expect("a status");
        if status != OK {
            return Err(status);
        }
        client::optional_attributes(&mut r).expect("attributes");
        let (_count, _end) = (r.u32().expect("count"), r.bool().expect("end"));
        Ok(r.opaque(100).expect("data").to_vec())
    }
}

#[test]
fn client_state_follows_commands() {
    let mut client = Client::new();
    for name in ["a", "b"] {
        client.weir(&format!("zfs create crash/{name}"));
    }
    let (dir_a, dir_b) = (client.mount("/crash/a"), client.mount("/crash/b"));
    let (a, b) = (client.file(&dir_a, b"of a"), client.file(&dir_b, b"of b"));
    client.weir("zfs destroy crash/b");
    assert_eq!(client.read(&b), Err(STALE));
    assert_eq!(client.read(&a).as_deref(), Ok(&b"of a"[..]));
    client.weir("zfs rename crash/a crash/c");
    assert_eq!(client.read(&a).as_deref(), Ok(&b"of a"[..]), "a handle has no name in it");
    // A change of the host list takes effect at MOUNT and at the next call.
    client.weir("zfs set sharenfs=rw=10.9.9.9 crash/c");
    assert_eq!(client.read(&a), Err(ACCES));
    assert!(client::mount(client.filer.address, "/crash/c").is_err());
    client.weir("zfs set sharenfs=off crash/c");
    assert_eq!(client.read(&a), Err(STALE));
    client.weir("zfs inherit sharenfs crash/c");
    assert_eq!(client.read(&a).as_deref(), Ok(&b"of a"[..]));
    client.weir("zfs unshare crash/c");
    assert_eq!(client.read(&a), Err(STALE));
    client.weir("zfs share crash/c");
    assert_eq!(client.read(&a).as_deref(), Ok(&b"of a"[..]));
    client.filer.end().expect("ends well");
}

#[test]
fn an_exported_pool_is_released_and_its_handles_work_after_import() {
    let mut client = Client::new();
    let dir = client.mount("/crash");
    let file = client.file(&dir, b"contents");
    assert!(client.filer.open_devices().expect("a process") > 0);
    client.weir("zpool export crash");
    // No call is needed for that.
    let deadline = Instant::now() + Duration::from_secs(120);
    while client.filer.open_devices().expect("a process") > 0 {
        assert!(Instant::now() < deadline, "the devices are still open");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(client.read(&file), Err(STALE));
    let disks = client.filer.disks().display().to_string();
    client.weir(&format!("zpool import -N -d {disks} crash"));
    assert_eq!(client.read(&file).as_deref(), Ok(&b"contents"[..]));
    client.filer.end().expect("ends well");
}
