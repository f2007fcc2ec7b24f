//! The pool's configuration: the tree of its devices, as stored in the labels and the MOS.
//!
//! Below: `ondisk::nvlist`. Above: `import`. Source: include/sys/fs/zfs.h (ZPOOL_CONFIG_*).
//!
//! Invariants:
//!   * a configuration from disk is untrusted: the number of children and the depth are bounded
//!     here, once

use errors::{Error, Result};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;

/// Limit for the children of one device. dRAID allows 255 children; the format has 24 bits for
/// top-level devices.
const CHILDREN_MAX: usize = 1 << 16;
/// Limit for the depth of the tree: root, top-level device, spare or replacing (which may nest),
/// leaf.
const DEPTH_MAX: usize = 8;

/// A device as the configuration describes it.
#[derive(Debug, Clone, Default)]
pub struct VdevConfig {
    /// `ZPOOL_CONFIG_TYPE`: `disk`, `file`, `mirror`, `raidz` …
    pub kind: String,
    /// Position among its siblings; for a top-level device the vdev number in DVAs.
    pub id: u64,
    /// Stable identity; 0 if the configuration has none.
    pub guid: u64,
    /// Path of a leaf, as it was when the configuration was written.
    pub path: Option<String>,
    /// The device's nvlist without its children.
    pub all: Nvlist,
    pub children: Vec<VdevConfig>,
}

impl VdevConfig {
    /// Parses a `vdev_tree`. Fails with `Corrupt` if a device has no type, or if the tree is too
    /// deep or too wide.
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

    /// Value of a number in the configuration; 0 if it is missing.
    pub fn number(&self, name: &str) -> u64 {
        self.all.get_u64(name).unwrap_or(0)
    }

    /// Physical location of a leaf (`phys_path`), if it is known.
    pub fn phys_path(&self) -> Option<&str> {
        self.all.get_str(config::PHYS_PATH)
    }

    /// Whether this is a leaf: a disk, a file or a distributed spare.
    pub fn is_leaf(&self) -> bool {
        matches!(self.kind.as_str(), "disk" | "file" | "dspare")
    }

    /// Name as `zpool status` prints it: `mirror-0`, `raidz2-1`, or the path.
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

    /// The device with this guid: this one or a descendant.
    pub fn find(&self, guid: u64) -> Option<&VdevConfig> {
        if self.guid == guid {
            return Some(self);
        }
        self.children.iter().find_map(|c| c.find(guid))
    }

    /// All leaves of this subtree.
    pub fn leaves(&self) -> Vec<&VdevConfig> {
        if self.children.is_empty() {
            return vec![self];
        }
        self.children.iter().flat_map(Self::leaves).collect()
    }
}
