//! How fast is each checksum, cipher and codec on this machine, on a 128 KiB block of text that is
//! in the cache?
//!
//! `cargo run --release -p weir-transform --example speed [FILE]`: FILE supplies other data than
//! the generated text. Prints GB/s of uncompressed bytes: median of 5 rounds, followed by the
//! slowest and the fastest.

use std::time::{Duration, Instant};

use transform::{
    checksum::{self, Algorithm as Sum, Order, Salted, fletcher4},
    compress::{self, Algorithm as Codec, zstd::Level},
    crypt::{Cipher, IV_BYTES, Suite},
};

const BLOCK_BYTES: usize = 128 << 10;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(100);

fn main() {
    let block = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read(path).expect("the file given can be read"),
        None => text(),
    };
    let block = &block[..block.len().min(BLOCK_BYTES) / 64 * 64];
    println!("{:28} {:>8}   (min - max) GB/s of {} bytes", "", "median", block.len());

    let mut copy = vec![0; block.len()];
    row("memcpy", block.len(), || std::hint::black_box(&mut copy).copy_from_slice(block));
    for twin in fletcher4::twins() {
        for order in [Order::Little, Order::Big] {
            row(&format!("fletcher4 {} {order:?}", twin.name), block.len(), || {
                std::hint::black_box((twin.sum)(std::hint::black_box(block), order));
            });
        }
    }
    let salt = Salted::new(&[7; 32]);
    for sum in [Sum::Fletcher2, Sum::Fletcher4, Sum::Sha256, Sum::Sha512, Sum::Skein, Sum::EdonR, Sum::Blake3] {
        row(&format!("{sum:?}"), block.len(), || {
            std::hint::black_box(checksum::checksum(sum, std::hint::black_box(block), Order::Little, Some(&salt)));
        });
    }
    for suite in Suite::ALL {
        let (cipher, iv) = (Cipher::new(suite, &[7; 32]), [1; IV_BYTES]);
        let mut sealed = block.to_vec();
        let mac = cipher.seal(&iv, &[], &mut sealed).expect("a block is small enough");
        // In place, so each round includes a copy: see memcpy above for its cost.
        row(&format!("{} open", suite.name()), block.len(), || {
            copy.copy_from_slice(std::hint::black_box(&sealed));
            cipher.open(&iv, &[], &mut copy, &mac).expect("it was sealed just above");
        });
    }
    let level = |level| Level::from_level(level).expect("a level of ZFS");
    for (codec, level) in [
        (Codec::Lzjb, Level::DEFAULT),
        (Codec::Zle, Level::DEFAULT),
        (Codec::Lz4, Level::DEFAULT),
        (Codec::Gzip(1), Level::DEFAULT),
        (Codec::Gzip(6), Level::DEFAULT),
        (Codec::Zstd, level(-10)),
        (Codec::Zstd, level(1)),
        (Codec::Zstd, level(3)),
        (Codec::Zstd, level(19)),
    ] {
        let name = if codec == Codec::Zstd { format!("Zstd({})", level.level()) } else { format!("{codec:?}") };
        let Some(small) = compress::compress(codec, level, block, block.len() * 2) else { continue };
        let ratio = block.len() as f64 / small.len() as f64;
        row(&format!("{name} compress, {ratio:.2}x"), block.len(), || {
            std::hint::black_box(compress::compress(codec, level, std::hint::black_box(block), block.len() * 2));
        });
        let mut back = vec![0; block.len()];
        row(&format!("{name} decompress"), block.len(), || {
            compress::decompress(codec, std::hint::black_box(&small), &mut back).expect("it was compressed just above");
        });
    }
}

fn row(name: &str, bytes: usize, mut work: impl FnMut()) {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (start, mut turns) = (Instant::now(), 0_u64);
            while start.elapsed() < ROUND {
                work();
                turns += 1;
            }
            (turns * bytes as u64) as f64 / start.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("{name:28} {:8.3}   ({:.3} - {:.3})", rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
}

/// Words of different lengths and frequencies in random order: compresses about as well as prose.
fn text() -> Vec<u8> {
    let mut state = 42_u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let words: Vec<Vec<u8>> = (0..4000)
        .map(|_| {
            let length = 2 + random() % 9;
            (0..length).map(|_| b"etaoinshrdlucmfwypvbgkjqxz"[(random() % 26).min(random() % 26)]).collect()
        })
        .collect();
    let mut text = Vec::new();
    while text.len() < BLOCK_BYTES {
        // The lowest of three picks: some words are common, most are rare.
        let pick = (0..3).map(|_| random() % words.len()).min().expect("three picks");
        text.extend_from_slice(&words[pick]);
        text.push(if random() % 12 == 0 { b'\n' } else { b' ' });
    }
    text.truncate(BLOCK_BYTES);
    text
}
