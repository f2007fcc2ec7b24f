//! The vdev specification of `zpool create` and `zpool add`, and checks whether the devices may be
//! used.
//!
//! ```text
//!   words ──parse──> Layout ──check_replication──> ──check_unused──> create, add open and label
//! ```
//! Facts: construct_spec, get_replication, check_file in cmd/zpool/zpool_vdev.c.
//!
//! Invariants:
//!   * nothing is written here; messages are OpenZFS's, to the letter

mod draid;
mod replication;
mod unused;

pub use replication::{Replication, check_replication};
pub use unused::{Owner, check_unused};

use pool::devices::{self, PathKind};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Maximum number of devices in a raidz.
const RAIDZ_DEVICES_MAX: usize = 255;

/// Why devices are refused: the message, without a final newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong(pub String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

fn wrong<T>(message: impl std::fmt::Display) -> Result<T, Wrong> {
    Err(Wrong(message.to_string()))
}

fn invalid<T>(message: impl std::fmt::Display) -> Result<T, Wrong> {
    wrong(format!("invalid vdev specification: {message}"))
}

/// A file or disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Absolute path.
    pub path: PathBuf,
    /// Whether it is a disk, not a file.
    pub is_disk: bool,
}

impl Leaf {
    /// Type name in configurations.
    pub fn kind(&self) -> &'static str {
        if self.is_disk { "disk" } else { "file" }
    }

    pub fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// Redundancy of a top-level vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// A single leaf.
    Single,
    /// All leaves hold the same.
    Mirror,
    /// RAID-Z with that many parity devices.
    Raidz(u64),
    /// dRAID.
    Draid(Draid),
}

/// Parameters of a draid: from its keyword, and derived from the number of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draid {
    /// Parity devices per group.
    pub parity: u64,
    /// Data devices per group.
    pub data: u64,
    /// Distributed spares.
    pub spares: u64,
}

/// Allocation class of a top-level vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Normal data and metadata.
    Normal,
    /// The intent log.
    Log,
    /// Metadata and small blocks.
    Special,
    /// Dedup tables.
    Dedup,
}

/// A top-level vdev.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Top {
    /// Redundancy.
    pub group: Group,
    /// Allocation class.
    pub purpose: Purpose,
    pub leaves: Vec<Leaf>,
}

impl Top {
    /// Its name before it has a number.
    pub fn name(&self) -> String {
        match self.group {
            Group::Single => self.leaves.first().map(Leaf::name).unwrap_or_default(),
            Group::Mirror => "mirror".to_owned(),
            Group::Raidz(parity) => format!("raidz{parity}"),
            Group::Draid(Draid { parity, data, spares }) => {
                format!("draid{parity}:{data}d:{}c:{spares}s", self.leaves.len())
            }
        }
    }
}

/// All devices of a pool, or those to be added to one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Top-level vdevs, in order.
    pub tops: Vec<Top>,
    pub spares: Vec<Leaf>,
    /// Cache devices (L2ARC).
    pub caches: Vec<Leaf>,
}

/// Meaning of a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Mirror,
    Raidz(u64),
    Draid(u64),
    Purpose(Purpose),
    Spare,
    Cache,
}

fn keyword(word: &str) -> Result<Option<Word>, Wrong> {
    Ok(Some(match word {
        "mirror" => Word::Mirror,
        "raidz" | "raidz1" => Word::Raidz(1),
        "raidz2" => Word::Raidz(2),
        "raidz3" => Word::Raidz(3),
        "log" => Word::Purpose(Purpose::Log),
        "special" => Word::Purpose(Purpose::Special),
        "dedup" => Word::Purpose(Purpose::Dedup),
        "spare" => Word::Spare,
        "cache" => Word::Cache,
        _ => return draid::keyword(word).map(|parity| parity.map(Word::Draid)),
    }))
}

impl Layout {
    /// Parses the arguments after the pool's name.
    pub fn parse(words: &[String]) -> Result<Self, Wrong> {
        let mut layout = Self::default();
        let (mut purpose, mut seen_log, mut logs) = (Purpose::Normal, false, 0);
        let (mut seen_spare, mut seen_cache) = (false, false);
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let Some(kind) = keyword(word)? else {
                logs += usize::from(purpose == Purpose::Log);
                layout.tops.push(Top { group: Group::Single, purpose, leaves: vec![leaf(word)?] });
                continue;
            };
            match kind {
                Word::Purpose(Purpose::Log) if seen_log => return invalid("'log' can be specified only once"),
                Word::Purpose(next) => {
                    seen_log |= next == Purpose::Log;
                    purpose = next;
                    continue;
                }
                Word::Spare if seen_spare => return invalid("'spare' can be specified only once"),
                Word::Cache if seen_cache => return invalid("'cache' can be specified only once"),
                Word::Spare | Word::Cache => purpose = Purpose::Normal,
                Word::Raidz(_) if purpose == Purpose::Log => return invalid("unsupported 'log' device: raidz"),
                Word::Draid(_) if purpose == Purpose::Log => return invalid("unsupported 'log' device: draid"),
                Word::Draid(_) if purpose != Purpose::Normal => return invalid("unsupported 'special' device: draid"),
                Word::Mirror | Word::Raidz(_) | Word::Draid(_) => {}
            }
            let mut leaves = Vec::new();
            while let Some(path) = words.peek()
                && keyword(path)?.is_none()
            {
                leaves.push(leaf(path)?);
                words.next();
            }
            let (min, max) = match kind {
                Word::Mirror => (2, usize::MAX),
                Word::Raidz(parity) | Word::Draid(parity) => (parity as usize + 1, RAIDZ_DEVICES_MAX),
                _ => (1, usize::MAX),
            };
            if leaves.len() < min {
                return invalid(format!("{word} requires at least {min} devices"));
            }
            if leaves.len() > max {
                return invalid(format!("{word} supports no more than {max} devices"));
            }
            match kind {
                Word::Spare => (layout.spares, seen_spare) = (leaves, true),
                Word::Cache => (layout.caches, seen_cache) = (leaves, true),
                Word::Raidz(parity) => layout.tops.push(Top { group: Group::Raidz(parity), purpose, leaves }),
                Word::Draid(parity) => {
                    let shape = draid::shape(word, parity, leaves.len() as u64)?;
                    layout.tops.push(Top { group: Group::Draid(shape), purpose, leaves });
                }
                _ => {
                    logs += usize::from(purpose == Purpose::Log);
                    layout.tops.push(Top { group: Group::Mirror, purpose, leaves });
                }
            }
        }
        if layout.tops.is_empty() && layout.spares.is_empty() && layout.caches.is_empty() {
            return invalid("at least one toplevel vdev must be specified");
        }
        if seen_log && logs == 0 {
            return invalid("log requires at least 1 device");
        }
        Ok(layout)
    }

    /// All devices.
    pub fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.tops.iter().flat_map(|t| &t.leaves).chain(&self.spares).chain(&self.caches)
    }

    /// Whether there is a normal vdev, which file blocks need.
    pub fn is_allocatable(&self) -> bool {
        self.tops.iter().any(|t| t.purpose == Purpose::Normal)
    }

    /// Whether a device occurs twice.
    pub fn has_duplicate(&self) -> bool {
        let mut seen = HashSet::new();
        self.leaves().any(|leaf| !seen.insert(std::fs::canonicalize(&leaf.path).unwrap_or_else(|_| leaf.path.clone())))
    }

    /// The layout as `zpool create -n` prints it.
    pub fn tree(&self, pool: &str) -> String {
        let mut out = String::new();
        let sections = [(Purpose::Normal, pool), (Purpose::Dedup, "dedup"), (Purpose::Special, "special")];
        for (purpose, heading) in sections.into_iter().chain([(Purpose::Log, "logs")]) {
            for (i, top) in self.tops.iter().filter(|t| t.purpose == purpose).enumerate() {
                if i == 0 {
                    let _ = writeln!(out, "\t{heading}");
                }
                let _ = writeln!(out, "\t  {}", top.name());
                for leaf in top.leaves.iter().filter(|_| top.group != Group::Single) {
                    let _ = writeln!(out, "\t    {}", leaf.name());
                }
            }
        }
        for (leaves, heading) in [(&self.caches, "cache"), (&self.spares, "spares")] {
            for (i, leaf) in leaves.iter().enumerate() {
                if i == 0 {
                    let _ = writeln!(out, "\t{heading}");
                }
                let _ = writeln!(out, "\t  {}", leaf.name());
            }
        }
        out
    }
}

/// A file or disk by its full path, or a disk by its name in /dev.
pub fn leaf(word: &str) -> Result<Leaf, Wrong> {
    let full = word.starts_with('/');
    let path = if full { PathBuf::from(word) } else { Path::new("/dev").join(word) };
    match devices::kind(&path) {
        Ok(PathKind::Disk) => Ok(Leaf { path, is_disk: true }),
        Ok(PathKind::File) if full => Ok(Leaf { path, is_disk: false }),
        Ok(_) => wrong(format!("cannot use '{}': must be a block device or regular file", path.display())),
        Err(_) if full => wrong(format!("cannot resolve path '{word}'")),
        Err(_) => {
            wrong(format!("cannot open '{word}': no such device in /dev\nmust be a full path or shorthand device name"))
        }
    }
}

#[cfg(test)]
mod tests;
