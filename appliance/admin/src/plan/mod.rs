//! Proposes pool layouts for given devices, with their capacity, speed and fault tolerance.
//!
//! ```text
//!   devices, shelves ─> those of one size ─> each way to group them (deal)
//!                    ─> space, rates, failures (Proposal) ─> one is recommended
//! ```
//! Capacity is computed as the engine counts it, parity and padding included
//! ([`pool::usable::planned`]). Rates are those of the single devices, multiplied: they show which
//! layout is faster, and are an upper bound.
//!
//! Invariants:
//!   * nothing is written, and no device is used twice
//!   * the devices of a group come from as many shelves as possible

mod deal;

use crate::layout::{Group, Layout, Leaf, Purpose, Top};
use pool::usable::{Planned, planned};
use std::collections::BTreeMap;

/// A device that a layout may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub leaf: Leaf,
    pub size_bytes: u64,
    /// log2 of the sector size, in bytes.
    pub ashift: u8,
    /// Whether it has moving parts; `None` if unknown, which counts as true.
    pub is_rotating: Option<bool>,
    /// Shelf or controller; all devices without one together count as one shelf.
    pub shelf: Option<String>,
}

/// What the advised proposal is best at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Goal {
    /// Two failures, or the failure of a shelf, lose no data; everything else comes second.
    #[default]
    Balance,
    /// Most usable bytes.
    Space,
    /// Small random reads and writes.
    Speed,
}

/// Requirements for the proposals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Wish {
    pub goal: Goal,
    /// Number of hot spares; `None` for a number that suits the devices.
    pub spares: Option<usize>,
    /// Rates of one device: random 4 KiB reads per second, and sequential bytes per second. `None`
    /// for a guess.
    pub rates: Option<(f64, f64)>,
}

/// Rates of a layout, bounded by its devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Small random reads per second.
    pub random_reads: f64,
    /// Small random writes per second, without the gain from gathering them in txgs.
    pub random_writes: f64,
    /// Sequential read rate, in bytes per second.
    pub stream_read: f64,
    /// Sequential write rate, in bytes per second.
    pub stream_write: f64,
}

/// A layout for the devices, with its estimates.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Name, such as `mirrors of 2` or `raidz2 of 6`.
    pub name: String,
    pub layout: Layout,
    /// Devices that fit into no group.
    pub unused: Vec<Leaf>,
    /// Capacity for datasets, in bytes.
    pub usable_bytes: u64,
    /// Percentage of all bytes of the devices that is left for data, with blocks of 4 KiB, 16 KiB,
    /// 128 KiB and 1 MiB.
    pub data_percent: [f64; 4],
    pub rates: Rates,
    /// Number of arbitrary devices that may fail.
    pub survives_any: usize,
    /// Number of devices that may fail in the best case.
    pub survives_best: usize,
    /// Number of shelves that may fail as a whole, and number of shelves. 0 of 1 if shelves are
    /// unknown.
    pub survives_shelves: (usize, usize),
    /// Bytes to read when a full device is replaced.
    pub rebuild_bytes: u64,
    /// Whether it is recommended for the goal.
    pub is_advised: bool,
}

/// Block sizes of [`Proposal::data_percent`].
pub const BLOCKS: [u64; 4] = [4 << 10, 16 << 10, 128 << 10, 1 << 20];
/// Devices whose sizes differ by at most this count as equal, as in `zpool create`.
const FUZZ_BYTES: u64 = 16 << 20;
/// Rates of a disk (7200 rpm), and of flash on a SATA port. Guessed low.
const DISK_RATES: (f64, f64) = (100.0, 150e6);
const FLASH_RATES: (f64, f64) = (20_000.0, 500e6);
/// Devices per hot spare, and number of devices from which on there is one. Guessed: after what
/// vendors of shelves of 24 do.
const DEVICES_PER_SPARE: usize = 24;
const SPARE_FROM: usize = 8;

/// Returns the proposals, the recommended one first, and the devices of another size than most,
/// which no proposal uses.
pub fn plan(candidates: &[Candidate], wish: &Wish) -> (Vec<Proposal>, Vec<Leaf>) {
    let (class, others) = of_one_size(candidates);
    let spares = wish.spares.unwrap_or(match class.len() {
        n if n < SPARE_FROM => 0,
        n => n.div_ceil(DEVICES_PER_SPARE),
    });
    let mut found: Vec<Proposal> = Vec::new();
    for ways in 2..=3 {
        found.extend(proposal(&class, Group::Mirror, ways, spares, wish));
    }
    for parity in 1..=3u64 {
        let widths = parity as usize + 2..=4 * parity as usize + 4;
        let all: Vec<Proposal> =
            widths.filter_map(|width| proposal(&class, Group::Raidz(parity), width, spares, wish)).collect();
        let best = |shelf: bool| {
            let fits = all.iter().filter(|p| !shelf || p.survives_all_shelves());
            fits.max_by_key(|p| {
                (p.usable_bytes, std::cmp::Reverse(p.layout.tops.first().map_or(0, |t| t.leaves.len())))
            })
        };
        let (most, safe) = (best(false).cloned(), best(true).cloned());
        // A narrower one that survives a shelf is another choice.
        found.extend(safe.filter(|safe| most.as_ref().is_none_or(|most| most.name != safe.name)));
        found.extend(most);
    }
    let advised = advised(&found, wish.goal).map(|p| p.name.clone());
    for proposal in &mut found {
        proposal.is_advised = advised.as_ref() == Some(&proposal.name);
    }
    found.sort_by_key(|p| (!p.is_advised, std::cmp::Reverse(p.usable_bytes)));
    (found, others.into_iter().map(|c| c.leaf.clone()).collect())
}

/// The devices of the size that has the most bytes in total, and the others.
fn of_one_size(candidates: &[Candidate]) -> (Vec<&Candidate>, Vec<&Candidate>) {
    let mut sorted: Vec<&Candidate> = candidates.iter().collect();
    sorted.sort_by_key(|c| c.size_bytes);
    let mut classes: Vec<Vec<&Candidate>> = Vec::new();
    for one in sorted {
        match classes.last_mut() {
            Some(class) if one.size_bytes - class[0].size_bytes <= FUZZ_BYTES => class.push(one),
            _ => classes.push(vec![one]),
        }
    }
    classes.sort_by_key(|class| class.iter().map(|c| c.size_bytes).sum::<u64>());
    let mut best = classes.pop().unwrap_or_default();
    best.sort_by_key(|c| candidates.iter().position(|o| std::ptr::eq(o, *c)));
    (best, classes.into_iter().flatten().collect())
}

fn advised(all: &[Proposal], goal: Goal) -> Option<&Proposal> {
    let by_space = |p: &&Proposal| p.usable_bytes;
    let reads = |p: &&Proposal| p.rates.random_reads as u64;
    let safe = |p: &&Proposal| p.survives_any >= 2 || (p.survives_all_shelves() && p.survives_best > 1);
    match goal {
        Goal::Space => {
            all.iter().filter(|p| p.survives_any >= 2).max_by_key(by_space).or(all.iter().max_by_key(by_space))
        }
        Goal::Speed => all.iter().max_by_key(|p| (reads(p), p.usable_bytes)),
        Goal::Balance => {
            let shelves = all.iter().filter(safe).filter(|p| p.survives_all_shelves());
            let rest = all.iter().filter(safe).max_by_key(by_space);
            shelves.max_by_key(by_space).or(rest).or(all.iter().max_by_key(by_space))
        }
    }
}

fn proposal(devices: &[&Candidate], group: Group, width: usize, spares: usize, wish: &Wish) -> Option<Proposal> {
    let shelf_of: Vec<Option<&str>> = devices.iter().map(|device| device.shelf.as_deref()).collect();
    let dealt = deal::deal(&shelf_of, width, spares)?;
    let parity = match group {
        Group::Raidz(parity) => parity,
        _ => 0,
    };
    let smallest = devices.iter().map(|c| c.size_bytes).min()?;
    let ashift = devices.iter().map(|c| c.ashift).max()?;
    let shape = Planned { parity, leaves: width as u64, leaf_bytes: smallest, ashift };
    let groups = dealt.groups.len();
    let usable = planned(&vec![shape; groups]).for_datasets();
    let part = |bytes: u64| {
        let taken = shape.bytes_on_leaves(bytes).unwrap_or(u64::MAX);
        100.0 * bytes as f64 / taken as f64
    };
    let (random, stream) = wish.rates.unwrap_or(match devices.iter().all(|c| c.is_rotating == Some(false)) {
        true => FLASH_RATES,
        false => DISK_RATES,
    });
    let (groups_f, width_f, data_f) = (groups as f64, width as f64, (width as u64 - parity) as f64);
    let rates = match parity {
        0 => Rates {
            random_reads: random * groups_f * width_f,
            random_writes: random * groups_f,
            stream_read: stream * groups_f * width_f,
            stream_write: stream * groups_f,
        },
        // A block is on all devices of its group.
        _ => Rates {
            random_reads: random * groups_f,
            random_writes: random * groups_f,
            stream_read: stream * groups_f * data_f,
            stream_write: stream * groups_f * data_f,
        },
    };
    let tolerates = if parity == 0 { width - 1 } else { parity as usize };
    let rebuild = if parity == 0 { smallest } else { smallest.saturating_mul(width as u64 - 1) };
    let name = match parity {
        0 => format!("mirrors of {width}"),
        _ => format!("raidz{parity} of {width}"),
    };
    let leaves = |places: &[usize]| places.iter().map(|at| devices[*at].leaf.clone()).collect::<Vec<_>>();
    let tops =
        dealt.groups.iter().map(|places| Top { group, purpose: Purpose::Normal, leaves: leaves(places) }).collect();
    Some(Proposal {
        name,
        layout: Layout { tops, spares: leaves(&dealt.spares), ..Layout::default() },
        unused: leaves(&dealt.unused),
        usable_bytes: usable,
        data_percent: BLOCKS.map(part),
        rates,
        survives_any: tolerates,
        survives_best: tolerates * groups,
        survives_shelves: shelves(devices, &dealt.groups, tolerates),
        rebuild_bytes: rebuild,
        is_advised: false,
    })
}

/// Number of shelves whose failure every group survives, and number of shelves.
fn shelves(devices: &[&Candidate], groups: &[Vec<usize>], tolerates: usize) -> (usize, usize) {
    let mut all: BTreeMap<&Option<String>, bool> = BTreeMap::new();
    for device in devices {
        let lost = |group: &Vec<usize>| group.iter().filter(|at| devices[**at].shelf == device.shelf).count();
        all.entry(&device.shelf).or_insert_with(|| groups.iter().all(|group| lost(group) <= tolerates));
    }
    (all.values().filter(|survives| **survives).count(), all.len())
}

impl Proposal {
    /// Whether any one shelf may fail. False if there is only one.
    pub fn survives_all_shelves(&self) -> bool {
        self.survives_shelves.1 > 1 && self.survives_shelves.0 == self.survives_shelves.1
    }

    /// The command that creates the pool.
    pub fn command(&self, pool: &str) -> String {
        let mut words = vec!["zpool".to_owned(), "create".to_owned(), pool.to_owned()];
        for top in &self.layout.tops {
            words.push(top.name());
            words.extend(top.leaves.iter().map(|leaf| quoted(&leaf.name())));
        }
        if !self.layout.spares.is_empty() {
            words.push("spare".to_owned());
            words.extend(self.layout.spares.iter().map(|leaf| quoted(&leaf.name())));
        }
        words.join(" ")
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+@%,=".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Parses a shelf file: a device and its shelf per line; `#` starts a comment. Devices are given by
/// path, or by its last component.
pub fn read_shelves(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, shelf] = words.as_slice() else {
            return Err(format!("line {}: '{line}', expected DEVICE SHELF", number + 1));
        };
        if found.insert((*device).to_owned(), (*shelf).to_owned()).is_some() {
            return Err(format!("line {}: {device} is listed twice", number + 1));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disks(shelves: &[(&str, usize)], bytes: u64) -> Vec<Candidate> {
        let mut all = Vec::new();
        for (shelf, count) in shelves {
            for n in 0..*count {
                all.push(Candidate {
                    leaf: Leaf { path: format!("/dev/{shelf}{n}").into(), is_disk: true },
                    size_bytes: bytes,
                    ashift: 12,
                    is_rotating: Some(true),
                    shelf: Some((*shelf).to_owned()),
                });
            }
        }
        all
    }

    #[test]
    fn two_shelves_of_twelve_become_mirrors_or_raidz_across_them() {
        let (all, others) = plan(&disks(&[("a", 12), ("b", 12)], 4 << 40), &Wish::default());
        assert!(others.is_empty());
        let first = &all[0];
        assert!(first.is_advised && first.survives_all_shelves(), "{first:?}");
        assert!(all.iter().filter(|p| p.is_advised).count() == 1);
        let mirrors = all.iter().find(|p| p.name == "mirrors of 2").expect("mirrors");
        assert!(mirrors.survives_all_shelves());
        for top in &mirrors.layout.tops {
            let shelf = |at: usize| top.leaves[at].name().starts_with("/dev/a");
            assert_ne!(shelf(0), shelf(1), "{top:?}");
        }
        for proposal in &all {
            let mut seen: Vec<String> = proposal.layout.leaves().map(Leaf::name).collect();
            seen.extend(proposal.unused.iter().map(Leaf::name));
            assert_eq!(seen.len(), 24, "{}", proposal.name);
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), 24, "each device once: {}", proposal.name);
            assert!(proposal.usable_bytes > 20 << 40 && proposal.usable_bytes < 96 << 40);
        }
        let speed = plan(&disks(&[("a", 12), ("b", 12)], 4 << 40), &Wish { goal: Goal::Speed, ..Wish::default() }).0;
        assert!(speed[0].name.starts_with("mirrors"), "{}", speed[0].name);
        let space = plan(&disks(&[("a", 12), ("b", 12)], 4 << 40), &Wish { goal: Goal::Space, ..Wish::default() }).0;
        assert!(space[0].survives_any >= 2 && space[0].usable_bytes >= first.usable_bytes);
    }

    #[test]
    fn space_excludes_parity_and_padding() {
        let (all, _) = plan(&disks(&[("a", 6)], 1 << 40), &Wish::default());
        let raidz2 = all.iter().find(|p| p.name == "raidz2 of 6").expect("six in one");
        // 4 KiB: one sector of data and two of parity. 128 KiB: 32 + 16 = 48 sectors. 16 KiB: 4 + 2
        // = 6.
        let [small, volume, record, _] = raidz2.data_percent;
        assert!((small - 33.3).abs() < 0.1 && (volume - 66.6).abs() < 0.1 && (record - 66.6).abs() < 0.1, "{raidz2:?}");
        assert_eq!((raidz2.survives_any, raidz2.survives_shelves), (2, (0, 1)));
    }

    #[test]
    fn devices_of_other_sizes_are_left_out_and_few_devices_have_no_spare() {
        let mut devices = disks(&[("a", 4)], 1 << 40);
        devices.extend(disks(&[("b", 1)], 1 << 38));
        let (all, others) = plan(&devices, &Wish::default());
        assert_eq!(others.len(), 1);
        assert!(all.iter().all(|p| p.layout.spares.is_empty() || !p.unused.is_empty() || p.name.contains("3")));
        assert_eq!(plan(&disks(&[("a", 1)], 1 << 40), &Wish::default()).0, []);
        let line = all.iter().find(|p| p.name == "mirrors of 2").expect("two").command("tank");
        assert_eq!(line, "zpool create tank mirror /dev/a0 /dev/a1 mirror /dev/a2 /dev/a3");
        assert_eq!(quoted("/a b'c"), "'/a b'\\''c'");
    }

    #[test]
    fn shelves_are_read_line_by_line() {
        let read = read_shelves("# trays\nsda top\n/dev/sdb bottom # left\n\n").expect("read");
        assert_eq!(read.get("sda").map(String::as_str), Some("top"));
        assert_eq!(read.len(), 2);
        assert!(read_shelves("sda").is_err() && read_shelves("a b\na c").is_err());
    }
}
