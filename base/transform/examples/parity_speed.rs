//! How fast is RAID-Z parity on this machine, and how does it compare with OpenZFS's `raidz_test
//! -B`?
//!
//! `cargo run --release -p weir-transform --example parity_speed [FILE [BACKEND]]`: FILE is the
//! output of `raidz_test -B`; with it, each line also prints the ratio to the best of OpenZFS's
//! implementations in FILE. BACKEND restricts the measurement to one backend.
//!
//! The terms are those of raidz_test: a block of `iosize` bytes in 8 data columns (plus the parity
//! columns that are generated; all three when reconstructing), contiguous in one buffer; `disk_bw`
//! is MiB/s of one column, `total_bw` that times the number of columns. Median of 5 rounds; the
//! slowest and the fastest round are printed as fractions of the median.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use transform::parity::{self, Backend, Missing};

const DATA_COLUMNS: usize = 8;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(60);
const SIZES: [usize; 5] = [32 << 10, 128 << 10, 512 << 10, 1 << 20, 16 << 20];

/// Name, lost parity columns, number of lost data columns.
const LOSSES: [(&str, &[usize], usize); 7] = [
    ("rec_p", &[1, 2], 1),
    ("rec_q", &[0, 2], 1),
    ("rec_r", &[0, 1], 1),
    ("rec_pq", &[2], 2),
    ("rec_pr", &[1], 2),
    ("rec_qr", &[0], 2),
    ("rec_pqr", &[], 3),
];

fn main() {
    let peer = std::env::args_os().nth(1).map(|path| best_of(&std::fs::read_to_string(path).expect("a readable file")));
    println!("{:>8}, {:>8}, {:>10}, {:>10}, {:>10}, spread, ratio", "impl", "math", "iosize", "disk_bw", "total_bw");
    let only = std::env::args().nth(2);
    let wanted = |backend: &Backend| backend.available() && only.as_ref().is_none_or(|name| name == backend.name());
    for backend in Backend::ALL.into_iter().filter(wanted) {
        for size in SIZES {
            for (count, math) in [(1, "gen_p"), (2, "gen_pq"), (3, "gen_pqr")] {
                row(backend, math, size, DATA_COLUMNS + count, &peer, generation(backend, size, count));
            }
            for (count, math) in [(1, "check_p"), (2, "check_pq"), (3, "check_pqr")] {
                row(backend, math, size, DATA_COLUMNS + count, &peer, verification(backend, size, count));
            }
            for (math, parity, data) in LOSSES {
                row(backend, math, size, DATA_COLUMNS + 3, &peer, reconstruction(backend, size, parity, data));
            }
        }
    }
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

fn generation(backend: Backend, size: usize, count: usize) -> impl FnMut() {
    let block = bytes(size);
    let mut parity: Vec<Vec<u8>> = vec![vec![0; size / DATA_COLUMNS]; count];
    move || {
        let data: [&[u8]; DATA_COLUMNS] = columns(std::hint::black_box(&block));
        let mut targets = parity.iter_mut();
        let mut targets: [&mut [u8]; 3] =
            std::array::from_fn(|_| targets.next().map_or(&mut [][..], |column| column.as_mut_slice()));
        parity::generate_with(backend, &mut targets[..count], &data);
        std::hint::black_box(&mut targets);
    }
}

fn verification(backend: Backend, size: usize, count: usize) -> impl FnMut() {
    let block = bytes(size);
    let mut parity: Vec<Vec<u8>> = vec![vec![0; size / DATA_COLUMNS]; count];
    let mut targets: Vec<&mut [u8]> = parity.iter_mut().map(|column| column.as_mut_slice()).collect();
    parity::generate(&mut targets, &columns(&block));
    move || {
        let stored: [Option<&[u8]>; 3] = std::array::from_fn(|which| parity.get(which).map(|column| column.as_slice()));
        let wrong = parity::verify_with(backend, &stored[..count], &columns(std::hint::black_box(&block)));
        assert_eq!(wrong, [false; 3]);
    }
}

fn reconstruction(backend: Backend, size: usize, lost_parity: &'static [usize], lost_data: usize) -> impl FnMut() {
    let block = bytes(size);
    let length = size / DATA_COLUMNS;
    let parity: Vec<Vec<u8>> = vec![bytes(length); 3];
    let mut rebuilt: Vec<Vec<u8>> = vec![vec![0; length]; lost_data];
    move || {
        let given: [Option<&[u8]>; 3] =
            std::array::from_fn(|which| (!lost_parity.contains(&which)).then_some(parity[which].as_slice()));
        let mut data: [&[u8]; DATA_COLUMNS] = columns(std::hint::black_box(&block));
        data[..lost_data].fill(&[]);
        let mut targets = rebuilt.iter_mut().enumerate();
        let mut missing: [Missing<'_>; 3] = std::array::from_fn(|_| match targets.next() {
            Some((column, bytes)) => Missing { column, bytes },
            None => Missing { column: 0, bytes: &mut [] },
        });
        parity::reconstruct_with(backend, &given, &data, &mut missing[..lost_data]).expect("there is enough parity");
        std::hint::black_box(&mut missing);
    }
}

fn columns(block: &[u8]) -> [&[u8]; DATA_COLUMNS] {
    let length = block.len() / DATA_COLUMNS;
    std::array::from_fn(|column| &block[column * length..][..length])
}

fn row(
    backend: Backend,
    math: &str,
    size: usize,
    columns: usize,
    peer: &Option<HashMap<(String, usize), f64>>,
    mut work: impl FnMut(),
) {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (start, mut turns) = (Instant::now(), 0u64);
            while start.elapsed() < ROUND {
                for _ in 0..(1 << 20) / size + 1 {
                    work();
                    turns += 1;
                }
            }
            turns as f64 * (size / DATA_COLUMNS) as f64 / start.elapsed().as_secs_f64() / f64::from(1 << 20)
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    let median = rates[ROUNDS / 2];
    // Verification has no counterpart; OpenZFS generates into new buffers and compares those.
    let name = math.replace("check", "gen");
    let ratio = peer
        .as_ref()
        .and_then(|peer| peer.get(&(name, size)))
        .map_or(String::new(), |best| format!("{:.2}", median / best));
    println!(
        "{:>8}, {math:>9}, {size:>10}, {median:>10.0}, {:>10.0}, {:.2}-{:.2}, {ratio}",
        backend.name(),
        median * columns as f64,
        rates[0] / median,
        rates[ROUNDS - 1] / median,
    );
}

/// The best disk_bw of all implementations, by operation and block size.
fn best_of(printed: &str) -> HashMap<(String, usize), f64> {
    let mut best = HashMap::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let [_, math, columns, size, disk, ..] = words[..] else { continue };
        if let (Ok(DATA_COLUMNS), Ok(size), Ok(disk)) = (columns.parse(), size.parse::<usize>(), disk.parse::<f64>()) {
            let entry = best.entry((math.to_owned(), size)).or_insert(0.0);
            *entry = disk.max(*entry);
        }
    }
    best
}
