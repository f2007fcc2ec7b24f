//! The mapping of a device that is being removed, as it grows.
//!
//! Format: `ondisk::indirect`.
//!
//! Invariants:
//!   * ranges are in the order of their offsets

use crate::Pool;
use crate::config::VdevConfig;
use crate::import::indirect_mapping;
use block::vdev::indirect::{Entry, Mapping};
use errors::{Error, Place, Result};
use ondisk::Dva;
use ondisk::indirect::{MappingHeader, birth_count};
use ondisk::pool_dir::config;
use std::sync::Arc;

/// A mapping that grows.
#[derive(Clone)]
pub(super) struct Growing {
    pub vdev: u32,
    pub object: u64,
    pub births: u64,
    pub births_count: u64,
    pub header: MappingHeader,
    pub mapping: Arc<Mapping>,
}

/// A range to add: its source, its target, and how many bytes of it are obsolete.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewRange {
    pub source_bytes: u64,
    pub target: Dva,
    pub obsolete_bytes: u32,
}

impl Growing {
    /// Loads the mapping of an interrupted removal.
    pub fn load(pool: &Pool, vdev: u32) -> Result<Self> {
        let top = pool.root_vdev().children.iter().find(|top| top.id == u64::from(vdev));
        let missing = || Error::corrupt(pool.name(), format!("device {vdev} is being removed and does not exist"));
        let top: &VdevConfig = top.ok_or_else(missing)?;
        let (object, births) = (top.number(config::INDIRECT_OBJECT), top.number(config::INDIRECT_BIRTHS));
        let bonus = pool.mos().object(object).at_with(|| top.display_name())?;
        let header = MappingHeader::parse(bonus.bonus(), bonus.endian())?;
        let list = pool.mos().object(births).at_with(|| top.display_name())?;
        let births_count = birth_count(list.bonus(), list.endian())?;
        let mapping = Arc::new(indirect_mapping::load(pool.mos(), top)?);
        Ok(Self { vdev, object, births, births_count, header, mapping })
    }
}

impl NewRange {
    pub fn entry(&self) -> Entry {
        Entry {
            source_bytes: self.source_bytes,
            size_bytes: self.target.asize_bytes,
            vdev: self.target.vdev,
            offset_bytes: self.target.offset_bytes,
        }
    }
}
