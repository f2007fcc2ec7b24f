//! How fast does the engine write and read lz4 data without FUSE, compared with the bare codec on
//! the same cores?
//!
//! `bench-engine IMAGE [MIB]`: creates a pool on IMAGE (put it on a tmpfs, so that the program is
//! measured and not a disk), then five times, in turn: the bare codec (lz4 and fletcher4 over the
//! same blocks of 128 KiB on all cores), one file written and synced, the same file read with
//! nothing cached. The data compresses to half its size. Prints medians with the minimum and
//! maximum.
//!
//! `bench-engine overwrite FOLDER [DEVICES] [MIB]`: see [`overwrite`].

mod figures;
mod overwrite;
mod pool;

use crate::pool::{Bench, half_random};
use errors::Result;
use figures::{median, shown};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use transform::checksum::{self, Order};
use transform::compress::{self, zstd};

const RUNS: usize = 5;
const RECORD_BYTES: usize = 128 << 10;
const IMAGE_BYTES: u64 = 4 << 30;
/// Small compared with the file, so that reading it again finds nothing in the cache.
const CACHE_BYTES: u64 = 64 << 20;

fn main() -> Result<()> {
    host::memory::tune();
    let mut words = std::env::args().skip(1);
    let image = words.next().expect("bench-engine IMAGE [MIB]");
    if image == "overwrite" {
        let folder = words.next().expect("bench-engine overwrite FOLDER [DEVICES] [MIB]");
        let mut number = |default| words.next().map_or(default, |n| n.parse().expect("a number"));
        return overwrite::run(Path::new(&folder), number(8), number(2048));
    }
    let mib: u64 = words.next().map_or(1024, |n| n.parse().expect("a number of MiB"));
    let data = half_random(1 << 20);
    let (mut codec_write, mut codec_read, mut write, mut read) = (vec![], vec![], vec![], vec![]);
    for _ in 0..RUNS {
        let (w, r) = codec(&data, mib);
        codec_write.push(w);
        codec_read.push(r);
        let (w, r) = engine(&image, &data, mib)?;
        write.push(w);
        read.push(r);
    }
    std::fs::remove_file(&image).ok();
    let lines = [("lz4 + fletcher4, write", codec_write, write), ("lz4 + fletcher4, read", codec_read, read)];
    println!("{:<24} {:>22} {:>22} {:>7}", "MiB/s, median (range)", "bare codec", "engine", "share");
    for (name, codec, engine) in lines {
        let (c, e) = (median(&codec), median(&engine));
        println!("{name:<24} {:>22} {:>22} {:>6.0}%", shown(&codec), shown(&engine), 100.0 * e / c);
    }
    Ok(())
}

/// MiB/s of compressing and checksumming, and of checksumming and decompressing, on all cores.
fn codec(data: &[u8], mib: u64) -> (f64, f64) {
    let lz4 = compress::Algorithm::Lz4;
    let pack = |record: &[u8]| {
        let packed = compress::compress(lz4, zstd::Level::DEFAULT, record, RECORD_BYTES).expect("it halves");
        let sum = checksum::checksum(checksum::Algorithm::Fletcher4, &packed, Order::Little, None);
        (packed, sum)
    };
    let records: Vec<_> = data.chunks_exact(RECORD_BYTES).map(pack).collect();
    let write = on_all_cores(mib, || data.chunks_exact(RECORD_BYTES).for_each(|r| drop(std::hint::black_box(pack(r)))));
    let read = on_all_cores(mib, || {
        for (packed, sum) in &records {
            assert_eq!(*sum, checksum::checksum(checksum::Algorithm::Fletcher4, packed, Order::Little, None));
            let mut record = vec![0; RECORD_BYTES];
            compress::decompress(lz4, packed, &mut record).expect("what was compressed");
            std::hint::black_box(record);
        }
    });
    (write, read)
}

fn on_all_cores(mib: u64, one_mib: impl Fn() + Sync) -> f64 {
    let (left, start) = (AtomicU64::new(mib), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..host::processors() {
            scope.spawn(|| {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                    one_mib();
                }
            });
        }
    });
    mib as f64 / start.elapsed().as_secs_f64()
}

/// MiB/s of writing, including the final sync, and of reading.
fn engine(image: &str, data: &[u8], mib: u64) -> Result<(f64, f64)> {
    let bench = Bench::make(&[image.to_owned()], IMAGE_BYTES, RECORD_BYTES, CACHE_BYTES, &[])?;
    let mut piece = data.to_vec();
    let start = Instant::now();
    for i in 0..mib {
        piece[..8].copy_from_slice(&i.to_le_bytes());
        bench.write(i << 20, &piece)?;
    }
    bench.writer.sync()?;
    let write = mib as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for i in 0..mib {
        bench.object.read_at(i << 20, &mut piece)?;
        assert_eq!(piece[..8], i.to_le_bytes(), "what was written is what is read");
    }
    let read = mib as f64 / start.elapsed().as_secs_f64();
    bench.end()?;
    Ok((write, read))
}
