//! Mounts an empty tree in memory until it is unmounted. Test suites and benchmarks use it to
//! separate the behaviour of FUSE and the server from that of the storage engine.
//!
//!     cargo run --release -p weir-serve --example memory -- DIRECTORY
//!         [write-back] [uring] [limit=BYTES] [threads=N]

use files::memory::MemoryVfs;
use serve::fuse::{MountOptions, mount};
use std::path::Path;
use std::sync::Arc;

fn main() -> std::io::Result<()> {
    host::memory::tune();
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or_else(|| std::io::Error::other("which directory?"))?;
    let mut vfs = MemoryVfs::new().writable();
    let mut options =
        MountOptions { name: "memory".to_owned(), devices: true, setuid: true, ..MountOptions::default() };
    for arg in args {
        let number = |text: &str| text.parse().map_err(std::io::Error::other);
        match arg.split_once('=') {
            None if arg == "write-back" => options.write_back = true,
            None if arg == "uring" => options.uring = true,
            Some(("limit", n)) => vfs = vfs.limit(number(n)?),
            Some(("threads", n)) => options.threads = Some(number(n)? as usize),
            _ => return Err(std::io::Error::other(format!("what is {arg}?"))),
        }
    }
    mount(Arc::new(vfs), Path::new(&dir), &options)?.wait()
}
