//! Advice on how to make a pool of given devices: which belong together, what that offers, and what may fail.
//!
//! ```text
//!   devices, shelves ─> those of one size ─> each way to group them (deal) ─> space, rates, failures (Proposal) ─> one is advised
//! ```
//! Space is what the engine will count, parity and padding included ([`pool::usable::planned`]); rates are what devices do by
//! themselves, multiplied: they say which layout is faster, and what cannot be exceeded.
//!
//! Invariants:
//!   * nothing is written, and no device is taken twice
//!   * devices of one group come from as many shelves as there are

mod deal;

use crate::layout::{Group, Layout, Leaf, Purpose, Top};
use pool::usable::{Planned, planned};
use std::collections::BTreeMap;

/// A device that may be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// It.
    pub leaf: Leaf,
    /// Its size.
    pub size_bytes: u64,
    /// log2 of its sectors.
    pub ashift: u8,
    /// Whether it has moving parts; `None`: it is not known, and taken for yes.
    pub is_rotating: Option<bool>,
    /// Shelf or controller on which it is; devices that nobody said it of are on one of their own.
    pub shelf: Option<String>,
}

/// What matters most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Goal {
    /// That two failures, or a shelf's, lose nothing, and the rest after it.
    #[default]
    Balance,
    /// Space.
    Space,
    /// Small reads and writes in any order.
    Speed,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Wish {
    /// What matters most.
    pub goal: Goal,
    /// Hot spares; `None`: as many as suit the number of devices.
    pub spares: Option<usize>,
    /// What one device does: reads of 4 KiB in any order a second, and bytes a second one after the other; `None`: guessed.
    pub rates: Option<(f64, f64)>,
}

/// What a layout can do, bounded by its devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Small reads in any order, a second.
    pub random_reads: f64,
    /// Small writes in any order, a second, without what gathering them in txgs saves.
    pub random_writes: f64,
    /// Bytes a second, read one after the other.
    pub stream_read: f64,
    /// Bytes a second, written one after the other.
    pub stream_write: f64,
}

/// A way to make a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// `mirrors of 2`, `raidz2 of 6`.
    pub name: String,
    /// The devices.
    pub layout: Layout,
    /// Devices that are left over, since they fit into no group.
    pub unused: Vec<Leaf>,
    /// What datasets may use.
    pub usable_bytes: u64,
    /// Of all bytes of the devices, the part in percent that blocks of 4 KiB, 16 KiB, 128 KiB and 1 MiB leave for data.
    pub data_percent: [f64; 4],
    /// How fast it can be.
    pub rates: Rates,
    /// So many devices may fail, whichever they are.
    pub survives_any: usize,
    /// So many may, if they are the right ones.
    pub survives_best: usize,
    /// Shelves that may fail as a whole, of how many. 0 of 1 where nobody said on which shelves devices are.
    pub survives_shelves: (usize, usize),
    /// Bytes that have to be read to replace a device that was full.
    pub rebuild_bytes: u64,
    /// Whether it is what the wish is for.
    pub is_advised: bool,
}

/// Sizes of blocks for which the part of data is told.
pub const BLOCKS: [u64; 4] = [4 << 10, 16 << 10, 128 << 10, 1 << 20];
/// Devices that differ by no more than this are of one size, as for `zpool create`.
const FUZZ_BYTES: u64 = 16 << 20;
/// What a disk does (7200 revolutions), and what flash on a SATA port does: guessed low.
const DISK_RATES: (f64, f64) = (100.0, 150e6);
const FLASH_RATES: (f64, f64) = (20_000.0, 500e6);
/// One hot spare for so many devices, from so many devices on. Guessed: after what vendors of shelves of 24 do.
const DEVICES_PER_SPARE: usize = 24;
const SPARE_FROM: usize = 8;

/// Proposals, the advised one first; and devices that are of another size than most, which no proposal takes.
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

/// Those of the size that most bytes have, and the others.
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
    let dealt = deal::deal(devices, width, spares)?;
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

/// Shelves without which every group goes on, and how many there are.
fn shelves(devices: &[&Candidate], groups: &[Vec<usize>], tolerates: usize) -> (usize, usize) {
    let mut all: BTreeMap<&Option<String>, bool> = BTreeMap::new();
    for device in devices {
        let lost = |group: &Vec<usize>| group.iter().filter(|at| devices[**at].shelf == device.shelf).count();
        all.entry(&device.shelf).or_insert_with(|| groups.iter().all(|group| lost(group) <= tolerates));
    }
    (all.values().filter(|survives| **survives).count(), all.len())
}

impl Proposal {
    /// Whether any one shelf may fail. Not where there is only one.
    pub fn survives_all_shelves(&self) -> bool {
        self.survives_shelves.1 > 1 && self.survives_shelves.0 == self.survives_shelves.1
    }

    /// The command that makes it.
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

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+@%,=".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Reads which shelf each device is on: a line each, device and shelf, `#` begins a comment. Devices are named by path or its last part.
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
    fn space_is_what_parity_and_padding_leave() {
        let (all, _) = plan(&disks(&[("a", 6)], 1 << 40), &Wish::default());
        let raidz2 = all.iter().find(|p| p.name == "raidz2 of 6").expect("six in one");
        // 4 KiB: one sector of data and two of parity. 128 KiB: 32 + 16 = 48 sectors. 16 KiB: 4 + 2 = 6.
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
