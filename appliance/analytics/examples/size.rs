//! How many bytes per second does an archived heat map of latencies take?
//!
//!   cargo run --release --example size -p weir-analytics
//!
//! Half an hour of a mixture of four distributions (memory, memory behind a queue, disk, disk
//! behind a queue), each second drawn independently, which is the worst case: nothing repeats.

use analytics::block::pack;
use analytics::column::Column;
use analytics::scheme::Scheme;
use std::collections::BTreeMap;

/// xorshift64*: sufficient for noise, and reproducible.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.next().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * self.next()).cos()
    }
}

fn main() {
    let modes = [(0.70, 40e3, 0.25), (0.15, 150e3, 0.4), (0.14, 4e6, 0.5), (0.01, 20e6, 0.6)];
    for rate in [100u64, 5_000, 100_000] {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let mut columns = Vec::new();
        for second in 0..1800u64 {
            let mut column = Column { seconds: 1, ..Column::default() };
            let mut cells: BTreeMap<u32, u64> = BTreeMap::new();
            let count = (rate as f64 + noise.normal() * (rate as f64).sqrt()).max(0.0) as u64;
            for _ in 0..count {
                let mut which = noise.next();
                let mode = modes.iter().find(|(share, ..)| {
                    which -= share;
                    which < 0.0
                });
                let (_, median, sigma) = mode.unwrap_or(&modes[3]);
                let value = (median * (sigma * noise.normal()).exp()) as u64;
                *cells.entry(Scheme::Latency.class(value)).or_default() += 1;
                column.sum += value;
                column.max = column.max.max(value);
            }
            column.total = count;
            column.cells = cells.into_iter().collect();
            columns.push((1_700_000_000 + second, column));
        }
        let bytes = pack(&columns, Some(Scheme::Latency)).expect("it packs").len();
        println!("{rate:>7} operations a second: {:>4} bytes a second", bytes / 1800);
    }
}
