//! How large does the archive become, and how long do queries over a day and over 30 days take?
//!
//!   cargo run --release --example archive -p weir-analytics [FOLDER]
//!
//! Fills an archive with the default statistics and a heat map of latencies, at about 5,000
//! operations per second: each second of one day, the minutes of 14 days, the hours of 30. Then
//! runs the queries of the page for a worksheet of four graphs, in an engine that has just been
//! opened: the first query, and the median of nine more.

use analytics::archive::{Archive, Definition, Row, Tier};
use analytics::column::Column;
use analytics::engine::{Config, DEFAULTS, Engine, Retention};
use analytics::fold::Scale;
use analytics::name::{Field, Name};
use analytics::scheme::Scheme;
use observe::Events;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

const DAY: u64 = 86_400;
const MAP: &str = "nfs3.ops[latency]";
/// The graphs of a worksheet.
const GRAPHS: [&str; 4] = [MAP, "nfs3.ops[op]", "cpu.utilization[mode]", "io.bytes[op]"];

/// xorshift64*: sufficient for noise, and reproducible.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// One column of a statistic: as many values as the breakdown usually has, or a distribution of
/// latencies.
fn column(name: &Name, archive: &Archive, noise: &mut Noise, seconds: u64) -> Column {
    let mut cells: BTreeMap<u32, u64> = BTreeMap::new();
    let mut sum = 0;
    match name.breakdown {
        Some(Field::Latency) => {
            // Around memory, and around a disk; a longer column has more buckets.
            for _ in 0..60 + 40 * seconds.ilog2() as u64 {
                let disk = noise.below(7) == 0;
                let spread = noise.below(1000) * noise.below(1000) / 1000;
                let ns = if disk { 2_000_000 + spread * 9000 } else { 20_000 + spread * 130 };
                let count = 1 + noise.below(100) * seconds;
                sum += ns * count;
                *cells.entry(Scheme::Latency.class(ns)).or_default() += count;
            }
        }
        Some(field) => {
            let values = if field == Field::Op { 8 } else { 3 };
            for value in 0..values {
                let word = archive.word(&format!("{} {value}", field.name()));
                cells.insert(word, 100 * seconds + noise.below(500 * seconds));
            }
        }
        None => {}
    }
    let total = if cells.is_empty() { 5000 * seconds + noise.below(900) } else { cells.values().sum() };
    Column { total, sum, max: 30_000_000, seconds: seconds as u32, cells: cells.into_iter().collect() }
}

/// Fills the archive in a directory with data up to `now`.
fn fill(folder: &Path, now: u64) -> std::io::Result<()> {
    let archive = Archive::open(&folder.join("statistics.redb"))?;
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let names: Vec<(u32, Name)> =
        (1..).zip(DEFAULTS.iter().chain([&MAP])).map(|(id, name)| (id, name.parse().expect("a name"))).collect();
    for (id, name) in &names {
        archive.define(&Definition { id: *id, name: name.to_string(), created: now - 30 * DAY, suspended: false })?;
    }
    for (tier, length) in [(Tier::Hour, 30 * DAY), (Tier::Minute, 14 * DAY), (Tier::Second, DAY)] {
        let begin = (now - length).next_multiple_of(3600);
        // In larger batches than the engine writes, to finish sooner.
        let piece = 1200 * tier.span();
        for from in (begin..now).step_by(usize::try_from(piece).expect("small")) {
            let mut rows = Vec::new();
            for (dataset, name) in &names {
                for start in (from..(from + piece).min(now)).step_by(usize::try_from(tier.span()).expect("small")) {
                    let column = column(name, &archive, &mut noise, tier.span());
                    rows.push(Row { dataset: *dataset, tier, start, column });
                }
            }
            archive.append(&rows)?;
            for (id, name) in &names {
                archive.seal(*id, name.breakdown.and_then(Field::scheme), (from + piece).min(now))?;
            }
        }
    }
    let sizes = archive.sizes()?;
    let of = |name: &str| names.iter().find(|(_, n)| n.to_string() == name).and_then(|(id, _)| sizes.get(id));
    println!("{} statistics, in all {:.1} MB", names.len(), sizes.values().sum::<u64>() as f64 / 1e6);
    for name in GRAPHS {
        println!("  {name}: {:.2} MB", of(name).copied().unwrap_or(0) as f64 / 1e6);
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("weir-archive-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let now = UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs());
    let begun = Instant::now();
    fill(&folder, now)?;
    let file = folder.join("statistics.redb").metadata()?.len();
    println!("filled in {:.0} s; the file has {:.1} MB", begun.elapsed().as_secs_f64(), file as f64 / 1e6);
    let config = Config { folder: Some(folder.clone()), ring: 0, retention: Retention::default() };
    let events = Arc::new(Events::new(1, 16));
    let begun = Instant::now();
    let engine = Engine::open(&config, events, Arc::new(()), Vec::new())?;
    println!("opened in {} ms", begun.elapsed().as_millis());
    for (what, length, step) in [("an hour", 3600, 1), ("a day", DAY, 60), ("30 days", 30 * DAY, 3600)] {
        let ask = |name: &str| -> Duration {
            let begun = Instant::now();
            let name = name.parse().expect("a name");
            let mut answer = engine.query(&name, now - length, now, step).expect("answered");
            answer.fold(200, Scale::Log, None);
            assert!(!answer.columns.is_empty());
            begun.elapsed()
        };
        for name in GRAPHS {
            let first = ask(name);
            let mut more: Vec<_> = (0..9).map(|_| ask(name)).collect();
            more.sort();
            let ms = |d: Duration| d.as_secs_f64() * 1e3;
            println!("{what:>8} of {name:<22} {:7.1} ms, again {:7.1} ms", ms(first), ms(more[4]));
        }
    }
    drop(engine);
    std::fs::remove_dir_all(&folder)
}
