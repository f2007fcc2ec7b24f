//! Opens the session that fits a target.

use super::{Session, Settings, file, remote, volume};
use crate::target::Target;
use anyhow::Result;

impl Target {
    /// Opens the target. A file is created and extended to `file_size` if it is shorter. Returns
    /// its length.
    pub(crate) fn prepare(&self, file_size: u64, meta: bool, settings: Settings) -> Result<u64> {
        match self {
            Self::Path(path) => file::prepare(path, file_size, meta, settings),
            Self::Nfs(nfs) => remote::prepare(nfs, file_size, meta, settings),
            Self::Nbd(nbd) => volume::prepare(nbd, file_size, meta, settings),
        }
    }

    pub(crate) fn open(&self, meta: bool, writes: bool, settings: Settings) -> Result<Box<dyn Session>> {
        Ok(match self {
            Self::Path(path) => Box::new(file::Local::open(path, meta, writes, settings)?),
            Self::Nfs(nfs) => Box::new(remote::Remote::open(nfs, meta, settings)?),
            Self::Nbd(nbd) => Box::new(volume::Volume::open(nbd, writes, settings)?),
        })
    }
}
