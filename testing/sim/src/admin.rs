//! Administrative actions on the dataset while files change: properties, the key, snapshots.
//!
//! Invariants:
//!   * the workers record acknowledgements after the command that changes `sync` has returned;
//!     nothing is read from the pool

use crate::rig::Rig;
use anyhow::Result;
use damage::promises::Promises;
use rig::Chance;

/// Properties that affect how a dataset is written, with values that do not change the files.
pub const PROPERTIES: [(&str, &[&str]); 11] = [
    ("recordsize", &["4K", "32K", "128K", "1M"]),
    ("xattr", &["sa", "dir"]),
    ("compression", &["lz4", "off", "zstd", "gzip-1", "gzip-9", "zle"]),
    ("checksum", &["fletcher4", "sha256", "blake3"]),
    ("copies", &["1", "2"]),
    ("logbias", &["latency", "throughput"]),
    ("primarycache", &["all", "metadata", "none"]),
    ("redundant_metadata", &["all", "most", "none"]),
    ("dnodesize", &["legacy", "auto", "4k"]),
    ("atime", &["on", "off"]),
    ("dedup", &["off", "sha256", "verify"]),
];

/// Sets `sync` or another property, changes the key, or takes a snapshot.
pub fn act(rig: &Rig, promises: &Promises, chance: &mut Chance) -> Result<()> {
    match chance.below(10) {
        0..5 => promises.change(chance, |sync| rig.set("sync", sync)),
        5..8 => {
            let (name, values) = chance.pick(&PROPERTIES).expect("there are some");
            let value = chance.pick(values).expect("there are some");
            rig.set(name, value)
        }
        8 => rig.change_key(),
        _ => rig.snapshot(),
    }
}
