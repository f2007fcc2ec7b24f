//! The pool's configuration: which devices it is made of, as labels and the MOS tell.
//!
//! Below: `ondisk::nvlist`. Above: `import`. Source: include/sys/fs/zfs.h (ZPOOL_CONFIG_*).
//!
//! Invariants:
//!   * a configuration from disk may say anything: numbers of children and depth are bounded here, once

use crate::{Error, Result};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;

/// Devices in one group, or top-level devices, at most. dRAID allows 255 children; the format has 24 bits.
const CHILDREN_MAX: usize = 1 << 16;
/// Levels of the tree: root, top, spare or replacing (which may nest), leaf.
const DEPTH_MAX: usize = 8;

/// A device as the configuration describes it.
#[derive(Debug, Clone, Default)]
pub struct VdevConfig {
    /// `disk`, `file`, `mirror`, `raidz` …
    pub kind: String,
    /// Position among siblings.
    pub id: u64,
    /// Identity.
    pub guid: u64,
    /// Path of a leaf.
    pub path: Option<String>,
    /// Everything else that the configuration says of it, children left out.
    pub all: Nvlist,
    /// Children.
    pub children: Vec<VdevConfig>,
}

impl VdevConfig {
    /// Reads a `vdev_tree`.
    pub fn parse(list: &Nvlist) -> Result<Self> {
        Self::parse_at(list, 0)
    }

    fn parse_at(list: &Nvlist, depth: usize) -> Result<Self> {
        let place = "vdev_tree";
        if depth >= DEPTH_MAX {
            return Err(Error::corrupt(place, format!("devices nested more than {DEPTH_MAX} deep")));
        }
        let kind = list.get_str(config::TYPE).ok_or_else(|| Error::corrupt(place, "a device has no type"))?;
        let children = list.get_nvlist_array(config::CHILDREN);
        if children.len() > CHILDREN_MAX {
            return Err(Error::corrupt(place, format!("{} children, expected at most {CHILDREN_MAX}", children.len())));
        }
        let mut all = list.clone();
        all.remove(config::CHILDREN);
        Ok(Self {
            kind: kind.to_owned(),
            id: list.get_u64(config::ID).unwrap_or(0),
            guid: list.get_u64(config::GUID).unwrap_or(0),
            path: list.get_str(config::PATH).map(str::to_owned),
            all,
            children: children.iter().map(|c| Self::parse_at(c, depth + 1)).collect::<Result<_>>()?,
        })
    }

    /// A number that the configuration gives, or 0.
    pub fn number(&self, name: &str) -> u64 {
        self.all.get_u64(name).unwrap_or(0)
    }

    /// Where a leaf is plugged in, if it is known.
    pub fn phys_path(&self) -> Option<&str> {
        self.all.get_str(config::PHYS_PATH)
    }

    /// Whether it is a leaf kind.
    pub fn is_leaf(&self) -> bool {
        matches!(self.kind.as_str(), "disk" | "file" | "dspare")
    }

    /// Name as `zpool status` shows it: `mirror-0`, `raidz2-1`, or the path.
    pub fn display_name(&self) -> String {
        match self.kind.as_str() {
            "disk" | "file" => self.path.clone().unwrap_or_else(|| self.guid.to_string()),
            "raidz" => format!("raidz{}-{}", self.number(config::NPARITY).max(1), self.id),
            "draid" => format!(
                "draid{}:{}d:{}c:{}s-{}",
                self.number(config::NPARITY),
                self.number(config::DRAID_NDATA),
                self.children.len(),
                self.number(config::DRAID_NSPARES),
                self.id
            ),
            "dspare" => self.path.clone().unwrap_or_else(|| {
                format!(
                    "draid{}-{}-{}",
                    self.number(config::NPARITY),
                    self.number(config::TOP_GUID),
                    self.number(config::SPARE_ID)
                )
            }),
            kind => format!("{kind}-{}", self.id),
        }
    }

    /// The device with this guid, at or below.
    pub fn find(&self, guid: u64) -> Option<&VdevConfig> {
        if self.guid == guid {
            return Some(self);
        }
        self.children.iter().find_map(|c| c.find(guid))
    }

    /// All leaves at and below.
    pub fn leaves(&self) -> Vec<&VdevConfig> {
        if self.children.is_empty() {
            return vec![self];
        }
        self.children.iter().flat_map(Self::leaves).collect()
    }
}
