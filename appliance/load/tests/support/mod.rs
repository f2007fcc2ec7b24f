//! A server of NFS on a file system in memory.

use files::memory::MemoryVfs;
use files::vfs::Vfs;
use serve::nfs::{Config, Server, Share, ShareOptions, exports::FixedExports};
use std::net::SocketAddr;
use std::sync::Arc;

pub struct Running {
    pub address: SocketAddr,
    _server: Server,
}

/// Shares `/export`, in which there is a directory `deep`.
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
