//! Opens the tree of a target.

use super::{Access, TRANSFER_MAX, Tree, local, remote};
use crate::session::Settings;
use crate::target::Target;
use anyhow::{Result, bail};

pub(crate) fn open(target: &Target, access: Access, transfer: usize, seed: u64) -> Result<Box<dyn Tree>> {
    let size = transfer.clamp(4096, TRANSFER_MAX);
    let Access { sync, direct, zeros } = access;
    let settings = Settings { size, sync, zeros, seed, direct };
    Ok(match target {
        Target::Path(path) => Box::new(local::Local::open(path, settings)?),
        Target::Nfs(nfs) => Box::new(remote::Remote::open(nfs, settings)?),
        Target::Nbd(_) => bail!("{target} has no files"),
    })
}
