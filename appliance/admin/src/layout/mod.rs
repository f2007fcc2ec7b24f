//! The vdev specification of `zpool create` and `zpool add`, and checks whether the devices may be
//! used.
//!
//! ```text
//!   words ──parse──> Layout ──check_replication──> ──check_in_use──> create, add open and label
//! ```
//! Facts: construct_spec, get_replication, check_file in cmd/zpool/zpool_vdev.c.
//!
//! Invariants:
//!   * nothing is written here; messages are OpenZFS's, to the letter

mod draid;
mod in_use;
mod replication;
mod wrong;

pub use draid::Draid;
pub use in_use::{Auxiliary, ImportedPools, Owner, check_in_use, owner};
pub use replication::{Replication, check_replication};
pub use wrong::{Flaw, Wrong};

use pool::devices::{self, PathKind};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use wrong::{absent, invalid, wrong};

/// Maximum number of devices in a raidz.
const RAIDZ_DEVICES_MAX: usize = 255;

/// A file or disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Absolute path, as it goes into the configuration.
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
    /// No redundancy: exactly one leaf.
    Single,
    /// All leaves hold the same.
    Mirror,
    /// RAID-Z with that many parity devices.
    Raidz(u64),
    /// dRAID, which has its own parameters.
    Draid(Draid),
}

/// Allocation class of a top-level vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Normal data and metadata.
    Normal,
    /// The intent log (SLOG).
    Log,
    /// Metadata and small blocks.
    Special,
    /// Dedup tables (DDT).
    Dedup,
}

/// What devices are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Blocks(Purpose),
    Spare,
    Cache,
}

/// A top-level vdev to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Top {
    pub group: Group,
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
    /// L2ARC devices.
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

/// Checks how many devices follow a keyword.
fn check_count(word: &str, kind: Word, count: usize) -> Result<(), Wrong> {
    let (min, max) = match kind {
        Word::Mirror => (2, usize::MAX),
        Word::Raidz(parity) | Word::Draid(parity) => (parity as usize + 1, RAIDZ_DEVICES_MAX),
        _ => (1, usize::MAX),
    };
    match count {
        _ if count < min => invalid(format!("{word} requires at least {min} devices")),
        _ if count > max => invalid(format!("{word} supports no more than {max} devices")),
        _ => Ok(()),
    }
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
            check_count(word, kind, leaves.len())?;
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

    /// Adds devices as they are named on the command line, by the words before them: `word` for
    /// their redundancy, if they are to have any. Without, each device is a vdev.
    pub fn add(&mut self, purpose: Use, word: Option<&str>, leaves: Vec<Leaf>) -> Result<(), Wrong> {
        let kind = word.map(keyword).transpose()?.flatten();
        let group = match kind {
            None => Group::Single,
            Some(Word::Mirror) => Group::Mirror,
            Some(Word::Raidz(parity)) => Group::Raidz(parity),
            Some(_) => return invalid(format!("'{}' is not a kind of redundancy", word.unwrap_or_default())),
        };
        let purpose = match (purpose, group) {
            (Use::Spare, Group::Single) => {
                self.spares.extend(leaves);
                return Ok(());
            }
            (Use::Cache, Group::Single) => {
                self.caches.extend(leaves);
                return Ok(());
            }
            (Use::Spare | Use::Cache, _) => return invalid("spares and cache devices have no redundancy"),
            (Use::Blocks(Purpose::Log), Group::Raidz(_)) => return invalid("unsupported 'log' device: raidz"),
            (Use::Blocks(purpose), _) => purpose,
        };
        match (word, kind) {
            (Some(word), Some(kind)) => {
                check_count(word, kind, leaves.len())?;
                self.tops.push(Top { group, purpose, leaves });
            }
            _ => self.tops.extend(leaves.into_iter().map(|leaf| Top { group, purpose, leaves: vec![leaf] })),
        }
        Ok(())
    }

    /// The layout as arguments of `zpool create`.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let keywords = [
            (Purpose::Normal, None),
            (Purpose::Log, Some("log")),
            (Purpose::Special, Some("special")),
            (Purpose::Dedup, Some("dedup")),
        ];
        for (purpose, keyword) in keywords {
            let tops = self.tops.iter().filter(|top| top.purpose == purpose);
            for (i, top) in tops.enumerate() {
                words.extend(keyword.filter(|_| i == 0).map(str::to_owned));
                words.extend((top.group != Group::Single).then(|| top.name()));
                words.extend(top.leaves.iter().map(Leaf::name));
            }
        }
        for (leaves, keyword) in [(&self.spares, "spare"), (&self.caches, "cache")] {
            words.extend((!leaves.is_empty()).then(|| keyword.to_owned()));
            words.extend(leaves.iter().map(Leaf::name));
        }
        words
    }

    /// All devices: of the vdevs, spares and caches.
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
        Err(_) if full => absent(format!("cannot resolve path '{word}'")),
        Err(_) => absent(format!(
            "cannot open '{word}': no such device in /dev\nmust be a full path or shorthand device name"
        )),
    }
}

#[cfg(test)]
mod tests;
