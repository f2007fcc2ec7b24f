//! What do random overwrites of 16 KiB cost in addition to the data, with log space maps and
//! without?
//!
//! Creates pools on sparse images in FOLDER (put it on a tmpfs), each with one file that fills half
//! of them, then overwrites random blocks of it, the same number in each txg, for [`TXGS`] txgs. In
//! turn, three times, with feature `log_spacemap` and without.

use super::figures::shown;
use super::pool::{Bench, half_random};
use errors::Result;
use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

const RECORD_BYTES: usize = 16 << 10;
const TXGS: usize = 40;
const OVERWRITES: u64 = 3000;
const RUNS: usize = 3;

#[derive(Default)]
struct Figures {
    writes: Vec<f64>,
    kib: Vec<f64>,
    rate: Vec<f64>,
}

pub fn run(folder: &Path, devices: u64, mib: u64) -> Result<()> {
    let images: Vec<String> = (0..devices).map(|i| format!("{}/disk-{i}", folder.display())).collect();
    let (mut with, mut without) = (Figures::default(), Figures::default());
    for _ in 0..RUNS {
        one(&images, mib, &[], &mut with)?;
        one(&images, mib, &["log_spacemap"], &mut without)?;
    }
    images.iter().for_each(|image| drop(std::fs::remove_file(image)));
    println!(
        "{OVERWRITES} random overwrites of 16 KiB in each of {TXGS} txgs, {mib} MiB on {devices} devices; median (range)"
    );
    println!("{:<24} {:>24} {:>24} {:>22}", "", "other writes, txg", "other KiB, txg", "overwrites a second");
    for (name, f) in [("log space maps", with), ("metaslabs' own maps", without)] {
        println!("{name:<24} {:>24} {:>24} {:>22}", shown(&f.writes), shown(&f.kib), shown(&f.rate));
    }
    Ok(())
}

fn one(images: &[String], mib: u64, off: &[&str], figures: &mut Figures) -> Result<()> {
    let image_bytes = ((mib << 21) / images.len() as u64).next_multiple_of(1 << 20);
    let bench = Bench::make(images, image_bytes, RECORD_BYTES, 512 << 20, off)?;
    let mut data = half_random(1 << 20);
    for i in 0..mib {
        bench.write(i << 20, &data)?;
    }
    bench.writer.sync()?;
    let (mut x, start, mut blocks) = (1u64, Instant::now(), Vec::new());
    for _ in 0..TXGS {
        let mut touched = HashSet::new();
        for _ in 0..OVERWRITES {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            data[..8].copy_from_slice(&x.to_le_bytes());
            let block = (x >> 33) % (mib << 6);
            touched.insert(block);
            bench.write(block * RECORD_BYTES as u64, &data[..RECORD_BYTES])?;
        }
        blocks.push(touched.len() as u64);
        bench.writer.sync()?;
    }
    figures.rate.push((TXGS as u64 * OVERWRITES) as f64 / start.elapsed().as_secs_f64());
    let stats = bench.writer.txg_stats();
    let last = &stats[stats.len() - TXGS / 2..];
    // Each block of the file is written once in its txg and takes three sectors, because half of it
    // is random.
    let data: u64 = blocks[TXGS / 2..].iter().sum();
    let other = |all: u64, data: u64| (all as f64 - data as f64) / last.len() as f64;
    figures.writes.push(other(last.iter().map(|s| s.writes).sum(), data));
    figures.kib.push(other(last.iter().map(|s| s.written_bytes).sum(), data * (12 << 10)) / 1024.0);
    bench.end()
}
