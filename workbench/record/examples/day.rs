//! How long does it take to draw a day at one-second resolution? A run of 86,400 rows and 200
//! columns, read from its file, as SVG and PNG.
//!
//! `cargo run --release -p weir-record --example day`

use record::chart::{Data, Kind, Wanted, figure};
use record::{Column, Meta, Stamp, Unit, Writer};
use std::time::{Duration, Instant};

fn main() {
    let folder = std::env::temp_dir().join(format!("weir-day-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.join("record.weirrec");
    let meta = Meta::now("day", Duration::from_secs(1));
    let mut writer = Writer::create(&path, &meta).expect("created");
    let name = |n: usize| match n {
        0..4 => ("cpu.time", "mode", ["user", "system", "idle", "wait"][n].to_owned()),
        4..8 => (
            ["disk.read_bytes", "disk.written_bytes", "disk.busy_time", "disk.reads"][n - 4],
            "device",
            "sda".to_owned(),
        ),
        _ => ("weir_other_total", "n", n.to_string()),
    };
    let columns: Vec<_> = (0..200)
        .map(|n| {
            let (name, label, whose) = name(n);
            writer.column(&Column::new(name, &[(label, &whose)], Unit::Bytes, record::Kind::Total))
        })
        .collect();
    let mut random = 1u64;
    let mut sums = vec![0.0; columns.len()];
    for second in 0..86_400 {
        for sum in &mut sums {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *sum += (random >> 45) as f64;
        }
        let row: Vec<_> = columns.iter().copied().zip(sums.iter().copied()).collect();
        let at: Stamp = meta.started.plus(Duration::from_secs(second));
        writer.row(at, &row).expect("written");
    }
    writer.finish(0).expect("finished");
    println!("file: {:.1} MB", std::fs::metadata(&path).map_or(0.0, |m| m.len() as f64 / 1e6));
    for kind in [Kind::Cpu, Kind::Disk] {
        for _ in 0..3 {
            let begun = Instant::now();
            let runs = [Data::load(&folder, &Default::default()).expect("read")];
            let read = begun.elapsed();
            let wanted = Wanted::default();
            let figure = figure(kind, &runs, &wanted).expect("a figure");
            let figured = begun.elapsed();
            let svg = figure.svg(&wanted).expect("drawn").len();
            let drawn = begun.elapsed();
            let png = figure.png(&wanted).expect("drawn").len();
            println!(
                "{kind:?}: read {read:.0?}, lines {:.0?}, SVG of {svg} bytes {:.0?} (in all {drawn:.0?}), PNG of {png} bytes {:.0?}",
                figured - read,
                drawn - figured,
                begun.elapsed() - drawn
            );
        }
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}
