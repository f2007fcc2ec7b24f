//! RAID-Z and dRAID devices from their configuration.

use crate::config::VdevConfig;
use crate::{Error, Result};
use block::vdev::Kind;

/// A RAID-Z device.
pub fn raidz(c: &VdevConfig, _ashift: u8, _reflow: u64) -> Result<Kind> {
    Err(Error::unsupported(c.display_name(), "raidz"))
}

/// A dRAID device.
pub fn draid(c: &VdevConfig, _ashift: u8) -> Result<Kind> {
    Err(Error::unsupported(c.display_name(), "draid"))
}
