//! An NFS server with a file system in memory, and an NBD server with a volume in memory.

use files::memory::MemoryVfs;
use files::vfs::Vfs;
use object::{Extent, Part};
use serve::nbd::{Export, Exports, Found, Listed, Opened};
use serve::nfs::{Config, Server, Share, ShareOptions, exports::FixedExports};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

pub struct Running {
    pub address: SocketAddr,
    _server: Server,
}

/// Shares `/export`, which contains the directory `deep`.
pub fn server() -> Running {
    let mut config = Config::new([7; 32]);
    config.listen.push(([127, 0, 0, 1], 0).into());
    let mut vfs = MemoryVfs::new().identity(0x7765_6972);
    let root = vfs.root();
    vfs.attr_mut(root).mode = 0o777;
    let deep = vfs.add_dir(root, "deep");
    vfs.attr_mut(deep).mode = 0o777;
    let share = Share {
        path: "/export".to_owned(),
        dataset: "memory".to_owned(),
        pool_guid: 1,
        fs_guid: 0x7765_6972,
        vfs: Arc::new(vfs.writable()),
        options: ShareOptions::parse("rw,insecure,no_root_squash").expect("options").expect("on"),
    };
    let server = Server::start(config, Arc::new(FixedExports::new(vec![share]))).expect("a server");
    Running { address: server.addresses()[0], _server: server }
}

/// A volume in memory.
struct Memory(Mutex<Vec<u8>>);

impl Export for Memory {
    fn size(&self) -> u64 {
        self.0.lock().expect("no panic").len() as u64
    }

    fn block_bytes(&self) -> u64 {
        4096
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read(&self, offset: u64, len: usize) -> errors::Result<Vec<Part>> {
        let at = offset as usize;
        Ok(vec![Part::Data(self.0.lock().expect("no panic")[at..at + len].to_vec().into())])
    }

    fn read_at_once(&self, _offset: u64, _len: usize) -> errors::Result<Option<Vec<Part>>> {
        Ok(None)
    }

    fn write(&self, offset: u64, data: &[u8]) -> errors::Result<()> {
        let at = offset as usize;
        self.0.lock().expect("no panic")[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn write_zeros(&self, _offset: u64, _len: u64, _punch: bool) -> errors::Result<()> {
        Ok(())
    }

    fn trim(&self, _offset: u64, _len: u64) -> errors::Result<()> {
        Ok(())
    }

    fn flush(&self) -> errors::Result<()> {
        Ok(())
    }

    fn extents(&self, _offset: u64, _len: u64, _max: usize) -> errors::Result<Vec<Extent>> {
        Ok(Vec::new())
    }

    fn prefetch(&self, _offset: u64, _len: u64) {}
}

struct One(Arc<Memory>);

impl Exports for One {
    fn list(&self) -> Vec<Listed> {
        Vec::new()
    }

    fn open(&self, name: &str) -> Found {
        if name != "tank/v" {
            return Found::Unknown;
        }
        let export = Arc::clone(&self.0) as Arc<dyn Export>;
        Found::Export(Opened { name: name.to_owned(), export, read_only: false, hold: Arc::new(()) })
    }
}

/// Serves the volume `tank/v`, of one mebibyte, on a socket.
pub fn volume(socket: &std::path::Path) -> serve::nbd::Server {
    let config = serve::nbd::Config { socket: Some(socket.to_owned()), ..serve::nbd::Config::default() };
    let memory = Arc::new(Memory(Mutex::new(vec![0; 1 << 20])));
    serve::nbd::Server::start(config, Arc::new(One(memory))).expect("a server")
}
