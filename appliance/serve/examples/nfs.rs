//! Serves a tree in memory over NFS. Test suites and benchmarks use it to separate the behaviour of
//! the protocol from that of the storage engine.
//!
//!     cargo run --release -p weir-serve --example nfs -- ADDRESS:PORT
//!         [options=SHARENFS] [files=N] [file-bytes=N] [portmap=ADDRESS:PORT] [lease=SECONDS]

use files::memory::MemoryVfs;
use files::vfs::Vfs;
use serve::nfs::{Config, PortMapper, Server, Share, ShareOptions, exports::FixedExports};
use std::sync::Arc;

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let other = |text: String| std::io::Error::other(text);
    let address = args.next().ok_or_else(|| other("at which address?".to_owned()))?;
    let mut config = Config::new([7; 32]);
    config.listen.push(address.parse().map_err(std::io::Error::other)?);
    let (mut options, mut count, mut bytes) = ("rw,insecure,no_root_squash".to_owned(), 0, 0);
    for arg in args {
        match arg.split_once('=') {
            Some(("options", text)) => options = text.to_owned(),
            Some(("files", n)) => count = n.parse().map_err(std::io::Error::other)?,
            Some(("file-bytes", n)) => bytes = n.parse().map_err(std::io::Error::other)?,
            Some(("lease", n)) => config.lease_seconds = n.parse().map_err(std::io::Error::other)?,
            Some(("portmap", a)) => {
                config.port_mapper = PortMapper::Own(vec![a.parse().map_err(std::io::Error::other)?]);
            }
            _ => return Err(other(format!("what is {arg}?"))),
        }
    }
    let mut vfs = MemoryVfs::new().identity(0x7765_6972);
    let root = vfs.root();
    vfs.attr_mut(root).mode = 0o777;
    for i in 0..count {
        vfs.add_file(root, format!("file{i}"), vec![i as u8; bytes]);
    }
    let share = Share {
        path: "/memory".to_owned(),
        dataset: "memory".to_owned(),
        pool_guid: 1,
        fs_guid: 0x7765_6972,
        vfs: Arc::new(vfs.writable()),
        options: ShareOptions::parse(&options).map_err(other)?.ok_or_else(|| other("it is off".to_owned()))?,
    };
    let server = Server::start(config, Arc::new(FixedExports::new(vec![share])))?;
    println!("serving /memory at {:?}", server.addresses());
    loop {
        std::thread::park();
    }
}
