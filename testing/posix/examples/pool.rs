//! Creates a pool on an image file (or opens an existing one), mounts it until it is unmounted, and
//! exports it. The mount shows the name of the image as its source.
//!
//! cargo run --release -p weir-posix --example pool -- IMAGE DIRECTORY [write-back] [uring]
//! [PROPERTY=VALUE]...

use host::device::FileDevice;
use posix::LivePool;
use serve::fuse::{MountOptions, mount};
use std::path::Path;
use std::sync::Arc;

fn main() -> anyhow::Result<()> {
    host::memory::tune();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [image, dir, rest @ ..] = args.as_slice() else { anyhow::bail!("which image, and which directory?") };
    let device = Arc::new(FileDevice::open_for_writing(Path::new(image))?);
    let properties: Vec<_> = rest.iter().filter_map(|a| a.split_once('=')).collect();
    let pool = match LivePool::open(device.clone()) {
        Ok(pool) => pool,
        Err(e) if e.to_string() == "no pool" => LivePool::create("posix", device, &properties)?,
        Err(e) => return Err(e),
    };
    let write_back = rest.iter().any(|a| a == "write-back");
    let uring = rest.iter().any(|a| a == "uring");
    let name = Path::new(image).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let options = MountOptions { name, devices: true, setuid: true, write_back, uring, ..MountOptions::default() };
    mount(pool.vfs(), Path::new(dir), &options)?.wait()?;
    pool.export()
}
