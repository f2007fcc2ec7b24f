//! What does counting cost? Nanoseconds for each update, from one thread and from all processors at
//! once.
//!
//!   cargo run --release --example cost -p weir-observe

use observe::{Counter, Gauge, Histogram};
use std::hint::black_box;
use std::time::Instant;

const TURNS: u64 = 20_000_000;

fn measure(name: &str, threads: usize, count: impl Fn(u64) + Sync) {
    let start = Instant::now();
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| (0..TURNS).for_each(|n| count(black_box(n))));
        }
    });
    println!("{name:<10} {threads:>3} threads {:>7.2} ns", start.elapsed().as_nanos() as f64 / TURNS as f64);
}

fn main() {
    let all = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let (counter, gauge, histogram) = (Counter::default(), Gauge::default(), Histogram::default());
    for threads in [1, all] {
        measure("counter", threads, |_| counter.increment());
        measure("gauge", threads, |n| gauge.set(n));
        measure("histogram", threads, |n| histogram.record(n));
    }
    measure("clock", 1, |_| {
        black_box(Instant::now());
    });
}
